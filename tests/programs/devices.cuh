// Copies from one device to another. It returns how many devices there are, or 100 after an error.

#pragma once

#include <cstdio>

namespace devices {

__global__ void fill(int* x, int value) {
    x[threadIdx.x] = value;
}

inline int run() {
    int count = 0, can_access = 0, device = -1;
    cudaGetDeviceCount(&count);
    if (cudaSetDevice(count) != cudaErrorInvalidDevice) return 100;
    cudaDeviceCanAccessPeer(&can_access, 0, 1);
    if (can_access != (count > 1)) return 100;
    if (count == 1) return cudaDeviceEnablePeerAccess(1, 0) == cudaErrorInvalidDevice ? 1 : 100;
    int *first, *second, found[32];
    cudaMalloc(&first, sizeof(found));
    fill<<<1, 32>>>(first, 7);
    cudaSetDevice(1);
    cudaGetDevice(&device);
    if (device != 1 || cudaDeviceEnablePeerAccess(0, 0) != cudaSuccess) return 100;
    cudaMalloc(&second, sizeof(found));
    cudaMemcpyPeer(second, 1, first, 0, sizeof(found));
    fill<<<1, 1>>>(first, 5);
    cudaMemcpy(found, second, sizeof(found), cudaMemcpyDefault);
    std::printf("%d %d\n", found[0], found[31]);
    return count;
}

}  // namespace devices
