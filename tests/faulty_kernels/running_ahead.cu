// No fault: pairs of lanes exchange values several times, without waiting for other pairs.

__global__ void exchange_in_pairs(int* x, int rounds) {
    const unsigned pair = 3u << (threadIdx.x & ~1u);
    int value = x[threadIdx.x];
    for (int round = 0; round < rounds + static_cast<int>(threadIdx.x) / 2; ++round)
        value = __shfl_xor_sync(pair, value, 1) + 1;
    x[threadIdx.x] = value;
}
