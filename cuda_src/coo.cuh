// Entries of sparse matrices in coordinate form, and the results of their products.
//
// The key of an entry is row * width + column, in 64 bits: 32 bits overflow from 46341 x 46341
// on.

#pragma once

#include "look_back.cuh"
#include "merge_path.cuh"
#include "monoid.cuh"
#include "ordered.cuh"

constexpr long long no_key = -1;
constexpr long long not_found = -1;

/// Minimum resident blocks per multiprocessor of the kernels that search once, for
/// `__launch_bounds__`. Without it the compiler aims at more blocks, and spills.
constexpr int min_blocks_per_multiprocessor = 4;

// ---- entries --------------------------------------------------------------------------

/// The keys of entries, formed when they are read. Columns of 32-bit indices fit 32 bits, so that
/// rows and columns are bits of such keys, found without a division.
template <class Index>
struct Keys {
    const Index* rows;
    const Index* columns;
    long long columns_of_matrix;

    __device__ __forceinline__ long long width() const {
        return sizeof(Index) == 4 ? 1ll << 32 : columns_of_matrix;
    }
    __device__ __forceinline__ long long operator[](long long i) const {
        return rows[i] * width() + columns[i];
    }
};

// ---- search ---------------------------------------------------------------------------

/// The first position in [start, stop) whose key is not less than `key`; else `stop`.
template <class Keys>
__device__ __forceinline__ long long lower_bound(const Keys& keys, long long start, long long stop,
                                                 long long key) {
    return partition_point(start, stop, [=](long long i) { return keys[i] < key; });
}

// ---- results in one pass ------------------------------------------------------------

/// What a launch reports to the host; zero before it.
struct ProductReport {
    /// Not zero if the keys of an operand do not strictly increase.
    unsigned long long disorder;
    /// If they do, the number of values without a match that are not finite.
    unsigned long long unmatched;
    /// The number of results.
    unsigned long long results;

    /// Add a number of values that are not finite; less the matched values.
    __device__ __forceinline__ void add_unmatched(int count) {
        if (count != 0) atomicAdd(&unmatched, static_cast<unsigned long long>(count));
    }
};

/// Sums of counts over a launch.
struct LongCount {
    using Value = long long;
    static __device__ __forceinline__ long long identity() { return 0; }
    __device__ __forceinline__ long long operator()(long long a, long long b) const {
        return a + b;
    }
};

constexpr int state_words = 2;

/// The number of results of all tiles before this tile, in lane 0. Called by one warp. The last
/// tile reports the sum.
__device__ __forceinline__ long long results_before(unsigned long long* states, long long tile,
                                                    int results, ProductReport* report) {
    const TileStates<long long, state_words> tiles(states, nullptr);
    const long long before = exchange_prefix<LongCount>(tiles, tile, results);
    if (lane_index() == 0 && tile == gridDim.x - 1) report->results = before + results;
    return before;
}
