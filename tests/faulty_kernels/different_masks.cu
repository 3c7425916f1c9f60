// Which values of a warp are true.
// Fault: the halves name different lanes, each some of the other's.

template <bool faulty>
__global__ void which_true(const int* x, unsigned* votes) {
    const unsigned mask = faulty && threadIdx.x >= 16 ? 0xffff0001u : 0xffffffffu;
    votes[threadIdx.x] = __ballot_sync(mask, x[threadIdx.x]);
}
