// Element-wise product of two sparse matrices in coordinate form: the kernels of the source.
//
// Problem. As in coo_multiply.cu, for study: the kernels that the source describes, in its order.
// No operand has two entries in a place, and all values are finite. The entries of A may be in
// any order, and the products are in the order of A.
//
//     linear       version 1, chapter 4: for each entry of A, search B from start to finish, once
//                  to count and once to multiply. B may be in any order, too
//     scratchpad   the first attempt, chapter 3: one linear search, whose products wait in shared
//                  memory until all blocks have counted their products
//     binary       version 2, chapter 5: as version 1; B is sorted, and the search is binary
//     even         the proposal of section 5.3: one search, which stores the matches; then each
//                  block multiplies an equal number of matches
//
// Mapping. A tile of the source is a block here. Each block has an equal part of A, or of the
// matches in `multiply_matches`; each thread searches B for an entry of this part at a time. With
// one thread a block is what the source's tile is, a core. A block writes after the results of all
// blocks before it: it sums their counts. The blocks of `find_matches` have `threads` entries
// each, and look back instead (look_back.cuh).
//
// Shared memory. The totals of warps; scratchpad: the results of a block.
//
// Cost, for m and n entries with k matches. linear reads 2 m n keys, scratchpad m n, binary
// 2 m log n, even m log n. In the best case each match reads six numbers and writes three.
// scratchpad has one launch and a barrier of the grid, so the shared memory of all resident
// blocks must hold its results. even writes and reads 32 bytes more for each match.
//
// Source. M. Cupp, "Element-Wise Multiplication Kernel" (2020).

#include "coo.cuh"
#include "grid.cuh"

/// The arrays of the result.
template <class T, class Index>
struct Result {
    Index* rows;
    Index* columns;
    T* products;

    __device__ __forceinline__ void put(long long i, Index row, Index column, T product) const {
        rows[i] = row;
        columns[i] = column;
        products[i] = product;
    }
};

// ---- search -----------------------------------------------------------------------------

/// Version 1 of the source: all entries, from start to finish.
struct LinearSearch {
    template <class Keys>
    static __device__ __forceinline__ long long find(const Keys& keys, long long count,
                                                     long long key) {
        long long place = not_found;
        for (long long i = 0; i < count; ++i)
            if (keys[i] == key) place = i;
        return place;
    }
};

/// Version 2 of the source: binary search in sorted entries.
struct BinarySearch {
    template <class Keys>
    static __device__ __forceinline__ long long find(const Keys& keys, long long count,
                                                     long long key) {
        const long long i = lower_bound(keys, 0, count, key);
        return i < count && keys[i] == key ? i : not_found;
    }
};

/// This block's part of `count` elements, [start, stop). Parts differ by at most 1 element.
struct Part {
    long long start, stop;

    __device__ explicit Part(long long count)
        : start(blockIdx.x * count / gridDim.x), stop((blockIdx.x + 1ll) * count / gridDim.x) {}
};

/// Where this block writes its first result: after the results of the blocks before it.
__device__ __forceinline__ long long first_result(const long long* counts) {
    __shared__ long long before;
    if (threadIdx.x == 0) {
        before = 0;
        for (unsigned block = 0; block < blockIdx.x; ++block) before += counts[block];
    }
    __syncthreads();
    return before;
}

/// Call `take(slot, row, column, i, j)` for each match of this block's part of A: entry i of A, in
/// this row and column, and j of B, numbered from 0 in their order. Returns their number.
template <class Search, int threads, class Index, class Take>
__device__ __forceinline__ long long for_each_match(const Keys<Index>& a, long long a_count,
                                                    const Keys<Index>& b, long long b_count,
                                                    Take take) {
    __shared__ BlockScan<Count>::Storage storage;
    BlockScan<Count> block_scan(storage);
    const Part part(a_count);
    long long matches = 0;
    for (long long start = part.start; start < part.stop; start += threads) {
        const long long i = start + threadIdx.x;
        Index row = 0, column = 0;
        long long j = not_found;
        if (i < part.stop) {
            row = a.rows[i];
            column = a.columns[i];
            j = Search::find(b, b_count, row * a.width() + column);
        }
        int found = j != not_found, before = 0;
        if constexpr (threads > 1) before = block_scan.exclusive(found, found);
        if (j != not_found) take(matches + before, row, column, i, j);
        matches += found;
    }
    return matches;
}

// ---- versions 1 and 2: search to count, and search again to multiply ------------------------

/// counts[block] = the number of entries of its part of A that are in B.
template <class Index, class Search, int threads>
__global__ void __launch_bounds__(threads)
    count_found(const Index* a_rows, const Index* a_columns, long long a_count, const Index* b_rows,
                const Index* b_columns, long long b_count, long long width, long long* counts) {
    const Keys<Index> a{a_rows, a_columns, width}, b{b_rows, b_columns, width};
    const Part part(a_count);
    long long found = 0;
    for (long long i = part.start + threadIdx.x; i < part.stop; i += threads)
        found += Search::find(b, b_count, a[i]) != not_found;
    if constexpr (threads > 1) {
        __shared__ BlockReduce<long long>::Storage storage;
        found = BlockReduce<long long>(storage)(found, Add<long long>());
    }
    if (threadIdx.x == 0) counts[blockIdx.x] = found;
}

/// Repeats the search and writes the products. The grid must be the grid of `count_found`.
template <class T, class Index, class Search, int threads>
__global__ void __launch_bounds__(threads)
    multiply_found(const Index* a_rows, const Index* a_columns, const T* a_values,
                   long long a_count, const Index* b_rows, const Index* b_columns,
                   const T* b_values, long long b_count, long long width, const long long* counts,
                   Index* rows, Index* columns, T* products) {
    const Keys<Index> a{a_rows, a_columns, width}, b{b_rows, b_columns, width};
    const Result<T, Index> result{rows, columns, products};
    const long long first = first_result(counts);
    for_each_match<Search, threads>(
        a, a_count, b, b_count,
        [=](long long slot, Index row, Index column, long long i, long long j) {
            result.put(first + slot, row, column, wrapping_multiply(a_values[i], b_values[j]));
        });
}

// ---- the first attempt: products wait in shared memory --------------------------------------

/// The shared memory holds `places` results of a block. counts[block] = the number of its
/// matches; matches beyond `places` are lost. `arrived` is zero before the launch. All blocks
/// must be resident at the same time.
template <class T, class Index, int threads>
__global__ void __launch_bounds__(threads)
    multiply_in_scratchpad(const Index* a_rows, const Index* a_columns, const T* a_values,
                           long long a_count, const Index* b_rows, const Index* b_columns,
                           const T* b_values, long long b_count, long long width, long long places,
                           long long* counts, unsigned long long* arrived, Index* rows,
                           Index* columns, T* products) {
    const Keys<Index> a{a_rows, a_columns, width}, b{b_rows, b_columns, width};
    T* const waiting = reinterpret_cast<T*>(dynamic_shared_memory());
    Index* const waiting_rows = reinterpret_cast<Index*>(waiting + places);
    const Result<T, Index> scratchpad{waiting_rows, waiting_rows + places, waiting};
    const long long matches = for_each_match<LinearSearch, threads>(
        a, a_count, b, b_count,
        [=](long long slot, Index row, Index column, long long i, long long j) {
            if (slot < places)
                scratchpad.put(slot, row, column, wrapping_multiply(a_values[i], b_values[j]));
        });
    if (threadIdx.x == 0) counts[blockIdx.x] = matches;
    GridBarrier(arrived).wait();

    const Result<T, Index> result{rows, columns, products};
    const long long first = first_result(counts);
    for (long long k = threadIdx.x; k < matches && k < places; k += threads)
        result.put(first + k, scratchpad.rows[k], scratchpad.columns[k], scratchpad.products[k]);
}

// ---- section 5.3: one search, then even multiplications -------------------------------------

/// The positions of a pair of equal keys.
struct Match {
    long long a, b;
};

/// Writes all matches, in the order of A, and reports their number. `states`: the counter that
/// tiles are taken from, then the words of each tile; all zero before the launch.
template <class Index, int threads>
__global__ void __launch_bounds__(threads)
    find_matches(const Index* a_rows, const Index* a_columns, long long a_count,
                 const Index* b_rows, const Index* b_columns, long long b_count, long long width,
                 unsigned long long* states, ProductReport* report, Match* matches) {
    __shared__ BlockScan<Count>::Storage storage;
    __shared__ long long shared_tile, shared_before;
    const Keys<Index> a{a_rows, a_columns, width}, b{b_rows, b_columns, width};
    if (threadIdx.x == 0) shared_tile = static_cast<long long>(atomicAdd(states, 1ull));
    __syncthreads();
    const long long tile = shared_tile, i = tile * threads + threadIdx.x;
    const long long j = i < a_count ? BinarySearch::find(b, b_count, a[i]) : not_found;
    int found;
    const int slot = BlockScan<Count>(storage).exclusive(j != not_found, found);
    if (warp_index() == 0) {
        const long long before = results_before(states + 1, tile, found, report);
        if (lane_index() == 0) shared_before = before;
    }
    __syncthreads();
    if (j != not_found) matches[shared_before + slot] = {i, j};
}

/// The products of all matches. Each block multiplies an equal part of them.
template <class T, class Index, int threads>
__global__ void __launch_bounds__(threads, min_blocks_per_multiprocessor)
    multiply_matches(const Match* matches, long long count, const Index* a_rows,
                     const Index* a_columns, const T* a_values, const T* b_values, Index* rows,
                     Index* columns, T* products) {
    const Result<T, Index> result{rows, columns, products};
    const Part part(count);
    for (long long k = part.start + threadIdx.x; k < part.stop; k += threads) {
        const auto [i, j] = matches[k];
        result.put(k, a_rows[i], a_columns[i], wrapping_multiply(a_values[i], b_values[j]));
    }
}
