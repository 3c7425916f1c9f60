// A sparse matrix times vectors, over any semiring: every entry is read once.
//
//     spmv : (a -> a -> a) -> (f -> f -> a) -> CSR [m, n]f -> [n]f -> [m]a
//     y[i] = sum over the entries k of row i, in their order, of values[k] * x[columns[k]]
//
// Problem. `Sum` is associative, with an identity for rows without entries; `Product` is any
// function of two numbers. Neither need be commutative. Rows may have any lengths, also 0 or
// all entries; the work of a block must not depend on them.
//
// Mapping. The merge path of the rows' ends and the entries' indices has m + nnz steps; each
// takes the next entry, or ends the next row once all its entries are taken. A tile is threads *
// items steps, and each block has one tile. `split_path` finds the row in which each tile
// begins. Each thread has `items` steps. The step in which row r ends follows from row_ends[r]
// alone, so a block sets one bit per row, in the word of the thread that has this step; a scan
// of the bit counts gives each thread the row in which it begins. A scan by the monoid lifted to
// segments then gives each thread the partial sum of that row from the threads before it. The
// partial sum of a row that continues after the tile is the tile's carry; `add_carries` adds the
// carries of each row that extends over several tiles, in their order. The partition does not
// depend on scheduling, and there are no atomic additions: every run gives the same bits.
//
// Shared memory. A value for each step of the tile: products of entries, results of rows. A word
// for each thread, the totals of the warps.
// Cost. Reads each entry, its column and each row's end once for all vectors of a block, gathers
// x, writes y; one carry for each tile and vector.
//
// Source. Merrill & Garland, "Merge-based Parallel Sparse Matrix-Vector Multiplication"
// (SC 2016), where each thread finds its place in the path by a binary search; rows by bits and
// scans by flags from Oancea & Henriksen, "Basic Blocks of Data-Parallel Programming" (2019).
// `multiply_entries` is a step of its flat-parallel form.

#include "merge_path.cuh"
#include "monoid.cuh"
#include "ordered.cuh"

// ---- numbers ------------------------------------------------------------------------

/// Converts a number to another type.
template <class To, class From>
struct Conversion {
    static __device__ __forceinline__ To of(const From& number) { return To(number); }
};
template <class To, class From>
struct Conversion<Complex<To>, Complex<From>> {
    static __device__ __forceinline__ Complex<To> of(const Complex<From>& number) {
        return {To(number.real), To(number.imaginary)};
    }
};

template <class To, class From>
__device__ __forceinline__ To converted(const From& number) {
    return Conversion<To, From>::of(number);
}

/// The product of an entry and its element of x, both converted first.
template <class Product, class Entry, class Number>
__device__ __forceinline__ typename Product::Value product(const Entry& entry,
                                                           const Number& number) {
    using Factor = typename Product::Value;
    return Product()(converted<Factor>(entry), converted<Factor>(number));
}

// ---- merge path ---------------------------------------------------------------------

/// The indices of the entries: the second sequence of the merge path, after the rows' ends.
struct EntryIndices {
    __device__ __forceinline__ long long operator[](long long k) const { return k; }
};

/// tile_rows[t] = the row in which tile t begins, for every t <= tiles: the number of rows
/// that end before it. Row r ends in step row_ends[r] + r.
template <class Index>
__global__ void split_path(const Index* row_ends, long long rows, int tile_size, long long tiles,
                           long long* tile_rows) {
    const long long entries = rows > 0 ? row_ends[rows - 1] : 0;
    split_into_tiles(row_ends, rows, EntryIndices(), entries, tile_size, tiles, tile_rows);
}

/// The steps of this thread in which a row ends, as bits. `words`: one for each thread.
template <int items, class Index>
__device__ unsigned row_ends_of_thread(const Index* row_ends, const MergeTile& tile,
                                       unsigned* words) {
    words[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < tile.a_count; i += blockDim.x) {
        const int step = static_cast<int>(row_ends[tile.a + i] - tile.b) + i;
        atomicOr(words + step / items, 1u << step % items);
    }
    __syncthreads();
    return words[threadIdx.x];
}

// ---- one pass -----------------------------------------------------------------------

/// y[v, i] for every row i that ends in the tile and every vector v; only the tile's part of the
/// first row. carries[v, tile] = the tile's part of the row that continues after it.
template <class Sum, class Product, class Entry, class Number, class Index, int threads, int items>
__global__ void __launch_bounds__(threads)
    multiply(const Index* row_ends, const Index* columns, const Entry* values, long long rows,
             long long steps, const long long* tile_rows, const Number* x, long long length,
             long long vectors, typename Sum::Value* y, typename Sum::Value* carries) {
    using Value = typename Sum::Value;
    using Partial = Segmented<Sum>;
    constexpr int tile_size = threads * items;
    static_assert(items <= 32, "the steps of a thread are bits of one word");
    __shared__ Value slots[tile_size];  // results of the rows, then products
    __shared__ unsigned words[threads];
    __shared__ BlockScan<Count>::Storage counts;
    __shared__ typename BlockScan<Partial>::Storage partials;
    BlockScan<Partial> scan_partials(partials);

    const MergeTile tile = tile_of_block<tile_size>(tile_rows, steps);
    const int ended_rows = tile.a_count, entries = tile.b_count;
    Index column[items];  // loads in flight while rows are found
    Entry value[items];
#pragma unroll
    for (int k = 0; k < items; ++k) {
        const int i = k * threads + threadIdx.x;
        if (i < entries) {
            column[k] = columns[tile.b + i];
            value[k] = values[tile.b + i];
        }
    }

    const unsigned row_ends_here = row_ends_of_thread<items>(row_ends, tile, words);
    int all_rows;
    const int first_row = BlockScan<Count>(counts).exclusive(__popc(row_ends_here), all_rows);
    const int first_entry = threadIdx.x * items - first_row;

    for (long long v = blockIdx.y; v < vectors; v += gridDim.y) {
        const Number* x_of_v = x + v * length;
#pragma unroll
        for (int k = 0; k < items; ++k) {
            const int i = k * threads + threadIdx.x;
            Value entry = Sum::identity();
            if (i < entries)
                entry = converted<Value>(product<Product>(value[k], x_of_v[column[k]]));
            if (ended_rows + i < tile_size) slots[ended_rows + i] = entry;
        }
        __syncthreads();

        Value sum = Sum::identity();
        Value* result = slots + first_row;
        const Value* entry = slots + ended_rows + first_entry;
#pragma unroll
        for (int k = 0; k < items; ++k) {
            if (row_ends_here >> k & 1) {
                *result++ = sum;
                sum = Sum::identity();
            } else {
                sum = Sum()(sum, *entry++);
            }
        }
        Flagged<Value> carry;
        const Flagged<Value> before = scan_partials.exclusive({sum, row_ends_here != 0}, carry);
        if (row_ends_here != 0) slots[first_row] = Sum()(before.value, slots[first_row]);
        if (threadIdx.x == 0) carries[v * gridDim.x + blockIdx.x] = carry.value;
        __syncthreads();

        Value* y_of_tile = y + v * rows + tile.a;
        for (int i = threadIdx.x; i < ended_rows; i += threads) y_of_tile[i] = slots[i];
    }
}

/// The first tile, before `tile`, that ends in the row in which `tile` begins.
__device__ __forceinline__ long long first_of_row(const long long* tile_rows, long long tile) {
    const long long row = tile_rows[tile];
    if (tile_rows[tile - 1] != row) return tile - 1;  // most common
    return partition_point(0ll, tile, [=](long long t) { return tile_rows[t + 1] < row; });
}

/// y[v, i] = carries of row i + y[v, i], for the first row that ends in each tile.
///
/// One warp per tile. The carries of a row belong to neighbouring tiles; the warp folds 32 at a
/// time.
template <class Sum>
__global__ void add_carries(const long long* tile_rows, long long tiles, long long rows,
                            const typename Sum::Value* carries, long long vectors,
                            typename Sum::Value* y) {
    using Value = typename Sum::Value;
    const long long tile = warp_of_grid();
    if (tile == 0 || tile >= tiles || tile_rows[tile] == tile_rows[tile + 1]) return;
    const long long first = first_of_row(tile_rows, tile);
    for (long long v = blockIdx.y; v < vectors; v += gridDim.y) {
        const Value* carries_of_v = carries + v * tiles;
        Value sum = Sum::identity();
        for (long long window = first; window < tile; window += warp_threads) {
            const long long before = window + lane_index();
            const Value carry = before < tile ? carries_of_v[before] : Sum::identity();
            sum = Sum()(sum, warp_fold<Sum>(carry));
        }
        Value* result = y + v * rows + tile_rows[tile];
        if (lane_index() == 0) *result = Sum()(sum, *result);
    }
}

// ---- segmented scan -----------------------------------------------------------------

/// products[v, k] = values[k] * x[v, columns[k]], for a segmented scan.
template <class Product, class Entry, class Number, class Index>
__global__ void multiply_entries(const Index* columns, const Entry* values, long long entries,
                                 const Number* x, long long length, long long vectors,
                                 typename Product::Value* products) {
    const long long i = thread_of_grid();
    if (i >= entries * vectors) return;
    const long long v = i / entries;
    const long long k = i - v * entries;
    products[i] = product<Product>(values[k], x[v * length + columns[k]]);
}
