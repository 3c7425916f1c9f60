// Indices of a thread: in its warp, its block and its grid; indices for the threads of a block.
//
// A block is one-dimensional and a multiple of 32 threads. On a CPU it is one thread, and a warp
// has one lane: see cpu/cuda.h.

#pragma once

#ifndef WARP_THREADS
#define WARP_THREADS 32
#endif
constexpr int warp_threads = WARP_THREADS;
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

/// Calls body(i) for every i < count, in some thread of the block. The elements begin at `start`
/// in an array: after the first few elements, a warp has 32 elements from a multiple of 32 on, so
/// that its requests are for full sectors.
template <class Body>
__device__ __forceinline__ void for_each_aligned(long long start, int count, Body body) {
    const int to_next = -static_cast<unsigned>(start) % warp_threads;
    const int first = to_next < count ? to_next : count;
    const int thread = threadIdx.x, threads = blockDim.x;
    if (thread < first) body(thread);
    for (int i = first + thread; i < count; i += threads) body(i);
}
