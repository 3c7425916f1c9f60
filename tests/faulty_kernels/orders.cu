// No fault, but what these kernels write depends on the order of threads and blocks.

__device__ int linear_index(const uint3& index, const dim3& size) {
    return index.x + size.x * (index.y + size.y * index.z);
}

/// The visits of n elements, and the number of elements of each block, for grids and blocks of up
/// to three dimensions.
__global__ void visit(int n, int* visits, int* counted) {
    const int block = linear_index(blockIdx, gridDim),
              threads = blockDim.x * blockDim.y * blockDim.z;
    const int i = block * threads + linear_index(threadIdx, blockDim);
    if (i < n) atomicAdd(&visits[i], 1);
    counted[block] = __syncthreads_count(i < n);
}

/// The order in which the threads of each block run, one row of x for each block.
__global__ void arrival(int* x) {
    __shared__ int arrived;
    if (threadIdx.x == 0) arrived = 0;
    __syncthreads();
    x[blockIdx.x * blockDim.x + atomicAdd(&arrived, 1)] = threadIdx.x;
}

/// The last writer, read 8 times by each block.
__global__ void race_for_last(int* last, int* history) {
    if (threadIdx.x != 0) return;
    for (int round = 0; round < 8; ++round) {
        atomicExch(last, static_cast<int>(blockIdx.x));
        history[blockIdx.x * 8 + round] = atomicAdd(last, 0);
    }
}

/// Pairs of lanes exchange values several times, without waiting for other pairs.
__global__ void exchange_in_pairs(int* x, int rounds) {
    const unsigned pair = 3u << (threadIdx.x & ~1u);
    int value = x[threadIdx.x];
    for (int round = 0; round < rounds + static_cast<int>(threadIdx.x) / 2; ++round)
        value = __shfl_xor_sync(pair, value, 1) + 1;
    x[threadIdx.x] = value;
}

__device__ int read(int* x, bool by_atomics) {
    return by_atomics ? atomicAdd(x, 0) : *static_cast<volatile int*>(x);
}

/// Each block waits for the block before it, and thread 0 for the last thread; by atomics, or by a
/// plain loop on a volatile word, in which the emulator does not switch to another block.
template <bool by_atomics>
__global__ void one_by_one(int* next_block, int* sequence) {
    __shared__ int arrived;
    if (threadIdx.x == 0) {
        while (read(next_block, by_atomics) != static_cast<int>(blockIdx.x)) {
        }
        sequence[blockIdx.x] = *next_block;
        arrived = 0;
        __threadfence();
    }
    __syncthreads();
    if (threadIdx.x + 1 == blockDim.x) atomicExch(&arrived, 1);
    if (threadIdx.x != 0) return;
    while (read(&arrived, by_atomics) == 0) {
    }
    atomicAdd(next_block, 1);
}
