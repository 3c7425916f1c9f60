// Steps of a grid: each thread writes an element, and reads an element of the next block.
// Faults: no wait for all blocks between the write and the read, or between the read and the
// next write. A block that waits for an earlier step may see a later count of arrivals.

__device__ void wait_for_all(int* arrived, int& awaited) {
    awaited += static_cast<int>(gridDim.x);
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        while (*static_cast<volatile int*>(arrived) < awaited) __nanosleep(20);
        __threadfence();
    }
    __syncthreads();
}

template <bool waits_before_read, bool waits_after_read>
__global__ void pass_on(int* x, int steps, int* arrived) {
    const unsigned own = blockIdx.x * blockDim.x + threadIdx.x, count = gridDim.x * blockDim.x;
    int awaited = 0;
    wait_for_all(arrived, awaited);
    for (int step = 0; step < steps; ++step) {
        x[own] += 1;
        if (waits_before_read) wait_for_all(arrived, awaited);
        const int next = x[(own + blockDim.x + 1) % count];
        if (waits_after_read) wait_for_all(arrived, awaited);
        x[own] += next;
        wait_for_all(arrived, awaited);
    }
}
