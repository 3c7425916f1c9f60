// No fault: the sum of x, the number of positive values, the number of visits of each value and
// the number of values of each block, for grids and blocks of up to three dimensions.

__device__ int linear_index(const uint3& index, const dim3& size) {
    return index.x + size.x * (index.y + size.y * index.z);
}

template <class T>
__global__ void sum(const T* x, long long x_stride, int n, T* total, unsigned* positive,
                    int* visits, int* blocks) {
    __shared__ T partial[32];
    const int threads = blockDim.x * blockDim.y * blockDim.z;
    const int block = linear_index(blockIdx, gridDim);
    const int thread = linear_index(threadIdx, blockDim);
    const int i = block * threads + thread;
    const bool has_value = i < n;
    T value = has_value ? x[i * x_stride] : T(0);
    if (has_value) atomicAdd(&visits[i], 1);

    const unsigned votes = __ballot_sync(0xffffffffu, value > 0);
    if (thread % 32 == 0) atomicAdd(positive, __popc(votes));
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_down_sync(0xffffffffu, value, distance);
    if (thread % 32 == 0) partial[thread / 32] = value;
    const int counted = __syncthreads_count(has_value);
    if (thread >= 32) return;
    value = thread < threads / 32 ? partial[thread] : T(0);
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    if (thread == 0) {
        atomicAdd(total, value);
        blocks[block] = counted;
    }
}
