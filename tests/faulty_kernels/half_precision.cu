// No fault: half precision, one row of `out` for each operation.

#include <cuda_fp16.h>

__global__ void from_float(const float* x, __half* y, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = __float2half(x[i]);
}

__global__ void to_float(const __half* x, float* y, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = __half2float(x[i]);
}

__global__ void calculate(const __half* a, const __half* b, __half* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        out[i] = a[i] + b[i];
        out[n + i] = a[i] - b[i];
        out[2 * n + i] = a[i] * b[i];
        out[3 * n + i] = a[i] / b[i];
        __half sum = a[i];
        sum += -b[i];
        out[4 * n + i] = sum;
        out[5 * n + i] = __hlt(a[i], b[i]) && a[i] != b[i] ? 1.0f : 0.0f;
    }
}
