// CUDA's bfloat16: the upper half of a float.

#pragma once

#include "narrow_float.h"
#include "vector_types.h"

namespace emulator {

struct BfloatFormat {
    /// Round to nearest, ties to even.
    static unsigned short encode(float x) {
        const unsigned bits = __float_as_uint(x);
        if (x != x) return 0x7fff;
        return static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }

    static float decode(unsigned short bits) {
        return __uint_as_float(static_cast<unsigned>(bits) << 16);
    }
};

}  // namespace emulator

using __nv_bfloat16 = emulator::NarrowFloat<emulator::BfloatFormat>;
using __nv_bfloat162 = emulator::NarrowPair<emulator::BfloatFormat>;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

EMULATOR_NARROW_CONVERSIONS(__nv_bfloat16, bfloat16, __nv_bfloat162, bfloat162)
