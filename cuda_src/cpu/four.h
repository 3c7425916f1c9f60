// Four doubles, and operations on all four at once.
//
// GCC and Clang divide them into smaller vectors where a processor lacks wider vectors.

#pragma once

#include <cstring>

#if defined(__FMA__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

constexpr int four = 4;

using Four = double __attribute__((vector_size(32)));

__forceinline__ Four load_four(const double* from) {
    Four result;
    std::memcpy(&result, from, sizeof(result));
    return result;
}
__forceinline__ void store_four(double* to, Four value) {
    std::memcpy(to, &value, sizeof(value));
}
__forceinline__ Four all_four(double value) {
    return Four{value, value, value, value};
}
__forceinline__ double sum_of_four(Four value) {
    return (value[0] + value[2]) + (value[1] + value[3]);
}

/// a * b + c: rounded once where the processor can, else twice.
__forceinline__ Four multiply_add(Four a, Four b, Four c) {
#if defined(__FMA__)
    return reinterpret_cast<Four>(_mm256_fmadd_pd(
        reinterpret_cast<__m256d>(a), reinterpret_cast<__m256d>(b), reinterpret_cast<__m256d>(c)));
#else
    return a * b + c;
#endif
}
__forceinline__ double multiply_add(double a, double b, double c) {
#if defined(__FMA__) || defined(__aarch64__)
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

/// A value as a sum of two values with half the bits each (Dekker, Veltkamp).
__forceinline__ void split_four(Four value, Four& high, Four& low) {
    const Four shifted = 134217729.0 * value;
    high = shifted - (shifted - value);
    low = value - high;
}

/// The rounding error of `product`, which is a * b rounded.
__forceinline__ Four error_of_product(Four a, Four b, Four product) {
#if defined(__FMA__)
    return multiply_add(a, b, -product);
#else
    Four a_high, a_low, b_high, b_low;
    split_four(a, a_high, a_low);
    split_four(b, b_high, b_low);
    return a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low);
#endif
}

/// a b + c, accurate also if the terms cancel.
__forceinline__ Four product_plus(Four a, Four b, Four c) {
#if defined(__FMA__)
    return multiply_add(a, b, c);
#else
    const Four product = a * b;
    return (product + c) + error_of_product(a, b, product);
#endif
}

/// a b, for vectors of `count` elements.
__forceinline__ double dot(const double* a, const double* b, int count) {
    Four sum[four] = {};
    int i = 0;
    for (; i + 4 * four <= count; i += 4 * four)
        for (int q = 0; q < four; ++q)
            sum[q] = multiply_add(load_four(a + i + four * q), load_four(b + i + four * q), sum[q]);
    for (; i + four <= count; i += four)
        sum[0] = multiply_add(load_four(a + i), load_four(b + i), sum[0]);
    double rest = 0;
    for (; i < count; ++i) rest = multiply_add(a[i], b[i], rest);
    return sum_of_four((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest;
}
