// Shift 32 values in shared memory by one place, by one warp; the last one stays.
// Fault: trusts the lanes of a warp to run in step, as they did before Volta.

template <bool faulty>
__global__ void shift(int* x) {
    __shared__ int values[32];
    values[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    const int next = values[min(threadIdx.x + 1, 31)];
    if (!faulty) __syncwarp();
    values[threadIdx.x] = next;
    __syncwarp();
    x[threadIdx.x] = values[threadIdx.x];
}
