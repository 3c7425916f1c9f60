// A sparse matrix times vectors, over any semiring: every entry is read once.
//
//     spmv : (a -> a -> a) -> (f -> f -> a) -> CSR [m, n]f -> [n]f -> [m]a
//     y[i] = sum over the entries k of row i, in their order, of values[k] * x[columns[k]]
//
// Problem. `Sum` is associative, with an identity for rows without entries; `Product` is any
// function of two numbers. Neither need be commutative. Rows may have any lengths, also 0 or
// all entries; the work of a block must not depend on them.
//
// Mapping. One block for each tile of the merge path of the rows' ends and the entries' indices,
// which has m + nnz steps (merge_path_reduce.cuh). `split_path` and `add_carries` are in
// segments.cu: a row is a segment of entries. All loads of entries and columns are issued before
// the rows are found; several vectors share them.
//
// Shared memory. A value for each step of the tile: products of entries, results of rows. A word
// for each thread, the totals of the warps.
// Cost. Reads each entry, its column and each row's end once for all vectors of a block, gathers
// x, writes y; a carry for each tile and vector. Requests for entries begin inside sectors. Two
// warps read such a sector, the second from a cache: aligned requests need up to 16 more registers,
// so that fewer blocks are resident.
//
// Source. merge_path_reduce.cuh. `multiply_entries` is a step of the source's flat-parallel form.

#include "merge_path_reduce.cuh"

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

// ---- one pass -----------------------------------------------------------------------

/// y[v, i] for every row i that ends in the tile and every vector v; only the tile's part of the
/// first row. carries[v, tile] = the tile's part of the row that continues after it.
template <class Sum, class Product, class Entry, class Number, class Index, int threads, int items>
__global__ void __launch_bounds__(threads)
    multiply(const Index* row_ends, const Index* columns, const Entry* values, long long rows,
             long long steps, const long long* tile_rows, const Number* x, long long length,
             long long vectors, typename Sum::Value* y, typename Sum::Value* carries) {
    using Reduce = TileReduce<Sum, threads, items, false>;
    __shared__ typename Reduce::Storage storage;
    const MergeTile tile = merge_tile<Reduce::tile_size, true>(tile_rows, blockIdx.x, steps);
    Index column[items];  // loads in flight while rows are found
    Entry value[items];
#pragma unroll
    for (int k = 0; k < items; ++k) {
        const int i = Reduce::entry_index(tile, k);
        if (i < tile.b_count) {
            column[k] = columns[tile.b + i];
            value[k] = values[tile.b + i];
        }
    }

    Reduce reduce(storage, row_ends, tile);
    for (long long v = blockIdx.y; v < vectors; v += gridDim.y) {
        const Number* x_of_v = x + v * length;
        const auto entry = [&](int k) {
            return converted<typename Sum::Value>(product<Product>(value[k], x_of_v[column[k]]));
        };
        const typename Sum::Value carry = reduce.reduce(entry);
        if (threadIdx.x == 0) carries[v * gridDim.x + blockIdx.x] = carry;
        reduce.write(y + v * rows + tile.a);
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
