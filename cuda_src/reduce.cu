// Reduction of each row of a matrix, by any monoid, in six ways.
//
//     reduce : (a -> a -> a) -> a -> [n]a -> a       for an associative operator
//     [x0, x1, ...] becomes identity + x0 + x1 + ...
//
// Problem. `rows` contiguous rows of `length` elements. `reduce_tree`, `reduce_group` and
// `reduce_by_reduce512` write shorter rows, and are launched until rows have one element;
// `reduce_chunked` is launched at most twice, `reduce_atomic` once. Tree, group and chunked keep
// the order of the elements, so the operator need not commute.
//
// Cost. n operations. Reads n elements. The intermediate levels write and read again: 2 n
// elements for the tree, n / 128 for groups, n / 256 for groups of 512, very few for chunks.
//
// Source. Oancea & Henriksen, "Basic Blocks of Data-Parallel Programming" (2019), "Four
// implementations of summing": binary tree, reduction by the group size, Brent's lemma,
// an atomic for each element. For operators that do not commute it proposes a "sliding
// window": see `fold_window`. Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on
// Multi-Core Architectures" (2011), Algorithm 4: reduce512.

#include "monoid.cuh"
#include "ordered.cuh"
#include "pack.cuh"

// ---- tree: each thread combines two neighbours --------------------------------------

template <class Monoid>
__global__ void reduce_tree(const typename Monoid::Value* x, long long rows, long long length,
                            typename Monoid::Value* y) {
    const long long pairs = (length + 1) / 2;
    const long long i = thread_of_grid();
    if (i >= rows * pairs) return;
    const long long row = i / pairs;
    const long long left = 2 * (i - row * pairs);
    const typename Monoid::Value* row_of_x = x + row * length;
    y[i] = left + 1 < length ? Monoid()(row_of_x[left], row_of_x[left + 1]) : row_of_x[left];
}

// ---- group: each block combines one element per thread ------------------------------

/// The element of each thread if each block has blockDim.x neighbours of one row.
struct ElementOfThread {
    long long row, column, length;

    __device__ explicit ElementOfThread(long long length) : length(length) {
        const long long groups = (length + blockDim.x - 1) / blockDim.x;
        row = blockIdx.x / groups;
        column = (blockIdx.x - row * groups) * blockDim.x + threadIdx.x;
    }

    __device__ bool exists() const { return column < length; }
    __device__ long long index() const { return row * length + column; }
};

template <class Monoid>
__global__ void reduce_group(const typename Monoid::Value* x, long long length,
                             typename Monoid::Value* y) {
    using Value = typename Monoid::Value;
    __shared__ typename BlockScan<Monoid>::Storage storage;
    const ElementOfThread own(length);
    const Value value = own.exists() ? x[own.index()] : Monoid::identity();
    const Value result = BlockScan<Monoid>(storage).fold(value);
    if (threadIdx.x == 0) y[blockIdx.x] = result;
}

// ---- reduce512: groups of 512, by the tree of Luo & Duraiswami in shared memory -----

template <class Monoid>
__global__ void __launch_bounds__(512)
    reduce_by_reduce512(const typename Monoid::Value* x, long long length,
                        typename Monoid::Value* y) {
    static_assert(Monoid::commutative, "reduce512 combines elements that are 256 apart");
    __shared__ typename Monoid::Value values[512];
    const ElementOfThread own(length);
    values[threadIdx.x] = own.exists() ? x[own.index()] : Monoid::identity();
    const typename Monoid::Value result = reduce512(values, threadIdx.x, Monoid());
    if (threadIdx.x == 0) y[blockIdx.x] = result;
}

// ---- chunked: enough chunks to fill the device --------------------------------------

template <class Monoid, class Map>
__device__ __forceinline__ typename Monoid::Value fold_pack(const Pack<typename Map::Input>& pack) {
    typename Monoid::Value result = Map()(pack.values[0]);
#pragma unroll
    for (int k = 1; k < pack_size<typename Map::Input>; ++k)
        result = Monoid()(result, Map()(pack.values[k]));
    return result;
}

/// The value that a lane combines with its result, for a window of the warp. If the operator
/// commutes, the lane folds its own elements. Otherwise lane 0 gets the whole window, folded in
/// order, so that all elements are combined in memory order; other lanes' values are not used.
template <class Monoid>
__device__ __forceinline__ typename Monoid::Value fold_window(typename Monoid::Value own) {
    return Monoid::commutative ? own : warp_fold<Monoid>(own);
}

/// The map of the lane's element if it is among the first `count`, else the identity.
template <class Monoid, class Map>
__device__ __forceinline__ typename Monoid::Value element_of_lane(const typename Map::Input* x,
                                                                  long long count) {
    return lane_index() < count ? Map()(x[lane_index()]) : Monoid::identity();
}

/// `result` combined with windows * 32 contiguous packs, beginning at x. All packs are read before
/// the first is folded.
template <class Monoid, class Map, int windows>
__device__ __forceinline__ typename Monoid::Value fold_windows(typename Monoid::Value result,
                                                               const typename Map::Input* x) {
    using Input = typename Map::Input;
    constexpr int size = pack_size<Input>;
    const Input* own = x + lane_index() * size;
    Pack<Input> packs[windows];
#pragma unroll
    for (int k = 0; k < windows; ++k) packs[k] = read_pack<size>(own + k * warp_threads * size);
#pragma unroll
    for (int k = 0; k < windows; ++k)
        result = Monoid()(result, fold_window<Monoid>(fold_pack<Monoid, Map>(packs[k])));
    return result;
}

/// The reduction of x[begin:end], in lane 0. Called by one warp, which slides a window over the
/// elements; each lane has a pack of the window. The elements before the first aligned pack and
/// after the last whole window are read singly, an element per lane.
template <class Monoid, class Map>
__device__ typename Monoid::Value fold_chunk(const typename Map::Input* x, long long begin,
                                             long long end) {
    using Input = typename Map::Input;
    constexpr int size = pack_size<Input>, window = warp_threads * size, windows = 4;
    typename Monoid::Value result = Monoid::identity();
    if (begin >= end) return result;
    x += begin;
    long long left = end - begin;

    if (!is_aligned<size>(x)) {
        const auto past = reinterpret_cast<size_t>(x) % pack_bytes;
        const long long whole_pack = (pack_bytes - past) / sizeof(Input);
        const long long front = whole_pack < left ? whole_pack : left;
        result = fold_window<Monoid>(element_of_lane<Monoid, Map>(x, front));
        x += front;
        left -= front;
    }
    for (; left >= windows * window; left -= windows * window, x += windows * window)
        result = fold_windows<Monoid, Map, windows>(result, x);
    for (; left >= window; left -= window, x += window)
        result = fold_windows<Monoid, Map, 1>(result, x);
    for (; left > 0; left -= warp_threads, x += warp_threads)
        result = Monoid()(result, fold_window<Monoid>(element_of_lane<Monoid, Map>(x, left)));
    return Monoid::commutative ? warp_fold<Monoid>(result) : result;
}

/// The same for a map of several arrays, of which each lane has one number at a time.
template <class Monoid, class Map, class... More>
__device__ typename Monoid::Value fold_chunk_of_arrays(long long begin, long long end,
                                                       const typename Map::Input* x,
                                                       const More*... more) {
    using Value = typename Monoid::Value;
    constexpr int windows = 4;
    Value result = Monoid::identity();
    for (long long start = begin; start < end; start += windows * warp_threads) {
        Value values[windows];  // loads in flight
#pragma unroll
        for (int k = 0; k < windows; ++k) {
            const long long i = start + k * warp_threads + lane_index();
            values[k] = i < end ? Map()(x[i], more[i]...) : Monoid::identity();
        }
#pragma unroll
        for (int k = 0; k < windows; ++k) result = Monoid()(result, fold_window<Monoid>(values[k]));
    }
    return Monoid::commutative ? warp_fold<Monoid>(result) : result;
}

/// y[row, c] = reduction of the c-th chunk of the row, for every c < chunks. A team folds a
/// chunk: one warp, or all warps of a block. Each warp folds a part of `part` elements.
template <class Monoid, class Map, class... More>
__global__ void reduce_chunked(const typename Map::Input* x, long long rows, long long length,
                               long long part, long long chunks, bool block_is_team,
                               typename Monoid::Value* y, const More*... more) {
    using Value = typename Monoid::Value;
    __shared__ Value folded[max_warps];
    const int team = block_is_team ? warp_count() : 1;
    const long long index = block_is_team
                                ? blockIdx.x
                                : static_cast<long long>(blockIdx.x) * warp_count() + warp_index();
    const bool active = index < rows * chunks;
    Value result = Monoid::identity();
    if (active) {
        const long long row = chunks == 1 ? index : index / chunks;
        const long long begin =
            ((index - row * chunks) * team + (block_is_team ? warp_index() : 0)) * part;
        const long long end = begin + part < length ? begin + part : length;
        if constexpr (sizeof...(More) == 0)
            result = fold_chunk<Monoid, Map>(x + row * length, begin, end);
        else
            result = fold_chunk_of_arrays<Monoid, Map>(begin, end, x + row * length,
                                                       (more + row * length)...);
    }
    if (!block_is_team) {
        if (active && lane_index() == 0) y[index] = result;
        return;
    }
    if (lane_index() == 0) folded[warp_index()] = result;
    __syncthreads();
    if (warp_index() > 0) return;
    result = warp_fold<Monoid>(lane_index() < team ? folded[lane_index()] : Monoid::identity());
    if (lane_index() == 0) y[index] = result;
}

// ---- atomic: all threads, or all warps, update one cell ------------------------------

/// *cell = *cell + value, by an atomic addition of the hardware.
struct AtomicAdd {
    template <class Monoid, class T>
    static __device__ void update(T* cell, T value) {
        atomicAdd(cell, value);
    }

    /// The addition wraps, so it is the same for signed and unsigned numbers.
    template <class Monoid>
    static __device__ void update(long long* cell, long long value) {
        atomicAdd(reinterpret_cast<unsigned long long*>(cell),
                  static_cast<unsigned long long>(value));
    }
};

/// *cell = *cell + value for any operator: compare and swap, repeated until other threads have not
/// changed the cell in between. The element is in the first bytes of a word.
struct CompareAndSwap {
    template <class Monoid>
    static __device__ void update(typename Monoid::Value* cell,
                                  const typename Monoid::Value& value) {
        using Value = typename Monoid::Value;
        using Word = unsigned long long;
        Word* word = reinterpret_cast<Word*>(cell);
        Word seen = *static_cast<volatile Word*>(word), expected;
        do {
            expected = seen;
            Value combined;
            memcpy(&combined, &expected, sizeof(Value));
            combined = Monoid()(combined, value);
            Word desired = expected;
            memcpy(&desired, &combined, sizeof(Value));
            seen = atomicCAS(word, expected, desired);
        } while (seen != expected);
    }
};

/// `cells`: a word of 8 bytes for each row, which has the identity before the launch. Only for
/// commutative operators on elements of at most 8 bytes. No block belongs to two rows. A warp
/// folds its elements before it updates the cell, or each thread updates the cell.
template <class Monoid, class Map, class Update, bool by_warp, class... More>
__global__ void reduce_atomic(const typename Map::Input* x, long long length,
                              unsigned long long* cells, const More*... more) {
    using Value = typename Monoid::Value;
    static_assert(Monoid::commutative && sizeof(Value) <= sizeof(unsigned long long),
                  "atomics are in any order, and on one word");
    const ElementOfThread own(length);
    Value value = own.exists() ? Map()(x[own.index()], more[own.index()]...) : Monoid::identity();
    if (by_warp) value = warp_fold<Monoid>(value);
    if (by_warp ? lane_index() == 0 : own.exists())
        Update::template update<Monoid>(reinterpret_cast<Value*>(cells + own.row), value);
}
