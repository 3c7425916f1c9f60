// What CUDA 13 has removed from CUDA 12 and before: names, members of cudaDeviceProp, and functions
// of warps without a mask. nvcc includes it before each program.

#pragma once

#if CUDART_VERSION >= 13000 && defined(__cplusplus)

#define cudaThreadExit cudaDeviceReset
#define cudaThreadSynchronize cudaDeviceSynchronize

struct EmulatorDeviceProp : cudaDeviceProp {
    int clockRate, memoryClockRate, deviceOverlap, computeMode, kernelExecTimeoutEnabled;
    int maxTexture1DLinear, singleToDoublePrecisionPerfRatio, cooperativeMultiDeviceLaunch;
};

static inline cudaError_t cudaGetDeviceProperties(EmulatorDeviceProp* found, int device) {
    *found = {};
    found->clockRate = found->memoryClockRate = 1000000;
    found->deviceOverlap = 1;
    return cudaGetDeviceProperties(static_cast<cudaDeviceProp*>(found), device);
}

#define cudaDeviceProp EmulatorDeviceProp

static inline cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, int) {
    return cudaSuccess;
}
static inline cudaError_t cudaMemPrefetchAsync(const void*, size_t, int, cudaStream_t = nullptr) {
    return cudaSuccess;
}

// The host's code still has declarations of these.
#if defined(__CUDA_ARCH__)
template <class T>
static __device__ T __shfl(T value, int lane, int width = 32) {
    return __shfl_sync(__activemask(), value, lane, width);
}
template <class T>
static __device__ T __shfl_up(T value, unsigned distance, int width = 32) {
    return __shfl_up_sync(__activemask(), value, distance, width);
}
template <class T>
static __device__ T __shfl_down(T value, unsigned distance, int width = 32) {
    return __shfl_down_sync(__activemask(), value, distance, width);
}
template <class T>
static __device__ T __shfl_xor(T value, int lanes, int width = 32) {
    return __shfl_xor_sync(__activemask(), value, lanes, width);
}
#define __ballot(value) __ballot_sync(__activemask(), value)
#endif

#endif
