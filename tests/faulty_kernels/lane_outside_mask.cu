// The lower half of a warp sums its values.
// Fault: the first step reads lanes 16 to 31, which are inactive.

template <bool faulty>
__global__ void sum_half(const int* x, int* total) {
    if (threadIdx.x >= 16) return;
    int sum = x[threadIdx.x];
    for (int distance = faulty ? 16 : 8; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(0x0000ffffu, sum, distance);
    if (threadIdx.x == 0) *total = sum;
}
