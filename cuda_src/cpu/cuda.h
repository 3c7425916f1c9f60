// CUDA C++ for one thread: a kernel becomes a function that a C++ compiler compiles ahead of time.
//
// A block has one thread, and a warp one lane. So barriers and shuffles cost nothing, and shared
// memory is memory of the function. This file has only the functions that the
// solvers use; the emulator has the whole language.

#pragma once

// GCC's library would include thousands of lines of special functions.
#undef _GLIBCXX_USE_STD_SPEC_FUNCS

#include <math.h>

#include <cstring>
#include <type_traits>

#define WARP_THREADS 1

#define __global__ static
#define __device__
#define __shared__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ inline

struct Index3 {
    int x, y, z;
};
struct double2 {
    double x, y;
};
struct int4 {
    int x, y, z, w;
};
constexpr Index3 threadIdx{0, 0, 0}, blockDim{1, 1, 1};
/// A grid of several blocks has a thread of the process for each block.
inline thread_local Index3 blockIdx{0, 0, 0}, gridDim{1, 1, 1};

/// The solvers get no dynamic shared memory here.
static unsigned char shared_memory[16];

inline void __syncthreads() {}
inline void __syncwarp(unsigned = 0) {}
inline void __threadfence() {}

inline void __stwb(int4* to, int4 value) {
    *to = value;
}
inline int __clz(int x) {
    return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x));
}

template <class T>
T __shfl_sync(unsigned, T value, int) {
    return value;
}
template <class T>
T __shfl_up_sync(unsigned, T value, int) {
    return value;
}
template <class T>
T __shfl_down_sync(unsigned, T value, int) {
    return value;
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int) {
    return value;
}
inline unsigned __ballot_sync(unsigned, bool holds) {
    return holds;
}

/// Several threads of the process may solve systems of a batch.
inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

/// The caller stops all threads by a counter of taken systems that is larger than any batch.
constexpr unsigned long long stop = 1ULL << 62;
#define IS_STOPPED(taken) (__atomic_load_n(&(taken), __ATOMIC_RELAXED) >= stop)

/// CUDA's min and max: two types become their common type; NaN only if both values are NaN.
template <class A, class B>
constexpr __forceinline__ auto min(A a, B b) {
    using T = std::common_type_t<A, B>;
    return static_cast<T>(b) < static_cast<T>(a) || a != a ? static_cast<T>(b) : static_cast<T>(a);
}
template <class A, class B>
constexpr __forceinline__ auto max(A a, B b) {
    using T = std::common_type_t<A, B>;
    return static_cast<T>(a) < static_cast<T>(b) || a != a ? static_cast<T>(b) : static_cast<T>(a);
}

// Operations that round once. The compiler must not fuse other operations: -ffp-contract=off.
inline float __fmul_rn(float a, float b) {
    return a * b;
}
inline double __dmul_rn(double a, double b) {
    return a * b;
}
inline float __fmaf_rn(float a, float b, float c) {
    return fmaf(a, b, c);
}
inline double __fma_rn(double a, double b, double c) {
    return fma(a, b, c);
}

template <class To, class From>
__forceinline__ To bits_as(From value) {
    static_assert(sizeof(To) == sizeof(From), "both types must have the same size");
    To result;
    std::memcpy(&result, &value, sizeof(result));
    return result;
}
inline unsigned __float_as_uint(float x) {
    return bits_as<unsigned>(x);
}
inline float __uint_as_float(unsigned x) {
    return bits_as<float>(x);
}
inline int __float_as_int(float x) {
    return bits_as<int>(x);
}
inline float __int_as_float(int x) {
    return bits_as<float>(x);
}
inline long long __double_as_longlong(double x) {
    return bits_as<long long>(x);
}
inline double __longlong_as_double(long long x) {
    return bits_as<double>(x);
}
