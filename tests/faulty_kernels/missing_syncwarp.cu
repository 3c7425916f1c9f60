// One warp shifts 32 values in shared memory by one; the last value stays.
// Fault: assumes that the lanes of a warp run in lockstep, as they did before Volta.

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
