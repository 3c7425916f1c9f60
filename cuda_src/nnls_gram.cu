// Batched non-negative least squares from Gram matrices: for every system k
//
//     x_k = argmin over x >= 0 of |A_k x - b_k|^2 / 2 + l1 sum(x) + l2 |x|^2 / 2
//
// Source. Lawson & Hanson's active-set method (Algorithm 1 of Luo & Duraiswami, "Efficient Parallel
// Non-Negative Least Squares on Multi-Core Architectures") on G = A^T A and the inverse H of its
// passive part, which is updated by rank one. Several variables enter at once. The specification in
// NumPy is gpusolve/reference/_nnls_gram.py, class ActiveSet; both use the same names for the
// steps.
//
// Mapping. One team solves one system at a time: a thread, a warp, a block or the whole grid, by
// the size of the system (team.cuh).
//
// Accuracy. G squares the condition number. To make up for that, x is corrected by the residual
// b - A x in twice the working precision, and certified by it. All computation is in double, also
// for float. Systems that are not certified convincingly are listed; nnls_qr.cu solves them.
//
// Scaling. Columns of A and b are multiplied by powers of two: this is exact. `scale_columns`
// writes the scaled matrices; small matrices are scaled by their team, and not written.
//
// Memory. A team has a vector of each kind, and H. The first entries of H are in shared memory as
// far as they fit. G and the scaled matrices are in global memory, or, for small teams, in shared
// memory.
//
// Cost. l passive variables: l n operations for a gradient, 2 l^2 for a variable that enters, l^2
// for one that leaves, and l^2 for a solution. A is read once for A^T b, once or twice for a
// certificate. Barriers of a team: 3 for a variable that enters, 2 for a solution, 1 for a variable
// that leaves.

#include "certificate.cuh"
#include "compensated.cuh"
#include "passive_inverse.cuh"

/// Limit on the variables that enter at once; the part of the steepest slope that the others must
/// have; the cosine of the angle between columns that do not enter together.
constexpr int most_entering = 16;
constexpr double steep_part = 0.3, alike = 0.9;

/// Part of a column's square norm that must be orthogonal to the passive columns.
constexpr double resolved_part = 1e-12;

/// Factor on `tol` for the less accurate gradients from the Gram matrix.
constexpr double slack = 8;

/// Limits on how often the residual is recomputed, and made orthogonal to the passive columns.
constexpr int most_refreshes = 10, most_corrections = 3;

/// H is recomputed if `kkt` exceeds this number times `tol` after a refresh.
constexpr double drift = 64;

constexpr int nnls_gram_max_threads = 512;

/// The sums of two quantities.
struct Two {
    double a, b;
};
struct AddTwo {
    static __device__ __forceinline__ Two identity() { return {0, 0}; }
    __device__ __forceinline__ Two operator()(Two x, Two y) const { return {x.a + y.a, x.b + y.b}; }
};
__device__ __forceinline__ Two shuffle_xor(Two x, int distance) {
    return {shuffle_xor(x.a, distance), shuffle_xor(x.b, distance)};
}

/// Whether a value is neither infinite nor NaN.
__device__ __forceinline__ bool is_finite(double value) {
    return fabs(value) < Floating<double>::infinity();
}

/// Arguments that are the same for all systems.
struct GramOptions {
    int m, n;
    double l1, root_l2, tol;
    int maxiter;

    __device__ bool has_ridge() const { return root_l2 > 0; }
    __device__ int rows() const { return m + (has_ridge() ? n : 0); }
    __device__ int capacity() const { return min(rows(), n); }
};

/// The arrays of the results of all systems.
template <class T>
struct GramResults {
    T *x, *rnorm, *dual, *kkt;
    int *nit, *status, *n_updates, *n_downdates;

    /// Write the result of a system that has NaN or infinity in it.
    template <class Team>
    __device__ void refuse(const Team& team, long long k, int n) const {
        for (int j = team.rank(); j < n; j += team.size())
            x[k * n + j] = dual[k * n + j] = Floating<T>::nan();
        if (team.rank() == 0) {
            rnorm[k] = kkt[k] = Floating<T>::nan();
            status[k] = not_finite;
            nit[k] = n_updates[k] = n_downdates[k] = 0;
        }
    }
};

/// The arrays of a team.
template <class Team>
struct GramArrays {
    using Reals = Vector<double, Team::stride>;

    Reals columns;  // n x leading: the scaled columns of A, without the rows of the l2 penalty
    long long leading;
    Reals G;             // n x n, without the l2 penalty
    Reals norm;          // n: norms of the scaled columns, with the l2 penalty
    Reals column_scale;  // n: powers of two

    Reals c, w;             // n: A^T b - penalty, corrected; the negative gradient
    Reals slope;            // n: w / norm of variables that may enter
    Reals all_x;            // n: x by variable
    Reals residual;         // rows: b - A x
    Reals witness;          // rows
    Reals x, passive_w;     // capacity: of the passive variables, by position
    Reals d, g, u, change;  // capacity

    /// Allocate the vectors; their bytes are computed by the host.
    __device__ void place(TeamMemory<Team>& memory, const GramOptions& options) {
        const int n = options.n, rows = options.rows(), capacity = options.capacity();
        for (Reals* one : {&c, &w, &slope, &all_x}) *one = memory.template take<double>(n);
        for (Reals* one : {&residual, &witness}) *one = memory.template take<double>(rows);
        for (Reals* one : {&x, &passive_w, &d, &g, &u, &change})
            *one = memory.template take<double>(capacity);
    }

    /// Allocate the matrices of a team that scales its system itself.
    __device__ void place_matrices(TeamMemory<Team>& memory, const GramOptions& options) {
        leading = options.m | 1;  // odd, so that neighbouring columns start in different banks
        columns = memory.template take<double>(leading * options.n);
        G = memory.template take<double>(static_cast<long long>(options.n) * options.n);
        norm = memory.template take<double>(options.n);
        column_scale = memory.template take<double>(options.n);
    }
};

template <class T, class Team>
struct GramSystem {
    using Reals = Vector<double, Team::stride>;

    Team& team;
    const GramOptions& options;
    const GramArrays<Team>& at;
    PassiveInverse<Team> inverse;
    const T* given_b;
    long long b_stride;

    double b_scale, b_norm;
    NnlsStatus status;
    int nit, n_updates, n_downdates;

    __device__ double b(int i) const { return given_b[i * b_stride] * b_scale; }
    __device__ double damping(int j) const { return options.root_l2 * at.column_scale[j]; }
    __device__ double penalty(int j) const {
        return min(options.l1 * b_scale * at.column_scale[j], Floating<double>::largest() / 16);
    }
    __device__ Reals column(int j) const { return at.columns.from(at.leading * j); }
    __device__ Reals gram(int j) const { return at.G.from(static_cast<long long>(options.n) * j); }
    __device__ int variable(int p) const { return inverse.variables[p]; }

    /// The part of column_j . vector that belongs to this lane.
    __device__ double part_of_product(int j, Reals vector) const {
        const Reals a = column(j);
        double sum = 0;
        for (int i = team.lane(); i < options.m; i += team.lanes()) sum += a[i] * vector[i];
        return sum;
    }

    /// The gradient along variable j for a residual, in all lanes of the group.
    __device__ double slope_along(int j, Reals residual) {
        double sum = team.reduce_group(part_of_product(j, residual), Add<double>());
        if (options.has_ridge()) sum += damping(j) * residual[options.m + j];
        return sum - penalty(j);
    }

    /// Compute b's scale and ``c = A^T b - penalty``. False if an entry is not finite.
    __device__ bool load() {
        double largest = 0, largest_norm = 0;
        for (int i = team.rank(); i < options.m; i += team.size())
            largest = MaxMagnitude<double>()(largest,
                                             magnitude(static_cast<double>(given_b[i * b_stride])));
        for (int j = team.rank(); j < options.n; j += team.size())
            largest_norm = MaxMagnitude<double>()(largest_norm, magnitude(at.norm[j]));
        largest = team.reduce(largest, MaxMagnitude<double>());
        largest_norm = team.reduce(largest_norm, MaxMagnitude<double>());
        if (!(max(largest, largest_norm) < Floating<double>::infinity())) return false;
        b_scale = inverse_power_of_two(largest);
        double squares = 0;
        for (int i = team.rank(); i < options.rows(); i += team.size()) {
            const double value = i < options.m ? b(i) : 0;
            at.witness[i] = value;
            squares += value * value;
        }
        b_norm = sqrt(team.reduce(squares, Add<double>()));
        for (int j = team.group(); j < options.n; j += team.groups()) {
            const double slope = slope_along(j, at.witness);
            if (team.lane() == 0) at.c[j] = at.w[j] = slope;
        }
        team.sync();
        return true;
    }

    /// Start at x = 0, or with the positive, finite entries of a `guess`.
    __device__ void start(const T* guess) {
        status = converged;
        nit = n_updates = n_downdates = inverse.length = 0;
        if (guess == nullptr) return;
        for (int j = 0; j < options.n; ++j) {
            const double value = to_scaled(guess[j], j);
            if (!(value > 0 && is_finite(value))) continue;
            append(j, value, -Floating<double>::infinity());
            team.sync();
        }
        make_gradient();
        team.sync();
        for (int p = team.rank(); p < inverse.length; p += team.size())
            at.passive_w[p] = at.w[variable(p)];
        make_feasible();
    }

    /// ``w = c - G x``, from the rows of G of the passive variables. Ends without a barrier.
    __device__ void make_gradient() {
        for (int j = team.rank(); j < options.n; j += team.size()) at.w[j] = at.c[j] - fitted_c(j);
    }

    /// (G x)_j, with the l2 penalty, for the passive values x.
    __device__ double fitted_c(int j) const {
        double sum = 0;
        for (int p = 0; p < inverse.length; ++p) {
            const int k = variable(p);
            sum += gram(k)[j] * at.x[p];
            if (k == j && options.has_ridge()) sum += damping(j) * damping(j) * at.x[p];
        }
        return sum;
    }

    /// Project column j onto the passive columns: `u` has the coefficients. Returns the square norm
    /// of the projection, and ``u . w`` over the passive variables.
    __device__ Two project(int j) {
        for (int p = team.rank(); p < inverse.length; p += team.size())
            at.g[p] = gram(j)[variable(p)];
        team.sync();
        Two sums = AddTwo::identity();
        inverse.multiply(
            team, [&](int k) { return at.g[k]; },
            [&](int p, double u) {
                at.u[p] = u;
                sums = AddTwo()(sums, {u * at.g[p], u * at.passive_w[p]});
            });
        return team.reduce(sums, AddTwo());
    }

    __device__ double square_norm(int j) const { return gram(j)[j] + damping(j) * damping(j); }

    /// Append a variable of value x_j, if it is independent of the others and x_j will be positive.
    ///
    /// `least` limits the decrease of the objective along the part of the column that is
    /// orthogonal to the passive ones. Ends without a barrier.
    __device__ bool append(int j, double x_j, double least) {
        const int last = inverse.length;
        if (last == options.capacity()) return false;
        const Two along = project(j);
        const double square = square_norm(j) - along.a, descent = at.w[j] - along.b;
        if (!(square > resolved_part * at.norm[j] * at.norm[j])) return false;
        if (!(descent > least * sqrt(square))) return false;
        inverse.append(team, j, at.u, square);
        if (team.rank() == 0) {
            at.x[last] = x_j;
            at.passive_w[last] = at.w[j];
        }
        ++n_updates;
        return true;
    }

    /// sum_k |a_k| x_k.
    __device__ double size() {
        double sum = 0;
        for (int p = team.rank(); p < inverse.length; p += team.size())
            sum += at.norm[variable(p)] * at.x[p];
        return team.reduce(sum, Add<double>());
    }

    /// Append the steepest variables, at most `most`; false if none is appended.
    ///
    /// Slopes must exceed rounding errors of the terms that cancel in b - A x.
    __device__ bool enter(int most, bool fresh) {
        for (int j = team.rank(); j < options.n; j += team.size())
            at.slope[j] = at.norm[j] > 0 ? at.w[j] / at.norm[j] : 0;
        team.sync();
        for (int p = team.rank(); p < inverse.length; p += team.size()) {
            at.passive_w[p] = at.w[variable(p)];
            at.slope[variable(p)] = 0;
        }
        const double cancelling = options.tol * (b_norm + size());
        double steep = fresh ? cancelling : slack * cancelling;
        int entered = 0;
        while (entered < most) {
            Located<double> steepest = ArgMax<double>::identity();
            for (int j = team.rank(); j < options.n; j += team.size())
                if (at.slope[j] > steep) steepest = ArgMax<double>()(steepest, {at.slope[j], j});
            steepest = team.reduce(steepest, ArgMax<double>());
            const int j = steepest.index;
            if (j < 0) break;
            const bool accepted = append(j, 0, cancelling);
            if (accepted && entered++ == 0) steep = max(steep, steep_part * steepest.value);
            for (int i = team.rank(); i < options.n; i += team.size())
                if (i == j || (accepted && fabs(gram(j)[i]) > alike * at.norm[i] * at.norm[j]))
                    at.slope[i] = 0;
        }
        return entered > 0;
    }

    /// Move x to the passive least-squares solution; remove what reaches 0, one after another.
    ///
    /// A step also changes the passive gradient: by a part of it, because G H = 1. Returns whether
    /// x moved.
    __device__ bool make_feasible() {
        bool moved = false;
        while (nit < options.maxiter) {
            ++nit;
            team.sync();
            Located<double> first = ArgMax<double>::identity();
            inverse.multiply(
                team, [&](int k) { return at.passive_w[k]; },
                [&](int p, double d) {
                    const double x = at.x[p];
                    at.d[p] = d;
                    if (!is_finite(d))
                        first = ArgMax<double>()(first, {1, p});
                    else if (!(x + d > 0))
                        first = ArgMax<double>()(first, {x > 0 ? x / d : 0, p});
                });
            first = team.reduce(first, ArgMax<double>());
            if (first.value > 0) {
                status = uncertified;
                return moved;
            }
            const double step = first.index < 0 ? 1 : -first.value;
            for (int p = team.rank(); p < inverse.length; p += team.size()) {
                const double x = at.x[p] + step * at.d[p];
                at.x[p] = first.index < 0 || x > 0 ? x : 0;
                at.passive_w[p] *= 1 - step;
            }
            if (first.index < 0) return true;
            moved = moved || step > 0;
            remove(first.index);
        }
        status = iteration_limit;
        return moved;
    }

    /// Remove the variable at a position. Ends without a barrier.
    __device__ void remove(int position) {
        inverse.remove(team, position);
        if (team.rank() == 0) {
            at.x[position] = at.x[inverse.length];
            at.passive_w[position] = at.passive_w[inverse.length];
        }
        ++n_downdates;
    }

    /// Recompute H, one variable after another.
    __device__ void invert() {
        const int length = inverse.length;
        inverse.length = 0;
        for (int p = 0; p < length; ++p) {
            const int j = variable(p);
            const double square = square_norm(j) - project(j).a;
            inverse.append(team, j, at.u, max(square, Floating<double>::epsilon));
            team.sync();
        }
    }

    /// Convert a coefficient from scaled variables, and back; each conversion rounds once.
    __device__ T to_given(double value, int j) const {
        return static_cast<T>(ldexp(value, exponent(at.column_scale[j]) - exponent(b_scale)));
    }
    __device__ double to_scaled(T value, int j) const {
        return ldexp(static_cast<double>(value), exponent(b_scale) - exponent(at.column_scale[j]));
    }

    /// Store x by variable. Begins and ends with a barrier.
    __device__ void make_all_x() {
        for (int j = team.rank(); j < options.n; j += team.size()) at.all_x[j] = 0;
        team.sync();
        for (int p = team.rank(); p < inverse.length; p += team.size())
            at.all_x[variable(p)] = at.x[p];
        team.sync();
    }

    /// b - A x in row i, in twice the working precision; in the rows of the l2 penalty, -damping x.
    __device__ double residual_of(int i) const {
        if (i >= options.m) return -damping(i - options.m) * at.all_x[i - options.m];
        Twofold<double> sum{b(i), 0};
        for (int p = 0; p < inverse.length; ++p)
            sum = AddTwofold<double>()(sum, two_product(column(variable(p))[i], -at.x[p]));
        return sum.high + sum.low;
    }

    __device__ double norm_of(Reals vector) {
        double sum = 0;
        for (int i = team.rank(); i < options.rows(); i += team.size())
            sum += vector[i] * vector[i];
        return sqrt(team.reduce(sum, Add<double>()));
    }

    /// Compute the gradient of the passive variables for a residual. Ends without a barrier.
    __device__ void make_passive_gradient(Reals residual) {
        for (int p = team.group(); p < inverse.length; p += team.groups()) {
            const double slope = slope_along(variable(p), residual);
            if (team.lane() == 0) at.passive_w[p] = slope;
        }
    }

    /// Make the witness orthogonal to the passive columns; `change` is the correction of x.
    __device__ void correct() {
        for (int p = team.rank(); p < inverse.length; p += team.size()) at.change[p] = 0;
        for (int correction = 0; correction < most_corrections; ++correction) {
            make_passive_gradient(at.witness);
            const double limit = options.tol / 2 * norm_of(at.witness);
            double visible = 0;
            for (int p = team.rank(); p < inverse.length; p += team.size())
                if (fabs(at.passive_w[p]) > limit * at.norm[variable(p)]) visible = 1;
            if (team.reduce(visible, MaxMagnitude<double>()) == 0) return;
            inverse.multiply(
                team, [&](int k) { return at.passive_w[k]; },
                [&](int p, double d) {
                    at.d[p] = is_finite(d) ? d : 0;
                    at.change[p] += at.d[p];
                });
            team.sync();
            subtract_fitted();
            team.sync();
        }
    }

    /// Subtract A d, with the rows of the l2 penalty, from the witness.
    __device__ void subtract_fitted() {
        for (int i = team.rank(); i < options.m; i += team.size()) {
            double sum = 0;
            for (int p = 0; p < inverse.length; ++p) sum += column(variable(p))[i] * at.d[p];
            at.witness[i] -= sum;
        }
        if (options.has_ridge())
            for (int p = team.rank(); p < inverse.length; p += team.size())
                at.witness[options.m + variable(p)] -= damping(variable(p)) * at.d[p];
    }

    /// What `refresh` finds.
    struct Refreshed {
        Certificate<T, double> certificate;
        double fit;    // |b - A x|
        bool follows;  // whether the corrected x is positive, so that it is x now
    };

    /// Correct x by the residual b - A x, and certify it.
    ///
    /// The part of the residual along the passive columns is due to an error of x. Without that
    /// part it is the witness of the certificate. `w` is its gradient.
    __device__ Refreshed refresh() {
        team.sync();
        make_all_x();
        for (int i = team.rank(); i < options.rows(); i += team.size())
            at.witness[i] = residual_of(i);
        team.sync();
        correct();
        double blocked = 0;
        for (int p = team.rank(); p < inverse.length; p += team.size())
            if (!(at.x[p] + at.change[p] > 0)) blocked = 1;
        const bool follows = team.reduce(blocked, MaxMagnitude<double>()) == 0;
        for (int p = team.rank(); p < inverse.length; p += team.size()) {
            const double x = follows ? at.x[p] + at.change[p] : at.x[p];
            at.x[p] = to_scaled(to_given(x, variable(p)), variable(p));
        }
        make_all_x();
        return certify(follows);
    }

    /// Certify x, with the witness. Computes `residual` and `w`.
    __device__ Refreshed certify(bool follows) {
        Two apart_and_gap{0, 0}, fit_and_length{0, 0};
        for (int i = team.rank(); i < options.rows(); i += team.size()) {
            const double left = residual_of(i), witness = at.witness[i];
            at.residual[i] = left;
            apart_and_gap.a += (left - witness) * (left - witness);
            if (i < options.m) fit_and_length.a += left * left;
            fit_and_length.b += witness * witness;
        }
        double slope = 0;
        for (int j = team.group(); j < options.n; j += team.groups()) {
            const double w = slope_along(j, at.witness), x = at.all_x[j];
            if (team.lane() != 0) continue;
            at.w[j] = w;
            const double violation = x > 0 ? fabs(w) : max(w, 0.0);
            if (at.norm[j] > 0) slope = MaxMagnitude<double>()(slope, violation / at.norm[j]);
            if (x > 0) apart_and_gap.b += x * w;
        }
        apart_and_gap = team.reduce(apart_and_gap, AddTwo());
        fit_and_length = team.reduce(fit_and_length, AddTwo());
        slope = team.reduce(slope, MaxMagnitude<double>());
        const double length = sqrt(fit_and_length.b);
        return {{sqrt(apart_and_gap.a), apart_and_gap.b, slope, length, b_norm, size()},
                sqrt(fit_and_length.a),
                follows};
    }

    /// Let `w` and `c` agree with the true residual. Begins and ends with a barrier.
    __device__ void correct_gradient() {
        make_passive_gradient(at.residual);
        team.sync();
        for (int p = team.rank(); p < inverse.length; p += team.size())
            at.w[variable(p)] = at.passive_w[p];
        team.sync();
        for (int j = team.rank(); j < options.n; j += team.size()) at.c[j] = at.w[j] + fitted_c(j);
        team.sync();
    }

    /// How a system ended.
    struct Outcome {
        bool is_convincing;  // no other method could improve x
        bool is_hidden;      // rounding x may change A x too much
        bool is_certified;
    };

    /// Iterate to convergence, and store the best x. With a `guess`, start from it.
    __device__ Outcome solve(const T* guess, const GramResults<T>& results, long long k) {
        start(guess);
        double best = Floating<double>::infinity();
        bool fresh = false;
        Outcome outcome;
        int most = most_entering;
        for (int refreshes = 0;;) {
            if (!fresh) {
                team.sync();
                make_gradient();
            }
            if (status == converged && enter(most, fresh)) {
                most = make_feasible() ? most_entering : 1;
                fresh = false;
                continue;
            }
            const Refreshed found = refresh();
            const double kkt = found.certificate.kkt();
            const bool better = kkt < best;
            if (better || refreshes == 0) {
                best = better ? kkt : best;
                outcome = {found.certificate.is_convincing(options.tol),
                           found.certificate.is_hidden(),
                           found.certificate.is_certified(options.tol)};
                store(results, k, found);
            }
            const double tol = options.tol * (1 + found.certificate.size_to_b);
            if (!((better || !fresh) && kkt > tol) || ++refreshes == most_refreshes ||
                status != converged)
                break;
            correct_gradient();
            if (kkt > drift * tol) invert();
            if (!found.follows) make_feasible();
            fresh = found.follows;
        }
        const bool good = status == iteration_limit ? outcome.is_convincing : outcome.is_certified;
        if (team.rank() == 0) {
            const NnlsStatus refused = status == converged ? uncertified : status;
            results.status[k] = good ? converged : refused;
            results.nit[k] = nit;
            results.n_updates[k] = n_updates;
            results.n_downdates[k] = n_downdates;
        }
        return outcome;
    }

    /// Write x and its certificate in the original units.
    __device__ void store(const GramResults<T>& results, long long k,
                          const Refreshed& found) const {
        const int n = options.n;
        for (int j = team.rank(); j < n; j += team.size()) {
            results.x[k * n + j] = to_given(at.all_x[j], j);
            results.dual[k * n + j] =
                static_cast<T>(ldexp(at.w[j], -exponent(at.column_scale[j]) - exponent(b_scale)));
        }
        if (team.rank() == 0) {
            results.rnorm[k] = static_cast<T>(found.fit / b_scale);
            results.kkt[k] = static_cast<T>(found.certificate.kkt());
        }
    }
};

/// The matrix of a system as it was given. Strides are in elements.
template <class T>
struct GivenMatrix {
    const T* A;
    long long row_stride, column_stride;

    __device__ double operator()(int i, int j) const {
        return A[i * row_stride + j * column_stride];
    }
};

/// The scale of a column with this largest magnitude. Its norm is infinite if an entry is not
/// finite.
__device__ __forceinline__ double scale_of(double largest) {
    return largest < Floating<double>::infinity() ? inverse_power_of_two(largest) : largest;
}

/// Scale a matrix into the arrays of a small team, and compute G and the norms. Ends with a
/// barrier.
template <class T, class Team>
__device__ void scale_matrix(Team& team, const GramArrays<Team>& at, const GramOptions& options,
                             GivenMatrix<T> given) {
    const int m = options.m, n = options.n;
    const bool by_rows = given.column_stride < given.row_stride;
    for (int e = team.rank(); e < m * n; e += team.size()) {
        const int i = by_rows ? e / n : e % m, j = by_rows ? e % n : e / m;
        at.columns[at.leading * j + i] = given(i, j);
    }
    team.sync();
    for (int j = team.rank(); j < n; j += team.size()) {
        const auto column = at.columns.from(at.leading * j);
        double largest = options.root_l2, squares = 0;
        for (int i = 0; i < m; ++i) largest = MaxMagnitude<double>()(largest, magnitude(column[i]));
        const double scale = scale_of(largest), damping = options.root_l2 * scale;
        for (int i = 0; i < m; ++i) {
            column[i] *= scale;
            squares += column[i] * column[i];
        }
        at.column_scale[j] = scale;
        at.norm[j] = sqrt(squares + damping * damping);
    }
    team.sync();
    for (int e = team.rank(); e < n * n; e += team.size()) {
        const auto one = at.columns.from(at.leading * (e / n));
        const auto other = at.columns.from(at.leading * (e % n));
        double sum = 0;
        for (int i = 0; i < m; ++i) sum += one[i] * other[i];
        at.G[e] = sum;
    }
    team.sync();
}

// ---- large matrices: scaled copies in global memory -----------------------------------

constexpr int scale_tile = 32, scale_warps = 8;

/// use(q, i, value) for every entry (i, j) of 32 columns, where j is `first_column` plus the index
/// of the warp plus q times the number of warps; the lanes of a warp have neighbouring rows.
template <class T, class Use>
__device__ void for_each_entry(GivenMatrix<T> given, int m, int n, int first_column, Use use) {
    __shared__ double tile[scale_tile][scale_tile + 1];
    const bool by_rows = given.column_stride < given.row_stride;
    for (int first = 0; first < m; first += scale_tile) {
        for (int across = warp_index(); across < scale_tile; across += scale_warps) {
            const int row = by_rows ? across : lane_index();
            const int column = by_rows ? lane_index() : across;
            const int i = first + row, j = first_column + column;
            if (i < m && j < n) tile[row][column] = given(i, j);
        }
        __syncthreads();
        for (int q = 0; q < scale_tile / scale_warps; ++q) {
            const int column = warp_index() + scale_warps * q;
            if (first + lane_index() < m && first_column + column < n)
                use(q, first + lane_index(), tile[lane_index()][column]);
        }
        __syncthreads();
    }
}

/// Write the scaled columns of each matrix, one after another, and their scales and norms.
///
/// A block has 32 columns of one matrix, which it reads twice.
template <class T>
__global__ void __launch_bounds__(scale_warps* warp_threads)
    scale_columns(const T* A, const long long* A_offset, long long row_stride,
                  long long column_stride, int m, int n, double root_l2, double* columns,
                  double* norm, double* column_scale) {
    constexpr int columns_of_warp = scale_tile / scale_warps;
    const int tiles = (n + scale_tile - 1) / scale_tile;
    const long long matrix = blockIdx.x / tiles;
    const int first_column = blockIdx.x % tiles * scale_tile;
    const GivenMatrix<T> given{A + A_offset[matrix], row_stride, column_stride};
    double scale[columns_of_warp], squares[columns_of_warp];
    for (int q = 0; q < columns_of_warp; ++q) scale[q] = root_l2, squares[q] = 0;
    for_each_entry(given, m, n, first_column, [&](int q, int, double value) {
        scale[q] = MaxMagnitude<double>()(scale[q], magnitude(value));
    });
    for (int q = 0; q < columns_of_warp; ++q)
        scale[q] = scale_of(warp_reduce(scale[q], MaxMagnitude<double>()));
    const long long first = matrix * n + first_column + warp_index();
    for_each_entry(given, m, n, first_column, [&](int q, int i, double value) {
        const double scaled = value * scale[q];
        columns[(first + scale_warps * q) * m + i] = scaled;
        squares[q] += scaled * scaled;
    });
    for (int q = 0; q < columns_of_warp; ++q) {
        const double sum = warp_reduce(squares[q], Add<double>()), damping = root_l2 * scale[q];
        if (lane_index() == 0 && first_column + warp_index() + scale_warps * q < n) {
            norm[first + scale_warps * q] = sqrt(sum + damping * damping);
            column_scale[first + scale_warps * q] = scale[q];
        }
    }
}

// ---- the solver -----------------------------------------------------------------------

/// A_offset, b_offset: offset of each system in elements. If `columns` is not null, it has the
/// scaled matrices, and `matrix` the index of each system's matrix; then A is not read. x has the
/// starting points before the launch, the solutions after it.
///
/// If `listed` is not null, systems that another method might solve better are listed there, with
/// their number in `count`, which is zero before the launch; x is where that method may start.
/// `limited`: the iteration limit is the user's, so such systems are not listed.
template <class T, class Team>
__global__ void __launch_bounds__(nnls_gram_max_threads)
    nnls_gram(const T* A, const long long* A_offset, long long row_stride, long long column_stride,
              const double* columns, const double* G, const double* norm,
              const double* column_scale, const long long* matrix, const T* b,
              const long long* b_offset, long long b_stride, long long systems, int m, int n,
              double l1, double root_l2, double tol, int maxiter, int warm, int limited, T* x,
              T* rnorm, T* dual, T* kkt, int* nit, int* status, int* n_updates, int* n_downdates,
              long long* listed, unsigned long long* count, long long vectors_bytes,
              long long near_entries, long long shared_bytes, int vectors_in_shared,
              unsigned char* workspace, long long workspace_stride, unsigned char* barrier) {
    __shared__ typename Team::Storage storage;
    Team team(storage, barrier);
    const GramOptions options{m, n, l1, root_l2, tol, maxiter};
    const GramResults<T> results{x, rnorm, dual, kkt, nit, status, n_updates, n_downdates};

    unsigned char* shared = Team::memory(dynamic_shared_memory(), shared_bytes);
    TeamMemory<Team> near{shared}, far{workspace + Team::index() * workspace_stride};
    GramArrays<Team> arrays;
    PassiveInverse<Team> inverse;
    TeamMemory<Team>& vectors = vectors_in_shared ? near : far;
    arrays.place(vectors, options);
    inverse.v = vectors.template take<double>(options.capacity());
    inverse.variables = vectors.template take<int>(options.capacity());
    const bool scales = columns == nullptr;
    if (scales) arrays.place_matrices(vectors, options);
    inverse.near = near.template take<double>(near_entries);
    inverse.far = far.template take<double>(0);
    inverse.near_entries = near_entries;

    for (long long k = Team::index(); k < systems; k += Team::teams()) {
        if (scales) {
            scale_matrix(team, arrays, options,
                         GivenMatrix<T>{A + A_offset[k], row_stride, column_stride});
        } else {
            const long long first = matrix[k] * n;
            arrays.leading = m;
            arrays.columns.first = const_cast<double*>(columns + first * m);
            arrays.G.first = const_cast<double*>(G + first * n);
            arrays.norm.first = const_cast<double*>(norm + first);
            arrays.column_scale.first = const_cast<double*>(column_scale + first);
        }
        GramSystem<T, Team> system{team, options, arrays, inverse, b + b_offset[k], b_stride};
        if (!system.load()) {
            results.refuse(team, k, n);
        } else {
            const auto outcome = system.solve(warm ? x + k * n : nullptr, results, k);
            const bool settled =
                outcome.is_convincing || (limited && system.status == iteration_limit);
            if (!settled && listed != nullptr) {
                if (outcome.is_hidden)
                    for (int j = team.rank(); j < n; j += team.size()) x[k * n + j] = 0;
                if (team.rank() == 0) listed[atomicAdd(count, 1ull)] = k;
            }
        }
        team.sync();
    }
}
