// CUDA's integer functions, conversions and fast functions that programs use and this package's
// kernels do not.

#pragma once

#include <limits.h>
#include <math.h>

#include <cstdint>
#include <limits>

#include "arithmetic.h"

// ---- integers -----------------------------------------------------------------------------

inline unsigned umin(unsigned a, unsigned b) {
    return min(a, b);
}
inline unsigned umax(unsigned a, unsigned b) {
    return max(a, b);
}
inline int __mul24(int a, int b) {
    return static_cast<int>(static_cast<unsigned>(a << 8 >> 8) *
                            static_cast<unsigned>(b << 8 >> 8));
}
inline unsigned __umul24(unsigned a, unsigned b) {
    return (a & 0xffffff) * (b & 0xffffff);
}
inline int __mulhi(int a, int b) {
    return static_cast<int>(static_cast<long long>(a) * b >> 32);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline long long __mul64hi(long long a, long long b) {
    return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
/// |a - b| + c.
inline unsigned __sad(int a, int b, unsigned c) {
    return (a < b ? static_cast<unsigned>(b) - a : static_cast<unsigned>(a) - b) + c;
}
inline unsigned __usad(unsigned a, unsigned b, unsigned c) {
    return (a < b ? b - a : a - b) + c;
}
/// Four of the eight bytes of low and high; each hexadecimal digit of the selector is a byte's
/// number.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(high) << 32 | low;
    unsigned result = 0;
    for (int k = 0; k < 4; ++k)
        result |= static_cast<unsigned>(bytes >> 8 * (selector >> 4 * k & 7) & 0xff) << 8 * k;
    return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    const std::uint64_t both = static_cast<std::uint64_t>(high) << 32 | low;
    return static_cast<unsigned>(both << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    const std::uint64_t both = static_cast<std::uint64_t>(high) << 32 | low;
    return static_cast<unsigned>(both >> (shift & 31));
}

// ---- conversions: to nearest, towards 0, down, up -----------------------------------------

namespace emulator {

/// The integer nearest to x in the type; 0 for NaN.
template <class T, class Real>
T saturated(Real x) {
    constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
    if (x != x) return 0;
    if (x <= static_cast<Real>(least)) return least;
    return x >= static_cast<Real>(most) ? most : static_cast<T>(x);
}

}  // namespace emulator

#define EMULATOR_CONVERSIONS(Real, real, T, name) \
    inline T __##real##2##name##_rn(Real x) {     \
        return emulator::saturated<T>(rint(x));   \
    }                                             \
    inline T __##real##2##name##_rz(Real x) {     \
        return emulator::saturated<T>(trunc(x));  \
    }                                             \
    inline T __##real##2##name##_rd(Real x) {     \
        return emulator::saturated<T>(floor(x));  \
    }                                             \
    inline T __##real##2##name##_ru(Real x) {     \
        return emulator::saturated<T>(ceil(x));   \
    }                                             \
    inline Real __##name##2##real##_rn(T x) {     \
        return static_cast<Real>(x);              \
    }

EMULATOR_CONVERSIONS(float, float, int, int)
EMULATOR_CONVERSIONS(float, float, unsigned, uint)
EMULATOR_CONVERSIONS(float, float, long long, ll)
EMULATOR_CONVERSIONS(double, double, int, int)
EMULATOR_CONVERSIONS(double, double, unsigned, uint)
EMULATOR_CONVERSIONS(double, double, long long, ll)

#undef EMULATOR_CONVERSIONS

inline float __double2float_rn(double x) {
    return static_cast<float>(x);
}
inline int __double2hiint(double x) {
    return static_cast<int>(__double_as_longlong(x) >> 32);
}
inline int __double2loint(double x) {
    return static_cast<int>(__double_as_longlong(x));
}
inline double __hiloint2double(int high, int low) {
    const auto bits = static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 |
                      static_cast<unsigned>(low);
    return __longlong_as_double(static_cast<long long>(bits));
}

// ---- functions that are fast and less accurate on a GPU, but accurate here ----------------

inline float __sinf(float x) {
    return sinf(x);
}
inline float __cosf(float x) {
    return cosf(x);
}
inline float __tanf(float x) {
    return tanf(x);
}
inline void __sincosf(float x, float* sine, float* cosine) {
    *sine = sinf(x);
    *cosine = cosf(x);
}
inline float __log2f(float x) {
    return log2f(x);
}
inline float __log10f(float x) {
    return log10f(x);
}
inline float __exp10f(float x) {
    return powf(10, x);
}
/// x between 0 and 1; 0 for NaN.
inline float __saturatef(float x) {
    return fminf(fmaxf(x, 0), 1);
}
