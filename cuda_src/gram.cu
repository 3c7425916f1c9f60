// Gram matrices X_i' W X_i of all learners of a boosted additive model.
//
// Problem. K learners of n rows and k functions; W is diagonal, or the identity.
//
// Mapping. A block computes a chunk of a learner: gridDim.x = K * chunks. The caller adds the
// chunks. A lane has a row, whose functions are neighbours, and adds its width (width + 1) / 2
// products to a copy of the sums that no other lane adds to at the same time. A lane reads its next
// row before it adds a row, 16 bytes at a time; the loads of a sector follow each other.
//
// Shared memory. `gram_copies` of the sums for each of `gram_warps` warps: k sums for each of the
// `width` distances from the diagonal. Neighbouring lanes have neighbouring copies, in different
// banks.
// Cost. Reads n (width values, an index) for each learner, n width (width + 1) / 2 multiplications;
// writes chunks * k * k doubles.
// Source. Sieminski & Lee, "Gradient-Boosted Generalised Additive Models with GPU
// Acceleration" (2023), Algorithm 2, the matrices that are computed before the loop.

#include "learners.cuh"
#include "pack.cuh"

/// A row of a learner; zeros after the last row.
template <class T, int width>
struct Row {
    static constexpr int pack = width % pack_size<T> == 0 ? pack_size<T> : 1;

    int first = 0;
    Pack<T, pack> values[width / pack] = {};
    double weight = 0;

    __device__ __forceinline__ void read(const int* all_first, const T* all_values,
                                         const double* weights, long long row, long long end) {
        weight = 0;
        if (row >= end) return;
        first = all_first[row];
        weight = weights ? weights[row] : 1;
#pragma unroll
        for (int k = 0; k < width / pack; ++k)
            values[k] = read_pack<pack>(all_values + row * width + k * pack);
    }
    __device__ __forceinline__ double operator[](int k) const {
        return static_cast<double>(values[k / pack].values[k % pack]);
    }
};

/// Copies of the sums of a warp, as `GRAM_COPIES` in gram_kernel.py.
constexpr int gram_copies = 16;

/// parts[chunk][learner] = X_i' W X_i over a chunk of the rows. `first` and `values`: of K learners
/// on n rows, [learner][row] and [learner][row][width]; `weights` may be null.
template <class T, int width, int threads>
__global__ void __launch_bounds__(threads, learner_blocks_per_multiprocessor)
    gram_matrices(const int* first, const T* values, const double* weights, long long rows,
                  int learners, int functions, int chunks, int gram_warps, double* parts) {
    double* sums = reinterpret_cast<double*>(dynamic_shared_memory());
    const long long learner = blockIdx.x % learners;
    first += learner * rows;
    values += learner * rows * width;
    double* result = parts + blockIdx.x * (static_cast<long long>(functions) * functions);
    const int count = functions * width, size = count * gram_copies;
    clear(sums, gram_warps * size);
    if (warp_index() < gram_warps) {
        double* own = sums + warp_index() * size + lane_index() % gram_copies;
        const RowRange range(rows, chunks, blockIdx.x / learners, gram_warps);
        Row<T, width> next;
        next.read(first, values, weights, range.begin + lane_index(), range.end);
        for (long long start = range.begin; start < range.end; start += warp_threads) {
            const Row<T, width> row = next;
            next.read(first, values, weights, start + warp_threads + lane_index(), range.end);
            double* const corner = own + row.first * (width * gram_copies);
#pragma unroll 1
            for (int turn = 0; turn < warp_threads / gram_copies; ++turn) {
                if (turn == lane_index() / gram_copies) {
#pragma unroll
                    for (int i = 0; i < width; ++i)
#pragma unroll
                        for (int j = i; j < width; ++j)
                            corner[(i * width + j - i) * gram_copies] +=
                                row.weight * row[i] * row[j];
                }
                __syncwarp();
            }
        }
    }
    __syncthreads();
    for (int entry = threadIdx.x; entry < count; entry += blockDim.x) {
        double total = 0;
        for (int k = 0; k < gram_copies; ++k) {
            const int copy = k ^ entry % gram_copies;  // neighbours use different banks
            const double* one = sums + entry * gram_copies + copy;
            for (int part = 0; part < gram_warps; ++part, one += size) total += *one;
        }
        sums[entry * gram_copies] = total;
    }
    __syncthreads();
    for (int f = threadIdx.x; f < functions * functions; f += blockDim.x) {
        const int i = min(f / functions, f % functions),
                  distance = abs(f / functions - f % functions);
        result[f] = distance < width ? sums[(i * width + distance) * gram_copies] : 0;
    }
}
