// The steps of least squares with linear constraints: active rows, and corrections of x.
//
// Source. D. Goldfarb and A. Idnani, "A numerically stable dual method for solving strictly convex
// quadratic programs", Mathematical Programming 27, 1983: from the minimum without constraints, the
// row that is violated most becomes active, and rows leave whose multiplier would change its sign.
// The steps here are in the space of the rows: with the Cholesky factor L of the inner products of
// the active rows of M = C J. That squares the condition number of these rows, so x and the
// multipliers are corrected afterwards, from residuals of A, C and b.

#pragma once

#include "constrained_system.cuh"

/// Where a row is. A positive multiplier pushes up from the lower side, a negative multiplier down
/// from the upper side.
enum RowState : int {
    is_inactive = 0,
    at_lower_side = 1,
    at_upper_side = 2,
    is_equal = 3,
    is_skipped = 4
};

constexpr double dependent_row = 1e-11;  // what is left of the square of an active row's length
constexpr double skipped_units =
    0x1p20;                         // a row that depends on others is violated by at most this
constexpr double opposite = 1e100;  // rows of equalities become active first

/// A system that a team solves. The diagonal of L has the inverses of its elements.
template <class Team>
struct ConstrainedSteps {
    Team& team;
    ConstrainedArrays& at;
    int first_equal;  // rows of C from here are equalities
    bool has_bounds;  // whether a bound is finite
    int most_steps;
    double size_of_x = 0;  // the size of a variable whose terms are as large as b
    int active = 0, steps = 0, updates = 0, downdates = 0;

    __device__ int row_count() const { return has_bounds ? at.rows() : at.k; }
    __device__ bool is_equality(int i) const { return i >= first_equal && i < at.k; }
    __device__ double lower_side(int i) const { return i < at.k ? at.side[i] : at.lower[i - at.k]; }
    __device__ double upper_side(int i) const {
        if (i >= at.k) return at.upper[i - at.k];
        return is_equality(i) ? at.side[i] : Floating<double>::infinity();
    }
    /// Row i of C and the bounds, times J.
    __device__ const double* row_of_M(int i) const {
        return i < at.k ? at.M.first + static_cast<long long>(i) * at.n
                        : at.J.first + static_cast<long long>(i - at.k) * at.n;
    }
    __device__ double* stored_inner(int q) const {
        return at.inner.first + static_cast<long long>(q) * at.rows();
    }
    /// The inner products of all rows with row q.
    __device__ __noinline__ double* inner_of(int q) {
        double* const out = stored_inner(q);
        if (at.has_inner[q]) return out;
        const double* const row = row_of_M(q);
        multiply(team, at.M.first, at.k, at.n, row, out);
        if (has_bounds) multiply(team, at.J.first, at.n, at.n, row, out + at.k);
        if (Team::rank() == 0) at.has_inner[q] = 1 + has_bounds;
        return out;
    }

    // ---- the factor of the active rows ----

    /// l = L^-1 (the inner products of the active rows with row q).
    __device__ double start_row(const double* inner, int q) {
        for_each<Team>(active, [&](int a) { at.l[a] = inner[at.active[a]]; });
        team.sync();
        solve_lower(team, at.L.first, at.n, active, at.l.first);
        return inner[q] - sum_of_products(team, at.l.first, at.l.first, active);
    }

    __device__ void append(int q, double rest, int state) {
        double* const row = at.L.first + static_cast<long long>(active) * at.n;
        for_each<Team>(active, [&](int a) { row[a] = at.l[a]; });
        if (Team::rank() == 0) {
            row[active] = 1 / sqrt(rest);
            at.active[active] = q;
            at.state[q] = state;
            at.tolerance[q] = Floating<double>::infinity();
        }
        ++active;
        ++updates;
        team.sync();
    }

    /// Remove active row number `which` from the factor; its multiplier becomes 0.
    __device__ __noinline__ void drop(int which) {
        double* const L = at.L.first;
        const int n = at.n, row = at.active[which];
        team.sync();
        if (Team::rank() == 0) {
            at.state[row] = is_inactive;
            at.multiplier[row] = 0;
            at.tolerance[row] = rounding_of(row);
            for (int a = which; a + 1 < active; ++a) at.active[a] = at.active[a + 1];
        }
        // Columns are moved by one thread each: a row reads its own elements only.
        for (int a = which; a + 1 < active; ++a) {
            for_each<Team>(a + 2, [&](int c) { L[a * n + c] = L[(a + 1) * n + c]; });
            team.sync();
        }
        --active;
        ++downdates;
        team.sync();
        for (int c = which; c < active; ++c) {
            const double a = L[c * n + c], b = 1 / L[c * n + c + 1];
            const double length = sqrt(a * a + b * b), cosine = a / length, sine = b / length;
            team.sync();
            for_each<Team>(active - c, [&](int step) {
                double* const of = L + (c + step) * n + c;
                if (step == 0) {
                    of[0] = 1 / length;
                    return;
                }
                const double first = of[0], second = of[1];
                of[0] = cosine * first + sine * second;
                of[1] = cosine * second - sine * first;
            });
            team.sync();
        }
    }

    // ---- active rows ----

    /// By how much row i is violated: positive at its lower side, negative at its upper side.
    __device__ double violation_of(int i) const {
        const double below = at.low[i] - at.value[i], above = at.high[i] - at.value[i];
        return below > 0 ? below : above < 0 ? above : 0.0;
    }
    /// The violation of a row that rounding errors explain.
    __device__ double rounding_of(int i) const {
        const double unit = 4 * Floating<double>::epsilon;
        if (i < at.k) return unit * at.terms[i];
        return unit * (fabs(at.x[i - at.k]) + size_of_x);
    }
    /// Set the sides of all rows, and how much an inactive row may be violated by.
    __device__ void set_sides() {
        for_each<Team>(row_count(), [&](int i) {
            if (at.state[i] == is_skipped) at.state[i] = is_inactive;
            at.low[i] = lower_side(i);
            at.high[i] = upper_side(i);
            at.weight[i] = is_equality(i) ? opposite : 1.0;
            at.tolerance[i] =
                at.state[i] == is_inactive ? rounding_of(i) : Floating<double>::infinity();
        });
        team.sync();
    }

    /// The row that is violated most.
    __device__ int most_violated() {
        map_variables(team, at.order, row_count(), [&](int i) {
            const double below = at.low[i] - at.value[i], above = at.value[i] - at.high[i];
            const double violation = below > above ? below : above;
            const double weighted = violation * at.weight[i];
            return violation > at.tolerance[i] ? weighted : 0.0;
        });
        const auto found = find_variable(team, at.order, row_count(), true, 0.0, 0);
        return team.reduce(found, ArgMax<double>()).index;
    }

    /// Change the values of all rows by a step along row q, without its part along active rows.
    __device__ void move_values(double step, const double* inner, const double* r) {
        for_each<Team>(active, [&](int a) { at.e[a] = -step * r[a]; });
        for_each<Team>(row_count(), [&](int i) { at.value[i] += step * inner[i]; });
        team.sync();
        add_rows(
            team, active, at.e.first, [&](int a) { return stored_inner(at.active[a]); },
            row_count(), at.value.first);
        team.sync();
    }

    /// Make rows active until none is violated. False if a row cannot be satisfied.
    __device__ bool activate() {
        set_sides();
        for (;;) {
            const int q = most_violated();
            if (q < 0) return true;
            if (!activate_row(q)) return false;
        }
    }

    __device__ __noinline__ bool activate_row(int q) {
        const double* const inner = inner_of(q);
        double left = violation_of(q);
        const double sign = left > 0 ? 1 : -1;
        left = fabs(left);
        for (;;) {
            if (++steps > most_steps || team.is_stopped()) return false;
            const double rest = start_row(inner, q);
            const bool is_dependent = !(rest > dependent_row * inner[q]) || active == at.n;
            double* const r = at.along.first;
            for_each<Team>(active, [&](int a) { r[a] = at.l[a]; });
            team.sync();
            solve_transposed(team, at.L.first, at.n, active, r);
            // The first active row whose multiplier becomes 0.
            Located<double> first = ArgMax<double>::identity();
            for_each<Team>(active, [&](int a) {
                const int i = at.active[a];
                const double rate = sign * r[a], y = at.multiplier[i];
                const int state = at.state[i];
                if (state == is_equal || !(state == at_lower_side ? rate > 0 : rate < 0)) return;
                const double ratio = y / rate, until = ratio > 0 ? ratio : 0.0;
                first = ArgMax<double>()(first, {-until, a});
            });
            first = team.reduce(first, ArgMax<double>());
            const double infinity = Floating<double>::infinity();
            const double to_drop = first.index < 0 ? infinity : -first.value;
            const double whole = is_dependent ? infinity : left / rest;
            const double step = to_drop < whole ? to_drop : whole;
            if (!(step < infinity)) return skip(q);
            for_each<Team>(active + 1, [&](int a) {
                if (a == active)
                    at.multiplier[q] += sign * step;
                else
                    at.multiplier[at.active[a]] -= sign * step * r[a];
            });
            if (!is_dependent) move_values(sign * step, inner, r);
            left -= step * (is_dependent ? 0 : rest);
            team.sync();
            if (whole <= to_drop) {
                append(q, rest,
                       is_equality(q) ? is_equal : (sign > 0 ? at_lower_side : at_upper_side));
                return true;
            }
            drop(first.index);
        }
    }

    /// Leave out a row that depends on the active rows, if it is violated by little.
    __device__ bool skip(int q) {
        const double violation = fabs(violation_of(q));
        team.sync();
        if (Team::rank() == 0) {
            at.state[q] = is_skipped;
            at.multiplier[q] = 0;
            at.tolerance[q] = Floating<double>::infinity();
        }
        team.sync();
        return violation <= skipped_units * rounding_of(q);
    }

    // ---- corrections ----

    /// r = b - A x; if `exact`, in twice the working precision.
    __device__ __noinline__ void compute_residual(bool exact) {
        const int m = at.m, n = at.n;
        if (exact) {
            subtract_products(team, at.b.first, at.A.first, m, n, at.x.first, at.r.first);
        } else {
            multiply(team, at.A.first, m, n, at.x.first, at.r.first);
            for_each<Team>(m, [&](int i) { at.r[i] = at.b[i] - at.r[i]; });
            team.sync();
        }
    }

    /// Newton's method on the active rows, from the gradient of the Lagrangian in `w` and
    /// `missing`. Rows whose multiplier has the wrong sign become inactive.
    __device__ __noinline__ void correct() {
        const int n = at.n, k = at.k;
        for_each<Team>(n, [&](int j) {
            at.e[j] = at.w[j] + at.multiplier[k + j];
            at.v[j] = 0;
        });
        team.sync();
        add_transposed(team, at.J.first, n, n, at.e.first, at.v.first);
        for (int a = 0; a < active; ++a) {
            const int i = at.active[a];
            const double* const row = row_of_M(i);
            const double along = sum_of_products(team, row, at.v.first, n);
            if (Team::rank() == 0) at.along[a] = missing_of(i) - along;
        }
        team.sync();
        solve_lower(team, at.L.first, n, active, at.along.first);
        solve_transposed(team, at.L.first, n, active, at.along.first);
        add_rows(
            team, active, at.along.first, [&](int a) { return row_of_M(at.active[a]); }, n,
            at.v.first);
        for_each<Team>(active, [&](int a) { at.multiplier[at.active[a]] += at.along[a]; });
        team.sync();
        multiply(team, at.J.first, n, n, at.v.first, at.e.first);
        for_each<Team>(n, [&](int j) { move_variable(j, at.e[j]); });
        team.sync();
        for (int a = active - 1; a >= 0; --a) {
            const int i = at.active[a], state = at.state[i];
            const double y = at.multiplier[i];
            if (state == at_lower_side ? !(y > 0) : state == at_upper_side && !(y < 0)) drop(a);
        }
    }

    /// Whether a variable is beyond its bounds.
    __device__ bool leaves_bounds() {
        return largest_over(team, at.n, [&](int j) {
                   return at.x[j] < at.lower[j] || at.x[j] > at.upper[j] ? 1.0 : 0.0;
               }) > 0;
    }

    /// What is missing of the side of an active row.
    __device__ double missing_of(int i) const {
        if (i < at.k) return at.missing[i];
        const int j = i - at.k;
        return (at.state[i] == at_lower_side ? at.lower[j] : at.upper[j]) - at.x[j] - at.x_rest[j];
    }

    /// x + rest, and a step; within the bounds, and at the bound of an active row.
    __device__ void move_variable(int j, double step) {
        const double rest = at.x_rest[j] + step, x = at.x[j], moved = x + rest;
        const double of_rest = moved - x;
        double error = (x - (moved - of_rest)) + (rest - of_rest);
        const int state = at.state[at.k + j];
        double within = moved;
        if (state == at_lower_side) within = at.lower[j];
        if (state == at_upper_side) within = at.upper[j];
        const double nearest = fmin(fmax(within, at.lower[j]), at.upper[j]);
        if (fabs(within - nearest) <= rounding_of(at.k + j)) within = nearest;
        at.x[j] = within;
        at.x_rest[j] = within == moved ? error : 0;
    }
};
