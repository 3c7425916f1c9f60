// Batched least squares within bounds from Gram matrices: for every system k
//
//     x_k = argmin of |W_k^(1/2) (A_k x - b_k)|^2 / 2 + sum_j (l1_j x_j + l2_j x_j^2 / 2)
//           over lower <= x <= upper, and optionally with a fixed sum of x
//
// Non-negative least squares is the case without upper bounds, weights and sum.
//
// Source. Lawson & Hanson's active-set method (Algorithm 1 of Luo & Duraiswami, "Efficient Parallel
// Non-Negative Least Squares on Multi-Core Architectures"), with upper bounds Stark & Parker's, on
// G = A^T A and the inverse H of its passive part, which is updated by rank one. Several variables
// enter at once. The specification in NumPy is gpusolve/reference/_nnls_gram.py, class ActiveSet;
// both use the same names for the steps.
//
// Bounds. A variable that is not passive rests at a bound, or at 0 if it is free. What resting
// variables fit is subtracted from c. For non-negative least squares that is 0, and costs nothing.
//
// Fixed sum. It is one more row of A. The element of a residual in this row is free: it is minus
// the multiplier of the constraint, and is kept in `residual` from one residual to the next.
//
// Mapping. One team solves one system at a time: some lanes of a warp, a block or the whole grid,
// by the size of the system (team.cuh). A lane has up to four variables.
//
// Accuracy. G squares the condition number. To make up for that, x is corrected by the residual
// b - A x in twice the working precision, and certified by it. All computation is in double, also
// for float. Systems that are not certified convincingly are listed; nnls_qr.cu solves them.
//
// Scaling. Columns of A and b are multiplied by powers of two: this is exact. `scale_columns`
// writes the scaled matrices; small matrices are scaled by their team, and not written.
//
// Memory. A team has a vector of each kind, and H. The first entries of H are in shared memory as
// far as they fit. G and the scaled matrices are in global memory. Teams of lanes have H and the
// vectors by variable in registers, and exchange them by shuffles; G, the scaled matrix, vectors by
// row, and the options of variables are in shared memory.
//
// Cost. l passive variables: l n operations for a gradient, 2 l^2 for a variable that enters, l^2
// for one that leaves, and l^2 for a solution. A is read once for A^T b, once or twice for a
// certificate. Barriers of a team: 3 for a variable that enters, 2 for a solution, 1 for a variable
// that leaves. Lanes need no barrier of their block, but for a matrix that its teams share.

#include "batch.cuh"
#include "certificate.cuh"
#include "compensated.cuh"
#include "gram_matrix.cuh"
#include "passive_inverse.cuh"

/// Limit on the variables that enter at once; the part of the steepest slope that the others must
/// have; the cosine of the angle between columns that do not enter together.
constexpr int most_entering = 16;
constexpr double steep_part = 0.3, alike = 0.9;

/// Part of a column's square norm that must be orthogonal to the passive columns.
constexpr double resolved_part = 1e-12;

/// Part of the terms that cancel that a difference of penalties must exceed.
constexpr double significant_part = 1e-13;

/// Factor on `tol` for the less accurate gradients from the Gram matrix.
constexpr double slack = 8;

/// Limits on how often the residual is recomputed, and made orthogonal to the passive columns.
constexpr int most_refreshes = 10, most_corrections = 3;

/// H is recomputed if `kkt` exceeds this number times `tol` after a refresh.
constexpr double drift = 64;

/// How often the multiplier of a fixed sum is chosen, if the first choice changes the sum by more
/// than the magnitude of the system: that change has the rounding errors of a larger number.
constexpr int sum_passes = 2;

/// The sums of two quantities.
struct Two {
    double a, b;
};
struct AddTwo {
    static __device__ __forceinline__ Two identity() { return {0, 0}; }
    __device__ __forceinline__ Two operator()(Two x, Two y) const { return {x.a + y.a, x.b + y.b}; }
};
__device__ __forceinline__ Two shuffle_xor(Two x, int distance, unsigned mask = whole_warp) {
    return {shuffle_xor(x.a, distance, mask), shuffle_xor(x.b, distance, mask)};
}

/// Whether a value is neither infinite nor NaN.
__device__ __forceinline__ bool is_finite(double value) {
    return fabs(value) < Floating<double>::infinity();
}

/// The arrays of the results of all systems.
template <class T>
struct GramResults {
    T *x, *rnorm, *dual, *kkt;
    int *nit, *status, *n_updates, *n_downdates;
    bool* repaired;
    unsigned char* method;

    /// Write the result of a system that has NaN or infinity in it.
    template <class Team>
    __device__ void refuse(long long k, int n) const {
        for_each<Team>(n, [&](int j) { x[k * n + j] = dual[k * n + j] = Floating<T>::nan(); });
        if (Team::rank() == 0) {
            rnorm[k] = kkt[k] = Floating<T>::nan();
            status[k] = not_finite;
            nit[k] = n_updates[k] = n_downdates[k] = 0;
            repaired[k] = false;
            method[k] = by_gram;
        }
    }
};

/// The arrays of a team. Those in memory are the same for all its members. Some vectors share
/// memory; they are never in use at the same time.
template <class Team>
struct GramArrays {
    using Reals = typename Team::Reals;

    GramMatrix<Team> matrix;
    PassiveInverseArrays<Team> inverse;
    Vector<double> residual;  // rows: b - A x
    Vector<double> witness;   // rows
    Vector<double> b;         // m, for small teams: scaled
    Reals c;                  // n: A^T (b - A rest) - penalty, corrected
    Reals w, along;           // n: the negative gradient; H row
    Reals slope, all_x;       // n: w / norm of variables that may enter; x by variable
    Reals row;                // the same: the passive entries of the row of a fixed sum
    Reals x, passive_w;       // capacity: of the passive variables, by position
    Reals d, g;               // capacity: the step to the solution; part of a column of G
    Reals u, change;          // capacity: coefficients of a projection; the correction of x
    Reals end;                // the same: the bounds that the step reaches
    Vector<double> norm;      // n: norms of the columns with the l2 penalty
    // With an l2 penalty:
    Vector<double> damping;  // n: its root in the scaled variables
    // With bounds:
    Vector<double> lower, upper;  // n
    Vector<double> rest;          // n: the values of variables that are not passive, and 0
    Vector<double> penalties;     // n: l1 in the scaled variables
    // With a fixed sum:
    Vector<double> sum_row;  // n: its row of the matrix
    Vector<double> total;    // 1: its entry of b

    /// Allocate the vectors; their bytes are computed by the host.
    __device__ void place(TeamMemory& memory, const GramOptions& options) {
        const int n = options.n, rows = options.rows(), capacity = options.capacity();
        memory.take(residual, rows);
        memory.take(witness, rows);
        if constexpr (Team::is_small) memory.take(b, options.m);
        memory.take(c, n);
        memory.take(w, n);
        memory.take(slope, n);
        memory.take(x, capacity);
        memory.take(passive_w, capacity);
        memory.take(d, capacity);
        memory.take(u, capacity);
        inverse.place(memory, capacity);
        if (options.has_ridge()) {
            memory.take(norm, n);
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
        along = w;
        all_x = row = slope;
        g = d;
        change = end = u;
    }

    /// Refer to the norms of the matrix, unless the team has its own.
    __device__ void refer_to_norms(const GramOptions& options) {
        if (!options.has_ridge()) norm = matrix.norm;
    }
};

/// out[q] = column_q . vector, for `count` columns: those of `variables`, or the first ones if it
/// is null. One thread stores an element. Ends without a barrier.
template <class Team>
__device__ __noinline__ void multiply_columns(Vector<double> columns, long long leading, int m,
                                              Vector<int> variables, int count,
                                              Vector<double> vector, Vector<double> out) {
#pragma unroll 1
    for (int q = Team::group(); q < count; q += Team::groups()) {
        const int j = variables.first == nullptr ? q : variables[q];
        const auto column = columns.from(leading * j);
        double sum = 0;
#pragma unroll 2
        for (int i = Team::lane(); i < m; i += Team::lanes()) sum += column[i] * vector[i];
        sum = Team::reduce_group(sum, Called<Add<double>>());
        if (Team::lane() == 0) out[q] = sum;
    }
}
template <class Team>
__device__ void multiply_columns(const GramMatrix<Team>& matrix, int m, int,
                                 const Chosen<Team>& chosen, Vector<double> vector,
                                 Vector<double> out) {
    multiply_columns<Team>(matrix.entries, matrix.leading, m, chosen.list, chosen.count, vector,
                           out);
}

/// The same for lanes, and all columns. A lane adds the products of its rows; then lanes exchange
/// halves of their sums, until each lane has those of its columns.
template <int lanes, int each>
__device__ void multiply_columns(const GramMatrix<LaneTeam<lanes, each>>& matrix, int m, int n,
                                 const Chosen<LaneTeam<lanes, each>>&, Vector<double> vector,
                                 LaneVector<double, LaneTeam<lanes, each>>& out) {
    using Team = LaneTeam<lanes, each>;
    constexpr int count = Team::width < 8 ? Team::width : 8;
    constexpr int holders = lanes < count ? lanes : count;  // lanes that have different columns
    const int rank = Team::rank();
#pragma unroll 1
    for (int first = 0; first < n; first += count) {
        double part[count];
#pragma unroll
        for (int q = 0; q < count; ++q) part[q] = 0;
#pragma unroll 1
        for (int i = rank; i < m; i += lanes) {
            const double value = vector[i];
#pragma unroll
            for (int q = 0; q < count; ++q)
                if (first + q < n) part[q] += matrix(i, first + q) * value;
        }
#pragma unroll
        for (int half = holders / 2; half > 0; half /= 2) {
            const bool is_upper = rank & half;
#pragma unroll
            for (int q = 0; q < count; ++q) {
                if (q % holders >= half) continue;
                const double sent = is_upper ? part[q] : part[q + half];
                const double kept = is_upper ? part[q + half] : part[q];
                part[q] = kept + shuffle_xor(sent, half, Team::mask());
            }
        }
#pragma unroll
        for (int distance = holders; distance < lanes; distance *= 2)
            part[0] += shuffle_xor(part[0], distance, Team::mask());
#pragma unroll
        for (int q = 0; q < count; q += holders)
            for_each_variable<Team>(n, [&](auto j) {
                if (first + q == j - j % holders) out[j] = part[q];
            });
    }
}

/// A sum of products in working precision; a number minus such a sum, in twice of it.
struct PlainSum {
    double value;
    __device__ __forceinline__ void take(double a, double x) { value += a * x; }
    __device__ __forceinline__ double rounded() const { return value; }
};
struct AccurateDifference {
    Twofold<double> value;
    __device__ __forceinline__ void take(double a, double x) {
        value = AddTwofold<double>()(value, two_product(a, -x));
    }
    __device__ __forceinline__ double rounded() const { return value.high + value.low; }
};

/// use(i, result) for i < count, by the thread that has element i. The result takes the products
/// of rows(i, j) and y[p] to start(i), for the chosen variables j at positions p.
template <class Sum, class Team, class Reals, class Start, class Use>
__device__ __forceinline__ void combine(MatrixView rows, int count, const Chosen<Team>& chosen,
                                        Reals y, Start start, Use use) {
    constexpr int unrolled = Team::rows_at_once;
    const int size = Team::size(), rank = Team::rank();
    const int end = Team::is_small ? count + rank : count;  // lanes shuffle y together
#pragma unroll 1
    for (int first = rank; first < end; first += unrolled * size) {
        Sum sum[unrolled];
#pragma unroll
        for (int q = 0; q < unrolled; ++q)
            sum[q] = {first + q * size < count ? start(first + q * size) : 0};
        chosen.by_all([&](int p, int j) {
            const double value = y.of(p);
            if (value == 0) return;
#pragma unroll
            for (int q = 0; q < unrolled; ++q)
                if (first + q * size < count) sum[q].take(rows(first + q * size, j), value);
        });
#pragma unroll
        for (int q = 0; q < unrolled; ++q)
            if (first + q * size < count) use(first + q * size, sum[q].rounded());
    }
}

/// use(i, sum) for every variable i < n, by the thread that has it: the sum of G(i, j) y[p].
template <class Team, class Use>
__device__ __forceinline__ void combine_gram(const GramMatrix<Team>& matrix, int n,
                                             const Chosen<Team>& chosen, typename Team::Reals y,
                                             Use use) {
    const MatrixView G{matrix.G, 1, n};
    if constexpr (Team::is_small) {
        typename Team::Reals sum{};
        chosen.by_all([&](int p, int j) {
            const double value = y.of(p);
            for_each_variable<Team>(n, [&](auto i) { sum[i] += G(i, j) * value; });
        });
        for_each_variable<Team>(n, [&](auto i) { use(i, sum[i]); });
    } else {
        combine<PlainSum, Team>(G, n, chosen, y, [](int) { return 0.0; }, use);
    }
}

/// out[i] -= factor * in[i]. A thread computes the elements of its rank.
template <class Team>
__device__ __noinline__ void subtract_multiple(Vector<double> out, int count, double factor,
                                               Vector<double> in) {
    for_each<Team>(count, [&](int i) { out[i] -= factor * in[i]; });
}

template <class Team, class In>
__device__ __forceinline__ void subtract_multiple(LaneVector<double, Team>& out, int count,
                                                  double factor, In in) {
    for_each_variable<Team>(count, [&](auto i) { out[i] -= factor * in[i]; });
}

template <class T, class Team>
struct GramSystem {
    using Reals = typename Team::Reals;

    Team& team;
    const GramOptions& options;
    GramArrays<Team>& at;
    PassiveInverse<Team> inverse;
    const T* unscaled_b;
    long long b_stride;
    RootWeights<T> weights;

    double b_scale, magnitude;  // of b, and of A x if x has to be different from 0
    NnlsStatus status;
    int nit, n_updates, n_downdates;
    bool has_product;  // whether w is the product of the columns with the witness

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
        return given_b(i) * b_scale;
    }

    /// Whether row i of a residual is not that of a fixed sum.
    __device__ bool is_data(int i) const { return !(options.has_sum() && i == options.m); }
    __device__ Vector<double> gram(int j) const {
        return at.matrix.G.from(static_cast<long long>(options.n) * j);
    }
    template <class Position>
    __device__ auto variable(Position p) const {
        return inverse.variable(p);
    }

    /// The gradient along variable j for a residual, from the product of column and residual.
    __device__ double gradient(double product, int j, Vector<double> residual) const {
        if (options.has_ridge()) product += at.damping[j] * residual[options.height() + j];
        return product - penalty(j);
    }

    /// out = A^T residual, at least for the chosen columns. Ends without a barrier.
    __device__ void multiply_columns(const Chosen<Team>& chosen, Vector<double> residual,
                                     Reals& out) const {
        ::multiply_columns(at.matrix, options.height(), options.n, chosen, residual, out);
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

    /// Compute b's scale and c = A^T (b - A rest) - penalty. False if an entry is not finite.
    __device__ bool load(const Variables& variables) {
        double largest = 0, largest_norm = 0;
        for_each<Team>(options.m, [&](int i) {
            const double value = given_b(i);
            if constexpr (Team::is_small) at.b[i] = value;
            largest = MaxMagnitude<double>()(largest, ::magnitude(value));
        });
        for_each_variable<Team>(options.n, [&](auto j) {
            largest_norm = MaxMagnitude<double>()(largest_norm, ::magnitude(at.matrix.norm[j]));
            if (options.has_bounds() && !variables.are_finite(j))
                largest_norm = Floating<double>::infinity();
        });
        largest = team.reduce(largest, Called<MaxMagnitude<double>>());
        largest_norm = team.reduce(largest_norm, Called<MaxMagnitude<double>>());
        if (!(max(largest, largest_norm) < Floating<double>::infinity())) return false;
        b_scale = inverse_power_of_two(largest);
        scale_variables(variables);
        if constexpr (Team::is_small) for_each<Team>(options.m, [&](int i) { at.b[i] *= b_scale; });
        magnitude = square_root(sum(options.rows(), [&](int i) {
            const double value = i < options.m ? scaled_b(i) : (is_data(i) ? 0 : at.total[0]);
            at.witness[i] = value;
            if (!is_data(i)) at.residual[i] = 0;
            return value * value;
        }));
        multiply_columns(inverse.all(options.n), at.witness, at.c);
        team.sync();
        for_each_variable<Team>(options.n,
                                [&](auto j) { at.c[j] = gradient(at.c[j], j, at.witness); });
        status = converged;
        nit = n_updates = n_downdates = 0;
        inverse.clear();
        if (options.has_bounds()) {
            for (int j = 0; j < options.n; ++j)
                place(
                    j, 0,
                    first_rest(at.norm.of(j), at.penalties.of(j), at.lower.of(j), at.upper.of(j)));
            magnitude += size();
        }
        return true;
    }

    /// Convert penalties and bounds to the scaled variables; all variables rest at 0. Ends with a
    /// barrier if there are any.
    __device__ void scale_variables(const Variables& variables) {
        if (options.has_ridge())
            for_each_variable<Team>(options.n, [&](auto j) {
                const double damping = variables.root_l2(j) * at.matrix.column_scale[j];
                const double norm = at.matrix.norm[j];
                at.damping[j] = damping;
                at.norm[j] = square_root(norm * norm + damping * damping);
            });
        if (options.has_bounds())
            for_each_variable<Team>(options.n, [&](auto j) {
                at.lower[j] = to_scaled(variables.lower(j), j);
                at.upper[j] = to_scaled(variables.upper(j), j);
                at.rest[j] = 0;
                at.penalties[j] = min(variables.l1(j) * b_scale * at.matrix.column_scale[j],
                                      Floating<double>::largest() / 16);
            });
        if (options.has_sum()) {
            for_each_variable<Team>(options.n,
                                    [&](auto j) { at.sum_row[j] = at.matrix(options.m, j); });
            if (Team::rank() == 0)
                at.total[0] =
                    variables.sum() * b_scale * (at.sum_row[0] / at.matrix.column_scale[0]);
            team.sync();
        }
    }

    /// Let variable j, which rests at `before`, rest at a value. Ends without a barrier.
    __device__ void place(int j, double before, double value) {
        if (!options.has_bounds() || value == before) return;
        subtract_multiple<Team>(at.c, options.n, value - before, gram(j));
        by_owner<Team>(j, [&](auto i) {
            at.c[i] -= (value - before) * ridge(i);
            at.rest[i] = value;
        });
    }

    /// Remove all variables; they rest at the bounds next to them. Ends without a barrier.
    __device__ void clear() {
        if (options.has_bounds())
            inverse.passive().by_all([&](int p, int j) {
                place(j, 0, nearest_bound(at.x.of(p), at.lower.of(j), at.upper.of(j)));
            });
        inverse.clear();
    }

    /// w = c - G x, from the rows of G of the passive variables. What the l2 penalty adds to
    /// passive variables is subtracted when they are gathered, by `enter`. Ends without a barrier.
    __device__ void make_gradient() {
        combine_gram(at.matrix, options.n, inverse.passive(), at.x,
                     [&](auto j, double sum) { at.w[j] = at.c[j] - sum; });
    }

    /// Append a variable of value x_j, if it is independent of the others and moves inwards.
    ///
    /// Column j is projected onto the passive columns; `u` has the coefficients. `least` limits the
    /// decrease of the objective along its orthogonal part. Ends without a barrier.
    __device__ bool append(int j, double x_j, double least) {
        const bool fits = inverse.length < options.capacity();
        if (!fits && !options.has_penalties()) return false;
        const double before = rest_of(j), w = at.w.of(j), norm = at.norm.of(j);
        inverse.for_each([&](auto p) { at.g[p] = gram(j)[variable(p)]; });
        team.sync();
        inverse.multiply(at.g, at.u);
        Two along = AddTwo::identity();
        inverse.for_each([&](auto p) {
            along = AddTwo()(along, {at.u[p] * at.g[p], at.u[p] * at.passive_w[p]});
        });
        along = team.reduce(along, Called<AddTwo>());
        const double square = gram(j)[j] + ridge_of(j) - along.a, descent = w - along.b;
        if (!fits || !(square > resolved_part * norm * norm)) return false;
        if (!((w < 0 ? -descent : descent) > least * square_root(square))) return false;
        const int p = inverse.append(j, at.u, square);
        place(j, before, 0);
        by_owner<Team>(p, [&](auto i) {
            at.x[i] = x_j;
            at.passive_w[i] = w;
        });
        ++n_updates;
        return true;
    }

    /// Move along a dependence of column j on the passive ones, if a penalty falls. `append` has
    /// refused j, and `u` and `g` are those of its column.
    ///
    /// A x does not change, so that only a bound ends the move: that of j, or of the passive
    /// variable at the position `leaving`, which j replaces. False if nothing moves. Ends with a
    /// barrier.
    __device__ bool exchange(int j, int& leaving) {
        Two penalties = AddTwo::identity();
        double fitted = 0;
        inverse.for_each([&](auto p) {
            const double term = at.u[p] * at.penalties[variable(p)];
            penalties = AddTwo()(penalties, {term, fabs(term)});
            fitted += at.u[p] * at.g[p];
        });
        penalties = team.reduce(penalties, Called<AddTwo>());
        const double square = gram(j)[j] + ridge_of(j) - team.reduce(fitted, Called<Add<double>>());
        const double norm = at.norm.of(j), own = at.penalties.of(j), before = at.rest.of(j);
        const double sign = at.w.of(j) < 0 ? -1 : 1, gain = sign * (penalties.a - own);
        if (square > resolved_part * norm * norm) return false;
        if (!(gain > significant_part * (penalties.b + fabs(own)))) return false;

        const double end = sign > 0 ? at.upper.of(j) : at.lower.of(j), whole = fabs(end - before);
        Located<double> first = ArgMax<double>::identity();
        inverse.for_each([&](auto p) {
            const double d = -sign * at.u[p], x = at.x[p];
            const double its_end = d < 0 ? at.lower[variable(p)] : at.upper[variable(p)];
            // How far x may move, negated.
            if (d != 0) first = ArgMax<double>()(first, {(x - its_end) / d, p});
        });
        first = team.reduce(first, Called<ArgMax<double>>());
        const double by_j = square > 0 ? min(whole, gain / square) : whole;
        leaving = first.index >= 0 && -first.value < by_j ? first.index : -1;
        const double length = leaving < 0 ? by_j : -first.value;
        if (!is_finite(length)) return false;
        inverse.for_each([&](auto p) {
            const double d = -sign * at.u[p], lower = at.lower[variable(p)];
            const double upper = at.upper[variable(p)];
            at.x[p] = clipped(at.x[p] + length * d, lower, upper);
            at.end[p] = d < 0 ? lower : upper;
        });
        place(j, before, length == whole ? end : before + sign * length);
        team.sync();
        return true;
    }

    /// sum_k |a_k x_k|.
    __device__ double size() {
        double result = 0;
        inverse.for_each([&](auto p) { result += at.norm[variable(p)] * fabs(at.x[p]); });
        if (options.has_bounds())
            for_each_variable<Team>(options.n,
                                    [&](auto j) { result += at.norm[j] * fabs(at.rest[j]); });
        return team.reduce(result, Called<Add<double>>());
    }

    /// Let variables rest elsewhere, the cheapest first, until x has its sum. The last one may be
    /// between its bounds, and has to enter; -1 if all bounds together do not allow the sum.
    __device__ int make_sum() {
        double missing =
            at.total[0] - sum(options.n, [&](int j) { return at.sum_row[j] * at.rest[j]; });
        const bool up = missing >= 0;
        for_each_variable<Team>(options.n, [&](auto j) { at.slope[j] = 0; });
        for (;;) {
            Located<double> cheapest = ArgMax<double>::identity();
            for_each_variable<Team>(options.n, [&](auto j) {
                if (at.slope[j] != at.slope[j] || !(at.sum_row[j] > 0)) return;
                const double whole = (up ? at.upper[j] : at.lower[j]) - at.rest[j];
                const double change = missing / at.sum_row[j], norm = at.norm[j];
                const double move = fabs(whole) < fabs(change) ? whole : change;
                const double gain = (at.c[j] - norm * norm * move / 2) / at.sum_row[j];
                cheapest = ArgMax<double>()(cheapest, {up ? gain : -gain, j});
            });
            const int j = team.reduce(cheapest, Called<ArgMax<double>>()).index;
            if (j < 0) return -1;
            const double before = at.rest.of(j), coefficient = at.sum_row.of(j);
            const double lower = at.lower.of(j), upper = at.upper.of(j), end = up ? upper : lower;
            const double value = before + missing / coefficient;
            const bool fits = lower < upper && fabs(end - before) >= fabs(value - before);
            team.sync();
            place(j, before, fits ? value : end);
            if (fits) return j;
            missing -= coefficient * (end - before);
            by_owner<Team>(j, [&](auto i) { at.slope[i] = Floating<double>::nan(); });
        }
    }

    /// Where the guess, which is not scaled, has variable j, within its bounds; NaN if it may stay
    /// where it rests. With a fixed sum, only variables between their bounds enter.
    __device__ double guessed(const T* guess, int j) const {
        const double given = to_scaled(guess[j], j), value = clipped(given, lower(j), upper(j));
        const bool moves = is_finite(given) && value != rest(j);
        const bool is_between = value > lower(j) && value < upper(j);
        return moves && (is_between || !options.has_sum()) ? value : Floating<double>::nan();
    }

    /// The gradient along a variable that is not passive, positive if it points into its interval.
    template <class Variable>
    __device__ double inwards(Variable j) const {
        const double w = at.w[j];
        return options.has_bounds() ? violation(at.rest[j], w, at.lower[j], at.upper[j]) : w;
    }

    /// Append the steepest variables, at most `most`, or exchange the steepest one. False if
    /// nothing changes. Once a variable entered, the first one that is refused ends the search.
    ///
    /// Slopes must exceed rounding errors of the terms that cancel in b - A x. With a `guess`, the
    /// variables that are between their bounds there enter instead; others rest at the bound that
    /// the guess reaches. With a fixed sum, variables enter where they rest. If `first` is not
    /// negative, this variable enters instead. It becomes the one that has to enter after that at
    /// `leaving` has left.
    __device__ bool enter(int most, bool fresh, const T* guess, int& first, int& leaving) {
        const bool by_slope = guess == nullptr && first < 0;
        for_each_variable<Team>(options.n, [&](auto j) {
            const double slope = at.norm[j] > 0 ? inwards(j) / at.norm[j] : 0;
            at.slope[j] = guess != nullptr ? guessed(guess, j) : slope;
        });
        team.sync();
        inverse.for_each([&](auto p) {
            const auto j = variable(p);
            at.passive_w[p] = fresh ? at.w[j] : at.w[j] - ridge(j) * at.x[p];
            at.slope[j] = guess != nullptr ? Floating<double>::nan() : 0;
        });
        const double cancelling = options.tol * (magnitude + size());
        double steep = fresh ? cancelling : slack * cancelling;
        int entered = 0;
        for (int j = -1; !by_slope || entered < most;) {
            Located<double> next = ArgMax<double>::identity();
            for_each_variable<Team>(first < 0 ? options.n : 0, [&](auto i) {
                const double slope = at.slope[i];
                const bool may_enter = by_slope ? slope > steep : i > j && slope == slope;
                const double order = by_slope ? slope : -i;
                if (may_enter) next = ArgMax<double>()(next, {order, i});
            });
            next = team.reduce(next, Called<ArgMax<double>>());
            j = first < 0 ? next.index : (j < 0 ? first : -1);
            if (j < 0) break;
            double x_j = rest_of(j);
            if (guess != nullptr && !options.has_sum()) {
                const double before = x_j;
                x_j = at.slope.of(j);
                if (x_j == lower_of(j) || x_j == upper_of(j)) {
                    team.sync();
                    place(j, before, x_j);
                    continue;
                }
            }
            const double norm = at.norm.of(j);
            const bool accepted =
                append(j, x_j, by_slope ? cancelling : -Floating<double>::infinity());
            if (!accepted && by_slope) {
                if (entered > 0) break;
                if (options.has_penalties() && exchange(j, leaving)) {
                    first = leaving < 0 ? -1 : j;
                    return true;
                }
            }
            if (accepted && entered++ == 0) steep = max(steep, steep_part * next.value);
            for_each_variable<Team>(by_slope ? options.n : 0, [&](auto i) {
                if (i == j || (accepted && fabs(gram(j)[i]) > alike * at.norm[i] * norm))
                    at.slope[i] = 0;
            });
        }
        first = -1;
        return entered > 0;
    }

    /// d = H passive_w. With a fixed sum, passive_w - shift row takes the place of passive_w, so
    /// that the step d leads to that sum; returns `shift`. The step is from x, or from x + change
    /// if it `corrects` x. Ends without a barrier.
    __device__ double step(bool corrects) {
        if (options.has_sum()) {
            inverse.for_each([&](auto p) { at.row[p] = at.sum_row[variable(p)]; });
            team.sync();
            inverse.multiply(at.row, at.along);
        }
        inverse.multiply(at.passive_w, at.d);
        if (!options.has_sum()) return 0;
        double shift = 0;
#pragma unroll 1
        for (int pass = 0; pass < sum_passes; ++pass) {
            Two sums = AddTwo::identity();
            inverse.for_each([&](auto p) {
                const double x = corrects ? at.x[p] + at.change[p] : at.x[p];
                sums.a += at.row[p] * (x + at.d[p]);
                sums.b += at.row[p] * at.along[p];
            });
            for_each_variable<Team>(options.n,
                                    [&](auto j) { sums.a += at.sum_row[j] * at.rest[j]; });
            sums = team.reduce(sums, Called<AddTwo>());
            const double lack = sums.a - at.total[0], change = lack / sums.b;
            if (!is_finite(change)) break;
            inverse.for_each([&](auto p) { at.d[p] -= change * at.along[p]; });
            shift += change;
            if (!(fabs(lack) > magnitude)) break;
        }
        return shift;
    }

    /// Change the multiplier of the fixed sum; it is subtracted from c and passive_w.
    __device__ void shift_multiplier(double shift) {
        subtract_multiple<Team>(at.c, options.n, shift, at.sum_row);
        inverse.for_each([&](auto p) { at.passive_w[p] -= shift * at.row[p]; });
        if (owns(options.m)) at.residual[options.m] -= shift;
    }

    /// Move x to the passive least-squares solution; remove what reaches a bound, one after
    /// another.
    ///
    /// A step also changes the passive gradient: by a part of it, because G H = 1. Returns whether
    /// x moved. The last variable stays if the sum is fixed. The variable at `leaving` is removed
    /// before, and x does not move if another one `replaces` it.
    __device__ bool make_feasible(int leaving, bool replaces) {
        bool moved = false;
        for (;;) {
            if (leaving >= 0) remove(leaving);
            if (replaces) return true;
            if (nit >= options.maxiter) break;
            ++nit;
            team.sync();
            const double shift = step(false);
            const bool stays = options.has_sum() && inverse.length == 1;
            Located<double> first = ArgMax<double>::identity();
            inverse.for_each([&](auto p) {
                const double x = at.x[p], d = at.d[p];
                // Steps are negated; 1 is that of a d that is not finite.
                if (!is_finite(d)) {
                    first = ArgMax<double>()(first, {1, p});
                } else if (!is_inside(x + d, p) && !stays) {
                    const double end = reached(x + d, p);
                    first = ArgMax<double>()(first, {d != 0 ? min((x - end) / d, 0.0) : 0, p});
                    if (options.has_bounds()) at.end[p] = end;
                }
            });
            first = team.reduce(first, Called<ArgMax<double>>());
            if (first.value > 0) {
                status = uncertified;
                return moved;
            }
            const double step = first.index < 0 ? 1 : -first.value;
            if (options.has_sum()) shift_multiplier(shift);
            inverse.for_each([&](auto p) {
                const int j = options.has_bounds() ? variable(p) : 0;
                at.x[p] = clipped(at.x[p] + step * at.d[p], lower(j), upper(j));
                at.passive_w[p] *= 1 - step;
            });
            if (first.index < 0) return true;
            moved = moved || step > 0;
            leaving = first.index;
        }
        status = iteration_limit;
        return moved;
    }

    /// The bound of the variable at position p that a value reaches.
    __device__ double reached(double value, int p) const {
        if (!options.has_bounds()) return 0;
        return value <= at.lower[variable(p)] ? at.lower[variable(p)] : at.upper[variable(p)];
    }

    /// Remove the variable at a position, and let it rest at its `end`. Ends without a barrier.
    __device__ void remove(int position) {
        const int j = options.has_bounds() ? variable(position) : 0;
        const double value = options.has_bounds() ? at.end.of(position) : 0;
        inverse.remove(team, position, at.d, at.x, at.passive_w);
        place(j, 0, value);
        ++n_downdates;
    }

    /// Convert a coefficient from scaled variables, and back; each conversion rounds once.
    __device__ T to_given(double value, int j) const {
        return static_cast<T>(shifted(value, column_shift(j) - b_shift()));
    }
    __device__ double to_scaled(double value, int j) const {
        return shifted(value, b_shift() - column_shift(j));
    }
    __device__ int column_shift(int j) const {
        return Floating<double>::exponent(at.matrix.column_scale[j]);
    }
    __device__ int b_shift() const { return Floating<double>::exponent(b_scale); }

    /// out = b - A x in twice the working precision; then minus the multiplier in the row of a
    /// fixed sum, and -damping x in the rows of the l2 penalty. Computes x by variable. A thread
    /// stores the elements of its rank. Ends with a barrier.
    __device__ void make_residual(Vector<double> out) {
        for_each_variable<Team>(options.n, [&](auto j) { at.all_x[j] = rest(j); });
        team.sync();
        inverse.for_each([&](auto p) { at.all_x[variable(p)] = at.x[p]; });
        team.sync();
        const bool all = options.has_bounds();
        combine<AccurateDifference, Team>(
            at.matrix.view(), options.m, all ? inverse.all(options.n) : inverse.passive(),
            all || Team::is_small ? at.all_x : at.x, [&](int i) { return scaled_b(i); },
            [&](int i, double value) { out[i] = value; });
        if (options.has_sum() && owns(options.m)) out[options.m] = at.residual[options.m];
        if (options.has_ridge())
            for_each_variable<Team>(options.n, [&](auto j) {
                out[options.height() + j] = -at.damping[j] * at.all_x[j];
            });
        team.sync();
    }

    /// Make the witness orthogonal to the passive columns; `change` is the correction of x. Returns
    /// whether w is the product of the columns with the witness: small teams multiply all.
    __device__ bool correct() {
        inverse.for_each([&](auto p) { at.change[p] = 0; });
        for (int correction = 0; correction < most_corrections; ++correction) {
            multiply_columns(inverse.passive(), at.witness, at.passive_w);
            if constexpr (Team::is_small) at.w = at.passive_w;
            const double square = sum(options.rows(), [&](int i) {
                return is_data(i) ? at.witness[i] * at.witness[i] : 0;
            });
            const double limit = options.tol / 2 * square_root(square);
            const double visible = sum_of_passive([&](auto p) {
                const double w = gradient(at.passive_w[p], variable(p), at.witness);
                at.passive_w[p] = w;
                return fabs(w) > limit * at.norm[variable(p)] ? 1.0 : 0.0;
            });
            if (visible == 0) return Team::is_small;
            const double shift = step(true);
            inverse.for_each([&](auto p) {
                if (!is_finite(at.d[p])) at.d[p] = 0;
                at.change[p] += at.d[p];
            });
            team.sync();
            subtract_fitted(shift);
            team.sync();
        }
        return false;
    }

    /// Subtract A d, with the rows of the l2 penalty, from the witness; `shift` changes the
    /// multiplier of the fixed sum.
    __device__ void subtract_fitted(double shift) {
        combine<PlainSum, Team>(
            at.matrix.view(), options.height(), inverse.passive(), at.d, [](int) { return 0.0; },
            [&](int i, double fitted) {
                if (is_data(i))
                    at.witness[i] -= fitted;
                else
                    at.witness[i] = at.residual[i] -= shift;
            });
        if (options.has_ridge())
            inverse.for_each([&](auto p) {
                at.witness[options.height() + variable(p)] -= at.damping[variable(p)] * at.d[p];
            });
    }

    /// Correct x by the residual b - A x, unless the solver was stopped. Computes the residual of x
    /// and the witness. Returns whether the corrected x is between its bounds, so that it is x now.
    ///
    /// The part of the residual along the passive columns is due to an error of x. Without that
    /// part it is the witness of the certificate.
    __device__ bool refresh() {
        Vector<double> out = at.witness;
        bool follows = false;
        for (int k = 0; k < 2; ++k, out = at.residual) {
            make_residual(out);
            if (k == 1) break;
            has_product = correct();
            const double blocked = sum_of_passive(
                [&](auto p) { return is_inside(at.x[p] + at.change[p], p) ? 0.0 : 1.0; });
            follows = status == converged && blocked == 0;
            inverse.for_each([&](auto p) {
                const double x = follows ? at.x[p] + at.change[p] : at.x[p];
                at.x[p] = to_scaled(to_given(x, variable(p)), variable(p));
            });
        }
        return follows;
    }

    /// The certificate of x, |b - A x|, and the root of twice the objective. Computes the gradient
    /// w of the witness.
    struct Certified {
        Certificate<T, double> certificate;
        double fit, misfit;
    };

    __device__ Certified certify() {
        if (!has_product) multiply_columns(inverse.all(options.n), at.witness, at.w);
        Two apart_and_gap{0, 0}, fit_and_length{0, 0}, objective_and_room{0, 0};
        for_each<Team>(options.rows(), [&](int i) {
            if (!is_data(i)) return;
            const double left = at.residual[i], witness = at.witness[i];
            const Two squares{(left - witness) * (left - witness), 0};
            apart_and_gap = AddTwo()(apart_and_gap, squares);
            objective_and_room.a += left * left;
            fit_and_length =
                AddTwo()(fit_and_length, {i < options.m ? left * left : 0, witness * witness});
        });
        fit_and_length = team.reduce(fit_and_length, Called<AddTwo>());
        double slope = 0;
        for_each_variable<Team>(options.n, [&](auto j) {
            const double x = at.all_x[j], w = gradient(at.w[j], j, at.witness);
            at.w[j] = w;
            const double violated = violation(x, w, lower(j), upper(j));
            slope = MaxMagnitude<double>()(slope, ratio(violated, at.norm[j]));
            apart_and_gap.b += from_bound(x, lower(j), upper(j)) * w;
            const double l1 = penalty(j);
            objective_and_room.a += 2 * l1 * x;
            objective_and_room.b += room(l1, x, lower(j), upper(j));
        });
        apart_and_gap = team.reduce(apart_and_gap, Called<AddTwo>());
        slope = team.reduce(slope, Called<MaxMagnitude<double>>());
        objective_and_room = team.reduce(objective_and_room, Called<AddTwo>());
        const double length = square_root(fit_and_length.b), square = objective_and_room.a;
        const double misfit = square_root(fabs(square));
        return {{square_root(apart_and_gap.a), apart_and_gap.b, slope, length, magnitude, size(),
                 objective_and_room.b},
                square_root(fit_and_length.a),
                square < 0 ? -misfit : misfit};
    }

    /// Whether the sum of x is the fixed one, as far as a certified x is accurate. The certificate
    /// takes it for granted.
    __device__ bool keeps_sum() {
        if (!options.has_sum()) return true;
        Two sums = AddTwo::identity();
        for_each_variable<Team>(options.n, [&](auto j) {
            const double term = at.sum_row[j] * at.all_x[j];
            sums = AddTwo()(sums, {term, fabs(term)});
        });
        sums = team.reduce(sums, Called<AddTwo>());
        const double total = at.total[0];
        return ::keeps_sum<T>(total - sums.a, fabs(total) + sums.b, magnitude);
    }

    /// Let w and c agree with the true residual. Ends without a barrier.
    __device__ void correct_gradient() {
        multiply_columns(inverse.passive(), at.residual, at.passive_w);
        team.sync();
        inverse.for_each([&](auto p) {
            at.w[variable(p)] = gradient(at.passive_w[p], variable(p), at.residual);
        });
        team.sync();
        combine_gram(at.matrix, options.n, inverse.passive(), at.x, [&](auto j, double sum) {
            const double passive_x = options.has_ridge() ? at.all_x[j] - rest(j) : 0;
            at.c[j] = at.w[j] + sum + ridge(j) * passive_x;
        });
    }

    /// How a system ended.
    struct Outcome {
        bool is_convincing;  // no other method could improve x
        bool is_hidden;      // rounding x may change A x too much
        bool is_certified;
        double misfit;
    };

    /// Iterate to convergence, and store the best x. With a `guess`, start from it.
    ///
    /// Each step is called in one place only, because it is inlined there.
    __device__ Outcome solve(const T* guess, const GramResults<T>& results, long long k) {
        double best = Floating<double>::infinity();
        bool fresh = false, entered_since = true;
        Outcome outcome;
        int first = options.has_sum() ? make_sum() : -1;
        int most = options.has_sum() ? 0 : most_entering;
        for (int refreshes = 0;;) {
            if (!fresh) {
                team.sync();
                make_gradient();
            }
            const bool first_enters = first >= 0, polish = most == 0;
            int leaving = -1;
            const bool entered = status == converged &&
                                 enter(most, fresh, first_enters ? nullptr : guess, first, leaving);
            if (guess != nullptr) {
                fresh = false;
                if (first_enters) continue;
                guess = nullptr;
                if (!(Floating<T>::epsilon * ratio(size(), magnitude) <= hidden<T>) &&
                    !options.has_sum())
                    clear();
                most = inverse.length > 0 ? 0 : most_entering;
                continue;
            }
            if (entered || (polish && status == converged)) {
                most = make_feasible(leaving, first >= 0) ? most_entering : 1;
                fresh = false;
                entered_since = entered_since || entered;
                continue;
            }
            const bool follows = refresh();
            const Certified found = certify();
            const double kkt = found.certificate.kkt();
            const bool better = kkt < best;
            if (better || refreshes == 0) {
                best = better ? kkt : best;
                const bool keeps = keeps_sum();
                outcome = {keeps && found.certificate.is_good(false, options.tol),
                           found.certificate.is_hidden(),
                           keeps && found.certificate.is_good(true, options.tol), found.misfit};
                store(results, k, found);
            }
            const double tol =
                max(options.tol, 4.0 * Floating<T>::epsilon) * (1 + found.certificate.size_to_b);
            if (!((better || entered_since) && kkt > tol) || ++refreshes == most_refreshes ||
                status != converged)
                break;
            correct_gradient();
            entered_since = false;
            fresh = true;
            most = follows ? most_entering : 0;
            if (kkt > drift * tol && !options.has_sum()) {
                guess = results.x + k * options.n;
                clear();
            }
        }
        const bool good = status == iteration_limit ? outcome.is_convincing : outcome.is_certified;
        if (Team::rank() == 0) {
            const NnlsStatus refused = status == converged ? uncertified : status;
            results.status[k] = good ? converged : refused;
            results.nit[k] = nit;
            results.n_updates[k] = n_updates;
            results.n_downdates[k] = n_downdates;
            results.repaired[k] = false;
            results.method[k] = by_gram;
        }
        return outcome;
    }

    /// What another method must beat: less if x is certified, and NaN if x is not kept.
    __device__ double score(const Outcome& outcome) const {
        if (outcome.is_hidden) return Floating<double>::nan();
        return outcome.misfit - (outcome.is_certified ? certified<T> * magnitude : 0);
    }

    /// Write x and its certificate in the original units.
    __device__ void store(const GramResults<T>& results, long long k,
                          const Certified& found) const {
        const int n = options.n;
        for_each_variable<Team>(n, [&](auto j) {
            results.x[k * n + j] = to_given(at.all_x[j], j);
            results.dual[k * n + j] =
                static_cast<T>(shifted(at.w[j], -column_shift(j) - b_shift()));
        });
        if (Team::rank() == 0) {
            results.rnorm[k] = static_cast<T>(shifted(found.fit, -b_shift()));
            results.kkt[k] = static_cast<T>(found.certificate.kkt());
        }
    }
};

/// Write the scaled columns of each matrix, one after another, and their scales and norms. A column
/// has room for `height` entries. The scale takes account of the l2 penalty.
///
/// A warp scales a column. Its block holds `held` rows in shared memory.
template <class T>
__global__ void __launch_bounds__(scaled_columns* warp_threads)
    scale_columns(const T* A, const long long* A_offset, long long A_stride, long long row_stride,
                  long long column_stride, const T* root_weight, const long long* weight_offset,
                  long long weight_batch_stride, long long weight_stride, const double* options,
                  const long long* options_offset, long long options_stride, double root_l2,
                  long long first_matrix, int m, int n, int height, int held, double* columns,
                  double* norm, double* column_scale) {
    const int blocks = (n + scaled_columns - 1) / scaled_columns;
    const long long matrix = blockIdx.x / blocks;
    const int first_column = blockIdx.x % blocks * scaled_columns;
    const int j = first_column + warp_index();
    const long long which = first_matrix + matrix;
    const GivenMatrix<T> given{A + BatchOffsets{A_offset, A_stride}[which], row_stride,
                               column_stride,
                               RootWeights<T>{root_weight, weight_stride}.from(
                                   BatchOffsets{weight_offset, weight_batch_stride}[which])};
    const Variables variables = Variables{options, n, 0, 0, 0, root_l2, 0}.from(
        BatchOffsets{options_offset, options_stride}[which]);
    const HeldColumns<T> rows{given, m, n, first_column, held};
    double largest = 0, squares = 0;
    rows.for_each_row(false, [&](int, double value) {
        largest = MaxMagnitude<double>()(largest, magnitude(value));
    });
    const bool exists = j < n;
    const double penalty = exists ? variables.root_l2(j) : 0;
    largest = MaxMagnitude<double>()(penalty, warp_reduce(largest, MaxMagnitude<double>()));
    const double scale = scale_of(largest);
    double* scaled = columns + (matrix * n + j) * height;
    rows.for_each_row(true, [&](int i, double value) {
        value = scaled_by(value, scale);
        scaled[i] = value;
        squares += value * value;
    });
    squares = warp_reduce(squares, Add<double>());
    if (exists && lane_index() == 0) {
        norm[matrix * n + j] = norm_of(squares, scale);
        column_scale[matrix * n + j] = scale;
    }
}

// ---- the solver -----------------------------------------------------------------------

/// The systems begin with number `first` of the batch. If `columns` is not null, it has the scaled
/// matrices, and A is not read; `which` and `which_stride` tell the matrix of each system of the
/// launch. x has the starting points before the launch, the solutions after it.
///
/// If `listed` is not null, systems that another method might solve better are listed there, in any
/// order; x is where that method may start.
/// `limited`: the iteration limit is the user's, so such systems are not listed. `matrix_bytes`: if
/// positive, all systems have the same matrix, which each block scales once.
template <class T, class Team>
__global__ void __launch_bounds__(Team::threads, Team::blocks)
    nnls_gram(const T* A, const long long* A_offset, long long A_stride, long long row_stride,
              long long column_stride, const T* b, const long long* b_offset,
              long long b_batch_stride, long long b_stride, const T* root_weight,
              const long long* weight_offset, long long weight_batch_stride,
              long long weight_stride, const double* each_option, const long long* options_offset,
              long long options_stride, double lower, double upper, double l1, double root_l2,
              double sum, int kind, long long first, long long systems, int m, int n, int maxiter,
              double tol, int warm, int limited, const double* columns, const double* G,
              const double* norm, const double* column_scale, const long long* which,
              long long which_stride, T* x, T* rnorm, T* dual, T* kkt, int* nit, int* status,
              int* n_updates, int* n_downdates, bool* repaired, unsigned char* method,
              ListedSystem* listed, BatchCounters* counters, long long matrix_bytes,
              long long vectors_bytes, long long near_entries, long long shared_bytes,
              int vectors_in_shared, unsigned char* workspace, long long workspace_stride,
              unsigned char* barrier) {
    __shared__ typename Team::Storage storage;
    Team team(storage, barrier);
    const GramOptions options{m, n, kind, tol, maxiter};
    const GramResults<T> results{x,      rnorm,     dual,        kkt,      nit,
                                 status, n_updates, n_downdates, repaired, method};

    __shared__ GramArrays<Team> arrays_of_block;
    GramArrays<Team> arrays_of_thread;
    GramArrays<Team>& arrays = Team::is_small ? arrays_of_thread : arrays_of_block;
    constexpr bool scales = Team::is_small;
    const bool scales_once = scales && matrix_bytes > 0;
    if (Team::places()) {
        unsigned char* shared = dynamic_shared_memory();
        TeamMemory of_all{shared};
        if (scales_once) arrays.matrix.place(of_all, options);
        shared += matrix_bytes + Team::memory_of_block() * shared_bytes;
        unsigned char* global = workspace + Team::index() * workspace_stride;
        const bool in_shared = Team::is_small || vectors_in_shared;
        TeamMemory vectors{in_shared ? shared : global};
        if (scales && !scales_once) arrays.matrix.place(vectors, options);
        arrays.place(vectors, options);
        if (scales) arrays.refer_to_norms(options);
        (in_shared ? shared : global) += vectors_bytes;
        arrays.inverse.place(shared, global, near_entries);
    }
    __syncthreads();

    const auto variables_of = [&](long long k) {
        return Variables{each_option, n, lower, upper, l1, root_l2, sum}.from(
            BatchOffsets{options_offset, options_stride}[k]);
    };
    const auto weights_of = [&](long long k) {
        return RootWeights<T>{root_weight, weight_stride}.from(
            BatchOffsets{weight_offset, weight_batch_stride}[k]);
    };
    const auto matrix_of = [&](long long k) {
        return GivenMatrix<T>{A + BatchOffsets{A_offset, A_stride}[k], row_stride, column_stride,
                              weights_of(k)};
    };
    if constexpr (scales)
        if (scales_once)
            scale_matrix<BlockTeam>(arrays.matrix, options, matrix_of(0), variables_of(0));

    for (long long k = Team::index(); Team::begins(k < systems); k += Team::teams()) {
        if (k >= systems) continue;
        if constexpr (scales) {
            if (!scales_once)
                scale_matrix<Team>(arrays.matrix, options, matrix_of(first + k),
                                   variables_of(first + k));
        } else {
            if (Team::places()) {
                arrays.matrix.refer(BatchOffsets{which, which_stride}[k], options, columns, G, norm,
                                    column_scale);
                arrays.refer_to_norms(options);
            }
            team.sync();
        }
        GramSystem<T, Team> system{team,
                                   options,
                                   arrays,
                                   PassiveInverse<Team>{arrays.inverse},
                                   b + BatchOffsets{b_offset, b_batch_stride}[first + k],
                                   b_stride,
                                   weights_of(first + k)};
        if (!system.load(variables_of(first + k))) {
            results.template refuse<Team>(k, n);
        } else {
            const auto outcome = system.solve(warm ? x + k * n : nullptr, results, k);
            const bool settled =
                outcome.is_convincing || (limited && system.status == iteration_limit);
            if (!settled && listed != nullptr) {
                if (outcome.is_hidden) for_each<Team>(n, [&](int j) { x[k * n + j] = 0; });
                if (Team::rank() == 0)
                    listed[atomicAdd(&counters->listed, 1ull)] = {k, system.score(outcome)};
            }
        }
        team.sync();
    }
}
