// Matrix times vector, y = A x, for each system of a batch, in five ways.
//
// Problem. `systems` matrices of `rows` x `columns`, each with its own vector. System s has
// its first element at A + A_offsets[s] and x + x_offsets[s]; offsets that are null are all
// zero, so that systems share an array. A has any strides, x lies side by side. A transposed
// product is that of a matrix with its strides exchanged: there is one kernel for both.
// Half precision is added up in float.
//
// Mapping. From the paper:
//     naive             a thread has a row
//     threads_per_dot   P threads of a block have a row, and add their sums in a tree
//     threads_per_row   P blocks have a row, each with a segment of x in shared memory; a
//                       second kernel adds the columns of the M x P matrix of their sums
// and two forms of the product that read memory as it lies, 16 bytes at once where that can
// be, and several times before they compute:
//     dots              y[i] = A[i, :] x; threads run along a row
//     axpys             y = sum over j of x[j] A[:, j]; threads run along a column
// Where there are fewer rows than the device has use for, these cut the columns into chunks,
// and gemv_add_columns adds the chunks' sums.
//
// Shared memory. A sum for each thread, at most; threads_per_row: a tile of x.
// Cost. Reads the elements of A once: 2 rows columns operations on as many elements. Chunks
// write and read rows * chunks sums again. No atomics: what is added to what hangs on
// shapes, strides and alignment only, so that every run gives the same bits.
//
// Source. Sieminski & Lee, "Gradient-Boosted Generalised Additive Models with GPU
// Acceleration" (2023), section 3.2. threads_per_row follows its text: the listing
// "Version 2" in Appendix B is version 1 once more, with a work array too small for it.

#include "block.cuh"
#include "half.cuh"
#include "pack.cuh"

// ---- what all of them need ----------------------------------------------------------

/// What numbers are added up in.
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

/// The first element of a system.
template <class T>
__device__ __forceinline__ const T* system_of(const T* first, const long long* offsets,
                                              long long system) {
    return offsets ? first + offsets[system] : first;
}

__device__ __forceinline__ long long least(long long a, long long b) {
    return a < b ? a : b;
}

/// a / b of numbers that are not negative. Most are small, and divide faster so.
__device__ __forceinline__ long long quotient(long long a, long long b) {
    const bool small = (a | b) >> 32 == 0;
    return small ? static_cast<unsigned>(a) / static_cast<unsigned>(b) : a / b;
}

/// Which work is the `index`-th: tile after tile, system after system, chunk after chunk.
struct Place {
    long long chunk, system, tile;

    __device__ Place(long long index, long long tiles, long long systems) {
        const long long before = quotient(index, tiles);
        tile = index - before * tiles;
        chunk = quotient(before, systems);
        system = before - chunk * systems;
    }
};

/// work[0, c] = sum of work[:, c], in log2(parts) steps, where `work` has `width` columns and
/// each thread wrote its element work[part, column]. `parts` is a power of two. The threads
/// with part 0 may read work[0, column] without a barrier.
template <class T>
__device__ __forceinline__ void tree_sum(T* work, int parts, int width, int part, int column) {
    T* own = work + part * width + column;
    for (int half = parts / 2; half > 0; half /= 2) {
        __syncthreads();
        if (part < half) *own += own[half * width];
    }
}

// ---- naive: a thread to a row -------------------------------------------------------

template <class T>
__global__ void gemv_naive(const T* A, const long long* A_offsets, long long row_stride,
                           long long column_stride, const T* x, const long long* x_offsets,
                           long long systems, long long rows, long long columns, T* y) {
    const long long i = thread_of_grid();
    if (i >= systems * rows) return;
    const Place place(i, rows, systems);
    const T* row = system_of(A, A_offsets, place.system) + place.tile * row_stride;
    x = system_of(x, x_offsets, place.system);
    Sum<T> sum = 0;
    for (long long j = 0; j < columns; ++j) sum += product(row[j * column_stride], x[j]);
    y[i] = T(sum);
}

// ---- version 1: P threads to a dot product ------------------------------------------

/// A block of M x P threads has M rows. `along_row`: neighbouring threads have neighbouring
/// columns; else, as in the paper, neighbouring rows.
template <class T, int M, int P>
__global__ void gemv_threads_per_dot(const T* A, const long long* A_offsets, long long row_stride,
                                     long long column_stride, const T* x,
                                     const long long* x_offsets, long long systems, long long rows,
                                     long long columns, bool along_row, T* y) {
    constexpr int width = M + 1;  // one more, so that no two columns share all their banks
    __shared__ Sum<T> work[P * width];
    const int row = along_row ? threadIdx.x / P : threadIdx.x % M;
    const int part = along_row ? threadIdx.x % P : threadIdx.x / M;
    const long long i = static_cast<long long>(blockIdx.x) * M + row;
    Sum<T> sum = 0;
    if (i < systems * rows) {
        const Place place(i, rows, systems);
        const T* row_of_A = system_of(A, A_offsets, place.system) + place.tile * row_stride;
        x = system_of(x, x_offsets, place.system);
        for (long long j = part; j < columns; j += P)
            sum += product(row_of_A[j * column_stride], x[j]);
    }
    work[part * width + row] = sum;
    tree_sum(work, P, width, part, row);
    if (part == 0 && i < systems * rows) y[i] = T(work[row]);
}

// ---- version 2: P threads to a row, in as many blocks -------------------------------

/// sums[p, i] = A[i, p * segment : (p + 1) * segment] x of the same. A block of M threads has
/// M rows and one p. It reads its segment of x in tiles.
template <class T, int M, int tile_size>
__global__ void gemv_threads_per_row(const T* A, const long long* A_offsets, long long row_stride,
                                     long long column_stride, const T* x,
                                     const long long* x_offsets, long long systems, long long rows,
                                     long long columns, long long segment, Sum<T>* sums) {
    __shared__ Sum<T> tile_of_x[tile_size];
    const Place place(blockIdx.x, (rows + M - 1) / M, systems);
    const long long i = place.tile * M + threadIdx.x;
    const long long begin = place.chunk * segment;
    const long long end = least(begin + segment, columns);
    const T* row = system_of(A, A_offsets, place.system) + i * row_stride;
    x = system_of(x, x_offsets, place.system);
    Sum<T> sum = 0;
    for (long long first = begin; first < end; first += tile_size) {
        const int count = static_cast<int>(least(tile_size, end - first));
        __syncthreads();
        for (int k = threadIdx.x; k < count; k += M) tile_of_x[k] = Sum<T>(x[first + k]);
        __syncthreads();
        if (i < rows)
            for (int k = 0; k < count; ++k)
                sum += Sum<T>(row[(first + k) * column_stride]) * tile_of_x[k];
    }
    if (i < rows) sums[(place.chunk * systems + place.system) * rows + i] = sum;
}

/// y[i] = sum of sums[:, i], where `sums` has `parts` rows. A block of M x P threads has M i.
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

// ---- what dots and axpys read at once -----------------------------------------------

/// At least. Without this the compiler aims at more, and spills for Half.
constexpr int blocks_per_multiprocessor = 2;

// ---- dots: a team of threads to a row, or to several --------------------------------

/// sums[r] += the products of `packs` packs of each row, `step` columns apart. All are read
/// before the first is multiplied.
template <int pack, int packs, int height, class T>
__device__ __forceinline__ void add_products(const T* const (&row)[height], long long column_stride,
                                             const T* x, long long j, int step,
                                             Sum<T> (&sums)[height]) {
    Pack<T, pack> a[packs][height], b[packs];
#pragma unroll
    for (int p = 0; p < packs; ++p) {
        b[p] = read_pack<pack>(x + j + p * step);
#pragma unroll
        for (int r = 0; r < height; ++r)
            a[p][r] = read_pack<pack>(row[r] + (j + p * step) * column_stride);
    }
#pragma unroll
    for (int p = 0; p < packs; ++p)
#pragma unroll
        for (int r = 0; r < height; ++r)
#pragma unroll
            for (int k = 0; k < pack; ++k) sums[r] += product(a[p][r].values[k], b[p].values[k]);
}

/// sums[r] += what lane `lane` of a team has of row[r][begin:end] x[begin:end].
template <int pack, int packs, int height, class T>
__device__ __forceinline__ void add_rows(const T* const (&row)[height], long long column_stride,
                                         const T* x, long long begin, long long end, int lane,
                                         int team, Sum<T> (&sums)[height]) {
    const int step = team * pack;
    long long j = begin + lane * pack;
    for (; j + (packs - 1) * step + pack <= end; j += packs * step)
        add_products<pack, packs>(row, column_stride, x, j, step, sums);
    for (; j + pack <= end; j += step) add_products<pack, 1>(row, column_stride, x, j, step, sums);
    for (; pack > 1 && j < end; ++j) add_products<1, 1>(row, column_stride, x, j, step, sums);
}

/// Adds up the sums of a team in its first thread. By the whole block.
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

/// y[c, i] = A[i, c * chunk : (c + 1) * chunk] x of the same. A team has `height` rows, so far
/// apart that neighbouring teams have neighbouring rows; rows past the last are that one again.
/// `team`: a power of two up to a warp's threads, or the whole block. Packs of several elements
/// ask for column_stride = 1, and for systems, rows and chunks that are whole packs apart.
template <class T, class Out, int pack, int packs, int height, int threads>
__global__ void __launch_bounds__(threads, blocks_per_multiprocessor)
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
    const Place place(active ? index : 0, groups, systems);

    if (pack > 1) column_stride = 1;
    const T* row[height];
#pragma unroll
    for (int r = 0; r < height; ++r)
        row[r] = system_of(A, A_offsets, place.system) +
                 least(place.tile + r * groups, rows - 1) * row_stride;
    x = system_of(x, x_offsets, place.system);

    Sum<T> sums[height] = {};
    const long long begin = place.chunk * chunk;
    const long long end = active ? least(begin + chunk, columns) : begin;
    if (is_aligned<pack>(row[0]) && is_aligned<pack>(x))
        add_rows<pack, packs>(row, column_stride, x, begin, end, lane, team, sums);
    else
        add_rows<1, packs>(row, column_stride, x, begin, end, lane, team, sums);
    add_over_team(sums, team, warp_sums);
    if (!active || lane > 0) return;
    y += (place.chunk * systems + place.system) * rows;
#pragma unroll
    for (int r = 0; r < height; ++r)
        if (place.tile + r * groups < rows) y[place.tile + r * groups] = Out(sums[r]);
}

// ---- axpys: a block to some rows, a thread to a pack of them ------------------------

/// sums += the sum of x[k * step] A[:, k * step] over k < steps. All are read before the first
/// is multiplied.
template <int pack, int steps, class T>
__device__ __forceinline__ void add_multiples(const T* column, long long column_stride, const T* x,
                                              int step, Pack<Sum<T>, pack>& sums) {
    Pack<T, pack> a[steps];
    T b[steps];
#pragma unroll
    for (int s = 0; s < steps; ++s) {
        a[s] = read_pack<pack>(column + s * step * column_stride);
        b[s] = x[s * step];
    }
#pragma unroll
    for (int s = 0; s < steps; ++s)
#pragma unroll
        for (int k = 0; k < pack; ++k) sums.values[k] += product(a[s].values[k], b[s]);
}

/// y[c, i] = A[i, c * chunk : (c + 1) * chunk] x of the same. A block has a tile of lanes * pack
/// rows; threads / lanes of its threads have the same rows, and columns by turns. Packs of
/// several elements ask for row_stride = 1, and for systems and columns that are whole packs
/// apart. `lanes` is a power of two.
template <class T, class Out, int pack, int steps, int threads>
__global__ void __launch_bounds__(threads, blocks_per_multiprocessor)
    gemv_axpys(const T* A, const long long* A_offsets, long long row_stride,
               long long column_stride, const T* x, const long long* x_offsets, long long systems,
               long long rows, long long columns, int lanes, long long chunk, Out* y) {
    __shared__ Pack<Sum<T>, pack> work[threads];
    const int lane = threadIdx.x % lanes, part = threadIdx.x / lanes, parts = threads / lanes;
    const Place place(blockIdx.x, (rows + lanes * pack - 1) / (lanes * pack), systems);
    const long long i = (place.tile * lanes + lane) * pack;
    const long long left = rows - i;
    if (pack > 1) row_stride = 1;
    const T* column = system_of(A, A_offsets, place.system) + i * row_stride;
    x = system_of(x, x_offsets, place.system);

    Pack<Sum<T>, pack> sums = {};
    const long long end = least((place.chunk + 1) * chunk, columns);
    long long j = place.chunk * chunk + part;
    if (left >= pack && is_aligned<pack>(column)) {
        for (; j + (steps - 1) * parts < end; j += steps * parts)
            add_multiples<pack, steps>(column + j * column_stride, column_stride, x + j, parts,
                                       sums);
        for (; j < end; j += parts)
            add_multiples<pack, 1>(column + j * column_stride, column_stride, x + j, parts, sums);
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
    y += (place.chunk * systems + place.system) * rows + i;
#pragma unroll
    for (int k = 0; k < pack; ++k)
        if (k < left) y[k] = Out(sums.values[k]);
}
