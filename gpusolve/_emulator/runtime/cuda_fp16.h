// CUDA's half precision: conversions, arithmetic and comparisons.
//
// Conversions use integer operations, because few C++ compilers have a half type. Arithmetic
// is computed in float and then rounded to half. This equals a single rounding of the exact result,
// because float has more than twice the digits (Figueroa, "When is double rounding
// innocuous?", 1995).

#pragma once

#include "arithmetic.h"

struct __half;
inline float __half2float(__half x);

struct __half {
    unsigned short bits;

    __half() = default;
    __half(float x);
    operator float() const { return __half2float(*this); }
};

using half = __half;

/// Round to nearest, ties to even.
inline __half::__half(float x) {
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
    bits = static_cast<unsigned short>((all >> 16 & 0x8000) | result);
}

inline float __half2float(__half x) {
    const unsigned exponent = x.bits >> 10 & 0x1f, fraction = x.bits & 0x3ff;
    const unsigned magnitude = exponent == 0      ? __float_as_uint(ldexpf(fraction, -24))
                               : exponent == 0x1f ? 0x7f800000 | fraction << 13
                                                  : (exponent + 112) << 23 | fraction << 13;
    return __uint_as_float((x.bits & 0x8000u) << 16 | magnitude);
}

inline __half __float2half(float x) {
    return x;
}
inline __half __float2half_rn(float x) {
    return x;
}

// ---- arithmetic and comparison, as operators and by name --------------------------------

#define EMULATOR_HALF_ARITHMETIC(symbol, name)                     \
    inline __half operator symbol(__half a, __half b) {            \
        return static_cast<float>(a) symbol static_cast<float>(b); \
    }                                                              \
    inline __half& operator symbol##=(__half & a, __half b) {      \
        return a = a symbol b;                                     \
    }                                                              \
    inline __half name(__half a, __half b) {                       \
        return a symbol b;                                         \
    }

EMULATOR_HALF_ARITHMETIC(+, __hadd)
EMULATOR_HALF_ARITHMETIC(-, __hsub)
EMULATOR_HALF_ARITHMETIC(*, __hmul)
EMULATOR_HALF_ARITHMETIC(/, __hdiv)

#undef EMULATOR_HALF_ARITHMETIC

#define EMULATOR_HALF_COMPARISON(symbol, name)                     \
    inline bool operator symbol(__half a, __half b) {              \
        return static_cast<float>(a) symbol static_cast<float>(b); \
    }                                                              \
    inline bool name(__half a, __half b) {                         \
        return a symbol b;                                         \
    }

EMULATOR_HALF_COMPARISON(==, __heq)
EMULATOR_HALF_COMPARISON(!=, __hne)
EMULATOR_HALF_COMPARISON(<, __hlt)
EMULATOR_HALF_COMPARISON(<=, __hle)
EMULATOR_HALF_COMPARISON(>, __hgt)
EMULATOR_HALF_COMPARISON(>=, __hge)

#undef EMULATOR_HALF_COMPARISON

inline __half operator-(__half x) {
    return -static_cast<float>(x);
}
inline __half __hneg(__half x) {
    return -x;
}
inline bool __hisnan(__half x) {
    return x != x;
}
