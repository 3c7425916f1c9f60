// No fault: the order in which the threads of each block run, one row of x for each block.

__global__ void arrival(int* x) {
    __shared__ int arrived;
    if (threadIdx.x == 0) arrived = 0;
    __syncthreads();
    x[blockIdx.x * blockDim.x + atomicAdd(&arrived, 1)] = threadIdx.x;
}
