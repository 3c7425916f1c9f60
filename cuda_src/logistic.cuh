// The logistic function and its integral, without overflow.

#pragma once

/// 1 / (1 + exp(-x)).
static __device__ __forceinline__ double logistic(double x) {
    return 1 / (1 + exp(-x));
}

/// log(1 + exp(x)).
static __device__ __forceinline__ double softplus(double x) {
    return fmax(x, 0.0) + log1p(exp(-fabs(x)));
}
