// Reductions of segments: the elements are read once, the results written once.
//
//     segmented_reduce : (a -> a -> a) -> [m + 1]int -> [n]a -> [m]a
//     y[r] = x[offsets[r]] + ... + x[offsets[r + 1] - 1], the identity for an empty segment
//
// Problem. m consecutive segments of n elements, of any lengths, also 0 or n. The operator is
// associative, with an identity; it need not commute. Elements have up to 256 bytes.
//
// Mapping. One block for each tile of the merge path (merge_path_reduce.cuh): `split_path` finds
// the segment in which each tile begins, `segmented_reduce` reduces within tiles, and
// `add_carries` adds the parts of segments that extend over several tiles, one warp per tile.
// All loads of a tile are issued before the segments are found. The first and the last kernel
// also serve spmv.cu.
//
// Shared memory. A value for each step of the tile: elements, results of segments. A word for
// each thread, the totals of the warps.
// Cost. Reads n elements and m ends of 8 bytes, writes m results; for each tile 8 bytes and one
// element are written and read. Three launches, two for a single tile. In `split_path` each thread
// makes log2(m) dependent loads.
//
// Source. merge_path_reduce.cuh.

#include "merge_path_reduce.cuh"

/// Minimum resident blocks per multiprocessor, for `__launch_bounds__`; a higher value causes
/// spills.
constexpr int segmented_reduce_blocks_per_multiprocessor = 4;

/// tile_rows[t] = the segment in which tile t begins, for every t <= tiles: the number of
/// segments that end before it.
template <class Index>
__global__ void split_path(const Index* ends, long long segments, int tile_size, long long tiles,
                           long long* tile_rows) {
    const long long entries = segments > 0 ? ends[segments - 1] : 0;
    split_into_tiles(ends, segments, EntryIndices(), entries, tile_size, tiles, tile_rows);
}

/// y[r] for every segment r that ends in the tile; only the tile's part of the first segment.
/// carries[tile] = the tile's part of the segment that continues after it.
template <class Monoid, class Map, int threads, int items>
__global__ void __launch_bounds__(threads, segmented_reduce_blocks_per_multiprocessor)
    segmented_reduce(const typename Map::Input* x, const long long* ends, long long steps,
                     const long long* tile_rows, typename Monoid::Value* y,
                     typename Monoid::Value* carries) {
    using Reduce = TileReduce<Monoid, threads, items, true>;
    __shared__ typename Reduce::Storage storage;
    const MergeTile tile = merge_tile<Reduce::tile_size, true>(tile_rows, blockIdx.x, steps);
    typename Monoid::Value loaded[items];  // loads in flight while segments are found
#pragma unroll
    for (int k = 0; k < items; ++k) {
        const int i = Reduce::entry_index(tile, k);
        if (i < tile.b_count) loaded[k] = Map()(x[tile.b + i]);
    }
    Reduce reduce(storage, ends, tile);
    const typename Monoid::Value carry = reduce.reduce([&](int k) { return loaded[k]; });
    if (threadIdx.x == 0) carries[blockIdx.x] = carry;
    reduce.write(y + tile.a);
}

/// The first tile, before `tile`, that ends in the segment in which `tile` begins.
__device__ __forceinline__ long long first_of_row(const long long* tile_rows, long long tile) {
    const long long row = tile_rows[tile];
    if (tile_rows[tile - 1] != row) return tile - 1;  // most common
    return partition_point(0ll, tile, [=](long long t) { return tile_rows[t + 1] < row; });
}

/// y[v, r] = carries of segment r + y[v, r], for the first segment that ends in each tile, and
/// every vector v of `rows` results.
///
/// One warp per tile. The carries of a segment belong to neighbouring tiles; the warp folds 32
/// carries at a time, and loads several windows of 32 at once.
template <class Monoid>
__global__ void add_carries(const long long* tile_rows, long long tiles, long long rows,
                            const typename Monoid::Value* carries, long long vectors,
                            typename Monoid::Value* y) {
    using Value = typename Monoid::Value;
    constexpr int windows = sizeof(Value) <= 8 ? 8 : 1;
    const long long tile = warp_of_grid();
    if (tile == 0 || tile >= tiles || tile_rows[tile] == tile_rows[tile + 1]) return;
    const long long first = first_of_row(tile_rows, tile);
    for (long long v = blockIdx.y; v < vectors; v += gridDim.y) {
        const Value* carries_of_v = carries + v * tiles;
        Value sum = Monoid::identity();
        long long start = first;
        if constexpr (windows > 1) {
            for (; start + windows * warp_threads <= tile; start += windows * warp_threads) {
                Value carry[windows];
#pragma unroll
                for (int k = 0; k < windows; ++k)
                    carry[k] = carries_of_v[start + k * warp_threads + lane_index()];
#pragma unroll
                for (int k = 0; k < windows; ++k) sum = Monoid()(sum, warp_fold<Monoid>(carry[k]));
            }
        }
        for (; start < tile; start += warp_threads) {
            const long long before = start + lane_index();
            const Value carry = before < tile ? carries_of_v[before] : Monoid::identity();
            sum = Monoid()(sum, warp_fold<Monoid>(carry));
        }
        Value* result = y + v * rows + tile_rows[tile];
        if (lane_index() == 0) *result = Monoid()(sum, *result);
    }
}
