// Add a bias, kept in shared memory, to x.
// Faults: no thread writes the bias; the last value is left out.

template <class T, bool faulty>
__global__ void add_bias(const T* x, T* y, int n, T bias) {
    extern __shared__ __align__(16) unsigned char shared_memory[];
    __shared__ T kept;
    T* doubled = reinterpret_cast<T*>(shared_memory);
    if (!faulty && threadIdx.x == 0) {
        kept = bias;
        doubled[0] = 2 * bias;
    }
    __syncthreads();
    const int last = faulty ? n - 1 : n;
    for (int i = threadIdx.x; i < last; i += blockDim.x)
        y[i] = x[i] + (i % 2 == 0 ? kept : doubled[0]);
}
