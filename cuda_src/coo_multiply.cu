// Element-wise product of two sparse matrices in coordinate form.
//
// Problem. An entry is a key and a value; the key is row * width + column, in 64 bits (the
// source has 32 bits, which overflow from 46341 x 46341 on). The keys of both operands are
// strictly increasing. If a key is in both, the product of the values goes to the result. The
// number of matches, and the position of each in the result, is known only after the search.
//
// Four methods to search:
//
//     linear, binary   the two kernels of the source, which search twice: to count, to multiply
//     merge, gallop    what the source proposes at its end: one search, whose matches are kept;
//                      a scan of their counts; work that does not depend on where matches are
//
// Mapping.
// - linear, binary. Each block has an equal part of A; each thread searches B for one key of
//   this part. A block writes after the matches of all blocks before it; it sums their counts.
// - merge. The merge path of both lists of keys has one step per key; every block has
//   `threads * items` steps and every thread `items`. `split_path` finds where blocks begin.
// - gallop. A thread has `items` neighbours of the shorter list. It finds the first in the
//   longer list by binary search, the others by galloping from the previous position.
// - `multiply_matches`. A block multiplies the matches that one block of the search has kept.
//
// Shared memory. merge: the keys of a tile, the positions of its matches. All: the totals of
// warps.
//
// Cost, for m and n entries with k matches. Reads m + n rows and columns and writes their keys.
// linear 2 m n, binary 2 m log n reads of keys, in two launches. merge m + n reads; gallop
// m + 2 m log(n / m), if m is the shorter list; both write and read k pairs of positions, in
// three launches and a scan of the counts, and allocate (m + n) / 2 pairs, or m. All read 2 k
// values and write k entries: each match is multiplied once. Before that the host looks for
// values that are not finite in all m + n, and afterwards for zeros in the k products.
//
// Source. M. Cupp, "Element-Wise Multiplication Kernel" (2020), chapters 4 and 5; the merge path
// of merge_path.cuh.

#include "merge_path.cuh"
#include "monoid.cuh"
#include "ordered.cuh"

constexpr long long no_key = -1;
constexpr long long not_found = -1;

/// Minimum resident blocks per multiprocessor of `find_by_merge`, for `__launch_bounds__`;
/// without it the compiler spills.
constexpr int merge_blocks_per_multiprocessor = 4;

// ---- keys ---------------------------------------------------------------------------

/// keys[i] = rows[i] * width + columns[i]. Sets `disorder` unless these strictly increase.
template <class Index>
__global__ void make_keys(const Index* rows, const Index* columns, long long count, long long width,
                          long long* keys, int* disorder) {
    const long long i = thread_of_grid();
    if (i >= count) return;
    const long long key = rows[i] * width + columns[i];
    keys[i] = key;
    if (i > 0 && rows[i - 1] * width + columns[i - 1] >= key) atomicOr(disorder, 1);
}

/// The arrays of the result.
template <class T, class Index>
struct Result {
    long long width;
    Index* rows;
    Index* columns;
    T* products;

    __device__ __forceinline__ void put(long long i, long long key, T product) const {
        const long long row = key / width;
        rows[i] = static_cast<Index>(row);
        columns[i] = static_cast<Index>(key - row * width);
        products[i] = product;
    }
};

// ---- searches -----------------------------------------------------------------------

/// The first position in [start, stop) whose key is not less than `key`; else `stop`.
__device__ __forceinline__ long long lower_bound(const long long* keys, long long start,
                                                 long long stop, long long key) {
    return partition_point(start, stop, [=](long long i) { return keys[i] < key; });
}

/// The same in [start, count). The time grows with the logarithm of the distance from `start`.
__device__ __forceinline__ long long gallop(const long long* keys, long long start, long long count,
                                            long long key) {
    long long step = 1;
    while (step <= count - start && keys[start + step - 1] < key) {
        start += step;
        step *= 2;
    }
    return lower_bound(keys, start, step <= count - start ? start + step - 1 : count, key);
}

// ---- two searches: linear, binary ---------------------------------------------------

/// Version 1 of the source: one key after the other.
struct LinearSearch {
    static __device__ __forceinline__ long long find(const long long* keys, long long count,
                                                     long long key) {
        for (long long i = 0; i < count; ++i)
            if (keys[i] == key) return i;
        return not_found;
    }
};

/// Version 2 of the source: binary search.
struct BinarySearch {
    static __device__ __forceinline__ long long find(const long long* keys, long long count,
                                                     long long key) {
        const long long i = lower_bound(keys, 0, count, key);
        return i < count && keys[i] == key ? i : not_found;
    }
};

/// This block's part of A, [start, stop).
struct Part {
    long long start, stop;

    __device__ explicit Part(long long count)
        : start(blockIdx.x * count / gridDim.x), stop((blockIdx.x + 1ll) * count / gridDim.x) {}
};

/// counts[block] = the number of keys of its part of A that are in B.
template <class Search, int threads>
__global__ void __launch_bounds__(threads)
    count_found(const long long* a_keys, long long a_count, const long long* b_keys,
                long long b_count, long long* counts) {
    __shared__ BlockReduce<long long>::Storage storage;
    const Part part(a_count);
    long long found = 0;
    for (long long i = part.start + threadIdx.x; i < part.stop; i += threads)
        found += Search::find(b_keys, b_count, a_keys[i]) != not_found;
    const long long total = BlockReduce<long long>(storage)(found, Add<long long>());
    if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

/// Repeats the search and writes the products. The grid must be that of `count_found`.
template <class T, class Index, class Search, int threads>
__global__ void __launch_bounds__(threads)
    multiply_found(const long long* a_keys, const T* a_values, long long a_count,
                   const long long* b_keys, const T* b_values, long long b_count,
                   const long long* counts, long long width, Index* rows, Index* columns,
                   T* products) {
    __shared__ BlockScan<Count>::Storage storage;
    BlockScan<Count> block_scan(storage);
    const Result<T, Index> result{width, rows, columns, products};
    const Part part(a_count);
    long long written = 0;
    for (unsigned block = 0; block < blockIdx.x; ++block) written += counts[block];
    for (long long start = part.start; start < part.stop; start += threads) {
        const long long i = start + threadIdx.x;
        const long long j = i < part.stop ? Search::find(b_keys, b_count, a_keys[i]) : not_found;
        int found;
        const int before = block_scan.exclusive(j != not_found, found);
        if (j != not_found)
            result.put(written + before, a_keys[i], wrapping_multiply(a_values[i], b_values[j]));
        written += found;
    }
}

// ---- one search: merge, gallop ------------------------------------------------------

/// The most matches of a tile of the merge path: each is a step in B, and no two matches are in
/// successive steps.
template <int threads, int items>
constexpr int most_matches = (threads * items + 1) / 2;

/// splits[tile] = the number of steps before the tile that take a key of A, for tiles + 1 tiles.
template <int threads, int items>
__global__ void split_path(const long long* a_keys, long long a_count, const long long* b_keys,
                           long long b_count, long long tiles, long long* splits) {
    split_into_tiles(a_keys, a_count, b_keys, b_count, threads * items, tiles, splits);
}

/// The positions in A and in B of the tile's matches, stored from index tile * most_matches on,
/// and their number.
template <int threads, int items>
__global__ void __launch_bounds__(threads, merge_blocks_per_multiprocessor)
    find_by_merge(const long long* a_keys, long long a_count, const long long* b_keys,
                  long long b_count, const long long* splits, long long* in_a, long long* in_b,
                  long long* counts) {
    constexpr int tile_size = threads * items;
    constexpr int capacity = most_matches<threads, items>;
    __shared__ long long keys[1 + tile_size];
    __shared__ int found_in_a[capacity], found_in_b[capacity];
    __shared__ BlockScan<Count>::Storage storage;
    const MergeTile tile = tile_of_block<tile_size>(splits, a_count + b_count);
    const int steps = tile.a_count + tile.b_count;

    // The key of A of the first match may be in the tile before.
    long long* const a = keys + 1;
    long long* const b = a + tile.a_count;
    if (threadIdx.x == 0) a[-1] = tile.a > 0 ? a_keys[tile.a - 1] : no_key;
    for (int i = threadIdx.x; i < tile.a_count; i += threads) a[i] = a_keys[tile.a + i];
    for (int j = threadIdx.x; j < tile.b_count; j += threads) b[j] = b_keys[tile.b + j];
    __syncthreads();

    const int first = threadIdx.x * items < steps ? threadIdx.x * items : steps;
    int i = merge_path(a, tile.a_count, b, tile.b_count, first);
    int j = first - i;
    int matches = 0;
    int taken_of_a[items];
    bool is_match[items];
#pragma unroll
    for (int k = 0; k < items; ++k) {
        const bool inside = first + k < steps;
        const bool takes_a = i < tile.a_count && (j >= tile.b_count || a[i] <= b[j]);
        is_match[k] = inside && !takes_a && a[i - 1] == b[j];
        taken_of_a[k] = i;
        matches += is_match[k];
        if (takes_a)
            ++i;
        else
            ++j;
    }

    int found;
    int slot = BlockScan<Count>(storage).exclusive(matches, found);
#pragma unroll
    for (int k = 0; k < items; ++k) {
        if (!is_match[k]) continue;
        found_in_a[slot] = taken_of_a[k] - 1;
        found_in_b[slot] = first + k - taken_of_a[k];
        ++slot;
    }
    __syncthreads();
    const long long kept = static_cast<long long>(blockIdx.x) * capacity;
    for (int k = threadIdx.x; k < found; k += threads) {
        in_a[kept + k] = tile.a + found_in_a[k];
        in_b[kept + k] = tile.b + found_in_b[k];
    }
    if (threadIdx.x == 0) counts[blockIdx.x] = found;
}

/// The positions in both lists of the matches of a tile of the shorter list, stored from index
/// tile * threads * items on, and their number.
template <int threads, int items>
__global__ void __launch_bounds__(threads)
    find_by_gallop(const long long* short_keys, long long short_count, const long long* long_keys,
                   long long long_count, long long* in_short, long long* in_long,
                   long long* counts) {
    __shared__ BlockScan<Count>::Storage storage;
    const long long tile = static_cast<long long>(blockIdx.x) * threads * items;
    const long long first = tile + threadIdx.x * items;
    long long place = 0;
    long long position[items];
    int matches = 0;
#pragma unroll
    for (int k = 0; k < items; ++k) {
        position[k] = not_found;
        if (first + k >= short_count) continue;
        const long long key = short_keys[first + k];
        place = k == 0 ? lower_bound(long_keys, 0, long_count, key)
                       : gallop(long_keys, place, long_count, key);
        if (place < long_count && long_keys[place] == key) position[k] = place;
        matches += position[k] != not_found;
    }
    int found;
    long long slot = tile + BlockScan<Count>(storage).exclusive(matches, found);
#pragma unroll
    for (int k = 0; k < items; ++k) {
        if (position[k] == not_found) continue;
        in_short[slot] = first + k;
        in_long[slot] = position[k];
        ++slot;
    }
    if (threadIdx.x == 0) counts[blockIdx.x] = found;
}

/// The products of the matches that are stored from index tile * capacity on. `before` is the
/// exclusive scan of the tiles' counts, followed by their sum.
template <class T, class Index>
__global__ void multiply_matches(const long long* in_a, const long long* in_b, long long capacity,
                                 const long long* before, const long long* a_keys,
                                 const T* a_values, const T* b_values, long long width, Index* rows,
                                 Index* columns, T* products) {
    const Result<T, Index> result{width, rows, columns, products};
    const long long kept = blockIdx.x * capacity;
    const long long start = before[blockIdx.x], count = before[blockIdx.x + 1] - start;
    for (long long k = threadIdx.x; k < count; k += blockDim.x) {
        const long long i = in_a[kept + k], j = in_b[kept + k];
        result.put(start + k, a_keys[i], wrapping_multiply(a_values[i], b_values[j]));
    }
}
