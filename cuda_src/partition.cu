// Stable partition: the elements that are kept, then the rest, each in their original order.
//
//     partition2 : (a -> bool) -> [n]a -> (int, [n]a)
//
// Problem. The position of the first rejected element is known only after all elements are
// counted. `count_kept` evaluates the predicate for each element and stores a bit mask, and the
// number of kept elements of each tile; the counts are scanned; `move` reads and writes every
// element once.
//
// Mapping. A warp has 32 * items neighbours of a tile, 32 at a time; a ballot and a population
// count give a lane's rank among the kept elements. Lane k has the bits of the k-th 32, so that
// a warp writes and reads all its bits at once. `move` partitions the tile in shared memory, so
// that it writes two contiguous runs, each in full sectors but for its ends.
//
// Shared memory. The tile; the counts of the warps.
// Cost. `move` reads and writes n elements. Before that, `count_kept` reads n bytes of mask, or
// the n elements; n / 8 bytes of bits are written and read. (A partition in one pass can write
// the rejected elements only in reverse order, from the end: their position is not known.)
//
// Source. Oancea & Henriksen, "Basic Blocks of Data-Parallel Programming" (2019), exercise 3. Its
// own algorithm, two scans and a scatter, is the variant "two_scans": map.cu, scan.cu, scatter.cu.

#include "monoid.cuh"
#include "ordered.cuh"

/// kept[word] = the predicate for 32 elements, the first element in the lowest bit; counts[tile] =
/// the number of kept elements of the tile. `tested` is the mask, or the elements.
template <class Predicate, int threads, int items>
__global__ void __launch_bounds__(threads)
    count_kept(const typename Predicate::Input* tested, long long size, unsigned* kept,
               long long* counts) {
    using Input = typename Predicate::Input;
    static_assert(items <= warp_threads, "a lane has the bits of 32 elements");
    __shared__ BlockScan<Count>::Storage storage;
    const long long warp = warp_of_grid();
    const long long start = warp * warp_threads * items + lane_index();
    Input loaded[items] = {};
#pragma unroll
    for (int k = 0; k < items; ++k)
        if (start + k * warp_threads < size) loaded[k] = tested[start + k * warp_threads];
    unsigned own_bits = 0;
#pragma unroll
    for (int k = 0; k < items; ++k) {
        const bool inside = start + k * warp_threads < size;
        const unsigned bits = __ballot_sync(whole_warp, inside && Predicate()(loaded[k]));
        if (lane_index() == k) own_bits = bits;
    }
    if (lane_index() < items) kept[warp * items + lane_index()] = own_bits;
    const int total = BlockScan<Count>(storage).fold(__popc(own_bits));
    if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

/// `kept_before` is the exclusive scan of the counts, followed by their sum.
template <class T, int threads, int items>
__global__ void __launch_bounds__(threads)
    move(const T* x, long long size, const unsigned* kept, const long long* kept_before, T* y) {
    constexpr int tile_size = threads * items;
    __shared__ T gathered[tile_size];
    __shared__ BlockScan<Count>::Storage storage;
    const long long tile = static_cast<long long>(blockIdx.x) * tile_size;
    const int count = static_cast<int>(size - tile < tile_size ? size - tile : tile_size);
    const int warp_start = warp_index() * warp_threads * items;
    // Loads in flight until the tile is written.
    const long long before = kept_before[blockIdx.x], kept_in_all = kept_before[gridDim.x];
    const unsigned* warp_bits = kept + (tile + warp_start) / warp_threads;
    const unsigned own_bits = lane_index() < items ? warp_bits[lane_index()] : 0;

    T loaded[items];
#pragma unroll
    for (int k = 0; k < items; ++k) {
        const int i = warp_start + k * warp_threads + lane_index();
        if (i < count) loaded[k] = x[tile + i];
    }
    int all_kept;
    const int own_rank = BlockScan<Count>(storage).exclusive(__popc(own_bits), all_kept);
    const unsigned lanes_before = (1u << lane_index()) - 1;
#pragma unroll
    for (int k = 0; k < items; ++k) {
        const int i = warp_start + k * warp_threads + lane_index();
        const unsigned bits = __shfl_sync(whole_warp, own_bits, k);
        const int rank = __shfl_sync(whole_warp, own_rank, k) + __popc(bits & lanes_before);
        const bool is_kept = bits >> lane_index() & 1;
        if (i < count) gathered[is_kept ? rank : all_kept + i - rank] = loaded[k];
    }
    __syncthreads();

    const long long rest = kept_in_all + tile - before;
    for_each_aligned(before, all_kept, [&](int i) { y[before + i] = gathered[i]; });
    for_each_aligned(rest, count - all_kept, [&](int i) { y[rest + i] = gathered[all_kept + i]; });
}
