// Floating-point numbers of 16 bits, and pairs of them: arithmetic, comparisons and functions.
//
// Everything is computed in float or double and then rounded. For a sum, a difference, a product, a
// quotient or a square root this equals a single rounding of the exact result, because float has
// more than twice the digits (Figueroa, "When is double rounding innocuous?", 1995).

#pragma once

#include "arithmetic.h"
#include "atomics.h"

namespace emulator {

/// A float whose last bit is set if x is not a float. Rounding it to fewer digits gives the same
/// result as rounding x (Boldo & Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
inline float rounded_to_odd(double x) {
    const float nearest = static_cast<float>(x);
    if (!(nearest < x || nearest > x)) return nearest;
    const bool is_too_large = fabs(static_cast<double>(nearest)) > fabs(x);
    return __uint_as_float((__float_as_uint(nearest) - is_too_large) | 1);
}

/// `Format` has the functions `encode` and `decode`, from and to float.
template <class Format>
struct NarrowFloat {
    unsigned short bits;

    NarrowFloat() = default;
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    NarrowFloat(T x) : bits(Format::encode(rounded_to_odd(x))) {}
    operator float() const { return Format::decode(bits); }

    static NarrowFloat of_bits(unsigned short bits) {
        NarrowFloat x;
        x.bits = bits;
        return x;
    }

    NarrowFloat& operator+=(NarrowFloat x) { return *this = *this + x; }
    NarrowFloat& operator-=(NarrowFloat x) { return *this = *this - x; }
    NarrowFloat& operator*=(NarrowFloat x) { return *this = *this * x; }
    NarrowFloat& operator/=(NarrowFloat x) { return *this = *this / x; }
    friend NarrowFloat operator-(NarrowFloat x) { return of_bits(x.bits ^ 0x8000); }
};

template <class Format>
struct alignas(4) NarrowPair {
    NarrowFloat<Format> x, y;

    NarrowPair& operator+=(NarrowPair a) { return *this = *this + a; }
    NarrowPair& operator-=(NarrowPair a) { return *this = *this - a; }
    NarrowPair& operator*=(NarrowPair a) { return *this = *this * a; }
    NarrowPair& operator/=(NarrowPair a) { return *this = *this / a; }
    friend NarrowPair operator-(NarrowPair a) { return {-a.x, -a.y}; }
};

}  // namespace emulator

// ---- arithmetic and comparisons, as operators and by name --------------------------------------

#define EMULATOR_NARROW template <class Format>
#define EMULATOR_ONE emulator::NarrowFloat<Format>
#define EMULATOR_TWO emulator::NarrowPair<Format>

#define EMULATOR_ARITHMETIC(symbol, name, name_of_pairs)                           \
    EMULATOR_NARROW EMULATOR_ONE operator symbol(EMULATOR_ONE a, EMULATOR_ONE b) { \
        return static_cast<float>(a) symbol static_cast<float>(b);                 \
    }                                                                              \
    EMULATOR_NARROW EMULATOR_ONE name(EMULATOR_ONE a, EMULATOR_ONE b) {            \
        return a symbol b;                                                         \
    }                                                                              \
    EMULATOR_NARROW EMULATOR_TWO operator symbol(EMULATOR_TWO a, EMULATOR_TWO b) { \
        return {a.x symbol b.x, a.y symbol b.y};                                   \
    }                                                                              \
    EMULATOR_NARROW EMULATOR_TWO name_of_pairs(EMULATOR_TWO a, EMULATOR_TWO b) {   \
        return a symbol b;                                                         \
    }

namespace emulator {

EMULATOR_ARITHMETIC(+, __hadd, __hadd2)
EMULATOR_ARITHMETIC(-, __hsub, __hsub2)
EMULATOR_ARITHMETIC(*, __hmul, __hmul2)
EMULATOR_ARITHMETIC(/, __hdiv, __h2div)

/// Of pairs: 1 or 0 in each half, and by `b` for both.
#define EMULATOR_COMPARISON(symbol, name)                                       \
    EMULATOR_NARROW bool operator symbol(EMULATOR_ONE a, EMULATOR_ONE b) {      \
        return static_cast<float>(a) symbol static_cast<float>(b);              \
    }                                                                           \
    EMULATOR_NARROW bool __h##name(EMULATOR_ONE a, EMULATOR_ONE b) {            \
        return a symbol b;                                                      \
    }                                                                           \
    EMULATOR_NARROW EMULATOR_TWO __h##name##2(EMULATOR_TWO a, EMULATOR_TWO b) { \
        return {a.x symbol b.x ? 1.0f : 0.0f, a.y symbol b.y ? 1.0f : 0.0f};    \
    }                                                                           \
    EMULATOR_NARROW bool __hb##name##2(EMULATOR_TWO a, EMULATOR_TWO b) {        \
        return a.x symbol b.x && a.y symbol b.y;                                \
    }

EMULATOR_COMPARISON(==, eq)
EMULATOR_COMPARISON(!=, ne)
EMULATOR_COMPARISON(<, lt)
EMULATOR_COMPARISON(<=, le)
EMULATOR_COMPARISON(>, gt)
EMULATOR_COMPARISON(>=, ge)

// ---- functions ----------------------------------------------------------------------------------

/// A function of one number, for numbers and for pairs.
#define EMULATOR_FUNCTION(name, name_of_pairs, expression)       \
    EMULATOR_NARROW EMULATOR_ONE name(EMULATOR_ONE argument) {   \
        const float x = argument;                                \
        return expression;                                       \
    }                                                            \
    EMULATOR_NARROW EMULATOR_TWO name_of_pairs(EMULATOR_TWO a) { \
        return {name(a.x), name(a.y)};                           \
    }

EMULATOR_FUNCTION(__hneg, __hneg2, -x)
EMULATOR_FUNCTION(__habs, __habs2, fabsf(x))
EMULATOR_FUNCTION(hsqrt, h2sqrt, sqrtf(x))
EMULATOR_FUNCTION(hrsqrt, h2rsqrt, static_cast<float>(1 / sqrt(static_cast<double>(x))))
EMULATOR_FUNCTION(hrcp, h2rcp, 1 / x)
EMULATOR_FUNCTION(hexp, h2exp, expf(x))
EMULATOR_FUNCTION(hexp2, h2exp2, exp2f(x))
EMULATOR_FUNCTION(hlog, h2log, logf(x))
EMULATOR_FUNCTION(hlog2, h2log2, log2f(x))
EMULATOR_FUNCTION(hsin, h2sin, sinf(x))
EMULATOR_FUNCTION(hcos, h2cos, cosf(x))
EMULATOR_FUNCTION(htanh, h2tanh, tanhf(x))
EMULATOR_FUNCTION(hfloor, h2floor, floorf(x))
EMULATOR_FUNCTION(hceil, h2ceil, ceilf(x))
EMULATOR_FUNCTION(hrint, h2rint, rintf(x))

/// Also a number if the other argument is NaN.
EMULATOR_NARROW EMULATOR_ONE __hmin(EMULATOR_ONE a, EMULATOR_ONE b) {
    return fminf(a, b);
}
EMULATOR_NARROW EMULATOR_ONE __hmax(EMULATOR_ONE a, EMULATOR_ONE b) {
    return fmaxf(a, b);
}
EMULATOR_NARROW EMULATOR_TWO __hmin2(EMULATOR_TWO a, EMULATOR_TWO b) {
    return {__hmin(a.x, b.x), __hmin(a.y, b.y)};
}
EMULATOR_NARROW EMULATOR_TWO __hmax2(EMULATOR_TWO a, EMULATOR_TWO b) {
    return {__hmax(a.x, b.x), __hmax(a.y, b.y)};
}

/// The product is exact in double. The sum is rounded to double before it is rounded to the format.
EMULATOR_NARROW EMULATOR_ONE __hfma(EMULATOR_ONE a, EMULATOR_ONE b, EMULATOR_ONE c) {
    return static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c);
}
EMULATOR_NARROW EMULATOR_TWO __hfma2(EMULATOR_TWO a, EMULATOR_TWO b, EMULATOR_TWO c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}

EMULATOR_NARROW bool __hisnan(EMULATOR_ONE x) {
    return x != x;
}
EMULATOR_NARROW int __hisinf(EMULATOR_ONE x) {
    return isinf(static_cast<float>(x)) ? (x > EMULATOR_ONE(0) ? 1 : -1) : 0;
}

EMULATOR_NARROW float __low2float(EMULATOR_TWO a) {
    return a.x;
}
EMULATOR_NARROW float __high2float(EMULATOR_TWO a) {
    return a.y;
}
EMULATOR_NARROW EMULATOR_TWO __lowhigh2highlow(EMULATOR_TWO a) {
    return {a.y, a.x};
}

EMULATOR_NARROW EMULATOR_INLINE EMULATOR_ONE atomicAdd(EMULATOR_ONE* address, EMULATOR_ONE value) {
    return atomic_update(address, [=](EMULATOR_ONE old) { return old + value; });
}
EMULATOR_NARROW EMULATOR_INLINE EMULATOR_TWO atomicAdd(EMULATOR_TWO* address, EMULATOR_TWO value) {
    return atomic_update(address, [=](EMULATOR_TWO old) { return old + value; });
}

}  // namespace emulator

#undef EMULATOR_ARITHMETIC
#undef EMULATOR_COMPARISON
#undef EMULATOR_FUNCTION
#undef EMULATOR_NARROW
#undef EMULATOR_ONE
#undef EMULATOR_TWO

// ---- conversions, whose names have the name of the type -----------------------------------------

#define EMULATOR_NARROW_CONVERSIONS(One, one, Two, two) \
    inline One __float2##one(float x) {                 \
        return x;                                       \
    }                                                   \
    inline One __float2##one##_rn(float x) {            \
        return x;                                       \
    }                                                   \
    inline One __double2##one(double x) {               \
        return x;                                       \
    }                                                   \
    inline One __int2##one##_rn(int x) {                \
        return x;                                       \
    }                                                   \
    inline One __uint2##one##_rn(unsigned x) {          \
        return x;                                       \
    }                                                   \
    inline float __##one##2float(One x) {               \
        return x;                                       \
    }                                                   \
    inline int __##one##2int_rn(One x) {                \
        return static_cast<int>(rintf(x));              \
    }                                                   \
    inline int __##one##2int_rz(One x) {                \
        return static_cast<int>(truncf(x));             \
    }                                                   \
    inline unsigned short __##one##_as_ushort(One x) {  \
        return x.bits;                                  \
    }                                                   \
    inline One __ushort_as_##one(unsigned short x) {    \
        return One::of_bits(x);                         \
    }                                                   \
    inline Two make_##two(One x, One y) {               \
        return {x, y};                                  \
    }                                                   \
    inline Two __halves2##two(One x, One y) {           \
        return {x, y};                                  \
    }                                                   \
    inline Two __floats2##two##_rn(float x, float y) {  \
        return {x, y};                                  \
    }                                                   \
    inline Two __float2##two##_rn(float x) {            \
        return {x, x};                                  \
    }                                                   \
    inline Two __float22##two##_rn(float2 a) {          \
        return {a.x, a.y};                              \
    }                                                   \
    inline Two __##one##2##two(One x) {                 \
        return {x, x};                                  \
    }                                                   \
    inline float2 __##two##2float2(Two a) {             \
        return {a.x, a.y};                              \
    }                                                   \
    inline One __low2##one(Two a) {                     \
        return a.x;                                     \
    }                                                   \
    inline One __high2##one(Two a) {                    \
        return a.y;                                     \
    }                                                   \
    inline Two __low2##two(Two a) {                     \
        return {a.x, a.x};                              \
    }                                                   \
    inline Two __high2##two(Two a) {                    \
        return {a.y, a.y};                              \
    }                                                   \
    inline Two __lows2##two(Two a, Two b) {             \
        return {a.x, b.x};                              \
    }                                                   \
    inline Two __highs2##two(Two a, Two b) {            \
        return {a.y, b.y};                              \
    }
