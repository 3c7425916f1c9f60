// Reductions and scans by one warp or block that keep the order of their operands, for
// monoids of any element type, commutative or not.
//
// They are called as in block.cuh: by all threads of the warp or block, in uniform control
// flow. The order is the threads' order. Monoids are described in monoid.cuh.

#pragma once

#include "block.cuh"
#include "monoid.cuh"

/// Sums of counts within a block.
struct Count {
    using Value = int;
    static constexpr bool commutative = true;
    static __device__ __forceinline__ int identity() { return 0; }
    __device__ __forceinline__ int operator()(int a, int b) const { return a + b; }
};

// ---- warp ---------------------------------------------------------------------------

/// Shuffles an element of any size, word by word.
template <class T, class Shuffle>
__device__ __forceinline__ T shuffle_words(const T& value, Shuffle shuffle) {
    constexpr int count = (sizeof(T) + sizeof(unsigned) - 1) / sizeof(unsigned);
    unsigned words[count] = {};
    memcpy(words, &value, sizeof(T));
#pragma unroll
    for (int k = 0; k < count; ++k) words[k] = shuffle(words[k]);
    T result;
    memcpy(&result, words, sizeof(T));
    return result;
}

template <class T>
__device__ __forceinline__ T shuffle(const T& value, int lane) {
    return shuffle_words(value, [=](unsigned w) { return __shfl_sync(whole_warp, w, lane); });
}

template <class T>
__device__ __forceinline__ T shuffle_up(const T& value, int distance) {
    return shuffle_words(value,
                         [=](unsigned w) { return __shfl_up_sync(whole_warp, w, distance); });
}

template <class T>
__device__ __forceinline__ T shuffle_down(const T& value, int distance) {
    return shuffle_words(value,
                         [=](unsigned w) { return __shfl_down_sync(whole_warp, w, distance); });
}

/// The reduction of lanes 0 to 31, in lane 0; the result is undefined in the other lanes.
template <class Monoid>
__device__ __forceinline__ typename Monoid::Value warp_fold(typename Monoid::Value value) {
    for (int distance = 1; distance < warp_threads; distance *= 2)
        value = Monoid()(value, shuffle_down(value, distance));
    return value;
}

/// The reduction of the lanes in reverse order, 31 first, in lane 0.
template <class Monoid>
__device__ __forceinline__ typename Monoid::Value warp_fold_reversed(typename Monoid::Value value) {
    for (int distance = 1; distance < warp_threads; distance *= 2)
        value = Monoid()(shuffle_down(value, distance), value);
    return value;
}

/// The scan of a warp, for any monoid.
template <class Monoid>
struct WarpScan {
    using Value = typename Monoid::Value;

    static __device__ __forceinline__ Value inclusive(Value value) {
        for (int distance = 1; distance < warp_threads; distance *= 2) {
            const Value before = shuffle_up(value, distance);
            if (lane_index() >= distance) value = Monoid()(before, value);
        }
        return value;
    }
};

/// The scan of a monoid lifted to segments. Flags are exchanged by a vote, not by shuffles.
template <class Monoid>
struct WarpScan<Segmented<Monoid>> {
    using Value = Flagged<typename Monoid::Value>;

    static __device__ __forceinline__ Value inclusive(Value flagged) {
        const unsigned lanes_to_own = whole_warp >> (warp_threads - 1 - lane_index());
        const unsigned begins = __ballot_sync(whole_warp, flagged.begins) & lanes_to_own;
        const int first = begins != 0 ? warp_threads - 1 - __clz(static_cast<int>(begins)) : 0;
        typename Monoid::Value value = flagged.value;
        for (int distance = 1; distance < warp_threads; distance *= 2) {
            const typename Monoid::Value before = shuffle_up(value, distance);
            if (lane_index() - distance >= first) value = Monoid()(before, value);
        }
        return {value, begins != 0};
    }
};

/// Inclusive scan of the lanes: lane k has the reduction of lanes 0 to k.
template <class Monoid>
__device__ __forceinline__ typename Monoid::Value warp_scan(const typename Monoid::Value& value) {
    return WarpScan<Monoid>::inclusive(value);
}

// ---- block --------------------------------------------------------------------------

/// Scans over a block of any size, one value per thread, with one barrier each.
///
/// The totals of the warps are double-buffered in `Storage`, as in `BlockReduce`.
template <class Monoid>
class BlockScan {
  public:
    using Value = typename Monoid::Value;

    struct Storage {
        Value totals[2][max_warps];
    };

    __device__ explicit BlockScan(Storage& storage) : storage_(storage) {}

    /// The reduction of the threads before this thread. `total` gets the reduction of all threads.
    __device__ Value exclusive(const Value& value, Value& total) {
        const Value own = warp_scan<Monoid>(value);
        const Value warps = scan_totals(own);
        total = shuffle(warps, warp_count() - 1);
        Value before = shuffle_up(own, 1);
        if (lane_index() == 0) before = Monoid::identity();
        const Value warps_before = shuffle(warps, warp_index() > 0 ? warp_index() - 1 : 0);
        return warp_index() > 0 ? Monoid()(warps_before, before) : before;
    }

    /// The reduction of all threads, in every thread.
    __device__ Value fold(const Value& value) {
        const Value warps = scan_totals(warp_scan<Monoid>(value));
        return shuffle(warps, warp_count() - 1);
    }

  private:
    /// In lane w the reduction of warps 0 to w. `own` is a warp's total in its last lane.
    __device__ Value scan_totals(const Value& own) {
        Value* totals = storage_.totals[turn_];
        turn_ ^= 1;
        if (lane_index() == warp_threads - 1) totals[warp_index()] = own;
        __syncthreads();
        return warp_scan<Monoid>(lane_index() < warp_count() ? totals[lane_index()]
                                                             : Monoid::identity());
    }

    Storage& storage_;
    int turn_ = 0;
};
