// All threads wait in a barrier three times.
// Fault on GPUs before Volta: the second warp waits only twice, and returns.

template <bool faulty>
__global__ void wait_three_times(int* x) {
    const int times = faulty && threadIdx.x >= 32 ? 2 : 3;
    for (int i = 0; i < times; ++i) __syncthreads();
    x[threadIdx.x] = 1;
}
