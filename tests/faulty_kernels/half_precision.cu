// No fault: numbers of 16 bits, one row of `out` for each operation.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/// Of three numbers, and of them as pairs.
template <class T>
__global__ void calculate(const T* a, const T* b, const T* c, T* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        out[i] = a[i] + b[i];
        out[n + i] = a[i] - b[i];
        out[2 * n + i] = a[i] * b[i];
        out[3 * n + i] = a[i] / b[i];
        T sum = a[i];
        sum += 1.0f;
        out[4 * n + i] = -sum;
        out[5 * n + i] = __hlt(a[i], b[i]) && a[i] != b[i] ? 1 : 0;
        out[6 * n + i] = hsqrt(a[i]);
        out[7 * n + i] = __hfma(a[i], b[i], c[i]);
    }
}

template <class Pair>
__global__ void calculate_pairs(const Pair* a, const Pair* b, const Pair* c, Pair* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        out[i] = a[i] + b[i];
        out[n + i] = __hfma2(a[i], b[i], c[i]);
        out[2 * n + i] = __hmax2(a[i], b[i]);
        out[3 * n + i] = __lowhigh2highlow(a[i]);
        atomicAdd(&out[4 * n], __hge2(a[i], b[i]));
    }
}
