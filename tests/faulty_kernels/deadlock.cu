// Each half of a warp counts its true values.
// Fault: odd lanes wait for their block, while even ones wait for them.

template <bool faulty>
__global__ void count_true(const int* x, int* count) {
    if (faulty && threadIdx.x % 2 == 1) __syncthreads();
    const unsigned votes = __ballot_sync(0xffffffffu, x[threadIdx.x]);
    if (faulty && threadIdx.x % 2 == 0) __syncthreads();
    count[threadIdx.x] = __popc(votes);
}
