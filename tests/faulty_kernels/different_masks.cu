// A bit mask of the true values of a warp.
// Fault: the two halves of the warp pass different masks that overlap.

template <bool faulty>
__global__ void which_true(const int* x, unsigned* votes) {
    const unsigned mask = faulty && threadIdx.x >= 16 ? 0xffff0001u : 0xffffffffu;
    votes[threadIdx.x] = __ballot_sync(mask, x[threadIdx.x]);
}
