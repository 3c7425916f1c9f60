// B-splines on equidistant knots: the nonzero values of every row, for all covariates at once.
//
// Problem. X of n rows and K columns, in any memory layout. Column i has `cells` cells of equal
// width from lower[i] to upper[i]. In a cell, `width` = degree + 1 neighbouring functions are
// not zero: write the first of these functions and their values, for every element of X. Beyond the
// cells, follow the tangent at their end, or keep the value at their end.
//
// Mapping. A block evaluates a tile of up to 1024 elements: up to 32 columns, and rows to fill
// it. It reads the tile in the order of memory. Then a warp takes 32 rows of a column at a time, a
// row in each lane, and neighbouring lanes write neighbouring values.
//
// Shared memory. The tile of X and the ranges of its columns; the values of 32 rows for each
// warp. Both are laid out without bank conflicts.
// Cost. Reads X once, writes `first` and `values` once; a single barrier. A recursion of width^2
// double operations for an element.
// Source. The recursion of Cox and de Boor, as in gpusolve/gam/basis.py: Eilers & Marx, "Flexible
// Smoothing with B-splines and Penalties" (1996).

#include "thread.cuh"

constexpr int basis_tile_size = 1024;

constexpr double factorial(int n) {
    return n > 1 ? n * factorial(n - 1) : 1;
}

/// The values and slopes, at u of [0, 1], of the functions that are not zero in a cell.
template <int width>
struct Splines {
    static constexpr int degree = width - 1;
    double values[width], slopes[width];

    __device__ __forceinline__ explicit Splines(double u) {
        // The recursion divides by d for each degree d; here once, by the factorial.
        constexpr double scale = 1.0 / factorial(degree);
        constexpr double scale_of_slopes = 1.0 / factorial(degree - 1);
        values[0] = 1;
        slopes[0] = 0;
#pragma unroll
        for (int d = 1; d <= degree; ++d) {
#pragma unroll
            for (int k = d; k >= 0; --k) {
                const double left = k > 0 ? values[k - 1] : 0;
                const double right = k < d ? values[k] : 0;
                slopes[k] = left - right;
                values[k] = k == 0   ? (1 - u) * right
                            : k == d ? u * left
                                     : (u + (d - k)) * left + (k + 1 - u) * right;
            }
        }
#pragma unroll
        for (int k = 0; k < width; ++k) {
            values[k] *= scale;
            slopes[k] *= scale_of_slopes;
        }
    }
};

/// first[column][row] and values[column][row][0:width]. Strides are in elements of X. `outside`,
/// if it is not null, becomes 1 if an element is out of its range.
template <class X, class T, int width, int threads>
__global__ void __launch_bounds__(threads)
    evaluate_basis(const X* x, long long row_stride, long long column_stride, const double* lower,
                   const double* upper, long long rows, int columns, int cells, int tile_columns,
                   bool linear, unsigned* outside, int* first, T* values) {
    constexpr int items = basis_tile_size / threads;
    constexpr int pitch_of_values = width | 1;
    // With two columns, a row of the tile takes three elements.
    __shared__ X tile[basis_tile_size * 3 / 2];
    __shared__ double lowers[warp_threads], uppers[warp_threads], cell_widths[warp_threads];
    __shared__ T values_of_warps[threads / warp_threads][warp_threads * pitch_of_values];
    const int tile_groups = warp_threads / tile_columns, tile_rows = tile_groups * warp_threads;
    const int pitch = tile_columns | 1;
    const int column_tiles = (columns + tile_columns - 1) / tile_columns;
    const long long row_begin = static_cast<long long>(blockIdx.x / column_tiles) * tile_rows;
    const int column_begin = static_cast<int>(blockIdx.x % column_tiles) * tile_columns;
    const long long row_count = min(static_cast<long long>(tile_rows), rows - row_begin);
    const int column_count = min(tile_columns, columns - column_begin);

    const bool by_columns = llabs(row_stride) < llabs(column_stride);
    int places[items];
    X elements[items];
#pragma unroll
    for (int k = 0; k < items; ++k) {
        const int i = k * threads + static_cast<int>(threadIdx.x);
        const int row = by_columns ? i % tile_rows : i / tile_columns;
        const int column = by_columns ? i / tile_rows : i % tile_columns;
        const bool exists = row < row_count && column < column_count;
        places[k] = exists ? row * pitch + column : -1;
        if (exists)
            elements[k] =
                x[(row_begin + row) * row_stride + (column_begin + column) * column_stride];
    }
#pragma unroll
    for (int k = 0; k < items; ++k)
        if (places[k] >= 0) tile[places[k]] = elements[k];
    if (static_cast<int>(threadIdx.x) < column_count) {
        const double low = lower[column_begin + threadIdx.x];
        const double high = upper[column_begin + threadIdx.x];
        lowers[threadIdx.x] = low;
        uppers[threadIdx.x] = high;
        cell_widths[threadIdx.x] = (high - low) / cells;
    }
    __syncthreads();

    T* own_values = values_of_warps[warp_index()];
    for (int unit = warp_index(); unit < tile_groups * column_count; unit += warp_count()) {
        const int column = unit / tile_groups;
        const int row = unit % tile_groups * warp_threads + lane_index();
        const long long left = row_count - (row - lane_index());
        const long long place = (column_begin + column) * rows + row_begin + row;
        if (lane_index() < left) {
            const double value = tile[row * pitch + column];
            const double low = lowers[column], cell_width = cell_widths[column];
            const bool varies = cell_width > 0;
            const double position = (value - low) / (varies ? cell_width : 1);
            const double clipped = fmin(fmax(position, 0.0), static_cast<double>(cells));
            const int cell = min(static_cast<int>(clipped), cells - 1);
            const Splines<width> splines(clipped - cell);
            const bool is_outside = value < low || value > uppers[column];
            if (is_outside && outside) atomicOr(outside, 1u);
            const double excess = is_outside && linear ? position - clipped : 0;
            first[place] = cell;
#pragma unroll
            for (int k = 0; k < width; ++k) {
                const double one = splines.values[k] + splines.slopes[k] * excess;
                own_values[lane_index() * pitch_of_values + k] = static_cast<T>(varies ? one : 0);
            }
        }
        __syncwarp();
#pragma unroll
        for (int k = 0; k < width; ++k) {
            const int i = k * warp_threads + lane_index();
            if (i < left * width)
                values[(place - lane_index()) * width + i] =
                    own_values[i / width * pitch_of_values + i % width];
        }
        __syncwarp();
    }
}
