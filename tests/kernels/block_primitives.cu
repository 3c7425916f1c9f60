// The primitives of block.cuh, one kernel for each, so that tests can see their answers.

#include "block.cuh"

/// One block of 512 threads: sums[t] is what thread t gets.
template <class T>
__global__ void sum_by_reduce512(const T* values, T* sums) {
    __shared__ T shared[512];
    shared[threadIdx.x] = values[threadIdx.x];
    sums[threadIdx.x] = reduce512(shared, threadIdx.x);
}

/// Sums and maxima of two arrays in turn, many times over: the storage is used again without a
/// barrier in between. Thread t of block k answers at k * blockDim.x + t.
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

/// Where the largest of `count` values first stands, told by every thread.
template <class T>
__global__ void first_maximum(const T* values, int count, int* where) {
    __shared__ typename BlockReduce<Located<T>>::Storage storage;
    BlockReduce<Located<T>> reduce(storage);
    Located<T> best = ArgMax<T>::identity();
    for (int i = threadIdx.x; i < count; i += blockDim.x) best = ArgMax<T>()(best, {values[i], i});
    where[threadIdx.x] = reduce(best, ArgMax<T>()).index;
}

/// Row sums of a matrix, by either mapping.
template <class T>
__global__ void row_sums(const T* matrix, int rows, int columns, int outputs_contiguous, T* sums) {
    reduce_each<T>(
        rows, columns, outputs_contiguous != 0, Add<T>(),
        [&](int o, int i) { return matrix[o * columns + i]; },
        [&](int o, T sum) { sums[o] = sum; });
}
