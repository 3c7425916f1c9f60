// Learners of a boosted additive model, and sums over their rows.
//
// A learner is a basis X_i of n rows and k functions, of which only `width` neighbouring ones
// are not zero in a row: each row stores the first of them and their values.
//
// Mapping. A sum over rows is cut into `chunks` for each learner, so that few learners too
// fill the device, and a chunk into parts, one for each warp. A warp reads 32 rows at once,
// one in each lane; while these are added, the next 32 are being read. They are added one row
// after the other: lane l adds to the functions f with f mod 32 = l, so that no two lanes
// write to the same sum. Then the parts are added in their order. There are no atomics: on one
// device a sum has the same bits in every run.
//
// Shared memory. Sums of each warp, k or k * k doubles; the rows that each warp is adding.

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
    const double* gram;     // [learner][function][function], X' W X
    const double* inverse;  // [learner][function][function], (X' W X + lambda S)^-1
    long long rows;
    int count, functions, chunks;

    __device__ double weight(long long row) const { return weights ? weights[row] : 1.0; }
};

/// The rows of this thread's warp, in a chunk that `parts` warps share.
struct RowRange {
    long long begin, end;

    __device__ RowRange(long long rows, int chunks, int chunk, int parts) {
        const long long pieces = static_cast<long long>(chunks) * parts;
        const long long size = (rows + pieces - 1) / pieces;
        begin = (static_cast<long long>(chunk) * parts + warp_index()) * size;
        end = begin + size < rows ? begin + size : rows;
    }
};

/// One row of a learner, as one lane reads it; zeros after the last row.
template <class T, int width>
struct Row {
    int first = 0;
    T values[width] = {};

    __device__ void read(const Learners<T>& learners, int learner, long long row, long long end) {
        if (row >= end) return;
        const long long place = learner * learners.rows + row;
        first = learners.first[place];
#pragma unroll
        for (int j = 0; j < width; ++j) values[j] = learners.values[place * width + j];
    }
};

/// 32 rows in shared memory, one from each lane of a warp, for all its lanes to read.
template <int width>
struct Batch {
    int first[warp_threads];
    double values[warp_threads][width];

    template <class T>
    __device__ void put(const Row<T, width>& row, double factor) {
        first[lane_index()] = row.first;
#pragma unroll
        for (int j = 0; j < width; ++j)
            values[lane_index()][j] = static_cast<double>(row.values[j]) * factor;
    }
};

/// The function that this lane adds, counted from `first`, the first function of a row; `width`
/// or more if the lane has none in this row.
__device__ __forceinline__ int function_of_lane(int first) {
    return static_cast<int>(static_cast<unsigned>(lane_index() - first) % warp_threads);
}

/// Ends with a barrier.
__device__ void clear(double* values, long long size) {
    for (long long i = threadIdx.x; i < size; i += blockDim.x) values[i] = 0;
    __syncthreads();
}

/// result[0:size] = the sum of `parts` vectors sums[0:size], added in their order. Begins and
/// ends with a barrier.
__device__ void sum_parts(const double* sums, int parts, long long size, double* result) {
    __syncthreads();
    for (long long f = threadIdx.x; f < size; f += blockDim.x) {
        double total = 0;
        for (int part = 0; part < parts; ++part) total += sums[part * size + f];
        result[f] = total;
    }
    __syncthreads();
}

/// result = X_i' W u over one chunk of the rows. `sums`: k doubles for each warp.
template <class T, int width>
__device__ void accumulate_moments(const Learners<T>& learners, int learner, int chunk,
                                   const double* residual, Batch<width>& batch, double* sums,
                                   double* result) {
    const int functions = learners.functions;
    clear(sums, static_cast<long long>(warp_count()) * functions);
    double* own = sums + static_cast<long long>(warp_index()) * functions;
    const RowRange range(learners.rows, learners.chunks, chunk, warp_count());
    const auto factor = [&](long long row) {
        return row < range.end ? learners.weight(row) * residual[row] : 0.0;
    };
    Row<T, width> next;
    next.read(learners, learner, range.begin + lane_index(), range.end);
    double next_factor = factor(range.begin + lane_index());
    for (long long start = range.begin; start < range.end; start += warp_threads) {
        batch.put(next, next_factor);
        __syncwarp();
        const long long row = start + warp_threads + lane_index();
        next.read(learners, learner, row, range.end);
        next_factor = factor(row);
        for (int r = 0; r < warp_threads && start + r < range.end; ++r) {
            const int j = function_of_lane(batch.first[r]);
            if (j < width) own[batch.first[r] + j] += batch.values[r][j];
        }
        __syncwarp();
    }
    sum_parts(sums, warp_count(), functions, result);
}

/// result = X_i' W X_s over one chunk of the rows, for i = `learner` and s = `partner`. `sums`:
/// k * k doubles for each of `parts` warps, the ones that add.
template <class T, int width>
__device__ void accumulate_gram(const Learners<T>& learners, int learner, int partner, int chunk,
                                Batch<width>& batch, Batch<width>& partners, double* sums,
                                int parts, double* result) {
    const int functions = learners.functions;
    const long long size = static_cast<long long>(functions) * functions;
    clear(sums, parts * size);
    if (warp_index() < parts) {
        double* own = sums + warp_index() * size;
        const RowRange range(learners.rows, learners.chunks, chunk, parts);
        Row<T, width> next, next_partner;
        next.read(learners, learner, range.begin + lane_index(), range.end);
        next_partner.read(learners, partner, range.begin + lane_index(), range.end);
        for (long long start = range.begin; start < range.end; start += warp_threads) {
            const long long here = start + lane_index();
            batch.put(next, here < range.end ? learners.weight(here) : 0.0);
            partners.put(next_partner, 1.0);
            __syncwarp();
            next.read(learners, learner, here + warp_threads, range.end);
            next_partner.read(learners, partner, here + warp_threads, range.end);
            for (int r = 0; r < warp_threads && start + r < range.end; ++r) {
                const int j = function_of_lane(batch.first[r]);
                if (j >= width) continue;
                const double value = batch.values[r][j];
                double* line = own + static_cast<long long>(batch.first[r] + j) * functions +
                               partners.first[r];
                double added[width];
#pragma unroll
                for (int q = 0; q < width; ++q) added[q] = line[q] + value * partners.values[r][q];
#pragma unroll
                for (int q = 0; q < width; ++q) line[q] = added[q];
            }
            __syncwarp();
        }
    }
    sum_parts(sums, parts, size, result);
}
