// Each block waits for the flag of the block before it. The last block reads the value of the
// first block. The chain of flags and fences orders the write before the read.
// Fault: the blocks between set their flags without a fence, which breaks the chain.

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
