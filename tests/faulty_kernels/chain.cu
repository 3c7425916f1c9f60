// Each block waits for the one before it, and reads what the first one wrote: it knows of that
// through all blocks between.
// Fault: a block hands its flag on without a fence, and with it no more than its own number.

template <bool faulty>
__global__ void chain(int* value, volatile int* flag, int* result) {
    if (threadIdx.x != 0) return;
    const int block = static_cast<int>(blockIdx.x);
    if (block == 0) {
        *value = 42;
        __threadfence();
    } else {
        while (flag[block - 1] == 0) __nanosleep(20);
        if (!faulty || block == static_cast<int>(gridDim.x) - 1) __threadfence();
    }
    flag[block] = 1;
    if (block == static_cast<int>(gridDim.x) - 1) *result = *value;
}
