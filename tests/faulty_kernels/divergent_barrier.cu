// Wait in a barrier, or in two.
// Fault: the two halves of the block wait in different ones.

template <bool faulty>
__global__ void wait_in_halves(int* x) {
    if (faulty && threadIdx.x < blockDim.x / 2) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    x[threadIdx.x] = 1;
}
