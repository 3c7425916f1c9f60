// Steps of a grid: each block writes an element, and reads the next block's.
// Faults: no wait for all blocks between the write and the read, or between the read and the
// next write. A block that waits for an earlier step may see a later count of arrivals.

__device__ void wait_for_all(int* arrived, int& awaited) {
    awaited += static_cast<int>(gridDim.x);
    __threadfence();
    atomicAdd(arrived, 1);
    while (*static_cast<volatile int*>(arrived) < awaited) __nanosleep(20);
    __threadfence();
}

template <bool waits_before_read, bool waits_after_read>
__global__ void pass_on(int* x, int steps, int* arrived) {
    int awaited = 0;
    wait_for_all(arrived, awaited);
    for (int step = 0; step < steps; ++step) {
        x[blockIdx.x] += 1;
        if (waits_before_read) wait_for_all(arrived, awaited);
        const int next = x[(blockIdx.x + 1) % gridDim.x];
        if (waits_after_read) wait_for_all(arrived, awaited);
        x[blockIdx.x] += next;
        wait_for_all(arrived, awaited);
    }
}
