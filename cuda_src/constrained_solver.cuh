// Least squares with linear constraints: the loop, and what it returns.
//
// A system is solved if its certificate says so, with the tolerances of the slower solver
// in gpusolve/reference/_nnls_constrained.py. All other systems have the status `is_unsettled`, and
// the slower solver solves them.

#pragma once

#include "constrained_certificate.cuh"

constexpr int is_unsettled = -1;
constexpr int most_rounds = 10;                                   // of active rows and corrections
constexpr int most_corrections = 4;                               // of a round
constexpr double convincing_kkt = 4 * Floating<double>::epsilon;  // no correction improves x
constexpr int steps_per_row = 10;                                 // the default limit

/// Solves the systems of a team.
template <class T, class Team>
struct ConstrainedSolver {
    Team& team;
    ConstrainedArrays& at;
    const NnlsSystems<T>& systems;
    const ConstraintRows<T>& rows;

    /// Read what belongs to one system, scaled. False if an element is not finite.
    __device__ bool read(long long k, long long number, double& b_scale, bool& has_bounds) {
        const int m = at.m, n = at.n, below = rows.below, equal = rows.equal;
        const T* const b = systems.b_of(number);
        const auto weights = systems.weights_of(number);
        const auto variables = systems.variables_of(number);
        const double* const d_ub =
            rows.d_ub + BatchOffsets{rows.d_ub_offset, rows.d_ub_batch_stride}[number];
        const double* const d_eq =
            rows.d_eq + BatchOffsets{rows.d_eq_offset, rows.d_eq_batch_stride}[number];
        const double infinity = Floating<double>::infinity();
        for_each<Team>(m, [&](int i) {
            const double value = weights.times(static_cast<double>(b[i * systems.b_stride]), i);
            at.b[i] = rows.is_gram ? value * at.scale[i] : value;
        });
        const double largest = largest_over(team, m, [&](int i) { return magnitude(at.b[i]); });
        if (!(largest < infinity)) return false;
        b_scale = scale_to_one(largest);
        const double by_b = b_scale;
        for_each<Team>(m, [&](int i) { at.b[i] *= by_b; });
        double wrong = 0, bounded = 0;
        for_each<Team>(n, [&](int j) {
            const double scale = at.scale[j], root = variables.root_l2(j);
            at.lower[j] = variables.lower(j) * by_b / scale;
            at.upper[j] = variables.upper(j) * by_b / scale;
            at.l1[j] = variables.l1(j) * scale * by_b;
            at.l2[j] = root * root * scale * scale;
            if (!variables.are_finite(j) || !(at.lower[j] <= at.upper[j]) ||
                at.lower[j] == infinity || at.upper[j] == -infinity)
                wrong = 1;
            if (at.lower[j] > -infinity || at.upper[j] < infinity) bounded = 1;
            const double start =
                systems.warm ? static_cast<double>(systems.x[k * n + j]) * by_b / scale : 0.0;
            const double x = fabs(start) < infinity ? start : 0.0;
            at.x[j] = fmin(fmax(x, at.lower[j]), at.upper[j]);
            at.x_rest[j] = 0;
        });
        for_each<Team>(at.k, [&](int i) {
            const double d = i < below           ? -d_ub[i * rows.d_ub_stride]
                             : i < below + equal ? d_eq[(i - below) * rows.d_eq_stride]
                                                 : variables.sum();
            at.side[i] = d * at.row_scale[i] * by_b;
            if (!(d < infinity) || (i >= below && d == -infinity)) wrong = 1;
        });
        for_each<Team>(at.rows(), [&](int i) {
            at.multiplier[i] = 0;
            at.state[i] = is_inactive;
        });
        wrong = team.reduce(wrong, MaxMagnitude<double>());
        has_bounds = team.reduce(bounded, MaxMagnitude<double>()) > 0;
        return wrong == 0;
    }

    /// Solve system k of the launch. Its matrices have been read. The status is returned.
    __device__ int solve(long long k, long long number) {
        double b_scale = 1;
        bool has_bounds = false;
        if (!read(k, number, b_scale, has_bounds)) return is_unsettled;
        const int limit = systems.limited ? systems.maxiter : steps_per_row * (at.rows() + 1);
        ConstrainedSteps<Team> steps{team, at, rows.below, has_bounds, limit};
        ConstrainedCertifier<Team> certifier(steps, rows.is_gram, rows.eps);
        steps.size_of_x = certifier.magnitude;
        const double enough = fmax(systems.tol, settled_kkt);
        ConstrainedCertificate found{};
        if (!minimise(steps, certifier, enough, found)) return is_unsettled;
        rest_at_bounds(steps, certifier, enough, found);
        drop_multipliers(steps, certifier, found);
        return finish(k, b_scale, steps, certifier, found);
    }

    __device__ bool minimise(ConstrainedSteps<Team>& steps, ConstrainedCertifier<Team>& certifier,
                             double enough, ConstrainedCertificate& found) {
        certifier.evaluate(false);
        certifier.compute_lagrangian(false);
        steps.correct();
        for (int round = 0; round < most_rounds; ++round) {
            certifier.evaluate(round > 0);
            certifier.compute_lagrangian(round > 1);
            set_values(steps);
            if (!steps.activate()) return false;
            certifier.compute_lagrangian(round > 1);
            certifier.correct_missing();
            steps.correct();
            double before = Floating<double>::infinity();
            for (int turn = 0; turn < most_corrections; ++turn) {
                if (steps.leaves_bounds()) break;
                evaluate(certifier, round > 1);
                found = certifier.certify();
                const double badness = found.kkt() + found.violation;
                const bool improves = badness < before / 2;
                if (certifier.is_settled(found, enough) &&
                    (found.kkt() <= convincing_kkt || !improves))
                    return true;
                if (!improves) break;
                if (turn > 0) before = badness;
                certifier.correct_missing();
                steps.correct();
            }
        }
        return false;
    }

    __device__ void evaluate(ConstrainedCertifier<Team>& certifier, bool accurate) {
        certifier.evaluate();
        certifier.compute_lagrangian(accurate);
    }

    /// The values of all rows at x + rest.
    __device__ void set_values(ConstrainedSteps<Team>& steps) {
        const int n = at.n;
        multiply(team, at.C.first, at.k, n, at.x_rest.first, at.value.first);
        for_each<Team>(at.k, [&](int i) {
            // Infinite sides are infinitely far.
            at.value[i] = fabs(at.missing[i]) < Floating<double>::infinity()
                              ? at.side[i] - at.missing[i] + at.value[i]
                              : 0.0;
        });
        for_each<Team>(n, [&](int j) { at.value[at.k + j] = at.x[j] + at.x_rest[j]; });
    }

    /// Move variables to bounds that they reach up to rounding errors, if x stays settled.
    __device__ void rest_at_bounds(ConstrainedSteps<Team>& steps,
                                   ConstrainedCertifier<Team>& certifier, double enough,
                                   ConstrainedCertificate& found) {
        if (!steps.has_bounds) return;
        const int n = at.n;
        const double size =
            largest_over(team, n, [&](int j) { return fabs(at.x[j]); }) + certifier.magnitude;
        const double near = bound_units * Floating<double>::epsilon * size;
        double moves = 0;
        for_each<Team>(n, [&](int j) {
            const double x = at.x[j];
            double moved = x;
            if (fabs(moved - at.lower[j]) <= near) moved = at.lower[j];
            if (fabs(moved - at.upper[j]) <= near) moved = at.upper[j];
            at.old_x[j] = x;
            at.old_rest[j] = at.x_rest[j];
            if (moved != x) moves = 1;
            at.x_rest[j] += x - moved;
            at.x[j] = moved;
        });
        if (team.reduce(moves, MaxMagnitude<double>()) == 0) return;
        evaluate(certifier, false);
        const ConstrainedCertificate other = certifier.certify();
        if (certifier.is_settled(other, enough)) {
            found = other;
            return;
        }
        for_each_element(team, n, [&](int j) {
            at.x[j] = at.old_x[j];
            at.x_rest[j] = at.old_rest[j];
        });
        evaluate(certifier, false);
        found = certifier.certify();
    }

    /// Set multipliers to 0 where x is almost as good without them.
    __device__ void drop_multipliers(ConstrainedSteps<Team>& steps,
                                     ConstrainedCertifier<Team>& certifier,
                                     ConstrainedCertificate& found) {
        const double squares =
            sum_over(team, at.rows(), [&](int i) { return at.multiplier[i] * at.multiplier[i]; });
        constexpr double eps = Floating<double>::epsilon;
        if (!(squares < eps * eps || found.kkt() >= found.trivial) || squares == 0) return;
        for_each<Team>(at.n, [&](int j) {
            at.old_w[j] = at.w[j];
            at.w[j] = at.slope[j];
        });
        for_each<Team>(at.k, [&](int i) { at.general[i] = 0; });
        const ConstrainedCertificate other = certifier.certify();
        if (other.kkt() <= 2 * found.kkt()) return;
        certifier.set_general();
        for_each<Team>(at.n, [&](int j) { at.w[j] = at.old_w[j]; });
    }

    /// Write the results in the given variables, if x is certified after rounding.
    __device__ int finish(long long k, double b_scale, ConstrainedSteps<Team>& steps,
                          ConstrainedCertifier<Team>& certifier, ConstrainedCertificate& found) {
        const int n = at.n;
        const bool is_float = sizeof(T) == sizeof(float);
        T* const x = systems.x + k * n;
        for_each<Team>(n, [&](int j) {
            const T rounded = static_cast<T>(at.x[j] * at.scale[j] / b_scale);
            at.x[j] = static_cast<double>(rounded) * b_scale / at.scale[j];
            x[j] = rounded;
        });
        team.sync();
        const double rnorm = rows.is_gram ? round_gradient(steps, certifier, is_float, found)
                                          : round_residual(steps, certifier, is_float, found);
        const double eps = Floating<T>::epsilon, most = is_float ? 1e-4 : certified_double;
        const double by_x = fmax(systems.tol, most + rounded_units * eps * found.size);
        const bool good = found.by_x <= by_x && found.angle <= fmax(systems.tol, most) &&
                          found.violation <= certified_double / 2 &&
                          eps * found.size <= (is_float ? 1e-3 : 1e-6);
        if (!good) return is_unsettled;
        for_each<Team>(n, [&](int j) {
            systems.dual[k * n + j] = static_cast<T>(at.w[j] / at.scale[j] / b_scale);
        });
        for_each<Team>(rows.below + rows.equal, [&](int i) {
            const double y = at.general[i] * at.row_scale[i] / b_scale;
            if (i < rows.below)
                rows.dual_ub[k * rows.below + i] = static_cast<T>(y);
            else
                rows.dual_eq[k * rows.equal + i - rows.below] = static_cast<T>(-y);
        });
        if (Team::rank() == 0) {
            systems.rnorm[k] = static_cast<T>(rnorm / b_scale);
            systems.kkt[k] = static_cast<T>(found.kkt());
            systems.nit[k] = steps.steps;
            systems.n_updates[k] = steps.updates;
            systems.n_downdates[k] = steps.downdates;
            systems.repaired[k] = false;
            systems.method[k] = static_cast<unsigned char>(rows.method);
        }
        return 0;
    }

    /// |b - A x|, and what rounding x adds to the certificate.
    __device__ double round_residual(ConstrainedSteps<Team>& steps,
                                     ConstrainedCertifier<Team>& certifier, bool is_float,
                                     ConstrainedCertificate& found) {
        const int m = at.m;
        const bool has_rest = certifier.image > 0;
        for_each<Team>(m, [&](int i) { at.image[i] = has_rest ? at.r[i] + at.image[i] : at.r[i]; });
        team.sync();
        if (!is_float) return certifier.length_of(at.image, m);
        steps.compute_residual(true);
        const double squares = sum_over(team, m, [&](int i) {
            const double change = at.r[i] - at.image[i];
            return change * change;
        });
        found.by_x += ratio(sqrt(squares), certifier.magnitude);
        return certifier.length_of(at.r, m);
    }

    /// The root of twice the distance from the minimum without constraints. The certificate of x
    /// and `w` take account of its rounding. The sum of x must be right after rounding.
    __device__ double round_gradient(ConstrainedSteps<Team>& steps,
                                     ConstrainedCertifier<Team>& certifier, bool is_float,
                                     ConstrainedCertificate& found) {
        const int n = at.n;
        if (is_float) {
            for_each<Team>(n, [&](int j) {
                at.old_w[j] = at.w[j] - at.slope[j];
                at.x_rest[j] = 0;
            });
            team.sync();
            certifier.evaluate_gradient(true);
            for_each<Team>(n, [&](int j) { at.w[j] = at.slope[j] + at.old_w[j]; });
            team.sync();
            found.by_x = certifier.certify().by_x;
        }
        if (systems.kind & with_sum) {
            certifier.evaluate_rows();
            const int i = at.k - 1;
            const double most = gram_units * Floating<T>::epsilon * at.terms[i];
            if (!(fabs(at.missing[i]) <= most)) found.by_x = Floating<double>::infinity();
        }
        for_each<Team>(n, [&](int j) {
            const double slope = at.r[j] - at.l1[j] - at.l2[j] * at.x[j];
            at.w[j] += slope - at.slope[j];
            at.push[j] = slope;
        });
        team.sync();
        return certifier.length_by_inverse(at.push);
    }
};

/// A team, and whose matrices are in its arrays: successive systems may share them.
template <class T, class Team>
struct ConstrainedTeam {
    Team& team;
    ConstrainedArrays& at;
    const NnlsSystems<T>& systems;
    const ConstraintRows<T>& rows;
    const T *held_A = nullptr, *held_weights = nullptr;
    const double *held_ub = nullptr, *held_eq = nullptr;
    bool is_held = false, is_read = false;

    /// Read the matrices of a system, unless the system before had the same matrices.
    __device__ bool read(long long number) {
        const auto matrix = systems.matrix_of(number);
        const double *const ub = rows.ub_of(number), *const eq = rows.eq_of(number);
        const bool is_same = is_held && rows.same_l2 && matrix.A == held_A &&
                             matrix.weights.root == held_weights && ub == held_ub && eq == held_eq;
        if (is_same) return is_read;
        held_A = matrix.A;
        held_weights = matrix.weights.root;
        held_ub = ub;
        held_eq = eq;
        is_held = true;
        is_read = ConstrainedMatrices<T, Team>{team, at, systems, rows}.read(number);
        return is_read;
    }

    /// Solve system k of the launch.
    __device__ void solve(long long k) {
        const long long number = systems.first + k;
        int status = is_unsettled;
        if (read(number))
            status = ConstrainedSolver<T, Team>{team, at, systems, rows}.solve(k, number);
        team.sync();
        if (Team::rank() > 0) return;
        systems.status[k] = status;
        if (status == is_unsettled) atomicAdd(&systems.counters->listed, 1ULL);
    }
};
