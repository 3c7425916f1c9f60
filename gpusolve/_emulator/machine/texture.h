// What the handle of a texture or a surface (cudaTextureObject_t, cudaSurfaceObject_t) points to.
//
// A handle is the address of a `Texture`. Whoever creates the handle adds two parts of memory to
// the launch: the `Texture`, read-only, and the memory of its texels. The numbers of the modes are
// those of CUDA's enumerations.

#pragma once

#include <cstdint>

namespace machine {

enum ChannelKind : std::uint8_t { SIGNED_CHANNEL, UNSIGNED_CHANNEL, FLOAT_CHANNEL };
enum AddressMode : std::uint8_t { WRAP, CLAMP, MIRROR, BORDER };

struct Texture {
    std::uint64_t address;               // of the first texel
    std::uint64_t pitch;                 // bytes from row to row
    std::uint64_t slice;                 // bytes from slice to slice, or from layer to layer
    std::uint32_t width, height, depth;  // in texels, at least 1; the depth has layers, too
    std::uint8_t channels;               // 1, 2 or 4
    std::uint8_t bits;                   // of a channel: 8, 16 or 32
    std::uint8_t kind;                   // ChannelKind
    std::uint8_t reads_normalized;       // integers as floats: cudaReadModeNormalizedFloat
    std::uint8_t is_linear;              // cudaFilterModeLinear
    std::uint8_t has_normalized_coordinates;
    std::uint8_t modes[3];  // AddressMode of x, y and z
    std::uint8_t unused[3];
    float border[4];  // the value outside, with BORDER
};

static_assert(sizeof(Texture) == 64);

}  // namespace machine
