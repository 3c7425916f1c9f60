// Inclusive and exclusive scan in one pass: scan, and segmented scan by the lifted monoid.
//
//     scan : (a -> a -> a) -> a -> [n]a -> [n]a         the operator associative
//     inclusive [x0, x0 + x1, ...], exclusive [identity, x0, x0 + x1, ...]
//
// Problem. `size` elements, in rows of `length` side by side. In the segmented forms a segment
// begins at every row, and wherever its flag says so.
//
// Mapping. A block draws one tile of threads * items elements after the other, whatever rows
// and segments lie in it. It reads the tile side by side into shared memory; each thread
// folds `items` neighbours, the block scans the threads' results, its first warp looks back
// for the reduction of all tiles before (look_back.cuh), and each thread scans its items
// anew from there. `items` is odd, so that threads that read 4 or 8 bytes of shared memory
// `items` apart meet no bank twice. All of a tile is asked for before any of it is awaited.
//
// Shared memory. The tile, its flags, two rows of warps' totals.
// Cost. Reads n, writes n elements (and reads n bits or bytes of flags), 2 n operations for
// the items, launches once.
//
// Source. Oancea & Henriksen, "Basic Blocks of Data-Parallel Programming" (2019), which asks
// after its scan of two reads and two writes: "Can you do it better?"; the lifting is its
// "Segmented Inclusive Scan is a Sort of Scan". Not deterministic in the last bits of
// floats: how far a tile looks back depends on time.

#include "look_back.cuh"

/// Registers are to allow so many; more of them only spill.
constexpr int scan_blocks_per_multiprocessor = 3;

/// Where segments begin.
enum class Segments { none, rows, bytes, bits };

/// Which elements of a tile are the first of a row.
struct RowBegins {
    long long first;
    int step;

    __device__ RowBegins(long long start, long long length, int tile_size)
        : first((length - start % length) % length),
          step(length < tile_size ? static_cast<int>(length) : tile_size) {}

    /// For `i` below the tile's size.
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

/// `states`: zero at first; the ticket, then `words` for each tile. `published`: two elements
/// for each tile, where the words cannot hold one. `flags`: one for each element, bytes or
/// bits, the first of a byte lowest. x and y may be the same array.
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
        // No barrier: of the next tile each thread writes the elements that it has read here.
    }
}
