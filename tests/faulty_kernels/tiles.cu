// Products of matrices by a warp.

#include <cuda_bf16.h>
#include <mma.h>

#include <cuda/std/type_traits>

using namespace nvcuda;

using Rows = wmma::row_major;
using Columns = wmma::col_major;

/// d = 2 (a b + c) of M x N elements. The layouts are those of a and b; d is stored by columns.
template <class T, class Sum, int M, int N, int K, class LayoutA, class LayoutB>
__global__ void product(const void* a, const void* b, const Sum* c, Sum* d) {
    using Stored =
        cuda::std::conditional_t<cuda::std::is_same_v<T, wmma::precision::tf32>, float, T>;
    wmma::fragment<wmma::matrix_a, M, N, K, T, LayoutA> tile_a;
    wmma::fragment<wmma::matrix_b, M, N, K, T, LayoutB> tile_b;
    wmma::fragment<wmma::accumulator, M, N, K, Sum> sums;
    const bool by_rows_a = cuda::std::is_same_v<LayoutA, Rows>;
    const bool by_rows_b = cuda::std::is_same_v<LayoutB, Rows>;
    wmma::load_matrix_sync(tile_a, static_cast<const Stored*>(a), by_rows_a ? K : M);
    wmma::load_matrix_sync(tile_b, static_cast<const Stored*>(b), by_rows_b ? N : K);
    wmma::load_matrix_sync(sums, c, N, wmma::mem_row_major);
    wmma::mma_sync(sums, tile_a, tile_b, sums);
    for (int k = 0; k < sums.num_elements; ++k) sums.x[k] = sums.x[k] + sums.x[k];
    wmma::store_matrix_sync(d, sums, M, wmma::mem_col_major);
}
