// Inclusive and exclusive scan in one pass: scan, and segmented scan by the lifted monoid.
//
//     scan : (a -> a -> a) -> a -> [n]a -> [n]a         the operator associative
//     inclusive [x0, x0 + x1, ...], exclusive [identity, x0, x0 + x1, ...]
//
// Problem. `size` elements, in contiguous rows of `length`. In the segmented forms a segment
// begins at every row, and at every element whose flag is set.
//
// Mapping. A block processes tiles of threads * items elements, one after the other. A tile is
// independent of rows and segments. The block reads it with coalesced loads into shared memory;
// each thread folds `items` neighbours, the block scans the results of the threads, its first
// warp looks back for the reduction of all tiles before (look_back.cuh), and each thread scans
// its items again from there. `items` is odd, so there are no bank conflicts between threads
// that read 4 or 8 bytes, `items` apart. All loads of a tile are issued before the first is
// used.
//
// Shared memory. The tile, its flags, two rows of warp totals.
// Cost. Reads and writes n elements, reads n bits or bytes of flags; 2 n operations for the
// items; one launch.
//
// Source. Oancea & Henriksen, "Basic Blocks of Data-Parallel Programming" (2019). After its
// scan with two reads and two writes it asks: "Can you do it better?"; the lifted monoid is its
// "Segmented Inclusive Scan is a Sort of Scan". The last bits of floating-point results vary
// from run to run: the order in which prefixes are combined depends on scheduling.

#include "look_back.cuh"

/// Minimum resident blocks per multiprocessor, for `__launch_bounds__`; a higher value causes
/// spills.
constexpr int scan_blocks_per_multiprocessor = 3;

/// What determines where segments begin.
enum class Segments { none, rows, bytes, bits };

/// Whether element i of a tile, which begins at element `start`, is the first of a row.
struct RowBegins {
    long long first;
    int step;

    __device__ RowBegins(long long start, long long length, int tile_size)
        : first((length - start % length) % length),
          step(length < tile_size ? static_cast<int>(length) : tile_size) {}

    /// `i` must be less than the tile's size.
    __device__ __forceinline__ bool operator()(int i) const {
        return i >= first && (i - static_cast<int>(first)) % step == 0;
    }
};

template <class Monoid, bool segmented>
struct Lifted {
    using Type = Monoid;
};
template <class Monoid>
struct Lifted<Monoid, true> {
    using Type = Segmented<Monoid>;
};

/// `states`: the counter that tiles are taken from, then `words` for each tile; all zero before
/// the launch. `published`: two elements for each tile, if an element does not fit into the
/// words. `flags`: a byte or a bit for each element, beginning with the lowest bit of a byte. x
/// and y may be the same array.
template <class Monoid, class Map, Segments segments, int threads, int items, int words>
__global__ void __launch_bounds__(threads, scan_blocks_per_multiprocessor)
    scan(const typename Map::Input* x, long long size, long long length, const unsigned char* flags,
         bool exclusive, typename Monoid::Value* y, unsigned long long* states,
         typename Monoid::Value* published) {
    constexpr bool segmented = segments != Segments::none;
    using Element = typename Monoid::Value;
    using Operator = typename Lifted<Monoid, segmented>::Type;
    using Value = typename Operator::Value;
    constexpr int tile_size = threads * items;
    __shared__ Element elements[tile_size];
    __shared__ bool begins[segmented ? tile_size : 1];
    __shared__ typename BlockScan<Operator>::Storage totals;
    __shared__ Value shared_prefix;
    __shared__ long long shared_tile;

    BlockScan<Operator> block_scan(totals);
    const TileStates<Element, words> tiles(states + 1, published);
    const Operator combine;
    const long long tile_count = (size + tile_size - 1) / tile_size;
    for (;;) {
        if (threadIdx.x == 0) shared_tile = static_cast<long long>(atomicAdd(states, 1ull));
        __syncthreads();
        const long long tile = shared_tile;
        if (tile >= tile_count) return;
        const long long start = tile * tile_size;
        const int count = static_cast<int>(size - start < tile_size ? size - start : tile_size);

        Element loaded[items];
        unsigned char flagged[items] = {};
#pragma unroll
        for (int k = 0; k < items; ++k) {
            const int i = k * threads + threadIdx.x;
            loaded[k] = i < count ? Map()(x[start + i]) : Monoid::identity();
        }
        if constexpr (segments == Segments::bytes || segments == Segments::bits) {
#pragma unroll
            for (int k = 0; k < items; ++k) {
                const long long i = start + k * threads + threadIdx.x;
                if (i < size) flagged[k] = flags[segments == Segments::bits ? i / 8 : i];
            }
        }
#pragma unroll
        for (int k = 0; k < items; ++k) elements[k * threads + threadIdx.x] = loaded[k];
        if constexpr (segmented) {
            const RowBegins row_begins(start, length, tile_size);
#pragma unroll
            for (int k = 0; k < items; ++k) {
                const int i = k * threads + threadIdx.x;
                if (segments == Segments::bits) flagged[k] = flagged[k] >> (start + i) % 8 & 1;
                begins[i] = flagged[k] != 0 || (row_begins.first < count && row_begins(i));
            }
        }
        __syncthreads();

        const int own = threadIdx.x * items;
        const auto item = [&](int k) {
            Value value;
            from_flagged(Flagged<Element>{elements[own + k], segmented && begins[own + k]}, value);
            return value;
        };
        Value sum = item(0);
#pragma unroll
        for (int k = 1; k < items; ++k) sum = combine(sum, item(k));
        Value total;
        Value running = block_scan.exclusive(sum, total);
        if (warp_index() == 0) {
            const Value prefix = exchange_prefix<Operator>(tiles, tile, total);
            if (lane_index() == 0) shared_prefix = prefix;
        }
        __syncthreads();

        running = combine(shared_prefix, running);
#pragma unroll
        for (int k = 0; k < items; ++k) {
            const Value next = combine(running, item(k));
            const bool is_first = segmented && begins[own + k];
            if (!exclusive)
                elements[own + k] = to_flagged(next).value;
            else
                elements[own + k] = is_first ? Monoid::identity() : to_flagged(running).value;
            running = next;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < items; ++k) {
            const int i = k * threads + threadIdx.x;
            if (i < count) y[start + i] = elements[i];
        }
        // No barrier: each thread writes those elements of the next tile that it has read here.
    }
}
