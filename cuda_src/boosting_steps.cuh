// What the row phases of stacked.cu have in common: updates of f.
//
// A row phase is a class `Rows`, made of the steps and a family:
//     is_curved, nuisances(family)   as its family says
//     update(model, step)            the update that a step makes
//     size(update)                   its size
//     add_curvatures(step)           a pass for scaled steps
//     advance(step)                  updates f; a pass evaluates gradients and risks there
//     finish(step)                   writes the results of the step, after a grid barrier

#pragma once

#include "block.cuh"
#include "families.cuh"
#include "floating.cuh"
#include "learner_fits.cuh"
#include "paths.cuh"
#include "row_sums.cuh"

/// Predictors of a model that are updated by one learner, from fit `first` to `last` - 1.
struct Update {
    int first, last, learner;
};

template <class T>
__device__ __forceinline__ const double* coefficients_of(const StackedFits<T>& all,
                                                         const Update& update, int fit) {
    return all.coefficients + fit * static_cast<long long>(all.columns) +
           all.learners[update.learner].column;
}

/// The fits d of the learner of an update. cpu/serial_fits.cuh computes neighbouring rows together.
template <class T>
struct FitsAlong {
    const StackedFits<T>& all;
    const Designs<T>& designs;
    const Update update;

    __device__ double operator()(int fit, long long row) const {
        const LearnerPlace& learner = all.learners[update.learner];
        return fitted_row(designs, learner, coefficients_of(all, update, fit), row);
    }
};

/// The parts of a step that need no family. A model has `all.predictors` fits, one after the other.
template <class T>
struct Steps {
    const StackedFits<T>& all;
    const Designs<T>& designs;
    const Observations& data;
    const Paths& paths;
    BlockReduce<Located<double>>& best;
    double* storage;
    GridBarrier& barrier;

    /// Sums for each group of `members` fits.
    __device__ RowSums sums(int members) const {
        return {data, all.fits / members, all.row_chunks, all.partial, storage, barrier};
    }

    /// The first learner with the largest sum of scores over some fits of a model, for all threads
    /// of the block.
    __device__ Update best_update(int first, int members) const {
        const int p = first % all.predictors;
        Located<double> found = ArgMax<double>::identity();
        for (int i = threadIdx.x; i < all.count; i += blockDim.x) {
            double total = 0;
            for (int k = 0; k < members; ++k) {
                const bool may = !all.allowed || all.allowed[(p + k) * all.count + i];
                const long long place = (first + k) * static_cast<long long>(all.count) + i;
                total += may ? all.scores[place] : -Floating<double>::infinity();
            }
            found = ArgMax<double>()(found, {total, i});
        }
        return {first, first + members, best(found, ArgMax<double>()).index};
    }

    __device__ FitsAlong<T> along(const Update& update) const { return {all, designs, update}; }
    /// |d|_W^2 and |d|_WH^2 of an update, after a pass that adds curvatures; ones for a curvature
    /// of 1. For all threads of the block.
    __device__ Two lengths(const Update& update, bool is_curved) const {
        if (!is_curved || !all.scaled) return {1, 1};
        const int members = update.last - update.first;
        const double* found =
            sums(members).template totals<2, RowSums::along>(update.first / members, Add<double>());
        return found[1] > 0 ? Two{found[0], found[1]} : Two{1, 1};
    }

    /// A pass that updates f by rows.update(model, step), and then calls evaluate(fit, row, sums)
    /// with the first fit of the model; step 0 has no update.
    template <int size, class Op, class Rows, class Evaluate>
    __device__ void pass(Op op, const Rows& rows, int step, Evaluate evaluate) const {
        sums(all.predictors).template pass<size>(op, [&](int model, int chunk) {
            const int first = model * all.predictors;
            Update update{first, first, 0};
            double size_of_step = 0;
            if (step > 0) {
                update = rows.update(model, step);
                size_of_step = rows.size(update);
                if (chunk == 0) write(first, step, update, size_of_step);
            }
            return [=, *this, d = along(update)](long long row, double* own) {
                for (int fit = d.update.first; fit < d.update.last; ++fit)
                    data.f[fit * data.rows + row] += size_of_step * d(fit, row);
                evaluate(first, row, own);
            };
        });
    }

  private:
    /// The update of the model that begins with fit `first`; its other fits rest.
    __device__ void write(int first, int step, const Update& update, double size) const {
        const int functions = static_cast<int>(all.learners[update.learner].functions);
        for (int fit = first; fit < first + all.predictors; ++fit) {
            const bool rests = fit < update.first || fit >= update.last;
            paths.write(fit, step, rests ? -1 : update.learner, coefficients_of(all, update, fit),
                        rests ? 0 : functions, size);
        }
    }
};
