// Design matrices of learners of any kind, and their products with vectors.
//
// A design matrix is a sum of parts. A part stores `width` values of each row, and the function of
// the first value; the distances to the functions of the other values are the same in all rows.
//
// Mapping. X' u is summed in chunks of the rows. A warp adds several rows at once, each to its own
// copy of the k sums. A factor of many levels has a list of its rows by level (level_sums.cuh).
// For X b a warp has 32 rows.
//
// Shared memory. Copies of k sums for each warp, or of as many functions as fit, in windows that
// pass over the rows window after window.
// Cost. Reads n (width values, an index), and n times u.

#pragma once

#include "learners.cuh"
#include "level_sums.cuh"
#include "stacked_fits.cuh"

/// K learners on n rows, and the data of F fits.
template <class T>
struct Designs {
    const int* first;
    const T* values;
    const int* offsets;  // [part][32], from the first function to the function of each value
    const PartPlace* parts;
    const LearnerPlace* learners;
    const long long* by_level;
    long long rows;
    int count, fits, columns;  // columns: functions of all learners

    __device__ RowsByLevel<T> rows_by_level(const LearnerPlace& learner) const {
        const long long* begins = by_level + learner.by_level;
        return {begins, begins + learner.functions + 1, values + parts[learner.begin_part].values,
                learner.functions, rows};
    }
};

// ---- X' u ---------------------------------------------------------------------------

/// Adds the rows of a warp, in a part, to the sums of the functions from `begin`.
template <class T>
__device__ void add_part(const Designs<T>& designs, long long part, const RowRange& range,
                         const double* u, const SumCopies& own, int begin, int window) {
    const PartPlace place = designs.parts[part];
    const int j = own.member(), width = static_cast<int>(place.width);
    const int offset = j < width ? designs.offsets[part * warp_threads + j] - begin : 0;
    u += range.begin;
    add_rows(
        designs.first + place.first, designs.values + place.values, width, offset, range,
        [=](int row) { return u[row]; }, own, window);
}

/// result = X_i' u over a chunk of the rows. `sums`: `SumCopies` for each warp.
template <class T>
__device__ void accumulate_moments(const Designs<T>& designs, const LearnerPlace& learner,
                                   int chunk, const double* u, double* sums, double* result) {
    const int functions = static_cast<int>(learner.functions);
    const int window = static_cast<int>(learner.window);
    const SumCopies first{sums, static_cast<int>(learner.shift), static_cast<int>(learner.pitch)};
    const SumCopies own = first.of_warp(window);
    const RowRange range(designs.rows, static_cast<int>(learner.chunks), chunk, warp_count());
    for (int begin = 0; begin < functions; begin += window) {
        const int end = min(window, functions - begin);
        clear(sums, warp_count() * first.size(window));
        for (long long part = learner.begin_part; part < learner.end_part; ++part)
            add_part(designs, part, range, u, own, begin, end);
        sum_copies(first, window, end, result + begin);
    }
}

/// The sums of all chunks of all learners, for all fits; `pairs` are a learner and a chunk.
template <class T>
__device__ void accumulate_all_moments(const Designs<T>& designs, const int* pairs, int pair_count,
                                       const double* u, double* shared, double* sums) {
    const long long units = static_cast<long long>(pair_count) * designs.fits;
    for (long long unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const long long pair = unit / designs.fits, fit = unit % designs.fits;
        const int chunk = pairs[2 * pair + 1];
        const LearnerPlace& learner = designs.learners[pairs[2 * pair]];
        const double* own = u + fit * designs.rows;
        const long long partial = learner.by_level < 0 ? chunk : 0;
        double* result =
            sums + learner.sums * designs.fits + (partial * designs.fits + fit) * learner.functions;
        if (learner.by_level < 0)
            accumulate_moments(designs, learner, chunk, own, shared, result);
        else
            designs.rows_by_level(learner).add(chunk, learner.chunks, own, result);
    }
}

// ---- X b ----------------------------------------------------------------------------

/// X_i b of 32 rows, for which all lanes of a warp call it: in lane l, of the row `start` + l.
template <class T>
__device__ double fitted_rows(const Designs<T>& designs, const LearnerPlace& learner,
                              const double* b, long long start) {
    const int shift = static_cast<int>(learner.shift), lanes = 1 << shift;
    const int at_once = warp_threads >> shift;  // rows
    const int own = lane_index() >> shift, j = lane_index() & (lanes - 1);
    double result = 0;
    for (long long part = learner.begin_part; part < learner.end_part; ++part) {
        const PartPlace place = designs.parts[part];
        const int offset = j < place.width ? designs.offsets[part * warp_threads + j] : 0;
#pragma unroll 4
        for (int turn = 0; turn < lanes; ++turn) {
            const long long row = start + turn * at_once + own;
            double sum = 0;
            if (j < place.width && row < designs.rows)
                sum = static_cast<double>(designs.values[place.values + row * place.width + j]) *
                      b[designs.first[place.first + row] + offset];
            for (int distance = lanes / 2; distance > 0; distance /= 2)
                sum += shuffle_xor(sum, distance);
            sum = __shfl_sync(whole_warp, sum, (lane_index() % at_once) << shift);
            if (lane_index() / at_once == turn) result += sum;
        }
    }
    return result;
}
