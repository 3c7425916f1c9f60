// Sums of the rows of each level, for a factor of more levels than shared memory has sums for.
//
// Problem. c_l = the sum of v_r u_r over the rows r of level l, whose rows are listed by level.
// Mapping. The levels are cut into chunks with about as many levels and rows each; a warp sums a
// level, 32 rows at once. A level is summed by one warp, so that its sum needs no second pass.
// Cost. Reads a row's index, its value for several fits, and u; the rows of a level are far apart
// in u.

#pragma once

#include "block.cuh"
#include "merge_path.cuh"

/// The rows of a factor, listed by level.
template <class T>
struct RowsByLevel {
    const long long* begins;  // of the rows of each level in `order`; levels + 1 numbers
    const long long* order;   // [row]
    const T* values;          // [row]
    long long levels, rows;

    /// The first level of a chunk.
    __device__ long long first_level(long long chunk, long long chunks) const {
        const long long target = chunk * (levels + rows) / chunks;
        return partition_point(0LL, levels, [&](long long l) { return begins[l] + l < target; });
    }

    /// sums[l] = c_l for the levels of a chunk, of `members` fits, at most `most`; by the block. u
    /// and the sums of the fits follow each other.
    template <int most>
    __device__ void add(long long chunk, long long chunks, const double* u, int members,
                        double* sums) const {
        const long long end = first_level(chunk + 1, chunks);
        for (long long l = first_level(chunk, chunks) + warp_index(); l < end; l += warp_count()) {
            double totals[most] = {};
            for (long long i = begins[l] + lane_index(); i < begins[l + 1]; i += warp_threads) {
                const double* own = u + order[i];
                const double value = values[order[i]];
#pragma unroll
                for (int fit = 0; fit < most; ++fit)
                    if (fit < members) totals[fit] += value * own[fit * rows];
            }
#pragma unroll
            for (int fit = 0; fit < most; ++fit) {
                const double total = warp_reduce(totals[fit], Add<double>());
                if (fit < members && lane_index() == 0) sums[fit * levels + l] = total;
            }
        }
    }
};
