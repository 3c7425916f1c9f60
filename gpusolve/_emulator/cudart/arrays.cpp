// Arrays, copies of boxes, textures and surfaces.

#include "host.h"
#include "texture.h"

#include <algorithm>
#include <cstring>

struct cudaArray {
    char* data;
    std::size_t pitch, height, depth;  // height and depth: at least 1
    cudaChannelFormatDesc format;
    cudaExtent extent;
    unsigned flags;
    std::size_t texel_bytes() const {
        return static_cast<std::size_t>(format.x + format.y + format.z + format.w) / 8;
    }
};

namespace {

/// Where a copy begins, and its distances in bytes from row to row and from slice to slice.
struct Box {
    char* start;
    std::size_t pitch, slice;
    bool is_device;
};

Box box_of(const cudaArray* array, std::size_t x, std::size_t y, std::size_t z) {
    const std::size_t slice = array->pitch * array->height;
    return {array->data + z * slice + y * array->pitch + x, array->pitch, slice, true};
}
Box box_of(const void* memory, std::size_t pitch, std::size_t slice, bool is_device) {
    return {static_cast<char*>(const_cast<void*>(memory)), pitch, slice, is_device};
}

cudaError_t copy_box(const char* call, Box to, Box from, cudaExtent extent) {
    if (extent.height > 1 && (to.pitch < extent.width || from.pitch < extent.width))
        return noted(cudaErrorInvalidPitchValue);
    return enqueue([=] {
        for (std::size_t z = 0; z < extent.depth; ++z)
            for (std::size_t y = 0; y < extent.height; ++y) {
                char* target = to.start + z * to.slice + y * to.pitch;
                const char* source = from.start + z * from.slice + y * from.pitch;
                check(call, "source", source, extent.width, from.is_device);
                check(call, "target", target, extent.width, to.is_device);
                copy(target, source, extent.width);
            }
        host.count("copies");
        return cudaSuccess;
    });
}

/// One side of a cudaMemcpy3D(). Positions and widths are in texels if an array takes part.
Box side_of(const cudaArray* array, const cudaPitchedPtr& memory, const cudaPos& at,
            bool is_device) {
    if (array) return box_of(array, at.x * array->texel_bytes(), at.y, at.z);
    const std::size_t slice = memory.pitch * memory.ysize;
    char* start = static_cast<char*>(memory.ptr) + at.z * slice + at.y * memory.pitch + at.x;
    return box_of(start, memory.pitch, slice, is_device);
}

/// The handle of a texture or a surface: the address of its description, for kernels.
cudaError_t describe(unsigned long long* handle, const cudaResourceDesc& resource,
                     const cudaTextureDesc* setting, const void* caller) {
    machine::Texture made{};
    cudaChannelFormatDesc format{};
    made.height = made.depth = 1;
    if (resource.resType == cudaResourceTypeArray) {
        const cudaArray& array = *resource.res.array.array;
        format = array.format;
        made.address = reinterpret_cast<std::uint64_t>(array.data);
        made.pitch = array.pitch;
        made.slice = array.pitch * array.height;
        made.width = static_cast<std::uint32_t>(array.extent.width);
        made.height = static_cast<std::uint32_t>(array.height);
        made.depth = static_cast<std::uint32_t>(array.depth);
    } else if (resource.resType == cudaResourceTypeLinear) {
        const auto& linear = resource.res.linear;
        format = linear.desc;
        const auto texel = static_cast<std::size_t>(format.x + format.y + format.z + format.w) / 8;
        made.address = reinterpret_cast<std::uint64_t>(linear.devPtr);
        made.width = static_cast<std::uint32_t>(linear.sizeInBytes / texel);
    } else if (resource.resType == cudaResourceTypePitch2D) {
        const auto& plane = resource.res.pitch2D;
        format = plane.desc;
        made.address = reinterpret_cast<std::uint64_t>(plane.devPtr);
        made.pitch = plane.pitchInBytes;
        made.width = static_cast<std::uint32_t>(plane.width);
        made.height = static_cast<std::uint32_t>(plane.height);
    } else {
        return noted(cudaErrorNotSupported);
    }
    made.channels = static_cast<std::uint8_t>(format.w ? 4 : format.y ? 2 : 1);
    made.bits = static_cast<std::uint8_t>(format.x);
    made.kind = static_cast<std::uint8_t>(format.f);
    if (setting) {
        made.reads_normalized = setting->readMode == cudaReadModeNormalizedFloat;
        made.is_linear = setting->filterMode == cudaFilterModeLinear;
        made.has_normalized_coordinates = setting->normalizedCoords != 0;
        for (int k = 0; k < 3; ++k)
            made.modes[k] = static_cast<std::uint8_t>(setting->addressMode[k]);
        std::copy_n(setting->borderColor, 4, made.border);
    }
    void* memory = allocate(sizeof(made), cudaMemoryTypeHost, caller);
    if (!memory) return noted(cudaErrorMemoryAllocation);
    std::memcpy(memory, &made, sizeof(made));
    *handle = reinterpret_cast<std::uint64_t>(memory);
    return cudaSuccess;
}

}  // namespace

// ---- arrays -------------------------------------------------------------------------------

EXPORT cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* format,
                                     cudaExtent extent, unsigned flags) {
    auto* made = new cudaArray{nullptr,
                               0,
                               std::max<std::size_t>(extent.height, 1),
                               std::max<std::size_t>(extent.depth, 1),
                               *format,
                               extent,
                               flags};
    made->pitch = extent.width * made->texel_bytes();
    made->data = static_cast<char*>(
        allocate(made->pitch * made->height * made->depth, cudaMemoryTypeDevice, CALLER));
    *array = made;
    return noted(made->data ? cudaSuccess : cudaErrorMemoryAllocation);
}
EXPORT cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* format,
                                   std::size_t width, std::size_t height, unsigned flags) {
    return cudaMalloc3DArray(array, format, {width, height, 0}, flags);
}
EXPORT cudaError_t cudaFreeArray(cudaArray_t array) {
    if (!array) return cudaSuccess;
    const cudaError_t error = cudaFree(array->data);
    delete array;
    return error;
}
EXPORT cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* format, cudaExtent* extent,
                                    unsigned* flags, cudaArray_t array) {
    if (format) *format = array->format;
    if (extent) *extent = array->extent;
    if (flags) *flags = array->flags;
    return cudaSuccess;
}
EXPORT cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* format, cudaArray_const_t array) {
    *format = array->format;
    return cudaSuccess;
}
EXPORT cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   cudaChannelFormatKind kind) {
    return {x, y, z, w, kind};
}

// ---- copies of boxes ----------------------------------------------------------------------

EXPORT cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from,
                                std::size_t from_pitch, std::size_t width, std::size_t height,
                                cudaMemcpyKind kind) {
    return copy_box("cudaMemcpy2D", box_of(to, to_pitch, 0, is_to_device(kind)),
                    box_of(from, from_pitch, 0, is_from_device(kind)), {width, height, 1});
}
ALSO(cudaMemcpy2D, cudaMemcpy2DAsync)

EXPORT cudaError_t cudaMemcpy2DToArray(cudaArray_t to, std::size_t x, std::size_t y,
                                       const void* from, std::size_t pitch, std::size_t width,
                                       std::size_t height, cudaMemcpyKind kind) {
    return copy_box("cudaMemcpy2DToArray", box_of(to, x, y, 0),
                    box_of(from, pitch, 0, is_from_device(kind)), {width, height, 1});
}
ALSO(cudaMemcpy2DToArray, cudaMemcpy2DToArrayAsync)

EXPORT cudaError_t cudaMemcpy2DFromArray(void* to, std::size_t pitch, cudaArray_const_t from,
                                         std::size_t x, std::size_t y, std::size_t width,
                                         std::size_t height, cudaMemcpyKind kind) {
    return copy_box("cudaMemcpy2DFromArray", box_of(to, pitch, 0, is_to_device(kind)),
                    box_of(from, x, y, 0), {width, height, 1});
}
ALSO(cudaMemcpy2DFromArray, cudaMemcpy2DFromArrayAsync)

EXPORT cudaError_t cudaMemcpyToArray(cudaArray_t to, std::size_t x, std::size_t y, const void* from,
                                     std::size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpy(box_of(to, x, y, 0).start, from, bytes, kind);
}
EXPORT cudaError_t cudaMemcpyFromArray(void* to, cudaArray_const_t from, std::size_t x,
                                       std::size_t y, std::size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpy(to, box_of(from, x, y, 0).start, bytes, kind);
}
EXPORT cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* given) {
    const auto& [from_array, from_at, from, to_array, to_at, to, counted, kind] = *given;
    const cudaArray* array = to_array ? to_array : from_array;
    const cudaExtent extent = {counted.width * (array ? array->texel_bytes() : 1), counted.height,
                               counted.depth};
    return copy_box("cudaMemcpy3D", side_of(to_array, to, to_at, is_to_device(kind)),
                    side_of(from_array, from, from_at, is_from_device(kind)), extent);
}
ALSO(cudaMemcpy3D, cudaMemcpy3DAsync)

// ---- textures and surfaces ----------------------------------------------------------------

EXPORT cudaError_t cudaCreateTextureObject(cudaTextureObject_t* texture,
                                           const cudaResourceDesc* resource,
                                           const cudaTextureDesc* setting,
                                           const cudaResourceViewDesc*) {
    return describe(texture, *resource, setting, CALLER);
}
EXPORT cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* surface,
                                           const cudaResourceDesc* resource) {
    return describe(surface, *resource, nullptr, CALLER);
}
EXPORT cudaError_t cudaDestroyTextureObject(cudaTextureObject_t texture) {
    return cudaFreeHost(reinterpret_cast<void*>(texture));
}
ALSO(cudaDestroyTextureObject, cudaDestroySurfaceObject)
