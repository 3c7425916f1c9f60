// A program as textbooks have it: z = x + y, with a check on the host.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                  \
    do {                                                             \
        const cudaError_t error = call;                              \
        if (error != cudaSuccess) {                                  \
            std::fprintf(stderr, "%s\n", cudaGetErrorString(error)); \
            std::exit(2);                                            \
        }                                                            \
    } while (0)

__constant__ float factor[1];

template <class T>
__global__ void add(const T* x, const T* y, T* z, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = factor[0] * x[i] + y[i];
}

int main(int count, char** values) {
    const int n = count > 1 ? std::atoi(values[1]) : 1000;
    std::vector<float> x(n, 1.0f), y(n, 2.0f), z(n);
    const float two = 2;
    CHECK(cudaMemcpyToSymbol(factor, &two, sizeof(two)));
    float *d_x, *d_y, *d_z;
    CHECK(cudaMalloc(&d_x, n * sizeof(float)));
    CHECK(cudaMalloc(&d_y, n * sizeof(float)));
    CHECK(cudaMalloc((void**)&d_z, n * sizeof(float)));
    CHECK(cudaMemcpy(d_x, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_y, y.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    cudaEventRecord(start);
    const dim3 block(128);
    add<float><<<(n + 127) / 128, block>>>(d_x, d_y, d_z, n);
    cudaEventRecord(stop);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    float milliseconds;
    cudaEventElapsedTime(&milliseconds, start, stop);
    CHECK(cudaMemcpy(z.data(), d_z, n * sizeof(float), cudaMemcpyDeviceToHost));
    cudaFree(d_x);
    cudaFree(d_y);
    cudaFree(d_z);
    for (float value : z)
        if (value != 4) return 3;
    std::printf("%d sums are right\n", n);
    if (count == 3) std::exit(4);
}
