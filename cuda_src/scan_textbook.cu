// Scans as they are taught, for any monoid, with the names of the source.
//
// Problem. Scan each of `rows` rows of `length` elements. scan.cu reads and writes every element
// once; these kernels are the steps that lead there, for study and measurement. Their
// floating-point results have the same bits in every run.
//
//   warp          each warp scans 32 elements and writes their total; the totals are scanned
//                 in the same way, and their prefixes are combined with the elements.
//   sweep         up-sweep and down-sweep over a binary tree, one launch per level; also for
//                 segments.
//   hierarchical  the six steps: thread, shared memory, warp, block, totals, update. Each
//                 block scans one chunk, tile after tile; there are so few chunks that one
//                 block scans their totals.
//
// Cost, in elements read and written: warp 4 n (1 + 1/32 + ...), hierarchical 4 n, sweep 7 n and
// 4 n or 5 n for copies. The segmented sweep moves at most these, and 5 n flags.
//
// Source. Oancea & Henriksen, "Basic Blocks of Data-Parallel Programming" (2019), "Parallel
// Exclusive Scan", "Wavefront-Level Inclusive Scan", "OpenCL Scan Implementation", "Segmented
// Exclusive Scan Algorithm".

#include "monoid.cuh"
#include "ordered.cuh"

// ---- warp ---------------------------------------------------------------------------

/// Inclusive scans of 32 elements each; totals[row, w] is the last prefix of warp w. No warp
/// belongs to two rows.
template <class Monoid>
__global__ void scan_warps(const typename Monoid::Value* x, long long rows, long long length,
                           typename Monoid::Value* y, typename Monoid::Value* totals) {
    using Value = typename Monoid::Value;
    const long long warps = (length + warp_threads - 1) / warp_threads;
    const long long warp = warp_of_grid();
    if (warp >= rows * warps) return;
    const long long row = warp / warps;
    const long long i = (warp - row * warps) * warp_threads + lane_index();
    const Value own = i < length ? x[row * length + i] : Monoid::identity();
    const Value result = warp_scan<Monoid>(own);
    if (i < length) y[row * length + i] = result;
    if (lane_index() == warp_threads - 1) totals[warp] = result;
}

// ---- sweep --------------------------------------------------------------------------

// In place, in rows whose length is a power of two. A node is stored at its last leaf; level d
// of the tree has length / 2^(d + 1) nodes per row, a node for each thread.

/// Each parent becomes the reduction of its leaves.
template <class Monoid>
__global__ void up_sweep(typename Monoid::Value* x, long long parents, long long distance) {
    const long long parent = thread_of_grid();
    if (parent >= parents) return;
    typename Monoid::Value* left = x + (2 * parent + 1) * distance - 1;
    left[distance] = Monoid()(*left, left[distance]);
}

/// Each parent has the reduction of all elements before it. The left child gets this value, the
/// right child this value combined with the left child's, in this order. (The source
/// has the opposite order, which is correct only for commutative operators.)
template <class Monoid>
__global__ void down_sweep(typename Monoid::Value* x, long long parents, long long distance) {
    const long long parent = thread_of_grid();
    if (parent >= parents) return;
    typename Monoid::Value* left = x + (2 * parent + 1) * distance - 1;
    const typename Monoid::Value before = left[distance];
    left[distance] = Monoid()(before, *left);
    *left = before;
}

/// The root, the last element of each row, becomes the identity.
template <class Monoid>
__global__ void clear_root(typename Monoid::Value* x, long long rows, long long length) {
    const long long row = thread_of_grid();
    if (row < rows) x[(row + 1) * length - 1] = Monoid::identity();
}

// ---- segmented sweep ----------------------------------------------------------------

// As above, with flags: begins[i] tells whether a segment begins at element i, reached[i]
// whether a segment begins at any leaf of the node that is stored at i. (The source's listing lacks
// the line by which the left child gets the value of its parent; and it unsets flags that no
// later step reads.)

/// Each parent becomes the reduction of its leaves from the last beginning among them on.
template <class Monoid>
__global__ void segmented_up_sweep(typename Monoid::Value* x, unsigned char* reached,
                                   long long parents, long long distance) {
    const long long parent = thread_of_grid();
    if (parent >= parents) return;
    const long long left = (2 * parent + 1) * distance - 1, right = left + distance;
    if (!reached[right]) x[right] = Monoid()(x[left], x[right]);
    if (reached[left]) reached[right] = 1;
}

/// Each parent has the reduction of all elements before it in their segment. The left child gets
/// this value; the right child this value combined with the left child's, without elements before
/// the last beginning in between.
template <class Monoid>
__global__ void segmented_down_sweep(typename Monoid::Value* x, const unsigned char* begins,
                                     const unsigned char* reached, long long parents,
                                     long long distance) {
    const long long parent = thread_of_grid();
    if (parent >= parents) return;
    const long long left = (2 * parent + 1) * distance - 1, right = left + distance;
    const typename Monoid::Value before = x[right], of_left = x[left];
    x[left] = before;
    if (begins[left + 1])
        x[right] = Monoid::identity();
    else
        x[right] = reached[left] ? of_left : Monoid()(before, of_left);
}

// ---- hierarchical -------------------------------------------------------------------

/// Steps 1 to 5: block c of a row scans its chunk, tile after tile, and writes its total.
template <class Monoid, int threads, int items>
__global__ void __launch_bounds__(threads)
    scan_chunks(const typename Monoid::Value* x, long long length, long long chunk,
                long long chunks, typename Monoid::Value* y, typename Monoid::Value* totals) {
    using Value = typename Monoid::Value;
    constexpr int tile_size = threads * items;
    __shared__ Value elements[tile_size];
    __shared__ typename BlockScan<Monoid>::Storage storage;
    BlockScan<Monoid> block_scan(storage);
    const Monoid combine;
    const long long row = blockIdx.x / chunks;
    const long long begin = (blockIdx.x - row * chunks) * chunk;
    const long long end = begin + chunk < length ? begin + chunk : length;
    x += row * length;
    y += row * length;

    Value carried = Monoid::identity();
    for (long long start = begin; start < end; start += tile_size) {
        for (int i = threadIdx.x; i < tile_size; i += threads)
            elements[i] = start + i < end ? x[start + i] : Monoid::identity();
        __syncthreads();
        Value* own = elements + threadIdx.x * items;
        for (int k = 1; k < items; ++k) own[k] = combine(own[k - 1], own[k]);
        Value total;
        const Value before = combine(carried, block_scan.exclusive(own[items - 1], total));
        for (int k = 0; k < items; ++k) own[k] = combine(before, own[k]);
        carried = combine(carried, total);
        __syncthreads();
        for (int i = threadIdx.x; i < tile_size; i += threads)
            if (start + i < end) y[start + i] = elements[i];
        // No barrier: each thread writes the elements of the next tile that it has read here.
    }
    if (threadIdx.x == 0) totals[blockIdx.x] = carried;
}

// ---- common steps -------------------------------------------------------------------

/// Step 6: y[row, i] = prefixes[row, i / chunk - 1] + y[row, i], except for the first chunk.
template <class Monoid>
__global__ void add_prefixes(const typename Monoid::Value* prefixes, long long rows,
                             long long length, long long chunk, typename Monoid::Value* y) {
    const long long i = thread_of_grid();
    if (i >= rows * length) return;
    const long long row = i / length;
    const long long before = (i - row * length) / chunk - 1;
    const long long chunks = (length + chunk - 1) / chunk;
    if (before >= 0) y[i] = Monoid()(prefixes[row * chunks + before], y[i]);
}

/// The exclusive scan from the inclusive scan: a shift, with the identity first.
template <class Monoid>
__global__ void shift(const typename Monoid::Value* x, long long rows, long long length,
                      typename Monoid::Value* y) {
    const long long i = thread_of_grid();
    if (i < rows * length) y[i] = i % length == 0 ? Monoid::identity() : x[i - 1];
}

/// Copy into rows of another length: padded with identities, or truncated.
template <class Monoid>
__global__ void resize_rows(const typename Monoid::Value* x, long long length, long long rows,
                            long long new_length, typename Monoid::Value* y) {
    const long long i = thread_of_grid();
    if (i >= rows * new_length) return;
    const long long row = i / new_length;
    const long long column = i - row * new_length;
    y[i] = column < length ? x[row * length + column] : Monoid::identity();
}

/// The inclusive scan from the exclusive scan, whose rows have another length.
template <class Monoid>
__global__ void add_elements(const typename Monoid::Value* exclusive, long long exclusive_length,
                             const typename Monoid::Value* x, long long rows, long long length,
                             typename Monoid::Value* y) {
    const long long i = thread_of_grid();
    if (i >= rows * length) return;
    const long long row = i / length;
    y[i] = Monoid()(exclusive[row * exclusive_length + i - row * length], x[i]);
}
