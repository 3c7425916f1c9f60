// Neighbouring lanes swap their values.
// Fault: every lane calls the shuffle, but the mask has the lower half only.

template <bool faulty>
__global__ void swap_neighbours(int* x) {
    const unsigned mask = faulty ? 0x0000ffffu : 0xffffffffu;
    x[threadIdx.x] = __shfl_xor_sync(mask, x[threadIdx.x], 1);
}
