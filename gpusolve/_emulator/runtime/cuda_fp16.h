// CUDA's half precision. Conversions use integer operations, because few C++ compilers have a
// half type.

#pragma once

#include "narrow_float.h"
#include "vector_types.h"

namespace emulator {

struct HalfFormat {
    /// Round to nearest, ties to even.
    static unsigned short encode(float x) {
        constexpr unsigned infinity = 0x7f800000, rounds_to_infinity = 0x477ff000;  // 65520
        constexpr unsigned smallest_normal = 0x38800000;                            // 2^-14
        const unsigned all = __float_as_uint(x), magnitude = all & 0x7fffffff;
        unsigned result;
        if (magnitude > infinity)
            result = 0x7e00;
        else if (magnitude >= rounds_to_infinity)
            result = 0x7c00;
        else if (magnitude < smallest_normal)  // the last bit of 0.5f is 2^-24, as in a subnormal
            result = __float_as_uint(__uint_as_float(magnitude) + 0.5f) - __float_as_uint(0.5f);
        else
            result = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
        return static_cast<unsigned short>((all >> 16 & 0x8000) | result);
    }

    static float decode(unsigned short bits) {
        const unsigned exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
        const unsigned magnitude = exponent == 0      ? __float_as_uint(ldexpf(fraction, -24))
                                   : exponent == 0x1f ? 0x7f800000 | fraction << 13
                                                      : (exponent + 112) << 23 | fraction << 13;
        return __uint_as_float((bits & 0x8000u) << 16 | magnitude);
    }
};

}  // namespace emulator

using __half = emulator::NarrowFloat<emulator::HalfFormat>;
using __half2 = emulator::NarrowPair<emulator::HalfFormat>;
using half = __half;
using half2 = __half2;

EMULATOR_NARROW_CONVERSIONS(__half, half, __half2, half2)
