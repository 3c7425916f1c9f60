// The row phase of models of several predictors, for stacked.cu.
//
// A model has P fits, its predictors, which follow each other. Gradients and losses need all
// predictors of a row. A joint step updates all predictors by one learner; other steps update a
// single predictor, in turn, or the predictor whose best learner reduces the risk most. The latter
// is found from the risks of the P candidates: a pass over the rows and two barriers more. Scaled
// steps take a pass and a barrier, too.
//
// Source. Mayr, Fenske, Hofner, Kneib & Schmid, "Generalized Additive Models for Location, Scale
// and Shape for High Dimensional Data" (2012); Thomas, Mayr, Bischl, Schmid, Smith & Hofner,
// "Gradient Boosting for Distributional Regression" (2018).

#pragma once

#include "boosting_steps.cuh"
#include "distributions.cuh"

/// The first of the predictors whose update leaves the least risk.
__device__ __forceinline__ int least_candidate(const double* candidates, int predictors) {
    int least = 0;
    double risk = Floating<double>::infinity();
    for (int p = 0; p < predictors; ++p) {
        if (!(candidates[p] < risk)) continue;
        risk = candidates[p];
        least = p;
    }
    return least;
}

/// The gradients and losses of a row, whose predictors follow the fit `first`.
template <class Family>
__device__ __forceinline__ void evaluate_all(const Family& family, const Observations& data,
                                             int predictors, int first, long long row,
                                             double* own) {
    const long long place = first * data.rows + row;
    const double y = data.response(first, row), weight = data.weight(first, row);
    const double held_out = data.weight_held_out(first, row);
    const PredictorRow f{data.f + place, data.rows};
    const GradientRow u{data.u + place, data.rows, weight};
    if (weight == 0)
        for (int p = 0; p < predictors; ++p) u(p, 0.0);
    else
        family.gradient(y, f, u);
    if (weight == 0 && held_out == 0) return;
    const double loss = family.loss(y, f);
    if (weight != 0) own[0] += weight * loss;  // the loss of a row left out may be infinite
    if (held_out != 0) own[1] += held_out * loss;
}

/// The row phase of models of several predictors.
template <class T, class Family>
struct CoupledRows {
    static constexpr bool is_curved = true;

    const Steps<T>& steps;
    const Family& family;

    static __device__ int nuisances(const Family&) { return 1; }

    /// How many predictors an update has.
    __device__ int members() const { return Family::is_joint ? steps.all.predictors : 1; }
    /// The first fit that a step updates.
    __device__ int first_updated(int model, int step) const {
        const StackedFits<T>& all = steps.all;
        const int first = model * all.predictors;
        if (Family::is_joint) return first;
        if (all.is_cyclic) return first + (all.made + step - 1) % all.predictors;
        return first + least_candidate(all.candidates + first, all.predictors);
    }
    __device__ Update update(int model, int step) const {
        return steps.best_update(first_updated(model, step), members());
    }
    __device__ double size(const Update& update) const {
        const Two along = steps.lengths(update, is_curved);
        return steps.all.rates[update.first] * along.first / along.second;
    }

    /// The curvatures along the best updates, or along the updates that are made in turn. The
    /// gradient is not needed any more: u has the fits of the learners.
    __device__ void add_curvatures(int step) const {
        steps.sums(members()).template pass<2, RowSums::along>(Add<double>(), [&](int unit, int) {
            const Update own_update = steps.best_update(unit * members(), members());
            const int first = own_update.first - own_update.first % steps.all.predictors;
            const bool rests =
                !Family::is_joint && steps.all.is_cyclic &&
                own_update.first != first_updated(first / steps.all.predictors, step);
            return [=, *this, d = steps.along(own_update)](long long row, double* own) {
                if (rests) return;
                const Observations& data = steps.data;
                const double weight = data.weight(first, row);
                for (int fit = own_update.first; fit < own_update.last; ++fit)
                    data.u[fit * data.rows + row] = d(fit, row);
                if (weight == 0) return;
                const long long place = first * data.rows + row;
                const PredictorRow f{data.f + place, data.rows};
                const CurvatureRow take{
                    data.u + place,          data.rows, weight, own_update.first - first,
                    own_update.last - first, own};
                family.curvature(data.response(first, row), f, take);
            };
        });
    }

    /// Updates f, and evaluates gradients and risks there; the start if `step` is 0. A grid barrier
    /// must follow.
    __device__ void advance(int step) const {
        if constexpr (!Family::is_joint)
            if (step > 0 && !steps.all.is_cyclic) find_candidates();
        steps.template pass<2>(
            Add<double>(), *this, step, [=, *this](int first, long long row, double* own) {
                evaluate_all(family, steps.data, steps.all.predictors, first, row, own);
            });
    }

    /// The risk of a model belongs to its first predictor.
    __device__ void finish(int step) const {
        const int predictors = steps.all.predictors;
        steps.sums(predictors)
            .template finish<2>(Add<double>(), [&](int model, const double* risks) {
                for (int p = 0; p < predictors; ++p) {
                    const int fit = model * predictors + p;
                    steps.paths.write_risks(fit, step, p == 0 ? risks[0] : 0.0,
                                            p == 0 ? risks[1] : 0.0);
                    *steps.paths.nuisance_at(fit, step) = 0;
                }
            });
    }

  private:
    /// candidates[fit] = the risk of the model if only this predictor is updated. Ends with a grid
    /// barrier.
    __device__ void find_candidates() const {
        const auto add_loss = [&](int fit, int) {
            const Update own_update = steps.best_update(fit, 1);
            const double own_size = size(own_update);
            const int p = fit % steps.all.predictors, first = fit - p;
            return [=, *this, d = steps.along(own_update)](long long row, double* own) {
                const Observations& data = steps.data;
                const double weight = data.weight(first, row);
                if (weight == 0) return;
                const double change = own_size * d(fit, row);
                const PredictorRow f{data.f + first * data.rows + row, data.rows, p, change};
                own[0] += weight * family.loss(data.response(first, row), f);
            };
        };
        steps.sums(1).template sum<1>(Add<double>(), add_loss, [&](int fit, const double* risk) {
            steps.all.candidates[fit] = risk[0];
        });
    }
};
