// The block that finishes last sums the results of all blocks.
// Fault: without fences it may read results that are not written yet.

template <bool faulty>
__global__ void sum(const int* x, int* partial, unsigned* done, int* total) {
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = 2 * x[blockIdx.x];
        if (!faulty) __threadfence();
        is_last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;
        if (!faulty) __threadfence();
    }
    __syncthreads();
    if (!is_last || threadIdx.x != 1) return;
    int result = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) result += partial[i];
    *total = result;
}
