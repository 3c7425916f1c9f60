// Names of CUDA 12 and before. It returns the number of the first check that fails, or 0.

#pragma once

namespace older_api {

__global__ void sum_lanes(int* sums) {
    int sum = threadIdx.x;
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down(sum, distance);
    int same = threadIdx.x;
    for (int lanes = 16; lanes > 0; lanes /= 2) same += __shfl_xor(same, lanes);
    if (threadIdx.x < 4) {
        sums[threadIdx.x] = threadIdx.x ? same : sum;
        sums[4 + threadIdx.x] = __ballot(threadIdx.x % 2) + __shfl(sum, 1) * 0 + __shfl_up(1, 1);
    }
}

inline int run() {
    struct cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    if (properties.clockRate < 1 || !properties.deviceOverlap || properties.warpSize != 32)
        return 1;
    int device = -1;
    if (cudaChooseDevice(&device, &properties) != cudaSuccess || device != 0) return 2;
    int *sums, found[8];
    cudaMalloc(&sums, sizeof(found));
    if (cudaMemAdvise(sums, sizeof(found), cudaMemAdviseSetReadMostly, device) ||
        cudaMemPrefetchAsync(sums, sizeof(found), device))
        return 4;
    sum_lanes<<<1, 32>>>(sums);
    cudaThreadSynchronize();
    cudaMemcpy(found, sums, sizeof(found), cudaMemcpyDeviceToHost);
    for (int k = 0; k < 4; ++k)
        if (found[k] != 496 || found[4 + k] != 0xa + 1) return 3;
    cudaThreadExit();
    return 0;
}

}  // namespace older_api
