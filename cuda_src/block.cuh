// Reductions by one warp and by one block.
//
// Every function is called by all threads of its warp or block, in uniform control flow.
// A block is one-dimensional and a multiple of 32 threads. No function assumes that the
// threads of a warp run in lockstep: values are exchanged by shuffles or across a barrier.

#pragma once

#include "thread.cuh"

constexpr unsigned whole_warp = 0xffffffffu;

/// The dynamic shared memory of the launch.
__device__ __forceinline__ unsigned char* dynamic_shared_memory() {
    extern __shared__ __align__(16) unsigned char shared_memory[];
    return shared_memory;
}

// ---- operators: associative, commutative, with an identity --------------------------

template <class T>
struct Add {
    static __device__ __forceinline__ T identity() { return T(0); }
    __device__ __forceinline__ T operator()(T a, T b) const { return a + b; }
};

/// Maximum of non-negative values.
template <class T>
struct MaxMagnitude {
    static __device__ __forceinline__ T identity() { return T(0); }
    __device__ __forceinline__ T operator()(T a, T b) const { return a < b ? b : a; }
};

/// A value and its index; the index is -1 without a value.
template <class T>
struct Located {
    T value;
    int index;
};

/// The larger value; of equal values, the value with the smaller index.
template <class T>
struct ArgMax {
    static __device__ __forceinline__ Located<T> identity() { return {T(0), -1}; }
    __device__ __forceinline__ Located<T> operator()(Located<T> a, Located<T> b) const {
        const bool is_before = a.value == b.value ? a.index < b.index : !(a.value < b.value);
        return a.index >= 0 && (b.index < 0 || is_before) ? a : b;
    }
};

// ---- warp ---------------------------------------------------------------------------

template <class T>
__device__ __forceinline__ T shuffle_xor(T value, int distance) {
    return __shfl_xor_sync(whole_warp, value, distance);
}

template <class T>
__device__ __forceinline__ Located<T> shuffle_xor(Located<T> a, int distance) {
    return {shuffle_xor(a.value, distance), shuffle_xor(a.index, distance)};
}

constexpr int warp_steps = warp_threads == 1 ? 0 : 5;
static_assert(1 << warp_steps == warp_threads);

/// The reduction of the values of every `width` lanes, with the same bits in each of them.
template <int unrolled = warp_steps, class T, class Op>
__device__ __forceinline__ T warp_reduce(T value, Op op, int width = warp_threads) {
#pragma unroll unrolled
    for (int distance = width / 2; distance > 0; distance /= 2)
        value = op(value, shuffle_xor(value, distance));
    return value;
}

#if __CUDA_ARCH__ >= 800
/// The largest of 32 values, by keys in the order of the values: their high bits, then their low
/// bits, then the indices. An instruction reduces 32 bits of all lanes.
template <int unrolled = warp_steps, class T>
__device__ __forceinline__ Located<T> warp_reduce(Located<T> one, ArgMax<T>, int = warp_threads) {
    constexpr int top = 1 << 31;
    const long long bits = __double_as_longlong(one.value + 0.0);  // -0 becomes 0
    const int negative = static_cast<int>(bits >> 63);
    const bool exists = one.index >= 0;
    const unsigned high = exists ? static_cast<int>(bits >> 32) ^ (negative | top) : 0;
    const unsigned low = static_cast<int>(bits) ^ negative;
    const unsigned highest = __reduce_max_sync(whole_warp, high);
    const unsigned lowest = __reduce_max_sync(whole_warp, high == highest ? low : 0);
    const bool is_largest = high == highest && low == lowest;
    const int index = __reduce_min_sync(whole_warp, is_largest && exists ? one.index : ~0u);
    const int inverse = ~(static_cast<int>(highest) >> 31);
    const T value = __hiloint2double(highest ^ (inverse | top), lowest ^ inverse);
    return {index < 0 ? T(0) : value, index};
}
#endif

// ---- block --------------------------------------------------------------------------

/// The reduction of one value per thread, with the same bits in every thread. `partial` has an
/// element for each warp.
template <int unrolled = warp_steps, class T, class Op>
__device__ __forceinline__ T block_reduce(T value, T* partial, Op op) {
    value = warp_reduce<unrolled>(value, op);
    if (lane_index() == 0) partial[warp_index()] = value;
    __syncthreads();
    value = lane_index() < warp_count() ? partial[lane_index()] : Op::identity();
    return warp_reduce<unrolled>(value, op);
}

/// Reductions over a block of any size, by shuffles, with one barrier each.
///
/// The partial results of the warps are double-buffered in `Storage`: a thread that is already
/// in the next reduction writes to the other half.
template <class T>
class BlockReduce {
  public:
    struct Storage {
        T partial[2 * max_warps];
    };

    __device__ explicit BlockReduce(Storage& storage) : storage_(storage) {}

    /// The reduction of one value per thread, with the same bits in every thread.
    template <class Op>
    __device__ T operator()(T value, Op op) {
        return block_reduce(value, next(), op);
    }

    /// Memory for the partial results of the next reduction.
    __device__ T* next() {
        begin_ = max_warps - begin_;
        return storage_.partial + begin_;
    }

  private:
    Storage& storage_;
    int begin_ = 0;
};

/// The operator `Op`, with reductions that are called, and neither inlined nor unrolled: a kernel
/// with many reductions is compiled faster and has less code.
template <class Op>
struct Called : Op {};

template <class T, class Op>
__device__ __noinline__ T warp_reduce(T value, Called<Op>, int width = warp_threads) {
    return warp_reduce<1>(value, Op(), width);
}

template <class T, class Op>
__device__ __noinline__ T block_reduce(T value, T* partial, Called<Op>) {
    if (warp_threads == 1) return value;
    value = warp_reduce(value, Called<Op>());
    if (lane_index() == 0) partial[warp_index()] = value;
    __syncthreads();
    const int width = 1 << (32 - __clz(warp_count() - 1)), warp = lane_index() & (width - 1);
    value = warp < warp_count() ? partial[warp] : Op::identity();
    return warp_reduce(value, Called<Op>(), width);
}

/// The reduction of 512 values in shared memory, by 512 threads, in every thread. The operator
/// commutes: it combines values that are 256, 128, ... apart.
///
/// Algorithm 4 of Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on
/// Multi-Core Architectures". The last steps of the paper assume that a warp runs in lockstep,
/// which is not guaranteed since Volta: here each step reads, waits at a barrier of the warp,
/// and writes. `BlockReduce` needs one barrier instead of five, and takes any number of warps;
/// this function is kept for study and measurement, as a variant of `reduce`.
template <class T, class Op>
__device__ T reduce512(T* values, int thread, Op op) {
    __syncthreads();
    for (int half = 256; half > warp_threads; half /= 2) {
        if (thread < half) values[thread] = op(values[thread], values[thread + half]);
        __syncthreads();
    }
    if (thread < warp_threads) {
        for (int half = warp_threads; half > 0; half /= 2) {
            const T other = values[thread + half];
            __syncwarp();
            values[thread] = op(values[thread], other);
            __syncwarp();
        }
    }
    __syncthreads();
    return values[0];
}

// ---- many reductions by one block ---------------------------------------------------

/// Reduces term(o, i) over i < length for most o < outputs, `count` of them at once. Returns the
/// first of the others.
template <class T, int count, class Op, class Term, class Store>
__device__ int reduce_together(int outputs, int length, Op op, Term term, Store store) {
    int first = 0;
    for (; first + count <= outputs; first += count) {
        T result[count];
        for (T& one : result) one = Op::identity();
        for (int i = 0; i < length; ++i)
            for (int q = 0; q < count; ++q) result[q] = op(result[q], term(first + q, i));
        for (int q = 0; q < count; ++q) store(first + q, result[q]);
    }
    return first;
}

/// Reduces term(o, i) over i < length for every o < outputs; one thread calls
/// store(o, result).
///
/// Two mappings. One warp per output: its lanes stride over i, then shuffle; best if
/// neighbouring i are contiguous in memory, or if there are few outputs. One thread per output:
/// neighbouring threads read neighbouring o; best if those are contiguous. A thread loads
/// `in_flight` terms at once. On a CPU, the only thread reads 16 neighbouring o together. Ends
/// without a barrier.
template <class T, int in_flight = 4, class Op, class Term, class Store>
__device__ void reduce_each(int outputs, int length, bool outputs_contiguous, Op op, Term term,
                            Store store) {
    int done = 0;
    if constexpr (warp_threads == 1)
        done = reduce_together<T, 16>(outputs, length, op, term, store);
    const bool by_warp = !(outputs_contiguous && outputs >= static_cast<int>(blockDim.x) / 2);
    const int workers = by_warp ? warp_count() : blockDim.x;
    const int first = by_warp ? lane_index() : 0, step = by_warp ? warp_threads : 1;
    for (int o = done + (by_warp ? warp_index() : threadIdx.x); o < outputs; o += workers) {
        T result = Op::identity();
#pragma unroll in_flight
        for (int i = first; i < length; i += step) result = op(result, term(o, i));
        if (by_warp) result = warp_reduce(result, op);
        if (!by_warp || lane_index() == 0) store(o, result);
    }
}
