// Kernels in the style of courses: with CUDA's headers, shared arrays of any name, and
// cooperative groups.

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

__device__ int reduce(const cg::thread_group& group, int* work, int value) {
    const int rank = group.thread_rank();
    for (int half = group.size() / 2; half > 0; half /= 2) {
        work[rank] = value;
        group.sync();
        if (rank < half) value += work[rank + half];
        cg::sync(group);
    }
    return value;
}

/// sums[0] is the sum of the block, sums[1 + i] the sum of its i-th tile of 8, computed in two
/// ways.
__global__ void sum_of_groups(const int* x, int* sums) {
    __shared__ __align__(16) int work[128];
    const cg::thread_block block = cg::this_thread_block();
    const int value = x[block.thread_rank()];
    const int total = reduce(block, work, value);
    if (block.thread_rank() == 0) sums[0] = total;

    const auto tile = cg::tiled_partition<8>(block);
    int by_shuffles = value;
    for (int half = tile.size() / 2; half > 0; half /= 2)
        by_shuffles += tile.shfl_down(by_shuffles, half);
    const cg::thread_group group = cg::tiled_partition(block, 8);
    const int by_memory = reduce(group, work + 8 * tile.meta_group_rank(), value);
    const bool agree = tile.shfl(by_shuffles, 0) == tile.shfl(by_memory, 0);
    const bool ballot = tile.ballot(tile.thread_rank() < 3) == 7 && tile.any(1) && !tile.all(0);
    if (tile.thread_rank() == 0)
        sums[1 + tile.meta_group_rank()] = agree && ballot ? by_shuffles : -1;
}

/// The nanoseconds that a barrier took.
__global__ void time_of_a_barrier(long long* elapsed) {
    const long long start = clock64();
    __syncthreads();
    if (threadIdx.x == 0) *elapsed = clock64() - start;
}

// ---- overruns of shared memory ----------------------------------------------------------

/// Fault: writes `excess` elements past the end.
__global__ void fill_tile(int excess, int* y) {
    __shared__ int tile[64];
    for (int i = threadIdx.x; i < 64 + excess; i += blockDim.x) tile[i] = i;
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x];
}

/// The same, followed by other shared memory.
__global__ void fill_both(int excess, int* y) {
    extern __shared__ int more[];
    __shared__ int table[64];
    more[threadIdx.x] = 1;
    for (int i = threadIdx.x; i < 64 + excess; i += blockDim.x) table[i] = i;
    __syncthreads();
    y[threadIdx.x] = table[threadIdx.x] + more[blockDim.x - 1 - threadIdx.x];
}

/// Fault: writes `excess` elements past the end of dynamic memory.
__global__ void fill_dynamic(int excess, int* y) {
    extern __shared__ int more[];
    __shared__ int table[64];
    table[threadIdx.x] = 0;
    for (int i = threadIdx.x; i < blockDim.x + excess; i += blockDim.x) more[i] = i;
    __syncthreads();
    y[threadIdx.x] = table[threadIdx.x] + more[threadIdx.x];
}
