// Kernels that test the primitives of block.cuh.

#include "block.cuh"

/// One block of 512 threads: sums[t] is the result in thread t.
template <class T>
__global__ void sum_by_reduce512(const T* values, T* sums) {
    __shared__ T shared[512];
    shared[threadIdx.x] = values[threadIdx.x];
    sums[threadIdx.x] = reduce512(shared, threadIdx.x, Add<T>());
}

/// Alternating sums and maxima, which reuse the storage without a barrier in between. Thread t of
/// block k writes its results at k * blockDim.x + t.
template <class T>
__global__ void sum_and_maximum(const T* values, int rounds, T* sums, T* maxima) {
    __shared__ typename BlockReduce<T>::Storage storage;
    BlockReduce<T> reduce(storage);
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    for (int round = 0; round < rounds; ++round) {
        const T value = values[t] + T(round);
        sums[t] = reduce(value, Add<T>());
        maxima[t] = reduce(value, MaxMagnitude<T>());
    }
}

/// The index of the first maximum of `count` values, written by every thread.
template <class T>
__global__ void first_maximum(const T* values, int count, int* indices) {
    __shared__ typename BlockReduce<Located<T>>::Storage storage;
    BlockReduce<Located<T>> reduce(storage);
    Located<T> best = ArgMax<T>::identity();
    for (int i = threadIdx.x; i < count; i += blockDim.x) best = ArgMax<T>()(best, {values[i], i});
    indices[threadIdx.x] = reduce(best, ArgMax<T>()).index;
}

/// Row sums of a matrix, with either mapping of `reduce_each`.
template <class T>
__global__ void row_sums(const T* matrix, int rows, int columns, int outputs_contiguous, T* sums) {
    reduce_each<T>(
        rows, columns, outputs_contiguous != 0, Add<T>(),
        [&](int o, int i) { return matrix[o * columns + i]; },
        [&](int o, T sum) { sums[o] = sum; });
}
