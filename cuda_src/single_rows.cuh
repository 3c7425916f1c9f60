// The row phase of models of one predictor, for stacked.cu.
//
// A family whose nuisance parameter depends on f adds passes (nuisances.cuh), and so does a family
// whose rows depend on each other (risk_sets.cuh).

#pragma once

#include "boosting_steps.cuh"
#include "nuisances.cuh"
#include "risk_sets.cuh"

/// The gradient at a row's f, written to u, and its losses, added to `own`.
template <class Family, class Parameter>
__device__ __forceinline__ void evaluate(const Family& family, const Observations& data, int fit,
                                         long long row, Parameter s, double* own) {
    const double y = data.response(fit, row), weight = data.weight(fit, row);
    const double f = data.f[fit * data.rows + row], held_out = data.weight_held_out(fit, row);
    data.u[fit * data.rows + row] = weight == 0 ? 0.0 : weight * family.gradient(y, f, s);
    if (weight == 0 && held_out == 0) return;
    const double loss = family.loss(y, f, s);
    if (weight != 0) own[0] += weight * loss;  // the loss of a row left out may be infinite
    if (held_out != 0) own[1] += held_out * loss;
}

/// |d|_W^2 and |d|_WH^2 of a row, added to `own`: d is the fit of the chosen learner, and H the
/// curvature.
template <class Family, class Parameter>
__device__ __forceinline__ void add_curvature(const Family& family, const Observations& data,
                                              int fit, long long row, double d, Parameter s,
                                              double* own) {
    const double weight = data.weight(fit, row);
    if (weight == 0) return;
    const double y = data.response(fit, row);
    own[0] += weight * d * d;
    if constexpr (Family::nuisance == Nuisance::risk_sets)
        own[1] += d * d * curvature_in_risk_set(y, weight, data.u[fit * data.rows + row]);
    else
        own[1] += weight * d * d * family.curvature(y, data.f[fit * data.rows + row], s);
}

/// The row phase of models of one predictor.
template <class T, class Family>
struct SingleRows {
    static constexpr bool is_curved = Family::is_curved;
    static constexpr bool is_fixed = Family::nuisance == Nuisance::fixed;
    static constexpr bool has_risk_sets = Family::nuisance == Nuisance::risk_sets;
    static constexpr bool has_parameter = !is_fixed && !has_risk_sets;

    const Steps<T>& steps;
    const Family& family;

    static __device__ int nuisances(const Family& family) { return nuisances_of(family); }

    __device__ Update update(int fit, int) const { return steps.best_update(fit, 1); }
    __device__ double size(const Update& update) const {
        const Two along = steps.lengths(update, is_curved);
        return steps.all.rates[update.first] * (along.first / along.second);
    }
    __device__ RowSums sums() const { return steps.sums(1); }

    __device__ void add_curvatures(int step) const {
        sums().template pass<2, RowSums::along>(Add<double>(), [&](int fit, int) {
            const Update own_update = steps.best_update(fit, 1);
            const auto s = read_nuisance(family, steps.paths.nuisance_at(fit, step - 1));
            return [=, *this, d = steps.along(own_update)](long long row, double* own) {
                add_curvature(family, steps.data, fit, row, d(fit, row), s, own);
            };
        });
    }

    /// Updates f, and evaluates gradients and risks there; the start if `step` is 0. A grid barrier
    /// must follow.
    __device__ void advance(int step) const {
        const Observations& data = steps.data;
        const Add<double> add;
        double* searches = steps.all.searches;
        if constexpr (is_fixed) {
            steps.template pass<2>(
                add, *this, step, [=, *this](int fit, long long row, double* own) {
                    evaluate(family, steps.data, fit, row, family.parameter, own);
                });
        } else if constexpr (has_risk_sets) {
            steps.template pass<1>(Maximum(), *this, step,
                                   [&](int fit, long long row, double* own) {
                                       own[0] = fmax(own[0], data.f[fit * data.rows + row]);
                                   });
            evaluate_all_risk_sets(sums(), risk_sets());
        } else {
            steps.template pass<2>(add, *this, step, [](int, long long, double*) {});
            estimate(family, sums(), searches, steps.paths, step);
            sums().template pass<2>(add, [&](int fit, int) {
                const auto s = read_nuisance(family, steps.paths.nuisance_at(fit, step));
                return [=, *this](long long row, double* own) {
                    evaluate(family, steps.data, fit, row, s, own);
                };
            });
        }
    }

    __device__ void finish(int step) const {
        sums().template finish<2>(Add<double>(), [&](int fit, const double* found) {
            steps.paths.write_risks(fit, step, found[0], found[1]);
            if constexpr (!has_parameter) *steps.paths.nuisance_at(fit, step) = family.parameter;
        });
    }

  private:
    __device__ RiskSets risk_sets() const {
        const StackedFits<T>& all = steps.all;
        return {all.places,    all.risk_sets, reinterpret_cast<Two*>(all.partial),
                all.searches,  all.rows,      all.fits,
                all.row_chunks};
    }
};
