// The residual of a solution of nnls_gram.cu, in twice the working precision: it corrects x, and
// certifies it.

#pragma once

#include "gram_steps.cuh"

/// Limit on how often the residual is made orthogonal to the passive columns.
constexpr int most_corrections = 3;

/// Part of the square of a residual that is left after a correction, unless it is recomputed.
constexpr double kept_part = 0.25;

template <class T, class Team>
struct GramResidual : GramSteps<T, Team> {
    using Base = GramSteps<T, Team>;
    using Base::penalty, Base::ridge, Base::lower, Base::upper, Base::rest, Base::is_inside;
    using Base::scaled_b, Base::is_data, Base::gradient, Base::transpose_times,
        Base::transpose_witness;
    using Base::team, Base::options, Base::at, Base::inverse;
    using Base::to_scaled, Base::to_given, Base::magnitude, Base::status;
    using Base::variable, Base::owns, Base::per_norm, Base::all_x, Base::sum, Base::sum_of_passive,
        Base::size, Base::step;
    using typename Base::Array;

    bool has_product;  // whether w is the product of the columns with the witness

    /// Make the witness orthogonal to the passive columns, and correct x if the corrected x is
    /// between its bounds, so that `follows` is true. Updates the residual by the change of x.
    /// Returns whether it must be recomputed: if little is left of it, its rounding errors count.
    ///
    /// Afterwards `has_product` says whether w is the product of the columns with the witness:
    /// small teams multiply all.
    __device__ bool correct(bool& follows) {
        at.change.forget();
        inverse.for_each([&](auto p) { at.change[p] = 0; });
        bool is_orthogonal = false;
        double largest_square = 0, square = 0;
#pragma unroll 1
        for (int correction = 0; correction < most_corrections; ++correction) {
            square = transpose_witness(inverse.passive(), at.passive_w);
            if constexpr (Team::is_small) at.w = at.passive_w;
            largest_square = max(largest_square, square);
            const double limit = options.tol / 2 * square_root(square);
            const double visible = sum_of_passive([&](auto p) {
                const double w = gradient(at.passive_w[p], variable(p), at.witness);
                at.passive_w[p] = w;
                return fabs(w) > limit * at.norm[variable(p)] ? 1.0 : 0.0;
            });
            is_orthogonal = has_sum() && visible == 0;
            has_product = Team::is_small && !team.any(!is_orthogonal);
            if (!team.any(!is_orthogonal)) break;
            const double to_sum = step(true, false), shift = is_orthogonal ? 0 : to_sum;
            inverse.for_each([&](auto p) {
                if (is_orthogonal || !is_finite(at.d[p])) at.d[p] = 0;
                at.change[p] += at.d[p];
            });
            team.sync();
            subtract_fitted(at.witness, shift);
            team.sync();
        }
        if (moves_x(follows)) {
            subtract_fitted(at.residual, 0);
            team.sync();
        }
        return options.has_sum() || !is_orthogonal || square < kept_part * largest_square;
    }

    /// Add the change to x, if x stays between its bounds and the solver was not stopped, and round
    /// x; `follows` says whether it was added. Computes d, by how much x changes, and x by
    /// variable. Returns whether x may change in a team of the warp. Ends with a barrier.
    __device__ bool moves_x(bool& follows) {
        const double blocked = sum_of_passive(
            [&](auto p) { return is_inside(at.x[p] + at.change[p], p) ? 0.0 : 1.0; });
        follows = status == converged && blocked == 0;
        double moved = 0;
        at.d.forget();
        inverse.for_each([&](auto p) {
            const double before = at.x[p], x = follows ? before + at.change[p] : before;
            const double rounded = to_scaled(to_given(x, variable(p)), variable(p));
            at.d[p] = rounded - before;
            at.x[p] = all_x()[variable(p)] = rounded;
            if (at.d[p] != 0) moved = 1;
        });
        if constexpr (!Team::is_small) {  // a reduction would take registers
            team.sync();
            return true;
        }
        return team.any(team.reduce(moved, Called<MaxMagnitude<double>>()) > 0);
    }

    /// Whether x + change has the fixed sum, up to rounding.
    __device__ bool has_sum() {
        if (!options.has_sum()) return true;
        Two sums = AddTwo::identity();
        const auto add = [&](double term) { sums = AddTwo()(sums, {term, fabs(term)}); };
        inverse.for_each([&](auto p) { add(at.sum_row[variable(p)] * (at.x[p] + at.change[p])); });
        for_each_variable<Team>(options.n, [&](auto j) { add(at.sum_row[j] * at.rest[j]); });
        sums = team.reduce(sums, Called<AddTwo>());
        const double total = at.total[0], terms = fabs(total) + sums.b;
        return fabs(sums.a - total) <= summed_units * Floating<double>::epsilon * terms;
    }

    /// Subtract A d, with the rows of the l2 penalty, from a residual; `shift` changes the
    /// multiplier of the fixed sum.
    __device__ void subtract_fitted(Array from, double shift) {
        combine(at.matrix, at.inverse, options.height(), inverse.passive(), at.d, PlainSum{0},
                [&](int i, PlainSum fitted) {
                    if (is_data(i))
                        from[i] -= fitted.value;
                    else
                        at.witness[i] = at.residual[i] -= shift;
                });
        if (options.has_ridge())
            inverse.for_each([&](auto p) {
                from[options.height() + variable(p)] -= at.damping[variable(p)] * at.d[p];
            });
    }

    /// Correct x by the residual b - A x, unless the solver was stopped. Computes the residual of x
    /// and the witness. Returns whether the corrected x is between its bounds, so that it is x now.
    ///
    /// The part of the residual along the passive columns is due to an error of x. Without that
    /// part it is the witness of the certificate.
    __device__ bool refresh() {
        bool follows = false;
        for (bool again = false;; again = true) {
            Base::make_residual(again ? at.residual : at.witness, AccurateSum::of_size(size()));
            if (again || !team.any(correct(follows))) return follows;
        }
    }

    /// The certificate of x, |b - A x|, and the root of twice the objective. Computes the gradient
    /// w of the witness.
    struct Certified {
        Certificate<T, double> certificate;
        double fit, misfit;
    };

    __device__ Certified certify() {
        if (team.any(!has_product)) transpose_times(inverse.all(options.n), at.witness, at.w);
        Two apart_and_gap{0, 0}, fit_and_length{0, 0}, objective_and_slack{0, 0};
        for_each<Team>(options.rows(), [&](int i) {
            if (!is_data(i)) return;
            const double left = at.residual[i], witness = at.witness[i];
            const Two squares{(left - witness) * (left - witness), 0};
            apart_and_gap = AddTwo()(apart_and_gap, squares);
            objective_and_slack.a += left * left;
            fit_and_length =
                AddTwo()(fit_and_length, {i < options.m ? left * left : 0, witness * witness});
        });
        fit_and_length = team.reduce(fit_and_length, Called<AddTwo>());
        double slope = 0, size = 0;
        for_each_variable<Team>(options.variables(), [&](auto j) {
            const double x = all_x()[j], w = gradient(at.w[j], j, at.witness);
            at.w[j] = w;
            const double violated = violation(x, w, lower(j), upper(j));
            // The gradient along a column that is 0 is its penalty.
            slope = MaxMagnitude<double>()(
                slope, Team::general ? ratio(violated, at.norm[j]) : per_norm(violated, j));
            size += at.norm[j] * fabs(x);
            apart_and_gap.b += bound_distance(x, lower(j), upper(j)) * w;
            const double l1 = penalty(j);
            objective_and_slack.a += 2 * l1 * x;
            objective_and_slack.b += penalty_slack(l1, x, lower(j), upper(j));
        });
        apart_and_gap = team.reduce(apart_and_gap, Called<AddTwo>());
        slope = team.reduce(slope, Called<MaxMagnitude<double>>());
        size = team.reduce(size, Called<Add<double>>());
        objective_and_slack = team.reduce(objective_and_slack, Called<AddTwo>());
        const double length = square_root(fit_and_length.b), square = objective_and_slack.a;
        const double misfit = square_root(fabs(square));
        return {{square_root(apart_and_gap.a), apart_and_gap.b, slope, length, magnitude, size,
                 objective_and_slack.b},
                square_root(fit_and_length.a),
                square < 0 ? -misfit : misfit};
    }

    /// Whether x has the fixed sum, to the accuracy of a certified x. The certificate
    /// takes it for granted.
    __device__ bool keeps_sum() {
        if (!options.has_sum()) return true;
        Two sums = AddTwo::identity();
        for_each_variable<Team>(options.n, [&](auto j) {
            const double term = at.sum_row[j] * all_x()[j];
            sums = AddTwo()(sums, {term, fabs(term)});
        });
        sums = team.reduce(sums, Called<AddTwo>());
        const double total = at.total[0];
        return ::keeps_sum<T>(total - sums.a, fabs(total) + sums.b, magnitude);
    }

    /// Let w and c agree with the true residual. Ends without a barrier.
    __device__ void correct_gradient() {
        transpose_times(inverse.passive(), at.residual, at.passive_w);
        team.sync();
        inverse.for_each([&](auto p) {
            at.w[variable(p)] = gradient(at.passive_w[p], variable(p), at.residual);
        });
        if (!at.matrix.has_gram()) return;
        team.sync();
        combine_gram(at.matrix, at.inverse, options.n, inverse.passive(), at.x,
                     [&](auto j, double sum) {
                         const double passive_x = options.has_ridge() ? all_x()[j] - rest(j) : 0;
                         at.c[j] = at.w[j] + sum + ridge(j) * passive_x;
                     });
        this->renew_goal();
    }
};
