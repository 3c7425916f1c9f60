// Stable partition: what is kept in front, the rest behind, each in its old order.
//
//     partition2 : (a -> bool) -> [n]a -> (int, [n]a)
//
// Problem. Where the first of the rest goes is known only when all have been counted. So
// `count_kept` counts in each tile, the counts are scanned, and `move` reads every element
// once and writes it once.
//
// Mapping. A warp owns 32 * items neighbours of a tile, 32 at a time; a lane's rank among
// the kept ones is a vote and a population count. `move` gathers the tile in shared memory,
// the kept ones first, so that it writes two contiguous runs.
//
// Shared memory. The tile; the warps' counts.
// Cost. Reads n and writes n elements, and reads the mask, or what the predicate is of,
// twice. (In one reading the rest can only be written in reverse: its place is not known.)
//
// Source. Oancea & Henriksen, "Basic Blocks of Data-Parallel Programming" (2019), exercise 3.

#include "monoid.cuh"
#include "ordered.cuh"

/// The sum of counts, as a monoid.
struct Count {
    using Value = int;
    static constexpr bool commutative = true;
    static __device__ __forceinline__ int identity() { return 0; }
    __device__ __forceinline__ int operator()(int a, int b) const { return a + b; }
};

/// The votes of this thread's warp on its part of a tile.
template <class Predicate, int items>
struct Votes {
    unsigned kept[items];

    __device__ void take(const typename Predicate::Input* tested, long long start, long long size) {
#pragma unroll
        for (int k = 0; k < items; ++k) {
            const long long i = start + k * warp_threads + lane_index();
            kept[k] = __ballot_sync(whole_warp, i < size && Predicate()(tested[i]));
        }
    }

    __device__ int count() const {
        int result = 0;
#pragma unroll
        for (int k = 0; k < items; ++k) result += __popc(kept[k]);
        return result;
    }
};

/// counts[tile] = how many elements of the tile are kept. `tested` is the mask, or x itself.
template <class Predicate, int threads, int items>
__global__ void __launch_bounds__(threads)
    count_kept(const typename Predicate::Input* tested, long long size, long long* counts) {
    __shared__ BlockScan<Count>::Storage storage;
    const long long tile = static_cast<long long>(blockIdx.x) * threads * items;
    Votes<Predicate, items> votes;
    votes.take(tested, tile + warp_index() * warp_threads * items, size);
    const int total = BlockScan<Count>(storage).fold(lane_index() == 0 ? votes.count() : 0);
    if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

/// kept_before[tile] is the exclusive scan of the counts, and at its end their sum.
template <class T, class Predicate, int threads, int items>
__global__ void __launch_bounds__(threads)
    move(const T* x, const typename Predicate::Input* tested, long long size,
         const long long* kept_before, T* y) {
    constexpr int tile_size = threads * items;
    __shared__ T gathered[tile_size];
    __shared__ BlockScan<Count>::Storage storage;
    const long long tile = static_cast<long long>(blockIdx.x) * tile_size;
    const int count = static_cast<int>(size - tile < tile_size ? size - tile : tile_size);
    const int warp_start = warp_index() * warp_threads * items;

    Votes<Predicate, items> votes;
    votes.take(tested, tile + warp_start, size);
    int kept;
    int rank = BlockScan<Count>(storage).exclusive(lane_index() == 0 ? votes.count() : 0, kept);
    rank = __shfl_sync(whole_warp, rank, 0);
    const unsigned lanes_before = (1u << lane_index()) - 1;
#pragma unroll
    for (int k = 0; k < items; ++k) {
        const int i = warp_start + k * warp_threads + lane_index();
        const int own_rank = rank + __popc(votes.kept[k] & lanes_before);
        const bool is_kept = votes.kept[k] >> lane_index() & 1;
        if (i < count) gathered[is_kept ? own_rank : kept + i - own_rank] = x[tile + i];
        rank += __popc(votes.kept[k]);
    }
    __syncthreads();

    const long long before = kept_before[blockIdx.x];
    const long long rest = kept_before[gridDim.x] + tile - before;
    for (int i = threadIdx.x; i < count; i += threads)
        y[i < kept ? before + i : rest + i - kept] = gathered[i];
}
