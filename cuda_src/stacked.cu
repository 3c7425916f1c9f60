// Component-wise boosting of learners of any kind and any family, for several fits at once: the
// whole loop in a single launch, with no host synchronisation between steps. A device with a
// watchdog needs several launches; each continues from the state after the previous launch.
//
// Problem. K learners, each a design matrix X_i of n rows and k_i functions, and F fits of the
// same learners, with different weights W, responses y or starts. A step of a fit computes the
// negative gradient u of the loss at f, fits every learner to it,
//     b_i = H_i c_i,    c_i = X_i' W u,    H_i = (X_i' W X_i + lambda_i P_i)^-1,
// selects the first learner with the least |u - X_i b_i|_W, that is the largest
// 2 c_i' b_i - b_i' (X_i' W X_i) b_i, and updates f += size d with d = X_s b_s. The size is `rate`,
// or for scaled steps of curved families rate |d|_W^2 / |d|_WH^2, with the curvatures H of the
// rows. designs.cuh has the products of the designs, learner_fits.cuh the fits.
//
// Mapping. All blocks are resident and meet in grid barriers. A step has three phases:
//   moments  c_i in chunks of the rows. A warp adds several rows at once, each to its own copy
//            of the k_i sums, and does so for up to five fits, which share what it reads of X_i.
//   fits     c_i is the sum over its chunks; a block computes b_i.
//   rows     f of every row, the gradient there and the risk. A row belongs to the same thread in
//            all steps, so that f needs no barrier.
// Scaled steps add a pass over the rows before the last phase, and a barrier.
// The last phase depends on the family: single_rows.cuh, coupled_rows.cuh. No sum uses atomics: on
// the same device a fit has the same bits in every run.
//
// Shared memory. As designs.cuh says, and in the second phase learner_fits.cuh.
// Cost of a step of a fit. Reads K n (width values, an index) for five fits, and K n times u
// for each fit; three barriers.
// Source. Hofner, Mayr, Robinzonov & Schmid, "Model-based boosting in R" (2014), Algorithm 1;
// Sieminski & Lee, "Gradient-Boosted Generalised Additive Models with GPU Acceleration" (2023).

#include "grid.cuh"

#include "boosting_loop.cuh"

/// Fits all learners of all fits, between two grid barriers.
template <class T>
struct FitAll {
    const StackedFits<T>& all;

    __device__ void operator()(int, const Designs<T>& designs, const Matrices& matrices,
                               const Fitted& fitted, BlockReduce<double>& reduce,
                               BlockReduce<Located<double>>& best, GridBarrier& barrier) const {
        double* shared = reinterpret_cast<double*>(dynamic_shared_memory());
        accumulate_all_moments(designs, all.pairs, all.pair_count, all.u, shared, all.sums);
        barrier.wait();
        fit_all(designs, matrices, all.sums, shared, fitted, reduce, best);
        barrier.wait();
    }
};

/// The resident blocks of a multiprocessor. The search for thresholds needs the registers of two
/// blocks: with fewer registers it spills.
template <class Family>
constexpr int resident_blocks() {
    return Family::nuisance == Nuisance::thresholds ? 1 : learner_blocks_per_multiprocessor;
}

template <class T, class Family, int threads>
__global__ void __launch_bounds__(threads, resident_blocks<Family>())
    boost_stacked(const StackedFits<T> all) {
    make_steps<SingleRows, Family, threads>(all, FitAll<T>{all});
}

template <class T, class Family, int threads>
__global__ void __launch_bounds__(threads, learner_blocks_per_multiprocessor)
    boost_coupled(const StackedFits<T> all) {
    make_steps<CoupledRows, Family, threads>(all, FitAll<T>{all});
}
