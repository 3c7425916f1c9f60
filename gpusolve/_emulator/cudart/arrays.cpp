// Arrays, copies of boxes, textures and surfaces.

#include "host.h"
#include "texture.h"

#include <algorithm>
#include <cstring>

struct cudaArray {
    char* data;
    size_t pitch, height, depth;  // height and depth: at least 1
    cudaChannelFormatDesc format;
    cudaExtent extent;
};

namespace {

size_t texel_bytes(const cudaChannelFormatDesc& format) {
    return static_cast<size_t>(format.x + format.y + format.z + format.w) / 8;
}

/// Where a copy begins, and its distances in bytes from row to row and from slice to slice.
struct Box {
    char* start;
    size_t pitch, slice;
    bool is_device;
    char* row(size_t z, size_t y) const { return start + z * slice + y * pitch; }
};

Box box_of(const cudaArray* array, size_t x, size_t y, size_t z) {
    const size_t slice = array->pitch * array->height;
    return {array->data + z * slice + y * array->pitch + x, array->pitch, slice, true};
}
Box box_of(const void* memory, size_t pitch, size_t slice, bool is_device) {
    return {static_cast<char*>(const_cast<void*>(memory)), pitch, slice, is_device};
}

cudaError_t copy_box(const char* call, Box to, Box from, cudaExtent extent) {
    if (extent.height > 1 && (to.pitch < extent.width || from.pitch < extent.width))
        return noted(cudaErrorInvalidPitchValue);
    return enqueue([=] {
        for (size_t k = 0; k < extent.depth * extent.height; ++k) {
            char* target = to.row(k / extent.height, k % extent.height);
            const char* source = from.row(k / extent.height, k % extent.height);
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
    if (array) return box_of(array, at.x * texel_bytes(array->format), at.y, at.z);
    const size_t slice = memory.pitch * memory.ysize;
    char* start = static_cast<char*>(memory.ptr) + at.z * slice + at.y * memory.pitch + at.x;
    return box_of(start, memory.pitch, slice, is_device);
}

/// A texture in memory, whose height and depth are at least 1.
machine::Texture texture(const void* texels, size_t pitch, size_t slice, size_t width,
                         size_t height = 1, size_t depth = 1) {
    machine::Texture made{};
    made.address = reinterpret_cast<std::uint64_t>(texels);
    made.pitch = pitch;
    made.slice = slice;
    made.width = static_cast<std::uint32_t>(width);
    made.height = static_cast<std::uint32_t>(height);
    made.depth = static_cast<std::uint32_t>(depth);
    return made;
}

/// The handle of a texture or a surface: the address of its description, for kernels.
cudaError_t describe(unsigned long long* handle, const cudaResourceDesc& resource,
                     const cudaTextureDesc* setting, const void* caller) {
    machine::Texture made{};
    cudaChannelFormatDesc format{};
    if (resource.resType == cudaResourceTypeArray) {
        const cudaArray& own = *resource.res.array.array;
        format = own.format;
        made = texture(own.data, own.pitch, own.pitch * own.height, own.extent.width, own.height,
                       own.depth);
    } else if (resource.resType == cudaResourceTypeLinear) {
        const auto& own = resource.res.linear;
        format = own.desc;
        made = texture(own.devPtr, 0, 0, own.sizeInBytes / texel_bytes(format));
    } else if (resource.resType == cudaResourceTypePitch2D) {
        const auto& own = resource.res.pitch2D;
        format = own.desc;
        made = texture(own.devPtr, own.pitchInBytes, 0, own.width, own.height);
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
                                     cudaExtent extent, unsigned) {
    const size_t height = std::max<size_t>(extent.height, 1);
    const size_t depth = std::max<size_t>(extent.depth, 1);
    const size_t pitch = extent.width * texel_bytes(*format);
    void* data = allocate(pitch * height * depth, cudaMemoryTypeDevice, CALLER);
    *array = new cudaArray{static_cast<char*>(data), pitch, height, depth, *format, extent};
    return noted(data ? cudaSuccess : cudaErrorMemoryAllocation);
}
API(cudaMallocArray,
    (cudaArray_t * array, const cudaChannelFormatDesc* format, size_t width, size_t height,
     unsigned flags),
    cudaMalloc3DArray(array, format, {width, height, 0}, flags))
EXPORT cudaError_t cudaFreeArray(cudaArray_t array) {
    if (!array) return cudaSuccess;
    const cudaError_t error = cudaFree(array->data);
    delete array;
    return error;
}
API(cudaGetChannelDesc, (cudaChannelFormatDesc * format, cudaArray_const_t array),
    success(*format = array->format))
EXPORT cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   cudaChannelFormatKind kind) {
    return {x, y, z, w, kind};
}

// ---- copies of boxes ----------------------------------------------------------------------

API(cudaMemcpy2D,
    (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
     cudaMemcpyKind kind),
    copy_box("cudaMemcpy2D", box_of(to, to_pitch, 0, is_to_device(kind)),
             box_of(from, from_pitch, 0, is_from_device(kind)), {width, height, 1}))
ALSO(cudaMemcpy2D, cudaMemcpy2DAsync)

API(cudaMemcpy2DToArray,
    (cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width,
     size_t height, cudaMemcpyKind kind),
    copy_box("cudaMemcpy2DToArray", box_of(to, x, y, 0),
             box_of(from, pitch, 0, is_from_device(kind)), {width, height, 1}))
ALSO(cudaMemcpy2DToArray, cudaMemcpy2DToArrayAsync)

API(cudaMemcpy2DFromArray,
    (void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,
     size_t height, cudaMemcpyKind kind),
    copy_box("cudaMemcpy2DFromArray", box_of(to, pitch, 0, is_to_device(kind)),
             box_of(from, x, y, 0), {width, height, 1}))
ALSO(cudaMemcpy2DFromArray, cudaMemcpy2DFromArrayAsync)

API(cudaMemcpyToArray,
    (cudaArray_t to, size_t x, size_t y, const void* from, size_t bytes, cudaMemcpyKind kind),
    cudaMemcpy(box_of(to, x, y, 0).start, from, bytes, kind))
API(cudaMemcpyFromArray,
    (void* to, cudaArray_const_t from, size_t x, size_t y, size_t bytes, cudaMemcpyKind kind),
    cudaMemcpy(to, box_of(from, x, y, 0).start, bytes, kind))
EXPORT cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* given) {
    const auto& [from_array, from_at, from, to_array, to_at, to, counted, kind] = *given;
    const cudaArray* array = to_array ? to_array : from_array;
    const cudaExtent extent = {counted.width * (array ? texel_bytes(array->format) : 1),
                               counted.height, counted.depth};
    return copy_box("cudaMemcpy3D", side_of(to_array, to, to_at, is_to_device(kind)),
                    side_of(from_array, from, from_at, is_from_device(kind)), extent);
}
ALSO(cudaMemcpy3D, cudaMemcpy3DAsync)

// ---- textures and surfaces ----------------------------------------------------------------

API(cudaCreateTextureObject,
    (cudaTextureObject_t * texture, const cudaResourceDesc* resource,
     const cudaTextureDesc* setting, const cudaResourceViewDesc*),
    describe(texture, *resource, setting, CALLER))
API(cudaCreateSurfaceObject, (cudaSurfaceObject_t * surface, const cudaResourceDesc* resource),
    describe(surface, *resource, nullptr, CALLER))
API(cudaDestroyTextureObject, (cudaTextureObject_t texture),
    cudaFreeHost(reinterpret_cast<void*>(texture)))
ALSO(cudaDestroyTextureObject, cudaDestroySurfaceObject)
