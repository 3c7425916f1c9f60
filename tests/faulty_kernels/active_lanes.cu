// No fault: count the odd values with a single atomic for the lanes in a branch.

__global__ void count_odd(const int* x, int n, int* count, int* atomics) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] % 2) {
        const unsigned active = __activemask();
        if (static_cast<int>(threadIdx.x % warpSize) == __ffs(active) - 1) {
            atomicAdd(count, __popc(active));
            atomicAdd(atomics, 1);
        }
    }
    __syncwarp();
    if (i < n) atomicAdd(atomics, __activemask() == 0);
}
