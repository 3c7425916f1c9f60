// A header that launches kernels.

#pragma once

#include "settings/scale.h"

using Function = float (*)(float);

__device__ float doubled(float x) {
    return scale * x;
}
__device__ Function device_function = doubled;

__global__ void apply(float* x, int n, Function function) {
    const int i = threadIdx.x;
    if (i < n) x[i] = function(x[i]);
}

inline void apply_to_all(float* x, int n) {
    Function function;
    cudaMemcpyFromSymbol(&function, device_function, sizeof(function));
    apply<<<1, n>>>(x, n, function);
}
