// Reductions of segments, divided by the merge path into tiles of equal work.
//
// The entries of all segments are one sequence; segment r ends before entry ends[r]. The merge
// path of these ends and the entries' indices has one step for each segment and each entry: a
// step takes the next entry, or ends the next segment once all its entries are taken. So a tile
// of the path has the same work, whatever the lengths are, also 0 or all entries.
//
// A thread has `items` steps of the tile. The step in which segment r ends follows from ends[r]
// alone, so a block sets one bit per segment, in the word of the thread that has this step; a
// scan of the bit counts gives each thread the segment in which it begins. A scan by the monoid
// lifted to segments then gives each thread the partial result of that segment from the threads
// before it. The partial result of a segment that continues after the tile is the tile's carry;
// `add_carries` in segments.cu adds the carries of each segment that extends over several
// tiles, in their order. The partition does not depend on scheduling, and there are no atomic
// additions: every run gives the same bits. The monoid need not commute.
//
// Source. Merrill & Garland, "Merge-based Parallel Sparse Matrix-Vector Multiplication"
// (SC 2016), where each thread finds its place in the path by a binary search; segments by bits
// and scans by flags from Oancea & Henriksen, "Basic Blocks of Data-Parallel Programming" (2019).

#pragma once

#include "merge_path.cuh"
#include "monoid.cuh"
#include "ordered.cuh"

/// The indices of the entries: the second sequence of the merge path, after the segments' ends.
struct EntryIndices {
    __device__ __forceinline__ long long operator[](long long k) const { return k; }
};

/// Reduces the segments that end in a tile. All threads of the block call each function.
template <class Monoid, int threads, int items, bool aligned>
class TileReduce {
  public:
    using Value = typename Monoid::Value;
    using Partial = Segmented<Monoid>;
    static constexpr int tile_size = threads * items;
    static_assert(items <= 32, "the steps of a thread are bits of one word");

    struct Storage {
        Value slots[tile_size];  // results of the segments, then entries
        unsigned words[threads];
        BlockScan<Count>::Storage counts;
        typename BlockScan<Partial>::Storage partials;
    };

    /// Finds the steps of this thread in which segments end. Segment r ends in step ends[r] + r.
    template <class Index>
    __device__ TileReduce(Storage& storage, const Index* ends, const MergeTile& tile)
        : tile_(tile), slots_(storage.slots), scan_partials_(storage.partials) {
        unsigned* words = storage.words;
        words[threadIdx.x] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < tile.a_count; i += threads) {
            const int step = static_cast<int>(ends[tile.a + i] - tile.b) + i;
            atomicOr(words + step / items, 1u << step % items);
        }
        __syncthreads();
        ends_here_ = words[threadIdx.x];
        int all;
        first_ = BlockScan<Count>(storage.counts).exclusive(__popc(ends_here_), all);
        first_entry_ = threadIdx.x * items - first_;
    }

    /// The index in the tile of entry k of this thread, for k < items; it may exceed the indices of
    /// the tile. If `aligned`, a warp's requests begin at multiples of 32 entries of the array,
    /// so that all sectors are full; the first threads, which would be before the tile, have its
    /// last entries.
    static __device__ __forceinline__ int entry_index(const MergeTile& tile, int k) {
        if constexpr (!aligned) return k * threads + threadIdx.x;
        const int start = threadIdx.x - (static_cast<unsigned>(tile.b) % warp_threads);
        return k * threads + start + (k == 0 && start < 0 ? tile_size : 0);
    }

    /// Reduces the segments; the result is the tile's part of the segment that continues after
    /// it. entry(k) is the entry whose index is entry_index(tile, k).
    template <class Entry>
    __device__ __forceinline__ Value reduce(Entry entry) {
        const int ended = tile_.a_count, entries = tile_.b_count;
#pragma unroll
        for (int k = 0; k < items; ++k) {
            const int i = entry_index(tile_, k);
            Value value = Monoid::identity();
            if (i < entries) value = entry(k);
            if (ended + i < tile_size) slots_[ended + i] = value;
        }
        __syncthreads();

        Value sum = Monoid::identity();
        Value* result = slots_ + first_;
        const Value* next = slots_ + ended + first_entry_;
#pragma unroll
        for (int k = 0; k < items; ++k) {
            if (ends_here_ >> k & 1) {
                *result++ = sum;
                sum = Monoid::identity();
            } else {
                sum = Monoid()(sum, *next++);
            }
        }
        Flagged<Value> last;
        const Flagged<Value> before = scan_partials_.exclusive({sum, ends_here_ != 0}, last);
        if (ends_here_ != 0) slots_[first_] = Monoid()(before.value, slots_[first_]);
        return last.value;
    }

    /// results[i] for each segment that ends in the tile, in order, after `reduce`; only the
    /// tile's part of the first segment.
    __device__ __forceinline__ void write(Value* results) const {
        __syncthreads();
        for (int i = threadIdx.x; i < tile_.a_count; i += threads) results[i] = slots_[i];
    }

  private:
    const MergeTile tile_;
    Value* slots_;
    BlockScan<Partial> scan_partials_;
    unsigned ends_here_;
    int first_, first_entry_;
};
