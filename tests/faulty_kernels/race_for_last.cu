// No fault, but the answer hangs on how the blocks interleave: who wrote last, and when.

__global__ void race_for_last(int* last, int* history) {
    if (threadIdx.x != 0) return;
    for (int round = 0; round < 8; ++round) {
        atomicExch(last, static_cast<int>(blockIdx.x));
        history[blockIdx.x * 8 + round] = atomicAdd(last, 0);
    }
}
