// Inclusive and exclusive scan in one pass: scan, and segmented scan by the lifted monoid.
//
//     scan : (a -> a -> a) -> a -> [n]a -> [n]a         the operator associative
//     inclusive [x0, x0 + x1, ...], exclusive [identity, x0, x0 + x1, ...]
//
// Problem. `rows` arrays of `length` elements side by side. In the segmented form a segment
// begins at every row, and wherever its flag says so.
//
// Mapping. A block draws one tile of threads * items elements after the other, whatever rows
// and segments lie in it. It reads the tile side by side into shared memory; each thread
// folds `items` neighbours, the block scans the threads' results, its first warp looks back
// for the reduction of all tiles before (look_back.cuh), and each thread scans its items
// anew from there. `items` is odd, so that threads that read shared memory `items` apart
// meet no bank twice.
//
// Shared memory. The tile, two rows of warps' totals.
// Cost. Reads n, writes n elements (and n bits or bytes of flags), 2 n operations for the
// items, launches once.
//
// Source. Oancea & Henriksen, "Basic Blocks of Data-Parallel Programming" (2019), which asks
// after its scan of two reads and two writes: "Can you do it better?"; the lifting is its
// "Segmented Inclusive Scan is a Sort of Scan". Not deterministic in the last bits of
// floats: how far a tile looks back depends on time.

#include "look_back.cuh"

/// Registers are to allow so many; more of them only spill.
constexpr int scan_blocks_per_multiprocessor = 3;

/// Where segments begin.
struct Heads {
    const unsigned char* flags;  // null, bytes, or bits that begin anew at a byte in each row
    bool packed;
    long long length;

    /// Does a segment begin at element `i` of the tile that starts at `column` of `row`?
    __device__ __forceinline__ bool operator()(long long row, long long column, int i) const {
        column += i;
        if (column >= length) {
            const long long rows =
                length > 0x7fffffff ? 1
                                    : static_cast<unsigned>(column) / static_cast<unsigned>(length);
            row += rows;
            column -= rows * length;
        }
        if (column == 0) return true;
        if (flags == nullptr) return false;
        if (!packed) return flags[row * length + column] != 0;
        return flags[row * ((length + 7) / 8) + column / 8] >> column % 8 & 1;
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

template <class T>
__device__ __forceinline__ bool begins_at(const T&) {
    return false;
}
template <class T>
__device__ __forceinline__ bool begins_at(const Flagged<T>& element) {
    return element.begins;
}

/// `states`: zero at first; the ticket, then a word for each tile. `published`: two elements
/// for each tile. x and y may be the same array.
template <class Monoid, class Map, bool segmented, int threads, int items>
__global__ void __launch_bounds__(threads, scan_blocks_per_multiprocessor)
    scan(const typename Map::Input* x, long long size, long long length, const unsigned char* flags,
         bool packed, bool exclusive, typename Monoid::Value* y, unsigned long long* states,
         typename Monoid::Value* published) {
    using Element = typename Monoid::Value;
    using Operator = typename Lifted<Monoid, segmented>::Type;
    using Value = typename Operator::Value;
    constexpr int tile_size = threads * items;
    __shared__ Value elements[tile_size];
    __shared__ typename BlockScan<Operator>::Storage totals;
    __shared__ Value shared_prefix;
    __shared__ long long shared_tile;

    BlockScan<Operator> block_scan(totals);
    const TileStates<Element> tiles(states + 1, published);
    const Heads heads{flags, packed, length};
    const Operator combine;
    const long long tile_count = (size + tile_size - 1) / tile_size;
    for (;;) {
        if (threadIdx.x == 0) shared_tile = static_cast<long long>(atomicAdd(states, 1ull));
        __syncthreads();
        const long long tile = shared_tile;
        if (tile >= tile_count) return;
        const long long start = tile * tile_size;
        const int count = static_cast<int>(size - start < tile_size ? size - start : tile_size);

        const long long row = segmented ? start / length : 0;
        const long long column = segmented ? start - row * length : 0;
        Value loaded[items];
#pragma unroll
        for (int k = 0; k < items; ++k) {
            const int i = k * threads + threadIdx.x;
            loaded[k] = Operator::identity();
            if (i < count)
                from_flagged(
                    Flagged<Element>{Map()(x[start + i]), segmented && heads(row, column, i)},
                    loaded[k]);
        }
#pragma unroll
        for (int k = 0; k < items; ++k) elements[k * threads + threadIdx.x] = loaded[k];
        __syncthreads();

        Value* own = elements + threadIdx.x * items;
        Value sum = own[0];
#pragma unroll
        for (int k = 1; k < items; ++k) sum = combine(sum, own[k]);
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
            const Value next = combine(running, own[k]);
            if (!exclusive)
                own[k] = next;
            else
                own[k] = begins_at(own[k]) ? Operator::identity() : running;
            running = next;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < items; ++k) {
            const int i = k * threads + threadIdx.x;
            if (i < count) y[start + i] = to_flagged(elements[i]).value;
        }
        __syncthreads();
    }
}
