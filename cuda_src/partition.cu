// Stable partition: what is kept in front, the rest behind, each in its old order.
//
//     partition2 : (a -> bool) -> [n]a -> (int, [n]a)
//
// Problem. Where the first of the rest goes is known only when all have been counted. So
// `count_kept` asks for each element, keeps the answers as bits, and counts them in each
// tile; the counts are scanned; and `move` reads every element once and writes it once.
//
// Mapping. A warp owns 32 * items neighbours of a tile, 32 at a time; a lane's rank among
// the kept ones is a vote and a population count. `move` gathers the tile in shared memory,
// the kept ones first, so that it writes two contiguous runs.
//
// Shared memory. The tile; the warps' counts.
// Cost. Reads n and writes n elements, and before that reads the mask, or what the
// predicate is of, and moves n / 8 bytes twice. (In one reading the rest can only be
// written in reverse: its place is not known.)
//
// Source. Oancea & Henriksen, "Basic Blocks of Data-Parallel Programming" (2019), exercise 3.

#include "monoid.cuh"
#include "ordered.cuh"

/// kept[word] = the answers for 32 elements, the first lowest; counts[tile] = how many of the
/// tile are kept. `tested` is the mask, or the elements themselves.
template <class Predicate, int threads, int items>
__global__ void __launch_bounds__(threads)
    count_kept(const typename Predicate::Input* tested, long long size, unsigned* kept,
               long long* counts) {
    using Input = typename Predicate::Input;
    __shared__ BlockScan<Count>::Storage storage;
    const long long warp = warp_of_grid();
    const long long start = warp * warp_threads * items + lane_index();
    Input loaded[items] = {};
#pragma unroll
    for (int k = 0; k < items; ++k)
        if (start + k * warp_threads < size) loaded[k] = tested[start + k * warp_threads];
    int count = 0;
#pragma unroll
    for (int k = 0; k < items; ++k) {
        const bool inside = start + k * warp_threads < size;
        const unsigned vote = __ballot_sync(whole_warp, inside && Predicate()(loaded[k]));
        if (lane_index() == 0) kept[warp * items + k] = vote;
        count += __popc(vote);
    }
    const int total = BlockScan<Count>(storage).fold(lane_index() == 0 ? count : 0);
    if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

/// kept_before[tile] is the exclusive scan of the counts, and at its end their sum.
template <class T, int threads, int items>
__global__ void __launch_bounds__(threads)
    move(const T* x, long long size, const unsigned* kept, const long long* kept_before, T* y) {
    constexpr int tile_size = threads * items;
    __shared__ T gathered[tile_size];
    __shared__ BlockScan<Count>::Storage storage;
    const long long tile = static_cast<long long>(blockIdx.x) * tile_size;
    const int count = static_cast<int>(size - tile < tile_size ? size - tile : tile_size);
    const int warp_start = warp_index() * warp_threads * items;
    const unsigned* votes = kept + (tile + warp_start) / warp_threads;

    T loaded[items];
    unsigned vote[items];
    int own_count = 0;
#pragma unroll
    for (int k = 0; k < items; ++k) {
        const int i = warp_start + k * warp_threads + lane_index();
        if (i < count) loaded[k] = x[tile + i];
    }
#pragma unroll
    for (int k = 0; k < items; ++k) {
        vote[k] = votes[k];
        own_count += __popc(vote[k]);
    }
    int all_kept;
    int rank = BlockScan<Count>(storage).exclusive(lane_index() == 0 ? own_count : 0, all_kept);
    rank = __shfl_sync(whole_warp, rank, 0);
    const unsigned lanes_before = (1u << lane_index()) - 1;
#pragma unroll
    for (int k = 0; k < items; ++k) {
        const int i = warp_start + k * warp_threads + lane_index();
        const int own_rank = rank + __popc(vote[k] & lanes_before);
        const bool is_kept = vote[k] >> lane_index() & 1;
        if (i < count) gathered[is_kept ? own_rank : all_kept + i - own_rank] = loaded[k];
        rank += __popc(vote[k]);
    }
    __syncthreads();

    const long long before = kept_before[blockIdx.x];
    const long long rest = kept_before[gridDim.x] + tile - before;
    for (int i = threadIdx.x; i < count; i += threads)
        y[i < all_kept ? before + i : rest + i - all_kept] = gathered[i];
}
