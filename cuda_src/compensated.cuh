// Sums of products in twice the working precision, by error-free transformations.
//
// Sources. T. Ogita, S. M. Rump and S. Oishi, "Accurate Sum and Dot Product", SIAM Journal on
// Scientific Computing 26(6), 2005. S. M. Rump, T. Ogita and S. Oishi, "Accurate Floating-Point
// Summation Part I: Faithful Rounding", SIAM Journal on Scientific Computing 31(1), 2008: sums from
// a large number. A fused multiply-add gives the error of a product. The specification in NumPy is
// gpusolve/_numerics/arithmetic.py.
//
// Cost. `Twofold`: 2 operations for a product and 8 for a sum. `AccurateSum`, which needs a limit
// on the terms: 4 operations for a product and its sum.

#pragma once

#include "block.cuh"

/// A rounded value and its rounding error.
template <class T>
struct Twofold {
    T high, low;
};

__device__ __forceinline__ Twofold<float> two_product(float a, float b) {
    const float product = __fmul_rn(a, b);
    return {product, __fmaf_rn(a, b, -product)};
}

__device__ __forceinline__ Twofold<double> two_product(double a, double b) {
    const double product = __dmul_rn(a, b);
    return {product, __fma_rn(a, b, -product)};
}

/// The sum of two such values; the rounding error of the high parts is kept.
template <class T>
struct AddTwofold {
    static __device__ __forceinline__ Twofold<T> identity() { return {T(0), T(0)}; }
    __device__ __forceinline__ Twofold<T> operator()(Twofold<T> a, Twofold<T> b) const {
        const T total = a.high + b.high;
        const T of_b = total - a.high;
        const T error = (a.high - (total - of_b)) + (b.high - of_b);
        return {total, a.low + b.low + error};
    }
};

template <class T>
__device__ __forceinline__ Twofold<T> shuffle_xor(Twofold<T> a, int distance) {
    return {shuffle_xor(a.high, distance), shuffle_xor(a.low, distance)};
}

/// A sum of products whose magnitudes add up to at most a quarter of `base`.
///
/// `sum` starts at `base`, and stays between 3/4 and 5/4 of `base`, up to rounding. So its values
/// differ by less than a factor of 2, and their differences are exact (Sterbenz). `low` has what
/// each step rounds off, at most eps `base`, with an error of the order of eps^2 `base`.
///
/// If `base` is not finite, the result is NaN.
struct AccurateSum {
    double base, sum, low;

    /// The sum without terms, for products whose magnitudes add up to `size`.
    static __device__ __forceinline__ AccurateSum of_size(double size) {
        return {4 * size, 4 * size, 0};
    }
    __device__ __forceinline__ void take(double a, double x) {
        const double next = sum + a * x;  // fused or not
        low += __fma_rn(a, x, sum - next);
        sum = next;
    }
    /// b minus the sum, rounded twice.
    __device__ __forceinline__ double subtracted_from(double b) const {
        return (b - (sum - base)) - low;
    }
};
