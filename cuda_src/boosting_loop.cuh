// The loop of component-wise boosting: see stacked.cu. cpu/stacked.cpp compiles it for a CPU.
//
// GridBarrier is defined before: in grid.cuh, or in cpu/serial_grid.cuh.

#pragma once

#include "boosting_steps.cuh"
#include "coupled_rows.cuh"
#include "single_rows.cuh"

/// All steps of a launch. In each step, fit_learners(step, designs, matrices, fitted, reduce, best,
/// barrier) fits the learners to the gradient, and ends with a grid barrier.
template <template <class, class> class RowsOf, class Family, int threads, class T,
          class FitLearners>
__device__ void make_steps(const StackedFits<T>& all, FitLearners fit_learners) {
    using Rows = RowsOf<T, Family>;
    __shared__ BlockReduce<double>::Storage sum_storage;
    __shared__ BlockReduce<Located<double>>::Storage best_storage;
    __shared__ double row_storage[(threads / warp_threads + 1) * RowSums::most];
    BlockReduce<double> reduce(sum_storage);
    BlockReduce<Located<double>> best(best_storage);
    const Designs<T> designs{all.first,    all.values,   all.offsets,     all.parts,
                             all.learners, all.by_level, all.rows,        all.count,
                             all.fits,     all.columns,  all.fits_at_once};
    const Matrices matrices{all.gram, all.inverse, all.cones, all.systems};
    const Fitted fitted{all.coefficients, all.scores};
    const Observations data{all.y,    all.weights, all.held_out, all.y_stride, all.weight_stride,
                            all.rows, all.f,       all.u};
    const Family family{all.parameter};
    const Paths paths{all.selected, all.updates, all.risk,      all.held_out_risk,
                      all.nuisance, all.steps,   all.functions, Rows::nuisances(family)};
    GridBarrier barrier(all.arrived);
    const Steps<T> steps{all, designs, data, paths, best, row_storage, barrier};
    const Rows rows{steps, family};

    for (int step = all.begin; step < all.end; ++step) {
        if (step > 0) {
            fit_learners(step, designs, matrices, fitted, reduce, best, barrier);
            if constexpr (Rows::is_curved) {
                if (all.scaled) {
                    rows.add_curvatures(step);
                    barrier.wait();
                }
            }
        }
        rows.advance(step);
        barrier.wait();
        rows.finish(step);
    }
}
