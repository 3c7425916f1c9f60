// Decoupled look-back: the prefixes of all tiles of an array, in one launch.
//
// A tile first publishes its aggregate, the reduction of its own elements. Then it looks back
// over its predecessors: it combines their aggregates until it finds a tile that has published
// its inclusive prefix, and publishes its own. So a tile does not wait for all tiles before it,
// and the array is read once.
//
// Progress. Blocks take tiles in order from an atomic counter. So the predecessors of a tile
// belong to blocks that are already running. Each publishes its aggregate without waiting, or, if
// the block took it before it has finished another tile, waits only for the predecessors of that
// tile, which come before it, too.
//
// Memory order. An element of up to 16 bytes is stored in 64-bit words: each has 4 bytes of the
// element and the status. A reader that finds the same status in all words has the whole
// element. A larger element is written first, then a fence, then its status; a reader reads the
// status, then a fence, then the element.
//
// Source. Merrill & Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016).

#pragma once

#include "monoid.cuh"
#include "ordered.cuh"

enum TileStatus : unsigned { tile_unknown = 0, tile_aggregate = 1, tile_prefix = 2 };

template <class T>
struct Published {
    unsigned status;
    Flagged<T> flagged;
};

/// The aggregates and prefixes that the tiles of a launch have published. Each tile has `words`
/// state words, zero before the launch. If an element does not fit into them, each tile also has
/// two elements of `values`, one for its aggregate and one for its prefix.
template <class T, int words>
class TileStates {
  public:
    static constexpr bool packed = sizeof(T) <= words * sizeof(unsigned);
    static_assert(packed || words == 1, "elements are in the state words, or have one");

    __device__ TileStates(unsigned long long* states, T* values)
        : states_(states), values_(values) {}

    __device__ void publish(long long tile, TileStatus status, const Flagged<T>& flagged) {
        unsigned parts[words] = {};
        if constexpr (packed) {
            memcpy(parts, &flagged.value, sizeof(T));
        } else {
            *place(tile, status) = flagged.value;
            __threadfence();
        }
        volatile unsigned long long* state = states_ + tile * words;
        const unsigned low = status | (flagged.begins ? begins_bit : 0u);
#pragma unroll
        for (int k = 0; k < words; ++k)
            state[k] = static_cast<unsigned long long>(parts[k]) << part_shift | low;
    }

    /// Wait until the tile has published its aggregate or prefix, and read it.
    __device__ Published<T> read(long long tile) const {
        const volatile unsigned long long* state = states_ + tile * words;
        unsigned parts[words];
        unsigned low = poll(state, parts);
        while (low == tile_unknown) {
            __nanosleep(nanoseconds_between_polls);
            low = poll(state, parts);
        }
        Published<T> published;
        published.status = low & status_bits;
        published.flagged.begins = (low & begins_bit) != 0;
        if constexpr (packed) {
            memcpy(&published.flagged.value, parts, sizeof(T));
        } else {
            __threadfence();
            published.flagged.value = *place(tile, published.status);
        }
        return published;
    }

  private:
    static constexpr unsigned status_bits = 3;
    static constexpr unsigned begins_bit = 4;
    static constexpr int part_shift = 32;
    static constexpr unsigned nanoseconds_between_polls = 32;

    /// The low half of the words if it is the same in all of them; else `tile_unknown`.
    static __device__ unsigned poll(const volatile unsigned long long* state,
                                    unsigned (&parts)[words]) {
        unsigned long long seen[words];
#pragma unroll
        for (int k = 0; k < words; ++k) seen[k] = state[k];
        const unsigned low = static_cast<unsigned>(seen[0]);
        bool agreed = true;
#pragma unroll
        for (int k = 0; k < words; ++k) {
            agreed = agreed && static_cast<unsigned>(seen[k]) == low;
            parts[k] = static_cast<unsigned>(seen[k] >> part_shift);
        }
        return agreed ? low : tile_unknown;
    }

    __device__ T* place(long long tile, unsigned status) const {
        return values_ + 2 * tile + (status == tile_prefix ? 1 : 0);
    }

    unsigned long long* states_;
    T* values_;
};

// An element without flag is stored as an element at which no segment begins.

template <class T>
__device__ __forceinline__ Flagged<T> to_flagged(const T& value) {
    return {value, false};
}
template <class T>
__device__ __forceinline__ Flagged<T> to_flagged(const Flagged<T>& flagged) {
    return flagged;
}
template <class T>
__device__ __forceinline__ void from_flagged(const Flagged<T>& flagged, T& value) {
    value = flagged.value;
}
template <class T>
__device__ __forceinline__ void from_flagged(const Flagged<T>& flagged, Flagged<T>& value) {
    value = flagged;
}

/// The reduction of all tiles before this tile, in lane 0. Called by one warp. If a segment
/// begins in a tile, its aggregate serves as its prefix.
template <class Monoid, class T, int words>
__device__ typename Monoid::Value look_back(const TileStates<T, words>& states, long long tile) {
    using Value = typename Monoid::Value;
    Value prefix = Monoid::identity();
    for (long long nearest = tile - 1; nearest >= 0; nearest -= warp_threads) {
        const long long predecessor = nearest - lane_index();
        Value value = Monoid::identity();
        bool complete = predecessor < 0;
        if (!complete) {
            const Published<T> published = states.read(predecessor);
            from_flagged(published.flagged, value);
            complete = published.status == tile_prefix || published.flagged.begins;
        }
        const int last = __ffs(static_cast<int>(__ballot_sync(whole_warp, complete))) - 1;
        if (last >= 0 && lane_index() > last) value = Monoid::identity();
        prefix = Monoid()(warp_fold_reversed<Monoid>(value), prefix);
        if (last >= 0) break;
    }
    return prefix;
}

/// Publish this tile's aggregate and prefix; the result is the reduction of all tiles before
/// it, in lane 0. Called by one warp, whose lane 0 has the aggregate.
template <class Monoid, class T, int words>
__device__ typename Monoid::Value exchange_prefix(TileStates<T, words> states, long long tile,
                                                  const typename Monoid::Value& aggregate) {
    const bool first = tile == 0;
    if (lane_index() == 0)
        states.publish(tile, first ? tile_prefix : tile_aggregate, to_flagged(aggregate));
    const typename Monoid::Value prefix = look_back<Monoid>(states, tile);
    if (lane_index() == 0 && !first)
        states.publish(tile, tile_prefix, to_flagged(Monoid()(prefix, aggregate)));
    return prefix;
}
