// CUDA's mathematical functions, bit functions and cached loads, in the global namespace.
//
// C++'s <math.h> provides most mathematical functions, overloaded for float and double.

#pragma once

#include <cstddef>

// Without this, GCC's library includes thousands of lines of special functions (Bessel etc.),
// which take a third of a small kernel's compile time. CUDA has none of them in `std`.
#undef _GLIBCXX_USE_STD_SPEC_FUNCS

#include <math.h>
#include <stdlib.h>

#include <cstring>
#include <type_traits>

// ---- functions that <math.h> does not have ----------------------------------------------

inline float rsqrt(float x) {
    return 1.0f / sqrtf(x);
}
inline double rsqrt(double x) {
    return 1.0 / sqrt(x);
}
inline float rsqrtf(float x) {
    return rsqrt(x);
}

/// CUDA's min and max: two types become their common type; NaN only if both arguments are NaN.
template <class A, class B>
constexpr auto min(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>)
        return fmin(static_cast<T>(a), static_cast<T>(b));
    else
        return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}

template <class A, class B>
constexpr auto max(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>)
        return fmax(static_cast<T>(a), static_cast<T>(b));
    else
        return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}

// ---- operations that round to nearest and are never fused -------------------------------

namespace emulator {

/// The value itself. The compiler does not see how it is computed, so it fuses it with nothing.
template <class T>
inline T unfused(T value) {
#ifdef __x86_64__
    asm("" : "+x"(value));
#else
    asm("" : "+w"(value));
#endif
    return value;
}

}  // namespace emulator

inline float __fadd_rn(float a, float b) {
    return emulator::unfused(a) + emulator::unfused(b);
}
inline float __fsub_rn(float a, float b) {
    return emulator::unfused(a) - emulator::unfused(b);
}
inline float __fmul_rn(float a, float b) {
    return emulator::unfused(a * b);
}
inline float __fdiv_rn(float a, float b) {
    return a / b;
}
inline float __fsqrt_rn(float a) {
    return sqrtf(a);
}
inline float __fmaf_rn(float a, float b, float c) {
    return fmaf(a, b, c);
}
inline double __dadd_rn(double a, double b) {
    return emulator::unfused(a) + emulator::unfused(b);
}
inline double __dsub_rn(double a, double b) {
    return emulator::unfused(a) - emulator::unfused(b);
}
inline double __dmul_rn(double a, double b) {
    return emulator::unfused(a * b);
}
inline double __ddiv_rn(double a, double b) {
    return a / b;
}
inline double __dsqrt_rn(double a) {
    return sqrt(a);
}
inline double __fma_rn(double a, double b, double c) {
    return fma(a, b, c);
}

// ---- functions that are fast and less accurate on a GPU, but accurate here ---------------

inline float __expf(float x) {
    return expf(x);
}
inline float __logf(float x) {
    return logf(x);
}
inline float __powf(float x, float y) {
    return powf(x, y);
}
inline float __fdividef(float x, float y) {
    return x / y;
}
inline float __frcp_rn(float x) {
    return 1.0f / x;
}
inline float __frsqrt_rn(float x) {
    return rsqrt(x);
}

// ---- bits -------------------------------------------------------------------------------

namespace emulator {

template <class To, class From>
To bits_as(From value) {
    static_assert(sizeof(To) == sizeof(From), "both types must have the same size");
    To result;
    std::memcpy(&result, &value, sizeof(result));
    return result;
}

}  // namespace emulator

inline int __float_as_int(float x) {
    return emulator::bits_as<int>(x);
}
inline unsigned __float_as_uint(float x) {
    return emulator::bits_as<unsigned>(x);
}
inline float __int_as_float(int x) {
    return emulator::bits_as<float>(x);
}
inline float __uint_as_float(unsigned x) {
    return emulator::bits_as<float>(x);
}
inline long long __double_as_longlong(double x) {
    return emulator::bits_as<long long>(x);
}
inline double __longlong_as_double(long long x) {
    return emulator::bits_as<double>(x);
}

inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
inline int __popcll(unsigned long long x) {
    return __builtin_popcountll(x);
}
inline int __ffs(int x) {
    return __builtin_ffs(x);
}
inline int __ffsll(long long x) {
    return __builtin_ffsll(x);
}
inline int __clz(int x) {
    return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x));
}
inline int __clzll(long long x) {
    return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}

inline unsigned long long __brevll(unsigned long long x) {
    unsigned long long reversed = 0;
    for (int bit = 0; bit < 64; ++bit) reversed |= (x >> bit & 1) << (63 - bit);
    return reversed;
}
inline unsigned __brev(unsigned x) {
    return static_cast<unsigned>(__brevll(x) >> 32);
}

// ---- loads and stores with a cache hint, which is ignored --------------------------------

template <class T>
T __ldg(const T* address) {
    return *address;
}
template <class T>
T __ldcg(const T* address) {
    return *address;
}
template <class T>
T __ldcs(const T* address) {
    return *address;
}
template <class T>
void __stcg(T* address, std::common_type_t<T> value) {
    *address = value;
}
template <class T>
void __stcs(T* address, std::common_type_t<T> value) {
    *address = value;
}
