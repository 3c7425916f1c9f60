// Reverse x through dynamic shared memory, which has one value for each thread.
// Fault: launched with one byte for each value.

__global__ void fill(int* x) {
    extern __shared__ __align__(16) unsigned char shared_memory[];
    int* values = reinterpret_cast<int*>(shared_memory);
    values[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = values[blockDim.x - 1 - threadIdx.x];
}
