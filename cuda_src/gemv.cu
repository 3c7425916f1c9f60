// Matrix times vector, y = A x, for each system of a batch, in five ways.
//
// Problem. `systems` matrices of `rows` x `columns`, each with a vector. System s begins at
// A + A_offsets[s] and x + x_offsets[s]. Offsets may be null, for all zero: then all systems
// share the array. A has any strides, x is contiguous. A transposed product is a product of a
// matrix with its strides exchanged: a kernel serves both. Half precision is summed in float.
//
// Mapping. From the paper:
//     naive             one thread per row
//     threads_per_dot   P threads of a block per row; a tree adds their sums
//     threads_per_row   P blocks per row, each with a segment of x in shared memory; a second
//                       kernel adds the columns of the M x P matrix of their sums
// and two forms with coalesced reads, of 16 bytes if alignment allows. A thread reads up to 64
// bytes of A before it computes; if columns are few, from several rows:
//     dots              y[i] = A[i, :] x; neighbouring threads read along a row
//     axpys             y = sum over j of x[j] A[:, j]; neighbouring threads read along a column
// If there are too few rows to fill the device, dots and axpys cut the columns into chunks, and
// gemv_add_columns adds the sums of the chunks.
//
// Shared memory. At most one sum per thread; threads_per_row: a tile of x.
// Cost. 2 rows * columns operations; reads each element of A once. Chunks write and read
// rows * chunks sums. No atomics: the order of additions depends only on shapes, strides and
// alignment, so every run gives the same bits.
//
// Source. Sieminski & Lee, "Gradient-Boosted Generalised Additive Models with GPU
// Acceleration" (2023), section 3.2. threads_per_row follows the text: the listing "Version 2"
// in Appendix B repeats version 1, with a smaller work array.

#include "block.cuh"
#include "half.cuh"
#include "pack.cuh"

// ---- common parts -------------------------------------------------------------------

/// The type in which numbers of type T are summed.
template <class T>
struct Accumulator {
    using Type = T;
};
template <>
struct Accumulator<Half> {
    using Type = float;
};
template <class T>
using Sum = typename Accumulator<T>::Type;

template <class T>
__device__ __forceinline__ Sum<T> product(T a, T b) {
    return Sum<T>(a) * Sum<T>(b);
}

/// Address of the first element of a system.
template <class T>
__device__ __forceinline__ const T* system_of(const T* first, const long long* offsets,
                                              long long system) {
    return offsets ? first + offsets[system] : first;
}

__device__ __forceinline__ long long minimum(long long a, long long b) {
    return a < b ? a : b;
}

/// a / b for non-negative numbers. Faster than 64-bit division if both fit into 32 bits.
__device__ __forceinline__ long long quotient(long long a, long long b) {
    const bool small = (a | b) >> 32 == 0;
    return small ? static_cast<unsigned>(a) / static_cast<unsigned>(b) : a / b;
}

/// The chunk, system and tile that `index` stands for; the tile varies fastest.
struct WorkItem {
    long long chunk, system, tile;

    __device__ WorkItem(long long index, long long tiles, long long systems) {
        const long long before = quotient(index, tiles);
        tile = index - before * tiles;
        chunk = quotient(before, systems);
        system = before - chunk * systems;
    }
};

/// work[0, c] = sum of work[:, c], in log2(parts) steps. `work` has `width` columns; each thread
/// has written its element work[part, column]. `parts` is a power of two. Threads with part 0
/// may then read work[0, column] without a barrier.
template <class T>
__device__ __forceinline__ void tree_sum(T* work, int parts, int width, int part, int column) {
    T* own = work + part * width + column;
    for (int half = parts / 2; half > 0; half /= 2) {
        __syncthreads();
        if (part < half) *own += own[half * width];
    }
}

// ---- naive: one thread per row ------------------------------------------------------

template <class T>
__global__ void gemv_naive(const T* A, const long long* A_offsets, long long row_stride,
                           long long column_stride, const T* x, const long long* x_offsets,
                           long long systems, long long rows, long long columns, T* y) {
    const long long i = thread_of_grid();
    if (i >= systems * rows) return;
    const WorkItem item(i, rows, systems);
    const T* row = system_of(A, A_offsets, item.system) + item.tile * row_stride;
    x = system_of(x, x_offsets, item.system);
    Sum<T> sum = 0;
    for (long long j = 0; j < columns; ++j) sum += product(row[j * column_stride], x[j]);
    y[i] = T(sum);
}

// ---- version 1: P threads per dot product -------------------------------------------

/// A block of M x P threads has M rows. `along_row`: neighbouring threads read neighbouring
/// columns; otherwise, as in the paper, neighbouring rows.
template <class T, int M, int P>
__global__ void gemv_threads_per_dot(const T* A, const long long* A_offsets, long long row_stride,
                                     long long column_stride, const T* x,
                                     const long long* x_offsets, long long systems, long long rows,
                                     long long columns, bool along_row, T* y) {
    constexpr int width = M + 1;  // an extra column against bank conflicts
    __shared__ Sum<T> work[P * width];
    const int row = along_row ? threadIdx.x / P : threadIdx.x % M;
    const int part = along_row ? threadIdx.x % P : threadIdx.x / M;
    const long long i = static_cast<long long>(blockIdx.x) * M + row;
    Sum<T> sum = 0;
    if (i < systems * rows) {
        const WorkItem item(i, rows, systems);
        const T* row_of_A = system_of(A, A_offsets, item.system) + item.tile * row_stride;
        x = system_of(x, x_offsets, item.system);
        for (long long j = part; j < columns; j += P)
            sum += product(row_of_A[j * column_stride], x[j]);
    }
    work[part * width + row] = sum;
    tree_sum(work, P, width, part, row);
    if (part == 0 && i < systems * rows) y[i] = T(work[row]);
}

// ---- version 2: P threads per row, in P blocks --------------------------------------

/// sums[p, i] = A[i, s] x[s] for the columns s of segment p. A block of M threads has M rows and
/// one p. It reads its segment of x in tiles.
template <class T, int M, int tile_size>
__global__ void gemv_threads_per_row(const T* A, const long long* A_offsets, long long row_stride,
                                     long long column_stride, const T* x,
                                     const long long* x_offsets, long long systems, long long rows,
                                     long long columns, long long segment, Sum<T>* sums) {
    __shared__ Sum<T> tile_of_x[tile_size];
    const WorkItem item(blockIdx.x, (rows + M - 1) / M, systems);
    const long long i = item.tile * M + threadIdx.x;
    const long long begin = item.chunk * segment;
    const long long end = minimum(begin + segment, columns);
    const T* row = system_of(A, A_offsets, item.system) + i * row_stride;
    x = system_of(x, x_offsets, item.system);
    Sum<T> sum = 0;
    for (long long first = begin; first < end; first += tile_size) {
        const int count = static_cast<int>(minimum(tile_size, end - first));
        __syncthreads();
        for (int k = threadIdx.x; k < count; k += M) tile_of_x[k] = Sum<T>(x[first + k]);
        __syncthreads();
        if (i < rows)
            for (int k = 0; k < count; ++k)
                sum += Sum<T>(row[(first + k) * column_stride]) * tile_of_x[k];
    }
    if (i < rows) sums[(item.chunk * systems + item.system) * rows + i] = sum;
}

/// y[i] = sum of sums[:, i]; `sums` has `parts` rows. A block of M x P threads computes M
/// elements of y.
template <class T, int M, int P>
__global__ void __launch_bounds__(M* P)
    gemv_add_columns(const Sum<T>* sums, long long parts, long long size, T* y) {
    __shared__ Sum<T> work[P * M];
    const int column = threadIdx.x % M, part = threadIdx.x / M;
    const long long i = static_cast<long long>(blockIdx.x) * M + column;
    Sum<T> sum = 0;
    if (i < size)
        for (long long p = part; p < parts; p += P) sum += sums[p * size + i];
    work[part * M + column] = sum;
    tree_sum(work, P, M, part, column);
    if (part == 0 && i < size) y[i] = T(work[column]);
}

// ---- dots: a team of threads per row, or for several rows ---------------------------

/// Minimum resident blocks per multiprocessor of dots and axpys, for `__launch_bounds__`.
/// Without it the compiler uses fewer registers, and spills for Half. With 2, single floats take
/// more than 64 registers, and fewer loads are in flight; with 4, Half spills on sm_100.
template <class T, int pack>
constexpr int blocks_per_multiprocessor = pack == 1 && sizeof(T) == 4 ? 4 : 2;

/// sums[r] += the products of the packs of row r at j, j + step, ...: of `packs` packs, or of
/// the packs that end at `end` or before. All packs are read before the first product.
template <bool all, int pack, int packs, int height, class T>
__device__ __forceinline__ void add_products(const T* const (&row)[height], long long column_stride,
                                             const T* x, long long j, int step, long long end,
                                             Sum<T> (&sums)[height]) {
    Pack<T, pack> a[packs][height], b[packs];
#pragma unroll
    for (int p = 0; p < packs; ++p) {
        if (!all && j + p * step + pack > end) continue;
        b[p] = read_pack<pack>(x + j + p * step);
#pragma unroll
        for (int r = 0; r < height; ++r)
            a[p][r] = read_pack<pack>(row[r] + (j + p * step) * column_stride);
    }
#pragma unroll
    for (int p = 0; p < packs; ++p) {
        if (!all && j + p * step + pack > end) continue;
#pragma unroll
        for (int r = 0; r < height; ++r)
#pragma unroll
            for (int k = 0; k < pack; ++k) sums[r] += product(a[p][r].values[k], b[p].values[k]);
    }
}

/// sums[r] += the part of row[r][begin:end] x[begin:end] that lane `lane` of a team computes.
template <int pack, int packs, int height, class T>
__device__ __forceinline__ void add_rows(const T* const (&row)[height], long long column_stride,
                                         const T* x, long long begin, long long end, int lane,
                                         int team, Sum<T> (&sums)[height]) {
    const int step = team * pack;
    long long j = begin + lane * pack;
    for (; j + (packs - 1) * step + pack <= end; j += packs * step)
        add_products<true, pack, packs>(row, column_stride, x, j, step, end, sums);
    if constexpr (packs > 1) {
        add_products<false, pack, packs - 1>(row, column_stride, x, j, step, end, sums);
        while (pack > 1 && j + pack <= end) j += step;
    }
    if constexpr (pack > 1)
        add_products<false, 1, pack - 1>(row, column_stride, x, j, 1, end, sums);
}

/// Add the sums of each team, in its first thread. Called by the whole block.
template <int height, class S>
__device__ __forceinline__ void add_over_team(S (&sums)[height], int team,
                                              S (&warp_sums)[height][max_warps]) {
    const int lanes = team < warp_threads ? team : warp_threads;
#pragma unroll
    for (int r = 0; r < height; ++r) {
        for (int distance = lanes / 2; distance > 0; distance /= 2)
            sums[r] += shuffle_xor(sums[r], distance);
        if (lane_index() == 0) warp_sums[r][warp_index()] = sums[r];
    }
    if (team == lanes) return;
    __syncthreads();
    if (threadIdx.x > 0) return;
#pragma unroll
    for (int r = 0; r < height; ++r)
        for (int warp = 1; warp < warp_count(); ++warp) sums[r] += warp_sums[r][warp];
}

/// y[c, i] = A[i, s] x[s] for the columns s of chunk c. A team has `height` rows; neighbouring
/// teams have neighbouring rows. Row indices past the end are replaced by the last row. `team`:
/// threads of a team, a power of two up to 32, or the whole block. Packs of several elements
/// require column_stride = 1, and distances of whole packs between systems, rows and chunks.
template <class T, class Out, int pack, int packs, int height, int threads>
__global__ void __launch_bounds__(threads, blocks_per_multiprocessor<T, pack>)
    gemv_dots(const T* A, const long long* A_offsets, long long row_stride, long long column_stride,
              const T* x, const long long* x_offsets, long long systems, long long rows,
              long long columns, int team, long long chunk, long long chunks, Out* y) {
    __shared__ Sum<T> warp_sums[height][max_warps];
    const long long groups = (rows + height - 1) / height;
    const long long teams = chunks * systems * groups;
    const long long index =
        quotient(static_cast<long long>(blockIdx.x) * threads + threadIdx.x, team);
    const int lane = threadIdx.x % team;
    const bool active = index < teams;
    const WorkItem item(active ? index : 0, groups, systems);

    if (pack > 1) column_stride = 1;
    const T* row[height];
#pragma unroll
    for (int r = 0; r < height; ++r)
        row[r] = system_of(A, A_offsets, item.system) +
                 minimum(item.tile + r * groups, rows - 1) * row_stride;
    x = system_of(x, x_offsets, item.system);

    Sum<T> sums[height] = {};
    const long long begin = item.chunk * chunk;
    const long long end = active ? minimum(begin + chunk, columns) : begin;
    if (is_aligned<pack>(row[0]) && is_aligned<pack>(x))
        add_rows<pack, packs>(row, column_stride, x, begin, end, lane, team, sums);
    else
        add_rows<1, packs>(row, column_stride, x, begin, end, lane, team, sums);
    add_over_team(sums, team, warp_sums);
    if (!active || lane > 0) return;
    y += (item.chunk * systems + item.system) * rows;
#pragma unroll
    for (int r = 0; r < height; ++r)
        if (item.tile + r * groups < rows) y[item.tile + r * groups] = Out(sums[r]);
}

// ---- axpys: each thread has a pack of rows ------------------------------------------

/// sums += the sum of x[s * step] A[:, s * step] over s < steps, or over the s < steps with
/// s * step < left. All elements are read before the first product.
template <bool all, int pack, int steps, class T>
__device__ __forceinline__ void add_multiples(const T* column, long long column_stride, const T* x,
                                              int step, long long left, Pack<Sum<T>, pack>& sums) {
    Pack<T, pack> a[steps];
    T b[steps];
#pragma unroll
    for (int s = 0; s < steps; ++s) {
        if (!all && s * step >= left) continue;
        a[s] = read_pack<pack>(column + s * step * column_stride);
        b[s] = x[s * step];
    }
#pragma unroll
    for (int s = 0; s < steps; ++s) {
        if (!all && s * step >= left) continue;
#pragma unroll
        for (int k = 0; k < pack; ++k) sums.values[k] += product(a[s].values[k], b[s]);
    }
}

/// y[c, i] = A[i, s] x[s] for the columns s of chunk c. A block has a tile of lanes * pack rows;
/// threads / lanes threads have the same rows, and take columns in turn. Packs of several
/// elements require row_stride = 1, and distances of whole packs between systems and columns.
/// `lanes` is a power of two.
template <class T, class Out, int pack, int steps, int threads>
__global__ void __launch_bounds__(threads, blocks_per_multiprocessor<T, pack>)
    gemv_axpys(const T* A, const long long* A_offsets, long long row_stride,
               long long column_stride, const T* x, const long long* x_offsets, long long systems,
               long long rows, long long columns, int lanes, long long chunk, Out* y) {
    __shared__ Pack<Sum<T>, pack> work[threads];
    const int lane = threadIdx.x % lanes, part = threadIdx.x / lanes, parts = threads / lanes;
    const WorkItem item(blockIdx.x, (rows + lanes * pack - 1) / (lanes * pack), systems);
    const long long i = (item.tile * lanes + lane) * pack;
    const long long left = rows - i;
    if (pack > 1) row_stride = 1;
    const T* column = system_of(A, A_offsets, item.system) + i * row_stride;
    x = system_of(x, x_offsets, item.system);

    Pack<Sum<T>, pack> sums = {};
    const long long end = minimum((item.chunk + 1) * chunk, columns);
    long long j = item.chunk * chunk + part;
    if (left >= pack && is_aligned<pack>(column)) {
        for (; j + (steps - 1) * parts < end; j += steps * parts)
            add_multiples<true, pack, steps>(column + j * column_stride, column_stride, x + j,
                                             parts, end - j, sums);
        if constexpr (steps > 1)
            add_multiples<false, pack, steps - 1>(column + j * column_stride, column_stride, x + j,
                                                  parts, end - j, sums);
    } else {
        for (; j < end; j += parts)
#pragma unroll
            for (int k = 0; k < pack; ++k)
                if (k < left)
                    sums.values[k] += product(column[k * row_stride + j * column_stride], x[j]);
    }
    work[threadIdx.x] = sums;
    tree_sum(work, parts, lanes, part, lane);
    if (part > 0) return;
    sums = work[lane];
    y += (item.chunk * systems + item.system) * rows + i;
    Pack<Out, pack> results;
#pragma unroll
    for (int k = 0; k < pack; ++k) results.values[k] = Out(sums.values[k]);
    if (left >= pack && is_aligned<pack>(y)) {
        write_pack(y, results);
        return;
    }
#pragma unroll
    for (int k = 0; k < pack; ++k)
        if (k < left) y[k] = results.values[k];
}
