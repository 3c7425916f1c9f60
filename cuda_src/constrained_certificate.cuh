// The certificate of a point within linear constraints; the specification in NumPy is
// gpusolve/reference/_nnls_constrained.py, and docs/certificate.md has the proof.

#pragma once

#include "constrained_steps.cuh"

constexpr double accurate_terms = 64;       // ACCURATE of gpusolve/_numerics/system.py
constexpr double share_of_terms = 1e-4;     // SHARE
constexpr double rounded_units = 8;         // ROUNDED
constexpr double gram_units = 16;           // GRAM_UNITS of gpusolve/_nnls/bounded_qp.py
constexpr double certified_double = 1e-10;  // CERTIFIED, for float64
constexpr double settled_kkt = 1e-11;       // STOP_KKT of gpusolve/reference/_nnls_constrained.py
constexpr double bound_units = 1024;        // AT_BOUND

/// How far a point is from the optimum.
struct ConstrainedCertificate {
    double by_x, angle, violation, size, trivial;

    __device__ double kkt() const { return by_x + angle; }
};

/// Certifies the points of a system.
template <class Team>
struct ConstrainedCertifier {
    ConstrainedSteps<Team>& steps;
    Team& team;
    ConstrainedArrays& at;
    bool is_gram;
    double eps;  // the rounding of G
    double length_of_b, magnitude, image = 0;

    __device__ ConstrainedCertifier(ConstrainedSteps<Team>& steps, bool is_gram, double eps)
        : steps(steps), team(steps.team), at(steps.at), is_gram(is_gram), eps(eps) {
        length_of_b = is_gram ? length_by_inverse(at.b) : length_of(at.b, at.m);
        magnitude = length_of_b + least_activity();
    }

    /// The root of v G^-1 v.
    __device__ __noinline__ double length_by_inverse(Vector<double> v) {
        for_each<Team>(at.n, [&](int j) { at.e[j] = 0; });
        add_transposed(team, at.J.first, at.n, at.n, v.first, at.e.first);
        return length_of(at.e, at.n);
    }

    __device__ double column_size(int j) const { return at.norm[j] > 0 ? at.norm[j] : 1.0; }

    /// A bound from below of the largest |a_k x_k| of all feasible x.
    __device__ double least_activity() {
        const double of_rows = largest_over(team, at.k, [&](int i) {
            const double d = without_infinity(at.side[i]);
            return ratio(steps.is_equality(i) ? fabs(d) : fmax(d, 0.0), at.per_unit[i]);
        });
        const double of_bounds = largest_over(team, at.n, [&](int j) {
            const double lower = without_infinity(at.lower[j]);
            const double upper = without_infinity(at.upper[j]);
            return fmax(fmax(lower, -upper), 0.0) * column_size(j);
        });
        return fmax(of_rows, of_bounds);
    }

    static __device__ double without_infinity(double value) {
        return fabs(value) < Floating<double>::infinity() ? value : 0.0;
    }

    /// The residual, the slope of x, and what is missing of all sides.
    __device__ __noinline__ void evaluate(bool accurate = true) {
        const int n = at.n, k = at.k;
        evaluate_rows();
        if (is_gram) {
            evaluate_gradient(accurate);
            return;
        }
        steps.compute_residual(false);
        double length = length_of(at.r, at.m);
        const double terms =
            length_of_b + sum_over(team, n, [&](int j) { return at.norm[j] * fabs(at.x[j]); });
        if (accurate && accurate_terms * length < terms) steps.compute_residual(true);
        image = 0;
        if (largest_over(team, n, [&](int j) { return fabs(at.x_rest[j]); }) > 0) subtract_rest();
        for_each<Team>(n, [&](int j) { at.slope[j] = -at.l1[j] - at.l2[j] * at.x[j]; });
        add_transposed(team, at.A.first, at.m, n, at.r.first, at.slope.first);
    }

    /// c - G (x + rest); if `accurate`, in twice the working precision.
    __device__ __noinline__ void evaluate_gradient(bool accurate) {
        const int n = at.n;
        if (accurate) {
            for_each<Team>(n, [&](int j) {
                at.slope[j] = at.b[j];
                at.e[j] = 0;
            });
            subtract_transposed(team, at.A.first, n, n, at.x.first, at.slope.first, at.e.first);
        } else {
            multiply(team, at.A.first, n, n, at.x.first, at.slope.first);
            for_each<Team>(n, [&](int j) {
                at.slope[j] = at.b[j] - at.slope[j];
                at.e[j] = 0;
            });
        }
        multiply(team, at.A.first, n, n, at.x_rest.first, at.image.first);
        for_each<Team>(n, [&](int j) {
            at.r[j] = at.slope[j] + at.e[j];
            at.slope[j] = at.r[j] - at.image[j] - at.l1[j] - at.l2[j] * (at.x[j] + at.x_rest[j]);
        });
    }

    /// What is missing of all sides, and the sizes of the terms of rows.
    __device__ __noinline__ void evaluate_rows() {
        const int n = at.n, k = at.k;
        multiply(team, at.C.first, k, n, at.x.first, at.missing.first);
        multiply<true>(team, at.C.first, k, n, at.x.first, at.terms.first);
        for_each<Team>(k, [&](int i) {
            at.missing[i] = at.side[i] - at.missing[i];
            at.terms[i] += fabs(without_infinity(at.side[i]));
        });
        team.sync();
    }

    /// The residual of x + rest, and |A rest|.
    __device__ void subtract_rest() {
        multiply(team, at.A.first, at.m, at.n, at.x_rest.first, at.image.first);
        image = length_of(at.image, at.m);
        for_each<Team>(at.m, [&](int i) { at.r[i] -= at.image[i]; });
        team.sync();
    }

    __device__ double length_of(Vector<double> values, int count) {
        return sqrt(sum_of_products(team, values.first, values.first, count));
    }

    /// Take the multipliers of the rows of C that have the right sign.
    __device__ void set_general() {
        for_each<Team>(at.k, [&](int i) {
            const double y = at.multiplier[i];
            at.general[i] = steps.is_equality(i) ? y : fmax(y, 0.0);
        });
    }

    /// w = slope + C^T general, and `missing`: in twice the working precision where multipliers are
    /// large.
    __device__ __noinline__ void compute_lagrangian(bool always_accurate) {
        const int n = at.n, k = at.k;
        set_general();
        for_each<Team>(n, [&](int j) {
            at.w[j] = at.slope[j];
            at.e[j] = 0;
        });
        team.sync();
        bool any = false;
        for (int a = 0; a < steps.active; ++a) any |= at.active[a] < k;
        if (!any && !always_accurate) return;
        add_transposed<true>(team, at.C.first, k, n, at.general.first, at.e.first);
        const double length = witness_length();
        const double of_gap = ratio(
            sum_over(team, k, [&](int i) { return fabs(at.general[i]) * at.terms[i]; }), magnitude);
        const double of_w = largest_over(team, n, [&](int j) { return at.e[j] / column_size(j); });
        const bool accurate = always_accurate || !(fmax(of_gap, of_w) <= accurate_terms * length);
        if (!accurate) {
            add_transposed(team, at.C.first, k, n, at.general.first, at.w.first);
            return;
        }
        for_each<Team>(n, [&](int j) {
            Twofold<double> sum{at.slope[j], 0};
            for (int i = 0; i < k; ++i)
                sum = AddTwofold<double>()(
                    sum, two_product(at.C[static_cast<long long>(i) * n + j], at.general[i]));
            at.w[j] = sum.high + sum.low;
        });
        for_each<Team>(k, [&](int i) {
            const double* const row = at.C.first + static_cast<long long>(i) * n;
            if (without_infinity(at.side[i]) == at.side[i])
                at.missing[i] = accurate_difference(at.side[i], row, at.x.first, n);
        });
    }

    __device__ double witness_length() {
        if (is_gram) return length_of_b;
        const double squares =
            sum_of_products(team, at.r.first, at.r.first, at.m) +
            sum_over(team, at.n, [&](int j) { return at.l2[j] * at.x[j] * at.x[j]; });
        return sqrt(squares);
    }

    /// Take x_rest into account in `missing`, for a correction.
    __device__ __noinline__ void correct_missing() {
        const int n = at.n;
        for_each<Team>(at.k, [&](int i) {
            const double* const row = at.C.first + static_cast<long long>(i) * n;
            if (at.state[i] == is_inactive) return;
            at.missing[i] -= dot(team, row, at.x_rest.first, n);
        });
        team.sync();
    }

    /// The certificate, after `evaluate` and `compute_lagrangian`.
    __device__ __noinline__ ConstrainedCertificate certify() {
        return is_gram ? certify_gram() : certify_residual();
    }

    /// The certificate of the objective; the specification in NumPy is
    /// gpusolve/_nnls/bounded_qp.py. The bounds of the gap and of v G^-1 v are
    /// stricter: they keep rounding errors of an x whose gradient is S, and of v.
    __device__ ConstrainedCertificate certify_gram() {
        const int n = at.n, k = at.k;
        multiply<true>(team, at.A.first, n, n, at.x.first, at.size.first);
        const double rest = largest_over(team, n, [&](int j) {
            const double rest = fmin(fmax(0.0, at.lower[j]), at.upper[j]);
            at.push[j] = rest;
            at.e[j] = 0;
            return fabs(rest);
        });
        if (rest > 0) multiply<true>(team, at.A.first, n, n, at.push.first, at.e.first);
        double linear = 0, square = 0, largest = 0;
        for_each<Team>(n, [&](int j) {
            const double c = at.b[j] - at.l1[j], x = at.x[j], l2 = at.l2[j], norm = at.norm[j];
            const double slope = at.r[j] - at.l1[j] - l2 * x;
            linear += c * x;
            square += (c - slope) * x;
            const double here = fabs(slope) + fabs(c) + at.e[j] + l2 * fabs(at.push[j]);
            largest = MaxMagnitude<double>()(largest, magnitude_of(here / norm));
            at.size[j] += fabs(c) + l2 * fabs(x);
        });
        linear = team.reduce(linear, Add<double>());
        square = team.reduce(square, Add<double>());
        const double S = team.reduce(largest, MaxMagnitude<double>()) + magnitude - length_of_b;
        const double value = fabs(square) / 2 + fabs(linear) + eps * S * S;
        double steepest = 0, worst = 0, gap = 0;
        for_each<Team>(n, [&](int j) {
            const double x = at.x[j], pull = at.w[j] - at.slope[j];
            const double w = at.r[j] - at.l1[j] - at.l2[j] * x + pull;
            const bool may_move = w > 0 ? x < at.upper[j] : x > at.lower[j];
            const double rounding = gram_units * Floating<double>::epsilon * at.size[j];
            const double v = may_move && w != 0 ? fmax(fabs(w) - rounding, 0.0) : 0.0;
            at.push[j] = w > 0 ? v : -v;
            steepest = MaxMagnitude<double>()(steepest, magnitude_of(w != w ? w : v / at.norm[j]));
        });
        for_each<Team>(k, [&](int i) {
            const double missing = without_infinity(at.missing[i]);
            gap -= at.general[i] * missing;
            worst = MaxMagnitude<double>()(worst, magnitude_of(relative_violation(i, missing)));
        });
        gap = fabs(team.reduce(gap, Add<double>()));
        const double length = length_by_inverse(at.push);
        ConstrainedCertificate found{};
        found.by_x = fmax(ratio(team.reduce(steepest, MaxMagnitude<double>()), S),
                          ratio(length * length / 2 + gap, value));
        found.angle = 0;
        found.violation = team.reduce(worst, MaxMagnitude<double>());
        found.trivial = Floating<double>::infinity();
        found.size = 0;
        return found;
    }

    /// The violation of a row, relative to the size of its terms.
    __device__ double relative_violation(int i, double missing) const {
        const double left = steps.is_equality(i) ? fabs(missing) : fmax(missing, 0.0);
        return ratio(left, at.terms[i] + share_of_terms * magnitude * at.per_unit[i]);
    }

    __device__ ConstrainedCertificate certify_residual() {
        const int n = at.n, k = at.k;
        const double length = witness_length();
        double gap = 0, violated = 0;
        bool could_fall = false;
        for_each<Team>(n, [&](int j) {
            const double w = at.w[j], x = at.x[j];
            const double bound = w > 0 ? at.upper[j] : at.lower[j];
            const bool at_bound = fabs(bound - x) <= fabs(x);
            gap += w * ((at_bound ? bound : 0.0) - x - at.x_rest[j]);
            if (!at_bound)
                violated = MaxMagnitude<double>()(violated, magnitude_of(w) / column_size(j));
            const double l1 = at.l1[j];
            could_fall |= l1 != 0 && x != (l1 > 0 ? at.lower[j] : at.upper[j]);
        });
        double worst = 0;
        for_each<Team>(k, [&](int i) {
            const double missing = without_infinity(at.missing[i]);
            const double y = at.general[i];
            if (y != 0) {
                const double* const row = at.C.first + static_cast<long long>(i) * n;
                gap -= y * (missing - dot(team, row, at.x_rest.first, n));
            }
            worst = MaxMagnitude<double>()(worst, magnitude_of(relative_violation(i, missing)));
        });
        gap = team.reduce(gap, Add<double>());
        violated = team.reduce(violated, MaxMagnitude<double>());
        worst = team.reduce(worst, MaxMagnitude<double>());
        const bool falls = team.reduce(could_fall ? 1.0 : 0.0, MaxMagnitude<double>()) > 0;
        const double infinity = Floating<double>::infinity();
        const double limit = falls ? infinity : ratio(length, magnitude);
        ConstrainedCertificate found{};
        found.by_x =
            fmin(ratio(ratio(fabs(gap), length), magnitude), limit) + ratio(image, magnitude);
        found.angle = fmin(ratio(violated, length), limit);
        found.violation = worst;
        found.trivial = limit;
        found.size =
            ratio(sum_over(team, n, [&](int j) { return at.norm[j] * fabs(at.x[j]); }), magnitude);
        return found;
    }

    static __device__ double magnitude_of(double value) { return ::magnitude(value); }

    __device__ bool is_settled(const ConstrainedCertificate& found, double enough) const {
        const double rounding = (rounded_units + at.n) * Floating<double>::epsilon;
        return found.kkt() <= enough && found.violation <= rounding;
    }
};
