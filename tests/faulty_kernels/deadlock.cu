// The number of true values of a warp.
// Fault: odd lanes wait for a barrier of the block, and even lanes wait for the odd lanes.

template <bool faulty>
__global__ void count_true(const int* x, int* count) {
    if (faulty && threadIdx.x % 2 == 1) __syncthreads();
    const unsigned votes = __ballot_sync(0xffffffffu, x[threadIdx.x]);
    if (faulty && threadIdx.x % 2 == 0) __syncthreads();
    count[threadIdx.x] = __popc(votes);
}
