// Sums of products in twice the working precision, by error-free transformations.
//
// Source. T. Ogita, S. M. Rump and S. Oishi, "Accurate Sum and Dot Product", SIAM Journal on
// Scientific Computing 26(6), 2005. A fused multiply-add gives the error of a product. The
// specification in NumPy is gpusolve/_numerics/arithmetic.py.
//
// Cost. 2 operations for a product and 8 for a sum, instead of 1 each.

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
