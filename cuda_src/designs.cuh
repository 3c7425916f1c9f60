// Design matrices of learners of any kind, and their products with vectors.
//
// A design matrix is a sum of parts. A part stores `width` values of each row, and the function of
// the first value; the distances to the functions of the other values are the same in all rows.
//
// Mapping. X' u is summed in chunks of the rows. A warp adds several rows at once, each to its own
// copy of the k sums, for up to five fits together. A factor of many levels has a list of its rows
// by level (level_sums.cuh). For X b a thread has a row.
//
// Shared memory. Copies of k sums for each warp and fit, or of as many functions as fit, in windows
// that pass over the rows window after window.
// Cost. Reads n (width values, an index) for five fits, and n times u for each fit.

#pragma once

#include "learners.cuh"
#include "level_sums.cuh"
#include "pack.cuh"
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
    int fits_at_once;          // for which a block adds rows

    __device__ RowsByLevel<T> rows_by_level(const LearnerPlace& learner) const {
        const long long* begins = by_level + learner.by_level;
        return {begins, begins + learner.functions + 1, values + parts[learner.begin_part].values,
                learner.functions, rows};
    }
};

// ---- X' u ---------------------------------------------------------------------------

/// The most fits that share what is read of a design.
constexpr int most_at_once = 5;

/// result = X_i' u over a chunk of the rows, of some fits, at most `most`. `sums`: `SumCopies` for
/// each fit and warp.
template <int most, class T>
__device__ void accumulate_moments(const Designs<T>& designs, const LearnerPlace& learner,
                                   int chunk, const double* u, int members, double* sums,
                                   double* result) {
    const int functions = static_cast<int>(learner.functions);
    const int window = static_cast<int>(learner.window);
    const SumCopies first{sums, static_cast<int>(learner.shift), static_cast<int>(learner.pitch)};
    const int of_warp = first.size(window), of_fit = warp_count() * of_warp;
    const SumCopies own = first.after(warp_index() * of_warp);
    const RowRange range(designs.rows, static_cast<int>(learner.chunks), chunk, warp_count());
    for (int begin = 0; begin < functions; begin += window) {
        const int end = min(window, functions - begin);
        clear(sums, members * of_fit);
        for (long long part = learner.begin_part; part < learner.end_part; ++part) {
            const PartPlace place = designs.parts[part];
            const int j = own.member(), width = static_cast<int>(place.width);
            const int offset = j < width ? designs.offsets[part * warp_threads + j] - begin : 0;
            add_rows<most>(designs.first + place.first, designs.values + place.values, width,
                           offset, range, u, designs.rows, members, own, of_fit, end);
        }
        __syncthreads();
        for (int fit = 0; fit < members; ++fit)
            sum_copies(first.after(fit * of_fit), window, end, result + fit * functions + begin);
        __syncthreads();
    }
}

/// The sums of all chunks of all learners, for all fits; `pairs` are a learner and a chunk. A block
/// adds a chunk for some fits.
template <class T>
__device__ void accumulate_all_moments(const Designs<T>& designs, const int* pairs, int pair_count,
                                       const double* u, double* shared, double* sums) {
    const int fits = designs.fits, some = designs.fits_at_once, groups = (fits + some - 1) / some;
    for (int unit = blockIdx.x; unit < pair_count * groups; unit += gridDim.x) {
        const int pair = unit / groups, begin = unit % groups * some;
        const int chunk = pairs[2 * pair + 1], end = min(begin + some, fits);
        const LearnerPlace& learner = designs.learners[pairs[2 * pair]];
        const long long partial = learner.by_level < 0 ? chunk : 0;
        for (int fit = begin, members; fit < end; fit += members) {
            members = min(static_cast<int>(learner.fits_at_once), end - fit);
            const double* own = u + fit * designs.rows;
            double* result =
                sums + learner.sums * fits + (partial * fits + fit) * learner.functions;
            if (learner.by_level >= 0)
                designs.rows_by_level(learner).template add<most_at_once>(chunk, learner.chunks,
                                                                          own, members, result);
            else if (members == 1)
                accumulate_moments<1>(designs, learner, chunk, own, 1, shared, result);
            else
                accumulate_moments<most_at_once>(designs, learner, chunk, own, members, shared,
                                                 result);
        }
    }
}

// ---- X b ----------------------------------------------------------------------------

/// X_i b of a row.
template <class T>
__device__ double fitted_row(const Designs<T>& designs, const LearnerPlace& learner,
                             const double* b, long long row) {
    constexpr int pack = pack_size<T>;
    double result = 0;
    for (long long part = learner.begin_part; part < learner.end_part; ++part) {
        const PartPlace place = designs.parts[part];
        const int width = static_cast<int>(place.width);
        const int* offsets = designs.offsets + part * warp_threads;
        const T* values = designs.values + place.values + row * width;
        const double* own = b + designs.first[place.first + row];
        int j = 0;
        if (is_aligned<pack>(values))
            for (; j + pack <= width; j += pack) {
                const Pack<T, pack> some = read_pack<pack>(values + j);
#pragma unroll
                for (int k = 0; k < pack; ++k)
                    result += static_cast<double>(some.values[k]) * own[offsets[j + k]];
            }
        for (; j < width; ++j) result += static_cast<double>(values[j]) * own[offsets[j]];
    }
    return result;
}
