// One system of nnls_gram.cu in scaled variables: its arrays, its options, and sums over them.

#pragma once

#include "certificate.cuh"
#include "gram_products.cuh"

/// Whether a value is neither infinite nor NaN.
__device__ __forceinline__ bool is_finite(double value) {
    return fabs(value) < Floating<double>::infinity();
}

/// The arrays of a team. Those in memory are the same for all its members. Some vectors share
/// memory; they are never in use at the same time.
template <class Team>
struct GramArrays {
    using Reals = typename Team::Reals;
    using Array = typename ArrayLike<Reals>::Type;

    GramMatrix<Team> matrix;
    PassiveInverseArrays<Team> inverse;
    Array residual;      // rows: b - A x
    Array witness;       // rows
    Array b;             // m, for small teams: scaled
    Array c;             // n: A^T (b - A rest) - penalty, corrected
    Reals w, along;      // n: the negative gradient; H row
    Reals slope, all_x;  // n: w / norm of variables that may enter; x by variable
    Reals row;           // the same: the passive entries of the row of a fixed sum
    Reals x, passive_w;  // capacity: of the passive variables, by position
    Reals d, g;          // capacity: the step to the solution; part of a column of G
    Reals u, change;     // capacity: coefficients of a projection; the correction of x
    Reals end;           // the same: the bounds that the step reaches
    decltype(GramMatrix<Team>::norm) norm;  // n: norms of the columns with the l2 penalty
    Array kept;  // 2: the least kkt; what another method must beat, or NaN if x is not kept
    // With an l2 penalty:
    Array damping;  // n: its root in the scaled variables
    // With bounds:
    Array lower, upper;  // n
    Array rest;          // n: the values of variables that are not passive, and 0
    Array penalties;     // n: l1 in the scaled variables
    // With a fixed sum:
    Array sum_row;  // n: its row of the matrix
    Array total;    // 1: its entry of b

    /// Allocate the vectors; their bytes are computed by the host.
    __device__ void place(TeamMemory& memory, const GramOptions<Team>& options) {
        const int n = options.variables(), rows = options.rows(), capacity = options.capacity();
        // Lanes know the sizes of arrays by variable, so they come first.
        memory.take(c, n);
        memory.take(w, n);
        memory.take(slope, n);
        memory.take(x, capacity);
        memory.take(passive_w, capacity);
        memory.take(d, capacity);
        memory.take(u, capacity + 2);
        inverse.place(memory, capacity);
        memory.take(kept, 2);
        memory.take(residual, rows);
        memory.take(witness, rows);
        if constexpr (Team::is_small) memory.take(b, options.m);
        if (options.has_ridge()) {
            if constexpr (!Team::is_small) memory.take(norm, n);
            memory.take(damping, n);
        }
        if (options.has_bounds()) {
            memory.take(lower, n);
            memory.take(upper, n);
            memory.take(rest, n);
            memory.take(penalties, n);
        }
        if (options.has_sum()) {
            memory.take(sum_row, n);
            memory.take(total, 1);
        }
        along = end = w;
        all_x = row = slope;
        g = d;
        change = u;
    }

    /// The vectors of the last system are not needed any more.
    __device__ void forget() {
        w.forget();
        slope.forget();
        x.forget();
        passive_w.forget();
        d.forget();
        u.forget();
    }

    /// Refer to the norms of the matrix, unless those lack the l2 penalty.
    __device__ void refer_to_norms(const GramOptions<Team>& options) {
        if (Team::is_small || !options.has_ridge()) norm = matrix.norm;
    }
};

template <class T, class Team>
struct GramSystem {
    using Reals = typename Team::Reals;
    using Array = typename ArrayLike<Reals>::Type;

    Team& team;
    const GramOptions<Team>& options;
    GramArrays<Team>& at;
    PassiveInverse<Team> inverse;
    const T* unscaled_b;
    long long b_stride;
    RootWeights<T> weights;

    int b_shift;       // the scale of b is this power of two
    double magnitude;  // of b, and of A x if x has to be different from 0
    NnlsStatus status;
    int nit, n_updates, n_downdates;

    /// Element i of the weighted b, before it is scaled.
    __device__ double given_b(int i) const {
        return weights.times(static_cast<double>(unscaled_b[i * b_stride]), i);
    }
    __device__ double penalty(int j) const { return options.has_bounds() ? at.penalties[j] : 0; }
    /// What the l2 penalty adds to the square of a column's norm.
    __device__ double ridge(int j) const {
        return options.has_ridge() ? at.damping[j] * at.damping[j] : 0;
    }

    __device__ double lower(int j) const { return options.has_bounds() ? at.lower[j] : 0; }
    __device__ double upper(int j) const {
        return options.has_bounds() ? at.upper[j] : Floating<double>::infinity();
    }
    __device__ double rest(int j) const { return options.has_bounds() ? at.rest[j] : 0; }

    /// The same of a variable that all threads ask for.
    __device__ double ridge_of(int j) const {
        if (!options.has_ridge()) return 0;
        const double damping = at.damping.of(j);
        return damping * damping;
    }
    __device__ double lower_of(int j) const { return options.has_bounds() ? at.lower.of(j) : 0; }
    __device__ double upper_of(int j) const {
        return options.has_bounds() ? at.upper.of(j) : Floating<double>::infinity();
    }
    __device__ double rest_of(int j) const { return options.has_bounds() ? at.rest.of(j) : 0; }

    /// Whether a value of the passive variable at position p is between its bounds.
    __device__ bool is_inside(double value, int p) const {
        if (!options.has_bounds()) return value > 0;
        return value > at.lower[variable(p)] && value < at.upper[variable(p)];
    }

    /// The same, scaled. Small teams keep it in memory.
    __device__ double scaled_b(int i) const {
        if constexpr (Team::is_small) return at.b[i];
        return given_b(i) * Floating<double>::power_of_two(b_shift);
    }

    /// Whether row i of a residual is not the row of a fixed sum.
    __device__ bool is_data(int i) const { return !(options.has_sum() && i == options.m); }
    __device__ auto gram(int j) const {
        if constexpr (Team::is_small)
            return at.matrix.gram(j);
        else
            return at.matrix.G.from(static_cast<long long>(options.n) * j);
    }
    /// The square norm of column j, with its rows of the l2 penalty.
    __device__ double square_of(int j) const {
        if (at.matrix.has_gram()) return gram(j)[j] + ridge_of(j);
        const double norm = at.matrix.norm.of(j);
        return norm * norm + ridge_of(j);
    }
    /// A gradient over the norm of column j; 0 if the column is 0.
    template <class Variable>
    __device__ double per_norm(double w, Variable j) const {
        if constexpr (Team::shares_matrix) return w * at.matrix.per_norm[j];
        return at.norm[j] > 0 ? w / at.norm[j] : 0;
    }
    /// Let variable j, which rests at `before`, rest at a value. Ends without a barrier.
    __device__ void place(int j, double before, double value) {
        if (!options.has_bounds() || value == before) return;
        const bool has_gram = at.matrix.has_gram();
        if (has_gram) subtract_multiple<Team>(at.c, options.n, value - before, gram(j));
        by_owner<Team>(j, [&](auto i) {
            if (has_gram) at.c[i] -= (value - before) * ridge(i);
            at.rest[i] = value;
        });
    }

    template <class Position>
    __device__ auto variable(Position p) const {
        return inverse.variable(p);
    }

    /// The gradient along variable j for a residual, from the product of column and residual.
    __device__ double gradient(double product, int j, Array residual) const {
        if (options.has_ridge()) product += at.damping[j] * residual[options.height() + j];
        return product - penalty(j);
    }

    /// out = A^T residual, at least for the chosen columns. Ends without a barrier.
    template <class Rows>
    __device__ auto transpose_times(const Chosen<Team>& chosen, Rows residual, Reals& out) const {
        return multiply_columns(at.matrix, options.height(), options.n, chosen, residual, out);
    }

    /// The same for the witness, and the square norm of its data rows.
    __device__ double transpose_witness(const Chosen<Team>& chosen, Reals& out) {
        if constexpr (!Team::general) {
            return team.reduce(transpose_times(chosen, at.witness, out), Called<Add<double>>());
        } else {
            transpose_times(chosen, at.witness, out);
            return sum(options.rows(),
                       [&](int i) { return is_data(i) ? at.witness[i] * at.witness[i] : 0; });
        }
    }

    /// Whether this thread has element i of vectors.
    static __device__ bool owns(int i) { return i % Team::size() == Team::rank(); }

    /// The sum of f(i) over the elements of this thread, and then over the team.
    template <class Term>
    __device__ double sum(int count, Term term) {
        double result = 0;
#pragma unroll 1
        for (int i = Team::rank(); i < count; i += Team::size()) result += term(i);
        return team.reduce(result, Called<Add<double>>());
    }

    template <class Term>
    __device__ double sum_of_passive(Term term) {
        double result = 0;
        inverse.for_each([&](auto p) { result += term(p); });
        return team.reduce(result, Called<Add<double>>());
    }

    /// sum_k |a_k x_k|.
    __device__ double size() {
        double result = 0;
        const auto add = [&](auto j, double x) { result += at.norm[j] * fabs(x); };
        if constexpr (Team::is_small) {
            for_each_variable<Team>(options.variables(), [&](auto j) { add(j, at.x[j]); });
        } else {
            inverse.for_each([&](auto p) { add(variable(p), at.x[p]); });
            if (options.has_bounds())
                for_each_variable<Team>(options.n, [&](auto j) { add(j, at.rest[j]); });
        }
        return team.reduce(result, Called<Add<double>>());
    }

    /// out = b - A x, by sums that are `empty` at first; then minus the multiplier in the row of a
    /// fixed sum, and -damping x in the rows of the l2 penalty. It is the residual, too. Computes x
    /// by variable. A thread stores the elements of its rank. Ends with a barrier.
    template <class Sum>
    __device__ void make_residual(Array out, Sum empty) {
        if constexpr (!Team::is_small) {
            for_each_variable<Team>(options.n, [&](auto j) { at.all_x[j] = rest(j); });
            team.sync();
            inverse.for_each([&](auto p) { at.all_x[variable(p)] = at.x[p]; });
            team.sync();
        }
        const bool all = options.has_bounds();
        combine(at.matrix, at.inverse, options.m, all ? inverse.all(options.n) : inverse.passive(),
                all ? all_x() : at.x, empty, [&](int i, const Sum& fitted) {
                    out[i] = at.residual[i] = fitted.subtracted_from(scaled_b(i));
                });
        if (options.has_sum() && owns(options.m)) out[options.m] = at.residual[options.m];
        if (options.has_ridge())
            for_each_variable<Team>(options.n, [&](auto j) {
                const int i = options.height() + j;
                out[i] = at.residual[i] = -at.damping[j] * all_x()[j];
            });
        team.sync();
    }

    /// x by variable. Lanes keep it so.
    __device__ Reals& all_x() const {
        if constexpr (Team::is_small)
            return at.x;
        else
            return at.all_x;
    }

    /// Convert a coefficient from scaled variables, and back; each conversion rounds once.
    __device__ T to_given(double value, int j) const {
        return static_cast<T>(shifted(value, column_shift(j) - b_shift));
    }
    __device__ double to_scaled(double value, int j) const {
        return shifted(value, b_shift - column_shift(j));
    }
    __device__ int column_shift(int j) const { return at.matrix.column_shift[j]; }
};
