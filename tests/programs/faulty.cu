// Programs with a fault each, which the first argument names. Without an argument: no fault.

#include <cstdio>
#include <cstring>
#include <vector>

__global__ void fill(float* x, int n, float value) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = value;
}

__global__ void shift(float* x, int n) {
    const int i = threadIdx.x;
    if (i < n - 1) x[i] = x[i + 1];
}

__global__ void read_before(float* x) {
    x[threadIdx.x] = x[static_cast<int>(threadIdx.x) - 1];
}

int main(int count, char** values) {
    const char* fault = count > 1 ? values[1] : "none";
    const auto is = [=](const char* name) { return std::strcmp(fault, name) == 0; };
    const int n = 64;
    std::vector<float> host(n);
    float* x;
    cudaMalloc(&x, n * sizeof(float));
    std::puts("before the launch");
    fill<<<1, n>>>(is("null") ? nullptr : x, n, 1.0f);
    if (is("before")) read_before<<<1, n>>>(x);
    if (is("unwritten")) {
        float *whole, *half;
        cudaMalloc(&whole, n * sizeof(float));
        cudaMalloc(&half, n * sizeof(float));
        cudaMemset(half, 0, n / 2 * sizeof(float));
        cudaMemcpy(whole, half, n * sizeof(float), cudaMemcpyDeviceToDevice);
        shift<<<1, n / 2 - 1>>>(whole, n);
        shift<<<1, n>>>(whole, n);
    }
    if (is("host")) fill<<<1, n>>>(host.data(), n, 1.0f);
    if (is("block")) {
        fill<<<1, 2048>>>(x, n, 1.0f);
        return cudaGetLastError() == cudaErrorInvalidConfiguration ? 8 : 6;
    }
    if (is("copy")) cudaMemcpy(host.data(), x, 2 * n * sizeof(float), cudaMemcpyDeviceToHost);
    if (is("direction")) cudaMemcpy(host.data(), x, n, cudaMemcpyHostToDevice);
    if (is("freed")) {
        cudaFree(x);
        fill<<<1, n>>>(x, n, 1.0f);
    }
    if (is("twice")) {
        cudaFree(x);
        return cudaFree(x) == cudaErrorInvalidValue ? 5 : 6;
    }
    if (is("status")) return 7;
    std::puts("at the end");
}
