// All threads wait in a barrier.
// Fault: the two halves of the block wait in different barriers.

template <bool faulty>
__global__ void wait_in_halves(int* x) {
    if (faulty && threadIdx.x < blockDim.x / 2) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    x[threadIdx.x] = 1;
}
