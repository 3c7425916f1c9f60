// Texture objects of 1 or 2 dimensions over arrays, linear memory and rows with a pitch.
//
// Linear filtering computes in float, with fractions of 8 bits, as the programming guide says.

#pragma once

#include "host_api.h"

#pragma GCC visibility push(hidden)

enum cudaChannelFormatKind {
    cudaChannelFormatKindSigned,
    cudaChannelFormatKindUnsigned,
    cudaChannelFormatKindFloat,
    cudaChannelFormatKindNone,
};
enum cudaTextureAddressMode {
    cudaAddressModeWrap,
    cudaAddressModeClamp,
    cudaAddressModeMirror,
    cudaAddressModeBorder,
};
enum cudaTextureFilterMode { cudaFilterModePoint, cudaFilterModeLinear };
enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };
enum cudaResourceType {
    cudaResourceTypeArray,
    cudaResourceTypeMipmappedArray,
    cudaResourceTypeLinear,
    cudaResourceTypePitch2D,
};
enum { cudaArrayDefault };

/// The bits of each channel; 0 for a channel that does not exist.
struct cudaChannelFormatDesc {
    int x, y, z, w;
    cudaChannelFormatKind f;
};

inline cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   cudaChannelFormatKind kind) {
    return {x, y, z, w, kind};
}

namespace emulator {

/// The number of a texel's channels, and their type.
template <class T, class = void>
struct Texel {
    using Channel = T;
    static constexpr int channels = 1;
};
template <class T>
struct Texel<T, std::void_t<decltype(T::x)>> {
    using Channel = decltype(T::x);
    static constexpr int channels = sizeof(T) / sizeof(Channel);
};

}  // namespace emulator

template <class T>
cudaChannelFormatDesc cudaCreateChannelDesc() {
    using Channel = typename emulator::Texel<T>::Channel;
    constexpr int bits = 8 * sizeof(Channel), channels = emulator::Texel<T>::channels;
    return {bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0, channels > 3 ? bits : 0,
            std::is_floating_point_v<Channel> ? cudaChannelFormatKindFloat
            : std::is_signed_v<Channel>       ? cudaChannelFormatKindSigned
                                              : cudaChannelFormatKindUnsigned};
}

struct cudaArray {
    cudaChannelFormatDesc desc;
    std::size_t width, height, pitch;
    unsigned char* data;
};
using cudaArray_t = cudaArray*;

struct cudaResourceDesc {
    cudaResourceType resType;
    struct {
        struct {
            cudaArray_t array;
        } array;
        struct {
            void* devPtr;
            cudaChannelFormatDesc desc;
            std::size_t sizeInBytes;
        } linear;
        struct {
            void* devPtr;
            cudaChannelFormatDesc desc;
            std::size_t width, height, pitchInBytes;
        } pitch2D;
    } res;
};

struct cudaTextureDesc {
    cudaTextureAddressMode addressMode[3];
    cudaTextureFilterMode filterMode;
    cudaTextureReadMode readMode;
    int sRGB;
    float borderColor[4];
    int normalizedCoords;
    unsigned maxAnisotropy;
    cudaTextureFilterMode mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
};
struct cudaResourceViewDesc;

using cudaTextureObject_t = unsigned long long;

// ---- arrays -----------------------------------------------------------------------------------

namespace emulator {

inline std::size_t texel_bytes(const cudaChannelFormatDesc& desc) {
    return static_cast<std::size_t>(desc.x + desc.y + desc.z + desc.w) / 8;
}

}  // namespace emulator

inline cudaError cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* desc,
                                 std::size_t width, std::size_t height = 0, unsigned = 0) {
    const std::size_t pitch = width * emulator::texel_bytes(*desc);
    *array = new cudaArray{*desc, width, height, pitch, nullptr};
    return emulator::allocate("array", &(*array)->data, pitch * std::max<std::size_t>(height, 1));
}
inline cudaError cudaFreeArray(cudaArray_t array) {
    const cudaError error = emulator::release(array->data);
    delete array;
    return error;
}
inline cudaError cudaMemcpy2DToArray(cudaArray_t array, std::size_t first_byte,
                                     std::size_t first_row, const void* source,
                                     std::size_t source_pitch, std::size_t width,
                                     std::size_t height, cudaMemcpyKind kind) {
    return cudaMemcpy2D(array->data + first_row * array->pitch + first_byte, array->pitch, source,
                        source_pitch, width, height, kind);
}
inline cudaError cudaMemcpyToArray(cudaArray_t array, std::size_t first_byte, std::size_t first_row,
                                   const void* source, std::size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpy(array->data + first_row * array->pitch + first_byte, source, bytes, kind);
}

// ---- texture objects ----------------------------------------------------------------------------

namespace emulator {

struct Texture {
    const unsigned char* data;
    std::size_t pitch;
    int width, height;
    cudaChannelFormatDesc desc;
    cudaTextureDesc mode;
};

/// The index of a texel inside of the texture; -1 for the border.
inline int texel_index(int index, int size, cudaTextureAddressMode mode) {
    if (index >= 0 && index < size) return index;
    if (mode == cudaAddressModeBorder) return -1;
    if (mode == cudaAddressModeClamp) return index < 0 ? 0 : size - 1;
    const int period = mode == cudaAddressModeWrap ? size : 2 * size;
    const int inside = (index % period + period) % period;
    return inside < size ? inside : period - 1 - inside;
}

/// A channel as a float: an integer becomes 0 to 1, or -1 to 1.
template <class Channel>
float normalized(Channel value) {
    if constexpr (std::is_floating_point_v<Channel>) return static_cast<float>(value);
    return fmaxf(static_cast<float>(value) / std::numeric_limits<Channel>::max(), -1);
}

/// A texel whose channels have the type Stored, converted to T.
template <class T, class Stored>
T converted(const unsigned char* texel) {
    using Channel = typename Texel<T>::Channel;
    constexpr int channels = Texel<T>::channels;
    Channel result[channels];
    for (int k = 0; k < channels; ++k)
        result[k] = static_cast<Channel>(normalized(reinterpret_cast<const Stored*>(texel)[k]));
    T value;
    __builtin_memcpy(&value, result, sizeof(value));
    return value;
}

template <class T>
T texel(const Texture& texture, int column, int row) {
    const int x = texel_index(column, texture.width, texture.mode.addressMode[0]);
    const int y = texel_index(row, texture.height, texture.mode.addressMode[1]);
    const auto* border = reinterpret_cast<const unsigned char*>(texture.mode.borderColor);
    if (x < 0 || y < 0) return converted<T, float>(border);
    const unsigned char* stored = texture.data + static_cast<std::size_t>(y) * texture.pitch +
                                  static_cast<std::size_t>(x) * texel_bytes(texture.desc);
    if (texture.mode.readMode == cudaReadModeElementType)
        return *reinterpret_cast<const T*>(stored);
    const bool is_signed = texture.desc.f == cudaChannelFormatKindSigned;
    if (texture.desc.x == 8)
        return is_signed ? converted<T, signed char>(stored) : converted<T, unsigned char>(stored);
    return is_signed ? converted<T, short>(stored) : converted<T, unsigned short>(stored);
}

/// The texel before a coordinate, and the weight of the texel after it.
struct Position {
    int index;
    float weight;

    explicit Position(float coordinate)
        : index(static_cast<int>(floorf(coordinate - 0.5f))),
          weight(rintf((coordinate - 0.5f - static_cast<float>(index)) * 256) / 256) {}
};

/// first + weight * (second - first), in each channel.
template <class T>
T between(const T& first, const T& second, float weight) {
    constexpr int channels = Texel<T>::channels;
    using Channel = typename Texel<T>::Channel;
    Channel a[channels], b[channels];
    __builtin_memcpy(a, &first, sizeof(a));
    __builtin_memcpy(b, &second, sizeof(b));
    for (int k = 0; k < channels; ++k)
        a[k] = static_cast<Channel>((1 - weight) * a[k] + weight * b[k]);
    T result;
    __builtin_memcpy(&result, a, sizeof(result));
    return result;
}

template <class T>
T sample(const Texture& texture, float x, float y) {
    if (texture.mode.normalizedCoords) {
        x *= static_cast<float>(texture.width);
        y *= static_cast<float>(texture.height);
    }
    if (texture.mode.filterMode == cudaFilterModePoint)
        return texel<T>(texture, static_cast<int>(floorf(x)), static_cast<int>(floorf(y)));
    const Position column(x), row(y);
    const auto line = [&](int number) {
        return between(texel<T>(texture, column.index, number),
                       texel<T>(texture, column.index + 1, number), column.weight);
    };
    return between(line(row.index), line(row.index + 1), row.weight);
}

/// A copy, because the object itself is in memory of the host.
EMULATOR_UNCHECKED inline Texture texture_of(cudaTextureObject_t object) {
    return *reinterpret_cast<const Texture*>(object);
}

}  // namespace emulator

inline cudaError cudaCreateTextureObject(cudaTextureObject_t* object,
                                         const cudaResourceDesc* resource,
                                         const cudaTextureDesc* mode,
                                         const cudaResourceViewDesc* = nullptr) {
    emulator::Texture texture{};
    const auto& [array, linear, rows] = resource->res;
    if (resource->resType == cudaResourceTypeArray) {
        const int height = static_cast<int>(std::max<std::size_t>(array.array->height, 1));
        texture = {array.array->data, array.array->pitch, static_cast<int>(array.array->width),
                   height, array.array->desc};
    } else if (resource->resType == cudaResourceTypeLinear) {
        const std::size_t width = linear.sizeInBytes / emulator::texel_bytes(linear.desc);
        texture = {static_cast<const unsigned char*>(linear.devPtr), linear.sizeInBytes,
                   static_cast<int>(width), 1, linear.desc};
    } else if (resource->resType == cudaResourceTypePitch2D) {
        texture = {static_cast<const unsigned char*>(rows.devPtr), rows.pitchInBytes,
                   static_cast<int>(rows.width), static_cast<int>(rows.height), rows.desc};
    } else {
        return emulator::noted(cudaErrorInvalidValue);
    }
    texture.mode = *mode;
    *object = reinterpret_cast<cudaTextureObject_t>(new emulator::Texture(texture));
    return cudaSuccess;
}
inline cudaError cudaDestroyTextureObject(cudaTextureObject_t object) {
    delete reinterpret_cast<emulator::Texture*>(object);
    return cudaSuccess;
}

/// An element of linear memory, without a filter.
template <class T>
T tex1Dfetch(cudaTextureObject_t object, int index) {
    return emulator::texel<T>(emulator::texture_of(object), index, 0);
}
template <class T>
T tex1D(cudaTextureObject_t object, float x) {
    return emulator::sample<T>(emulator::texture_of(object), x, 0.5f);
}
template <class T>
T tex2D(cudaTextureObject_t object, float x, float y) {
    return emulator::sample<T>(emulator::texture_of(object), x, y);
}

#pragma GCC visibility pop
