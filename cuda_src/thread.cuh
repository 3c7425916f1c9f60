// Indices of a thread: in its warp, its block and its grid.
//
// A block is one-dimensional and a multiple of 32 threads.

#pragma once

constexpr int warp_threads = 32;
constexpr int max_warps = 32;

__device__ __forceinline__ int lane_index() {
    return threadIdx.x % warp_threads;
}

__device__ __forceinline__ int warp_index() {
    return threadIdx.x / warp_threads;
}

/// Warps of a block.
__device__ __forceinline__ int warp_count() {
    return blockDim.x / warp_threads;
}

__device__ __forceinline__ long long thread_of_grid() {
    return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ long long warp_of_grid() {
    return static_cast<long long>(blockIdx.x) * warp_count() + warp_index();
}
