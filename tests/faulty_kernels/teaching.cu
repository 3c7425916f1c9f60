// Kernels in the style of courses: with CUDA's headers, and shared arrays of any name.

#include <cuda_runtime.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

/// y is x reversed, by one block, through dynamic shared memory declared as an array of T.
template <class T>
__global__ void reverse(const T* x, T* y) {
    extern __shared__ T buf[];
    buf[threadIdx.x] = x[threadIdx.x];
    cg::this_thread_block().sync();
    y[threadIdx.x] = buf[blockDim.x - 1 - threadIdx.x];
}

/// The nanoseconds that a barrier took.
__global__ void time_of_a_barrier(long long* elapsed) {
    const long long start = clock64();
    __syncthreads();
    if (threadIdx.x == 0) *elapsed = clock64() - start;
}

// ---- overruns of shared memory ----------------------------------------------------------

/// Fault: writes `excess` elements past the end, where other shared memory follows.
__global__ void fill_both(int excess, int* y) {
    extern __shared__ int more[];
    __shared__ int table[64];
    more[threadIdx.x] = 1;
    for (int i = threadIdx.x; i < 64 + excess; i += blockDim.x) table[i] = i;
    __syncthreads();
    y[threadIdx.x] = table[threadIdx.x] + more[blockDim.x - 1 - threadIdx.x];
}
