// Inclusive and exclusive scan in one pass: scan, and segmented scan by the lifted monoid.
//
//     scan : (a -> a -> a) -> a -> [n]a -> [n]a         the operator associative
//     inclusive [x0, x0 + x1, ...], exclusive [identity, x0, x0 + x1, ...]
//
// Problem. `size` elements, in contiguous rows of `length`. In the segmented forms a segment
// begins at every row, and at every element whose flag is set.
//
// Mapping. A block processes tiles of threads * items elements in order. A tile is
// independent of rows and segments. The block reads it with coalesced loads into shared memory;
// each thread folds `items` neighbours, the block scans the results of the threads, its first
// warp looks back for the reduction of all tiles before (look_back.cuh), and each thread scans
// its items; items of up to 16 bytes stay in registers. The beginnings of segments among a
// thread's items are bits of one word: votes make a bit mask of a tile's flags, and beginnings of
// rows follow from the first row in the tile. `items` is chosen so that threads that read elements
// of 1, 4 or 8 bytes, `items` apart, have no bank conflicts. All loads of a tile are issued before
// the first is used.
//
// Shared memory. The tile, a bit for each flag, two rows of warp totals.
// Cost. Reads and writes n elements, reads n bits or bytes of flags; 2 n operations for the
// items; one launch.
//
// Source. Oancea & Henriksen, "Basic Blocks of Data-Parallel Programming" (2019). After its
// scan with two reads and two writes it asks: "Can you do it better?"; the lifted monoid is its
// "Segmented Inclusive Scan is a Sort of Scan". The last bits of floating-point results vary
// from run to run: the order in which prefixes are combined depends on scheduling.

#include "look_back.cuh"
#include "pack.cuh"

/// Minimum resident blocks per multiprocessor, for `__launch_bounds__`; a higher value causes
/// spills.
constexpr int scan_blocks_per_multiprocessor = 3;

/// What determines where segments begin.
enum class Segments { none, rows, bytes, bits };

// ---- where segments begin -----------------------------------------------------------

/// The first beginning of a row in the tile from element `start` on; `tile_size` or more if
/// there is none. `length`: of a row.
__device__ __forceinline__ int first_row_of_tile(long long start, long long length, long long size,
                                                 int tile_size) {
    if (length >= size) return start == 0 ? 0 : tile_size;  // one row: no division
    const long long before = start % length;
    if (before == 0) return 0;
    return length - before < tile_size ? static_cast<int>(length - before) : tile_size;
}

/// Elements own to own + items - 1 of a tile at which a row begins, as bits. Rows begin at
/// `first`, which is less than the tile's size, and every `step` elements after it.
template <int items>
__device__ __forceinline__ unsigned row_begins(int own, int first, int step) {
    const int after = first < own ? (own - first) % step : 0;  // elements after the last
    unsigned begins = 0;
    // Rows are mostly longer than `items`. The unrolled loop would divide by `step` once more.
#pragma unroll 1
    for (int i = first > own ? first - own : after > 0 ? step - after : 0; i < items; i += step)
        begins |= 1u << i;
    return begins;
}

/// The flags of a tile, from global memory to a bit mask with a bit for each element.
template <Segments segments, int threads, int items>
struct FlagBits {
    static constexpr int tile_size = threads * items;
    static constexpr bool packed = segments == Segments::bits;
    static constexpr int loads = packed ? (tile_size / 8 + threads - 1) / threads : items;
    unsigned char loaded[loads];

    /// `flags` begin with the tile's first element, and belong to `count` elements.
    __device__ __forceinline__ void load(const unsigned char* flags, int count) {
        const int bytes = packed ? (count + 7) / 8 : count;
        if (!packed && count == tile_size) {
#pragma unroll
            for (int k = 0; k < loads; ++k) loaded[k] = flags[k * threads + threadIdx.x];
        } else {
#pragma unroll
            for (int k = 0; k < loads; ++k) {
                const int i = k * threads + threadIdx.x;
                loaded[k] = i < bytes ? flags[i] : 0;
            }
        }
    }

    __device__ __forceinline__ void store(unsigned* words) const {
#pragma unroll
        for (int k = 0; k < loads; ++k) {
            const int i = k * threads + threadIdx.x;
            if constexpr (packed) {
                if (i < tile_size / 8) reinterpret_cast<unsigned char*>(words)[i] = loaded[k];
            } else {
                const unsigned vote = __ballot_sync(whole_warp, loaded[k] != 0);
                if (lane_index() == 0) words[i / warp_threads] = vote;
            }
        }
    }
};

/// Bits own to own + items - 1 of a bit mask of `tile_size` bits.
template <int items, int tile_size>
__device__ __forceinline__ unsigned bits_of_thread(const unsigned* words, int own) {
    constexpr int bits = 32, last = tile_size / bits - 1;
    const int word = own / bits;
    const unsigned long long low = words[word], high = words[word < last ? word + 1 : last];
    return static_cast<unsigned>((high << bits | low) >> own % bits) & ((1u << items) - 1);
}

// ---- scan ---------------------------------------------------------------------------

template <class Monoid, bool segmented>
struct Lifted {
    using Type = Monoid;
};
template <class Monoid>
struct Lifted<Monoid, true> {
    using Type = Segmented<Monoid>;
};

/// The next tile of the launch, for the thread that calls it.
__device__ __forceinline__ int take_tile(unsigned long long* taken) {
    return static_cast<int>(atomicAdd(taken, 1ull));
}

/// `states`: the counter that tiles are taken from, then `words` for each tile; all zero before
/// the launch. `published`: two elements for each tile, if an element does not fit into the
/// words. `flags`: a byte or a bit for each element, beginning with the lowest bit of a byte.
/// `more`: other arrays that the map reads. Any of them and y may be the same array.
template <class Monoid, class Map, Segments segments, int threads, int items, int words,
          class... More>
__global__ void __launch_bounds__(threads, scan_blocks_per_multiprocessor)
    scan(const typename Map::Input* x, long long size, long long length, const unsigned char* flags,
         bool exclusive, typename Monoid::Value* y, unsigned long long* states,
         typename Monoid::Value* published, const More*... more) {
    constexpr bool segmented = segments != Segments::none;
    constexpr bool flagged = segments == Segments::bytes || segments == Segments::bits;
    using Element = typename Monoid::Value;
    using Operator = typename Lifted<Monoid, segmented>::Type;
    using Value = typename Operator::Value;
    constexpr int tile_size = threads * items;
    static_assert(items < 32, "the flags of a thread are bits of one word");
    __shared__ alignas(pack_bytes) Element elements[tile_size];
    __shared__ unsigned flag_words[flagged ? tile_size / warp_threads : 1];
    __shared__ typename BlockScan<Operator>::Storage totals;
    __shared__ Value shared_prefix;
    __shared__ int shared_tile, shared_first_row;  // a tile has 2 KB or more: int suffices

    BlockScan<Operator> block_scan(totals);
    const TileStates<Element, words> tiles(states + 1, published);
    const Monoid combine;
    const long long tile_count = (size + tile_size - 1) / tile_size;
    const int own = threadIdx.x * items;
    int next = 0;  // the first thread takes a tile while the block scans the tile before
    if (threadIdx.x == 0) shared_tile = take_tile(states);
    __syncthreads();
    for (int tile = shared_tile; tile < tile_count; tile = shared_tile) {
        if (threadIdx.x == 0) next = take_tile(states);
        const long long start = static_cast<long long>(tile) * tile_size;
        const int count = static_cast<int>(size - start < tile_size ? size - start : tile_size);

        const bool whole = count == tile_size;
        Element loaded[items];
        if (whole) {
#pragma unroll
            for (int k = 0; k < items; ++k) {
                const long long i = start + k * threads + threadIdx.x;
                loaded[k] = Map()(x[i], more[i]...);
            }
        } else {
#pragma unroll
            for (int k = 0; k < items; ++k) {
                const int i = k * threads + threadIdx.x;
                loaded[k] =
                    i < count ? Map()(x[start + i], more[start + i]...) : Monoid::identity();
            }
        }
        if constexpr (flagged) {
            FlagBits<segments, threads, items> bits;
            bits.load(flags + (segments == Segments::bits ? start / 8 : start), count);
            bits.store(flag_words);
        }
        if constexpr (segmented) {
            if (threadIdx.x == 0)
                shared_first_row = first_row_of_tile(start, length, size, tile_size);
        }
#pragma unroll
        for (int k = 0; k < items; ++k) elements[k * threads + threadIdx.x] = loaded[k];
        __syncthreads();

        unsigned begins = 0;  // the thread's elements at which a segment begins
        if constexpr (flagged) begins = bits_of_thread<items, tile_size>(flag_words, own);
        if constexpr (segmented) {
            const int first = shared_first_row;
            const int step = length < tile_size ? static_cast<int>(length) : tile_size;
            if (first < tile_size) begins |= row_begins<items>(own, first, step);
        }
        constexpr bool in_registers = sizeof(Element) <= 16;  // larger elements would spill
        Element kept[in_registers ? items : 1];
        if constexpr (in_registers) {
#pragma unroll
            for (int k = 0; k < items; ++k) kept[k] = elements[own + k];
        }
        const auto item = [&](int k) -> Element {
            if constexpr (in_registers) return kept[k];
            return elements[own + k];
        };
        Element sum = item(0);
#pragma unroll
        for (int k = 1; k < items; ++k) sum = begins >> k & 1 ? item(k) : combine(sum, item(k));
        Value own_total, total;
        from_flagged(Flagged<Element>{sum, begins != 0}, own_total);
        const Value before = block_scan.exclusive(own_total, total);
        if (warp_index() == 0) {
            const Value prefix = exchange_prefix<Operator>(tiles, tile, total);
            if (lane_index() == 0) shared_prefix = prefix;
        }
        __syncthreads();

        Element running = to_flagged(Operator()(shared_prefix, before)).value;
        if (exclusive) {
#pragma unroll
            for (int k = 0; k < items; ++k) {
                const bool is_first = begins >> k & 1;
                const Element next = is_first ? item(k) : combine(running, item(k));
                elements[own + k] = is_first ? Monoid::identity() : running;
                running = next;
            }
        } else {
#pragma unroll
            for (int k = 0; k < items; ++k) {
                running = begins >> k & 1 ? item(k) : combine(running, item(k));
                elements[own + k] = running;
            }
        }
        if (threadIdx.x == 0) shared_tile = next;
        __syncthreads();
        if (whole) {
#pragma unroll
            for (int k = 0; k < items; ++k) {
                const int i = k * threads + threadIdx.x;
                write_element(y + start + i, elements[i]);
            }
        } else {
#pragma unroll 1
            for (int i = threadIdx.x; i < count; i += threads) y[start + i] = elements[i];
        }
        // No barrier: each thread writes those elements of the next tile that it has read here.
    }
}
