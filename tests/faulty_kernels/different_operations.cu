// Whether any value of a warp is true.
// Fault: the two halves of the warp call different functions.

template <bool faulty>
__global__ void any_true(const int* x, int* result) {
    if (faulty && threadIdx.x < 16)
        result[threadIdx.x] = __ballot_sync(0xffffffffu, x[threadIdx.x]) != 0;
    else
        result[threadIdx.x] = __any_sync(0xffffffffu, x[threadIdx.x]);
}
