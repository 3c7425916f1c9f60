// Gram matrices X_i' W X_i of all learners of a boosted additive model.
//
// Problem. K learners of n rows and k functions; W is diagonal, or the identity.
//
// Mapping. A block computes a chunk of a learner: gridDim.x = K * chunks. The caller adds the
// chunks. While a warp adds 32 rows, it reads the next 32 rows, with neighbouring lanes on
// neighbouring values. width^2 lanes add a row; with up to 16 lanes, two rows are added at once, or
// in turn if they share sums. The products of some rows are computed before any of them is added.
//
// Shared memory. k * k sums for each of `gram_warps` warps; the rows that each warp is adding. The
// layouts avoid bank conflicts.
// Cost. Reads n (width values, an index) for each learner, n width^2 multiplications; writes
// chunks * k * k doubles.
// Source. Sieminski & Lee, "Gradient-Boosted Generalised Additive Models with GPU
// Acceleration" (2023), Algorithm 2, the matrices that are computed before the loop.

#include "learners.cuh"

/// K learners on n rows.
template <class T>
struct Learners {
    const int* first;       // [learner][row]
    const T* values;        // [learner][row][width], width known to the compiler
    const double* weights;  // [row], or null
    long long rows;
    int functions, chunks;
};

/// 32 rows of a learner, as a warp reads them: the index of a row in each lane, and every 32nd of
/// their values. Zeros after the last row.
template <class T, int width>
struct Rows {
    int first = 0;
    T values[width] = {};

    __device__ void read(const Learners<T>& learners, int learner, long long start, long long end) {
        const long long place = learner * learners.rows + start;
        first = start + lane_index() < end ? learners.first[place + lane_index()] : 0;
#pragma unroll
        for (int k = 0; k < width; ++k) {
            const int element = k * warp_threads + lane_index();
            values[k] =
                start + element / width < end ? learners.values[place * width + element] : T(0);
        }
    }

    /// Whether this lane's row and the row next to it have no function in common.
    __device__ bool is_apart_from_next() const {
        return abs(first - __shfl_xor_sync(whole_warp, first, 1)) >= width;
    }
};

/// 32 rows in shared memory, for all lanes of a warp to read.
template <int width>
struct Batch {
    /// The lanes that read the values of a row and of neighbouring rows use different banks.
    static constexpr int pitch = warp_threads + 16 / width;

    int first[warp_threads];
    double values[width][pitch];  // [function][row]

    template <class T>
    __device__ void put(const Rows<T, width>& rows) {
        put_scaled(rows, [](int) { return 1.0; });
    }

    /// Each row multiplied by a factor, which lane l gives for row l.
    template <class T>
    __device__ void put(const Rows<T, width>& rows, double factor) {
        put_scaled(rows, [=](int row) { return __shfl_sync(whole_warp, factor, row); });
    }

  private:
    template <class T, class Factor>
    __device__ __forceinline__ void put_scaled(const Rows<T, width>& rows, Factor factor) {
        first[lane_index()] = rows.first;
#pragma unroll
        for (int k = 0; k < width; ++k) {
            const int element = k * warp_threads + lane_index(), row = element / width;
            values[element % width][row] = static_cast<double>(rows.values[k]) * factor(row);
        }
    }
};

/// Doubles between the rows of k * k sums in shared memory, as in `gram_sums` of
/// gram_kernel.py: 4 more than a multiple of 8, so that the entries of 4 x 4 functions are in
/// different banks.
__device__ __forceinline__ int gram_stride(int functions) {
    return (functions + 3) / 8 * 8 + 4;
}

/// result = X_i' W X_i over a chunk of the rows. `batch` and `partners`: rows with and without
/// their weights. `sums`: k rows of `gram_stride` doubles for each of the `parts` warps that add.
template <class T, int width>
__device__ void accumulate_gram(const Learners<T>& learners, int learner, int chunk,
                                Batch<width>& batch, Batch<width>& partners, double* sums,
                                int parts, double* result) {
    constexpr int entries = width * width;  // of a row
    constexpr int lanes = entries <= warp_threads / 2 ? warp_threads / 2 : warp_threads;
    constexpr int rows_at_once = warp_threads / lanes;
    constexpr int items = (entries + lanes - 1) / lanes;
    constexpr int steps = items == 1 ? 4 : 1;  // whose products are computed first
    const int functions = learners.functions, stride = gram_stride(functions);
    const long long size = static_cast<long long>(functions) * stride;
    clear(sums, parts * size);
    if (warp_index() < parts) {
        double* own = sums + warp_index() * size;
        const RowRange range(learners.rows, learners.chunks, chunk, parts);
        const int group = lane_index() / lanes;
        Rows<T, width> next;
        double next_weight = 1;
        const auto read = [&](long long start) {
            next.read(learners, learner, start, range.end);
            const long long row = start + lane_index();
            if (learners.weights && row < range.end) next_weight = learners.weights[row];
        };
        read(range.begin);
        for (long long start = range.begin; start < range.end; start += warp_threads) {
            if (learners.weights)
                batch.put(next, next_weight);
            else
                batch.put(next);
            partners.put(next);
            const unsigned apart = __ballot_sync(whole_warp, next.is_apart_from_next());
            __syncwarp();
            read(start + warp_threads);
#pragma unroll 1
            for (int r = 0; r < warp_threads && start + r < range.end; r += steps * rows_at_once) {
                double* corner[steps];
                double products[steps][items];
#pragma unroll
                for (int q = 0; q < steps; ++q) {
                    const int row = r + q * rows_at_once + group;
                    corner[q] = own + batch.first[row] * (stride + 1);
#pragma unroll
                    for (int k = 0; k < items; ++k) {
                        const int entry = (k * lanes + lane_index() % lanes) % entries;
                        products[q][k] =
                            batch.values[entry / width][row] * partners.values[entry % width][row];
                    }
                }
                const auto add = [&](int q, bool adds) {
#pragma unroll
                    for (int k = 0; k < items; ++k) {
                        const int entry = k * lanes + lane_index() % lanes;
                        if (adds && entry < entries)
                            corner[q][entry / width * stride + entry % width] += products[q][k];
                    }
                    __syncwarp();
                };
#pragma unroll
                for (int q = 0; q < steps; ++q) {
                    const bool at_once = apart >> (r + q * rows_at_once) & 1;
                    add(q, at_once || group == 0);
                    if (rows_at_once > 1 && !at_once) add(q, group > 0);
                }
            }
        }
    }
    sum_parts(parts, static_cast<long long>(functions) * functions, result,
              [&](int part, long long f) {
                  const int entry = static_cast<int>(f);
                  return sums[part * size + entry / functions * stride + entry % functions];
              });
}

/// parts[chunk][learner] = X_i' W X_i over a chunk of the rows.
template <class T, int width, int threads>
__global__ void __launch_bounds__(threads, learner_blocks_per_multiprocessor)
    gram_matrices(const int* first, const T* values, const double* weights, long long rows,
                  int count, int functions, int chunks, int gram_warps, double* parts) {
    __shared__ Batch<width> batches[threads / warp_threads];
    __shared__ Batch<width> partners[threads / warp_threads];
    const Learners<T> learners{first, values, weights, rows, functions, chunks};
    double* sums = reinterpret_cast<double*>(dynamic_shared_memory());
    const long long square = static_cast<long long>(functions) * functions;
    const int learner = blockIdx.x % count, chunk = blockIdx.x / count;
    accumulate_gram(learners, learner, chunk, batches[warp_index()], partners[warp_index()], sums,
                    gram_warps, parts + blockIdx.x * square);
}
