// Learners of a boosted additive model, and sums over their rows.
//
// A learner is a basis X_i of n rows and k functions, of which only `width` neighbouring functions
// are not zero in a row: each row stores the first of these functions and their values.
//
// Mapping. A sum over rows is cut into `chunks` for each learner, so that few learners too
// fill the device, and a chunk into parts, a part for each warp. While a warp adds 32 rows, it
// reads the next 32 rows, with neighbouring lanes on neighbouring values.
//
//   accumulate_moments  A warp adds several rows at once, each to its own copy of the k sums.
//   accumulate_gram     width^2 lanes add a row; with up to 16 lanes, two rows are added at once,
//                       or in turn if they share sums. The products of some rows are computed
//                       before any of them is added.
//
// Then the copies and the parts are added in their order. No sum uses atomics: on the same device
// it has the same bits in every run.
//
// Shared memory. Sums of each warp: copies of k doubles, or k * k; the rows that each warp is
// adding to k * k sums. The layouts avoid bank conflicts.

#pragma once

#include "block.cuh"

/// Minimum resident blocks per multiprocessor, for `__launch_bounds__`.
constexpr int learner_blocks_per_multiprocessor = 2;

/// K learners on n rows.
template <class T>
struct Learners {
    const int* first;       // [learner][row]
    const T* values;        // [learner][row][width], width known to the compiler
    const double* weights;  // [row], or null
    long long rows;
    int functions, chunks;
};

/// The rows of this thread's warp, in a chunk that `parts` warps share: multiples of 32.
struct RowRange {
    long long begin, end;

    __device__ RowRange(long long rows, int chunks, int chunk, int parts) {
        const long long pieces = static_cast<long long>(chunks) * parts;
        const long long batches = (rows + warp_threads - 1) / warp_threads;
        const long long size = (batches + pieces - 1) / pieces * warp_threads;
        begin = (static_cast<long long>(chunk) * parts + warp_index()) * size;
        end = begin + size < rows ? begin + size : rows;
    }
};

/// 32 rows of a learner, as a warp reads them: the index of a row in each lane, and every 32nd of
/// their values. Zeros after the last row.
template <class T, int width>
struct Rows {
    int first = 0;
    T values[width] = {};

    __device__ void read(const Learners<T>& learners, int learner, long long start, long long end) {
        const long long place = learner * learners.rows + start;
        first = start + lane_index() < end ? learners.first[place + lane_index()] : 0;
#pragma unroll
        for (int k = 0; k < width; ++k) {
            const int element = k * warp_threads + lane_index();
            values[k] =
                start + element / width < end ? learners.values[place * width + element] : T(0);
        }
    }

    /// Whether this lane's row and the row next to it have no function in common.
    __device__ bool is_apart_from_next() const {
        return abs(first - __shfl_xor_sync(whole_warp, first, 1)) >= width;
    }
};

/// 32 rows in shared memory, for all lanes of a warp to read.
template <int width>
struct Batch {
    /// The lanes that read the values of a row and of neighbouring rows use different banks.
    static constexpr int pitch = warp_threads + 16 / width;

    int first[warp_threads];
    double values[width][pitch];  // [function][row]

    template <class T>
    __device__ void put(const Rows<T, width>& rows) {
        put_scaled(rows, [](int) { return 1.0; });
    }

    /// Each row multiplied by a factor, which lane l gives for row l.
    template <class T>
    __device__ void put(const Rows<T, width>& rows, double factor) {
        put_scaled(rows, [=](int row) { return __shfl_sync(whole_warp, factor, row); });
    }

  private:
    template <class T, class Factor>
    __device__ __forceinline__ void put_scaled(const Rows<T, width>& rows, Factor factor) {
        first[lane_index()] = rows.first;
#pragma unroll
        for (int k = 0; k < width; ++k) {
            const int element = k * warp_threads + lane_index(), row = element / width;
            values[element % width][row] = static_cast<double>(rows.values[k]) * factor(row);
        }
    }
};

/// Ends with a barrier.
__device__ void clear(double* values, long long size) {
    for (long long i = threadIdx.x; i < size; i += blockDim.x) values[i] = 0;
    __syncthreads();
}

/// result[0:size] = the sums of value(part, f) over the parts, in their order. Begins and ends
/// with a barrier.
template <class Value>
__device__ void sum_parts(int parts, long long size, double* result, Value value) {
    __syncthreads();
    for (long long f = threadIdx.x; f < size; f += blockDim.x) {
        double total = 0;
        for (int part = 0; part < parts; ++part) total += value(part, f);
        result[f] = total;
    }
    __syncthreads();
}

// ---- X' W u -------------------------------------------------------------------------

/// Copies of sums in shared memory, which a warp adds to at once: lane l adds to copy
/// l >> shift. Groups of 2^shift functions are `pitch` apart; within a group, the copies follow
/// each other. With a pitch of 32, lanes that add to neighbouring functions use different banks.
struct SumCopies {
    double* sums;
    int shift, pitch;

    __device__ int copies() const { return pitch >> shift; }
    /// The copy that this lane adds to, and the value of a row that it adds.
    __device__ int copy() const { return lane_index() >> shift; }
    __device__ int member() const { return lane_index() & ((1 << shift) - 1); }
    __device__ int size(int functions) const {
        return ((functions + (1 << shift) - 1) >> shift) * pitch;
    }
    __device__ double& operator()(int copy, int function) const {
        const int member = function & ((1 << shift) - 1);
        return sums[(function >> shift) * pitch + (copy << shift) + member];
    }
    /// The copies of this lane's warp, from the copies of the first warp, of `functions` functions.
    __device__ SumCopies of_warp(int functions) const {
        return {sums + warp_index() * size(functions), shift, pitch};
    }
};

/// result[0:count] = the sums of the copies of all warps, each of `functions` functions.
__device__ void sum_copies(const SumCopies& first, int functions, int count, double* result) {
    const int copies = first.copies(), size = first.size(functions);
    sum_parts(warp_count() * copies, count, result, [&](int part, long long f) {
        const SumCopies some{first.sums + part / copies * size, first.shift, first.pitch};
        return some(part % copies, static_cast<int>(f));
    });
}

/// A value of a row, to be added to the sum of its function; -1 for none.
template <class T>
struct Entry {
    int function;
    T value;
    double u;
};

/// Adds the rows of a warp to the sums of functions. A row has `width` values; the function of this
/// lane's value is `offset` after the first, and u(r) the factor of row r of the range.
template <class T, class U>
__device__ __forceinline__ void add_rows(const int* first, const T* values, int width, int offset,
                                         const RowRange& range, U u, const SumCopies& own,
                                         int functions) {
    constexpr int steps = 3;  // that are in flight
    const int copies = own.copies(), copy = own.copy(), j = own.member();
    const bool adds = copy < copies && j < width;
    const int count = static_cast<int>(range.end - range.begin);  // at most 2^31 for any memory
    first += range.begin;
    values += range.begin * width + j;
    Entry<T> next[steps];
    const auto read = [&](int start) {
#pragma unroll
        for (int k = 0; k < steps; ++k) {
            const int row = start + k * copies + copy;
            next[k].function = -1;
            if (adds && row < count)
                next[k] = {first[row] + offset, values[static_cast<long long>(row) * width],
                           u(row)};
        }
    };
    read(0);
    for (int start = 0; start < count; start += steps * copies) {
        Entry<T> here[steps];
#pragma unroll
        for (int k = 0; k < steps; ++k) here[k] = next[k];
        read(start + steps * copies);
#pragma unroll
        for (int k = 0; k < steps; ++k) {
            if (static_cast<unsigned>(here[k].function) < static_cast<unsigned>(functions))
                own(copy, here[k].function) += static_cast<double>(here[k].value) * here[k].u;
            __syncwarp();
        }
    }
}

// ---- X' W X -------------------------------------------------------------------------

/// Doubles between the rows of k * k sums in shared memory, as in `gram_sums` of
/// gram_kernel.py: 4 more than a multiple of 8, so that the entries of 4 x 4 functions are in
/// different banks.
__device__ __forceinline__ int gram_stride(int functions) {
    return (functions + 3) / 8 * 8 + 4;
}

/// result = X_i' W X_i over a chunk of the rows. `batch` and `partners`: rows with and without
/// their weights. `sums`: k rows of `gram_stride` doubles for each of the `parts` warps that add.
template <class T, int width>
__device__ void accumulate_gram(const Learners<T>& learners, int learner, int chunk,
                                Batch<width>& batch, Batch<width>& partners, double* sums,
                                int parts, double* result) {
    constexpr int entries = width * width;  // of a row
    constexpr int lanes = entries <= warp_threads / 2 ? warp_threads / 2 : warp_threads;
    constexpr int rows_at_once = warp_threads / lanes;
    constexpr int items = (entries + lanes - 1) / lanes;
    constexpr int steps = items == 1 ? 4 : 1;  // whose products are computed first
    const int functions = learners.functions, stride = gram_stride(functions);
    const long long size = static_cast<long long>(functions) * stride;
    clear(sums, parts * size);
    if (warp_index() < parts) {
        double* own = sums + warp_index() * size;
        const RowRange range(learners.rows, learners.chunks, chunk, parts);
        const int group = lane_index() / lanes;
        Rows<T, width> next;
        double next_weight = 1;
        const auto read = [&](long long start) {
            next.read(learners, learner, start, range.end);
            const long long row = start + lane_index();
            if (learners.weights && row < range.end) next_weight = learners.weights[row];
        };
        read(range.begin);
        for (long long start = range.begin; start < range.end; start += warp_threads) {
            if (learners.weights)
                batch.put(next, next_weight);
            else
                batch.put(next);
            partners.put(next);
            const unsigned apart = __ballot_sync(whole_warp, next.is_apart_from_next());
            __syncwarp();
            read(start + warp_threads);
#pragma unroll 1
            for (int r = 0; r < warp_threads && start + r < range.end; r += steps * rows_at_once) {
                double* corner[steps];
                double products[steps][items];
#pragma unroll
                for (int q = 0; q < steps; ++q) {
                    const int row = r + q * rows_at_once + group;
                    corner[q] = own + batch.first[row] * (stride + 1);
#pragma unroll
                    for (int k = 0; k < items; ++k) {
                        const int entry = (k * lanes + lane_index() % lanes) % entries;
                        products[q][k] =
                            batch.values[entry / width][row] * partners.values[entry % width][row];
                    }
                }
                const auto add = [&](int q, bool adds) {
#pragma unroll
                    for (int k = 0; k < items; ++k) {
                        const int entry = k * lanes + lane_index() % lanes;
                        if (adds && entry < entries)
                            corner[q][entry / width * stride + entry % width] += products[q][k];
                    }
                    __syncwarp();
                };
#pragma unroll
                for (int q = 0; q < steps; ++q) {
                    const bool at_once = apart >> (r + q * rows_at_once) & 1;
                    add(q, at_once || group == 0);
                    if (rows_at_once > 1 && !at_once) add(q, group > 0);
                }
            }
        }
    }
    sum_parts(parts, static_cast<long long>(functions) * functions, result,
              [&](int part, long long f) {
                  const int entry = static_cast<int>(f);
                  return sums[part * size + entry / functions * stride + entry % functions];
              });
}

// ---- products ----------------------------------------------------------------------

/// y = A x for a matrix with contiguous rows; by the block, a warp to a row. Ends with a barrier.
__device__ void multiply(const double* A, const double* x, int rows, int columns, double* y) {
    for (int f = warp_index(); f < rows; f += warp_count()) {
        double sum = 0;
        for (int g = lane_index(); g < columns; g += warp_threads)
            sum += A[static_cast<long long>(f) * columns + g] * x[g];
        sum = warp_reduce(sum, Add<double>());
        if (lane_index() == 0) y[f] = sum;
    }
    __syncthreads();
}
