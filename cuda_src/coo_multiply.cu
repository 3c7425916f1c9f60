// Element-wise product of two sparse matrices in coordinate form.
//
// Problem. An entry is a key and a value; the key is row * width + column, in 64 bits (coo.cuh). If
// a key is in both operands, the product of the values goes to the result, unless it is zero. The
// number of results, and the position of each, is known only after the search. The keys of an
// operand should be strictly increasing, and a value that is not finite should have an equal key
// in the other operand. Whether this is so is known only after all entries are read.
//
// Two methods, merge and gallop, follow the proposals at the end of the source: one search; work
// that does not depend on where matches are. (The kernels of the source are in coo_versions.cu.)
// Both form keys when they read an entry, check the operands while they search, look back for the
// number of results before a tile (look_back.cuh), and write the results. If the check fails, the
// results are wrong, but all accesses are inside the arrays: the host sorts, and repeats.
//
// Mapping.
// - merge. The merge path of both lists of keys has one step per key; every block has
//   `threads * items` steps and every thread `items`. `split_path` finds where tiles begin.
// - gallop. A thread has `items` neighbours of the shorter list. It finds the first key in the
//   longer list by binary search, the later keys by galloping from the previous position.
//   `check_entries` reads the longer list.
//
// Shared memory. merge: the keys and values of a tile, the positions of its matches. Both: the
// totals of warps.
//
// Cost, for m and n entries of e bytes with k results. merge reads and writes (m + n + k) e bytes,
// and for every tile a binary search. gallop reads and writes as many bytes, and searches
// m log(n / m) keys, if m is the shorter list. Both take two launches, and multiply a match once.
//
// Source. M. Cupp, "Element-Wise Multiplication Kernel" (2020), section 5.3; the merge path of
// merge_path.cuh; the look-back of look_back.cuh.

#include "coo.cuh"
#include "floating.cuh"

// ---- keys ---------------------------------------------------------------------------

/// keys[i] = rows[i] * width + columns[i]. Sets `disorder` unless these strictly increase.
template <class Index>
__global__ void make_keys(const Index* rows, const Index* columns, long long count, long long width,
                          long long* keys, int* disorder) {
    const long long i = thread_of_grid();
    if (i >= count) return;
    const long long key = rows[i] * width + columns[i];
    keys[i] = key;
    if (i > 0 && rows[i - 1] * width + columns[i - 1] >= key) atomicOr(disorder, 1);
}

/// The arrays of the result.
template <class T, class Index>
struct Result {
    long long width;
    Index* rows;
    Index* columns;
    T* products;

    __device__ __forceinline__ void put(long long i, long long key, T product) const {
        const long long row = key / width;
        rows[i] = static_cast<Index>(row);
        columns[i] = static_cast<Index>(key - row * width);
        products[i] = product;
    }
};

// ---- search -------------------------------------------------------------------------

/// `lower_bound` in [start, count). The time grows with the logarithm of the distance from `start`.
template <class Keys>
__device__ __forceinline__ long long gallop(const Keys& keys, long long start, long long count,
                                            long long key) {
    long long step = 1;
    while (step <= count - start && keys[start + step - 1] < key) {
        start += step;
        step *= 2;
    }
    return lower_bound(keys, start, step <= count - start ? start + step - 1 : count, key);
}

// ---- checks -------------------------------------------------------------------------

/// Whether a value is finite. `always` is true for types without infinity and NaN.
template <class T>
struct Finite {
    static constexpr bool always = true;
    static __device__ __forceinline__ bool holds(const T&) { return true; }
};
template <>
struct Finite<float> {
    static constexpr bool always = false;
    static __device__ __forceinline__ bool holds(float x) {
        return magnitude(x) <= Floating<float>::largest();
    }
};
template <>
struct Finite<double> {
    static constexpr bool always = false;
    static __device__ __forceinline__ bool holds(double x) {
        return magnitude(x) <= Floating<double>::largest();
    }
};
template <>
struct Finite<Half> {
    static constexpr bool always = false;
    static __device__ __forceinline__ bool holds(Half x) { return Finite<float>::holds(x); }
};
template <class T>
struct Finite<Complex<T>> {
    static constexpr bool always = false;
    static __device__ __forceinline__ bool holds(Complex<T> x) {
        return Finite<T>::holds(x.real) && Finite<T>::holds(x.imaginary);
    }
};

/// Report whether the keys strictly increase, and count the values that are not finite.
template <class T, class Index>
__global__ void check_entries(const Index* rows, const Index* columns, const T* values,
                              long long count, long long width, ProductReport* report) {
    const Keys<Index> keys{rows, columns, width};
    const long long i = thread_of_grid();
    const bool inside = i < count;
    const long long key = inside ? keys[i] : no_key;
    long long previous = shuffle_up(key, 1);
    if (!inside) return;
    if (lane_index() == 0) previous = i > 0 ? keys[i - 1] : no_key;
    if (previous >= key) atomicOr(&report->disorder, 1);
    if constexpr (!Finite<T>::always) report->add_unmatched(!Finite<T>::holds(values[i]));
}

// ---- results in one pass ------------------------------------------------------------

/// splits[tile] = the number of steps before the tile that take a key of A, for tiles + 1 tiles.
template <class Index, int threads, int items>
__global__ void split_path(const Index* a_rows, const Index* a_columns, long long a_count,
                           const Index* b_rows, const Index* b_columns, long long b_count,
                           long long width, long long tiles, long long* splits) {
    const Keys<Index> a{a_rows, a_columns, width}, b{b_rows, b_columns, width};
    split_into_tiles(a, a_count, b, b_count, threads * items, tiles, splits);
}

/// The products of all matches, by merging. `states`: the counter that tiles are taken from,
/// then the words of each tile; all zero before the launch. The results have as many places as
/// the shorter operand has entries.
template <class T, class Index, int threads, int items>
__global__ void __launch_bounds__(threads, min_blocks_per_multiprocessor)
    multiply_by_merge(const Index* a_rows, const Index* a_columns, const T* a_values,
                      long long a_count, const Index* b_rows, const Index* b_columns,
                      const T* b_values, long long b_count, long long width,
                      const long long* splits, unsigned long long* states, ProductReport* report,
                      Index* rows, Index* columns, T* products) {
    constexpr int tile_size = threads * items;
    // Each match is a step in B, and no two matches are in successive steps.
    constexpr int most_matches = (tile_size + 1) / 2;
    static_assert(tile_size < 1 << 16, "positions in a tile have 16 bits");
    __shared__ long long keys[2 + tile_size];
    __shared__ T values[1 + tile_size];
    __shared__ unsigned short found[most_matches];
    __shared__ BlockScan<Count>::Storage storage;
    __shared__ MergeTile shared_tile;
    __shared__ long long shared_index, shared_before;

    const Keys<Index> all_of_a{a_rows, a_columns, width}, all_of_b{b_rows, b_columns, width};
    if (threadIdx.x == 0) {
        shared_index = static_cast<long long>(atomicAdd(states, 1ull));
        shared_tile = merge_tile<tile_size, false>(splits, shared_index, a_count + b_count);
    }
    __syncthreads();
    const MergeTile tile = shared_tile;
    const int steps = tile.a_count + tile.b_count;

    // The last key of the tile before precedes the keys of both operands: it may be not less than
    // the first key, or it may be the key of A of the first match.
    long long* const a = keys + 1;
    long long* const b = a + tile.a_count + 1;
    T* const of_a = values + 1;
    T* const of_b = of_a + tile.a_count;
    int not_finite = 0;
    {
        long long key[items];
        T value[items];
#pragma unroll
        for (int k = 0; k < items; ++k) {
            const int i = k * threads + threadIdx.x, j = i - tile.a_count;
            if (i >= steps) continue;
            key[k] = j < 0 ? all_of_a[tile.a + i] : all_of_b[tile.b + j];
            value[k] = j < 0 ? a_values[tile.a + i] : b_values[tile.b + j];
        }
        if (threadIdx.x == 0) {
            a[-1] = tile.a > 0 ? all_of_a[tile.a - 1] : no_key;
            b[-1] = tile.b > 0 ? all_of_b[tile.b - 1] : no_key;
            if (tile.a > 0) of_a[-1] = a_values[tile.a - 1];
        }
#pragma unroll
        for (int k = 0; k < items; ++k) {
            const int i = k * threads + threadIdx.x;
            if (i >= steps) continue;
            a[i + (i >= tile.a_count)] = key[k];
            of_a[i] = value[k];
            not_finite += !Finite<T>::holds(value[k]);
        }
    }
    __syncthreads();

    bool disorder = steps == 0;
#pragma unroll
    for (int k = 0; k < items; ++k) {
        const int i = k * threads + threadIdx.x;
        const long long* const key = a + i + (i >= tile.a_count);
        if (i < steps) disorder = disorder || key[-1] >= key[0];
    }
    disorder = __syncthreads_or(disorder);

    int matches = 0;
    int in_b[items];
    bool is_match[items] = {};
    if (!disorder) {
        const int first = threadIdx.x * items < steps ? threadIdx.x * items : steps;
        int i = merge_path(a, tile.a_count, b, tile.b_count, first);
        int j = first - i;
#pragma unroll
        for (int k = 0; k < items; ++k) {
            const bool takes_a = i < tile.a_count && (j >= tile.b_count || a[i] <= b[j]);
            in_b[k] = j;
            if (first + k < steps && !takes_a && a[i - 1] == b[j]) {
                const T left = of_a[i - 1], right = of_b[j];
                const T product = wrapping_multiply(left, right);
                not_finite -= !Finite<T>::holds(left) + !Finite<T>::holds(right);
                is_match[k] = product != T(0);
                of_b[j] = product;  // no other thread reads this value
            }
            matches += is_match[k];
            if (takes_a)
                ++i;
            else
                ++j;
        }
    }

    int results;
    int slot = BlockScan<Count>(storage).exclusive(matches, results);
#pragma unroll
    for (int k = 0; k < items; ++k)
        if (is_match[k]) found[slot++] = static_cast<unsigned short>(in_b[k]);
    if (warp_index() == 0) {
        const long long before = results_before(states + 1, shared_index, results, report);
        if (lane_index() == 0) shared_before = before;
    }
    if (disorder && threadIdx.x == 0) atomicOr(&report->disorder, 1);
    if constexpr (!Finite<T>::always) report->add_unmatched(not_finite);
    __syncthreads();

    const Result<T, Index> result{all_of_a.width(), rows, columns, products};
    const long long places = a_count < b_count ? a_count : b_count, before = shared_before;
    for (int k = threadIdx.x; k < results; k += threads)
        if (before + k < places) result.put(before + k, b[found[k]], of_b[found[k]]);
}

/// The products of all matches, by searching the longer list. `check_entries` checks the longer
/// list in another launch. A is the shorter list, unless `swapped`.
template <class T, class Index, int threads, int items>
__global__ void __launch_bounds__(threads, min_blocks_per_multiprocessor)
    multiply_by_gallop(const Index* short_rows, const Index* short_columns, const T* short_values,
                       long long short_count, const Index* long_rows, const Index* long_columns,
                       const T* long_values, long long long_count, long long width, bool swapped,
                       unsigned long long* states, ProductReport* report, Index* rows,
                       Index* columns, T* products) {
    __shared__ BlockScan<Count>::Storage storage;
    __shared__ long long shared_tile, shared_before;
    const Keys<Index> short_keys{short_rows, short_columns, width};
    const Keys<Index> long_keys{long_rows, long_columns, width};
    if (threadIdx.x == 0) shared_tile = static_cast<long long>(atomicAdd(states, 1ull));
    __syncthreads();
    const long long tile = shared_tile;
    const long long first = tile * threads * items + threadIdx.x * items;
    long long previous = first > 0 && first < short_count ? short_keys[first - 1] : no_key;
    long long place = 0;
    long long key[items];
    T product[items];
    bool is_match[items] = {};
    bool disorder = false;
    int matches = 0, not_finite = 0;
#pragma unroll
    for (int k = 0; k < items; ++k) {
        if (first + k >= short_count) continue;
        key[k] = short_keys[first + k];
        disorder = disorder || previous >= key[k];
        previous = key[k];
        place = k == 0 ? lower_bound(long_keys, 0, long_count, key[k])
                       : gallop(long_keys, place, long_count, key[k]);
        const bool is_found = place < long_count && long_keys[place] == key[k];
        if (!is_found && Finite<T>::always) continue;
        const T own = short_values[first + k];
        if (is_found) {
            const T other = long_values[place];
            product[k] = swapped ? wrapping_multiply(other, own) : wrapping_multiply(own, other);
            is_match[k] = product[k] != T(0);
            not_finite -= !Finite<T>::holds(other);
        } else {
            not_finite += !Finite<T>::holds(own);
        }
        matches += is_match[k];
    }
    int results;
    const int slot = BlockScan<Count>(storage).exclusive(matches, results);
    if (warp_index() == 0) {
        const long long before = results_before(states + 1, tile, results, report);
        if (lane_index() == 0) shared_before = before;
    }
    if (disorder) atomicOr(&report->disorder, 1);
    if constexpr (!Finite<T>::always) report->add_unmatched(not_finite);
    __syncthreads();

    const Result<T, Index> result{short_keys.width(), rows, columns, products};
    long long i = shared_before + slot;
#pragma unroll
    for (int k = 0; k < items; ++k)
        if (is_match[k]) result.put(i++, key[k], product[k]);
}
