// Double n values.
// Fault on GPUs before Volta: threads without a value return before the block's barrier.

template <bool faulty>
__global__ void double_values(int* x, int n) {
    const bool has_value = static_cast<int>(threadIdx.x) < n;
    if (faulty && !has_value) return;
    const int value = has_value ? x[threadIdx.x] : 0;
    __syncthreads();
    if (has_value) x[threadIdx.x] = 2 * value;
}
