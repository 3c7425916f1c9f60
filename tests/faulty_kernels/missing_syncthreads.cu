// Reverse each block's part of x through shared memory.
// Fault: no barrier between a block's writes and its reads.

template <bool faulty>
__global__ void reverse_block(const int* x, int* y) {
    __shared__ int part[256];
    const int start = blockIdx.x * blockDim.x;
    part[threadIdx.x] = x[start + threadIdx.x];
    if (!faulty) __syncthreads();
    y[start + threadIdx.x] = part[blockDim.x - 1 - threadIdx.x];
}
