// Gram matrices X_i' W X_i of all learners of a boosted additive model.
//
// Problem. K learners of n rows and k functions; W is diagonal, or the identity.
//
// Mapping. A block computes a chunk of a learner: gridDim.x = K * chunks. The caller adds
// the chunks. Within a block as in learners.cuh.
//
// Shared memory. k * k sums for each of `gram_warps` warps; the rows that each warp is adding.
// Cost. Reads n (width values, an index) for each learner, n width^2 multiplications; writes
// chunks * k * k doubles.
// Source. Sieminski & Lee, "Gradient-Boosted Generalised Additive Models with GPU
// Acceleration" (2023), Algorithm 2, the matrices that are computed before the loop.

#include "learners.cuh"

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
