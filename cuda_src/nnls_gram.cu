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

/// Factor on `tol` for the less accurate gradients from the Gram matrix.
constexpr double slack = 8;

/// Limits on how often the residual is recomputed, and made orthogonal to the passive columns.
constexpr int most_refreshes = 10, most_corrections = 3;

/// H is recomputed if `kkt` exceeds this number times `tol` after a refresh.
constexpr double drift = 64;

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

/// The arrays of a team, which are in shared memory: they are the same for all its members. Some
/// vectors share memory; they are never in use at the same time.
template <class Team>
struct GramArrays {
    using Reals = Vector<double, Team>;

    GramMatrix<Team> matrix;
    PassiveInverseArrays<Team> inverse;
    Reals c, w;          // n: A^T b - penalty, corrected; the negative gradient
    Reals slope, all_x;  // n: w / norm of variables that may enter; x by variable
    Reals residual;      // rows: b - A x
    Reals witness;       // rows
    Reals x, passive_w;  // capacity: of the passive variables, by position
    Reals d, g;          // capacity: the step to the solution; part of a column of G
    Reals u, change;     // capacity: coefficients of a projection; the correction of x

    /// Allocate the vectors; their bytes are computed by the host.
    __device__ void place(TeamMemory<Team>& memory, const GramOptions& options) {
        const int n = options.n, rows = options.rows(), capacity = options.capacity();
        c = memory.template take<double>(n);
        w = memory.template take<double>(n);
        slope = all_x = memory.template take<double>(n);
        residual = memory.template take<double>(rows);
        witness = memory.template take<double>(rows);
        x = memory.template take<double>(capacity);
        passive_w = memory.template take<double>(capacity);
        d = g = memory.template take<double>(capacity);
        u = change = memory.template take<double>(capacity);
        inverse.variables = memory.template take<int>(capacity);
    }
};

/// out[q] = column_q . vector, for `count` columns: those of `variables`, or the first ones if it
/// is null. One thread stores an element. Ends without a barrier.
template <class Team>
__device__ __noinline__ void multiply_columns(Vector<double, Team> columns, long long leading,
                                              int m, Vector<int, Team> variables, int count,
                                              Vector<double, Team> vector,
                                              Vector<double, Team> out) {
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

/// sum_p rows[variables[p] * step] y[p].
template <class Team>
__device__ __noinline__ double combine(Vector<double, Team> rows, long long step,
                                       Vector<int, Team> variables, int length,
                                       Vector<double, Team> y) {
    double sum = 0;
    for (int p = 0; p < length; ++p) sum += rows[variables[p] * step] * y[p];
    return sum;
}

/// `start` minus the same, in twice the working precision.
template <class Team>
__device__ __noinline__ double subtract_accurately(double start, Vector<double, Team> rows,
                                                   long long step, Vector<int, Team> variables,
                                                   int length, Vector<double, Team> y) {
    Twofold<double> sum{start, 0};
    for (int p = 0; p < length; ++p)
        sum = AddTwofold<double>()(sum, two_product(rows[variables[p] * step], -y[p]));
    return sum.high + sum.low;
}

template <class T, class Team>
struct GramSystem {
    using Reals = Vector<double, Team>;

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
    __device__ double damping(int j) const { return options.root_l2 * at.matrix.column_scale[j]; }
    __device__ double penalty(int j) const {
        return min(options.l1 * b_scale * at.matrix.column_scale[j],
                   Floating<double>::largest() / 16);
    }
    __device__ Reals gram(int j) const {
        return at.matrix.G.from(static_cast<long long>(options.n) * j);
    }
    __device__ int variable(int p) const { return at.inverse.variables[p]; }

    /// The gradient along variable j for a residual, from the product of column and residual.
    __device__ double gradient(double product, int j, Reals residual) const {
        if (options.has_ridge()) product += damping(j) * residual[options.m + j];
        return product - penalty(j);
    }

    /// out = A^T residual. Ends without a barrier.
    __device__ void multiply_columns(Reals residual, Reals out) const {
        ::multiply_columns<Team>(at.matrix.columns, at.matrix.leading, options.m, {nullptr},
                                 options.n, residual, out);
    }
    __device__ void multiply_passive_columns(Reals residual, Reals out) const {
        ::multiply_columns<Team>(at.matrix.columns, at.matrix.leading, options.m,
                                 at.inverse.variables, inverse.length, residual, out);
    }

    /// sum_p rows[variable(p) * step] y[p].
    __device__ double combine(Reals rows, long long step, Reals y) const {
        return ::combine<Team>(rows, step, at.inverse.variables, inverse.length, y);
    }

    /// The sum of f(i) over the elements of this thread, and then over the team.
    template <class Term>
    __device__ double sum(int count, Term term) {
        double result = 0;
#pragma unroll 1
        for (int i = Team::rank(); i < count; i += Team::size()) result += term(i);
        return team.reduce(result, Called<Add<double>>());
    }

    /// Compute b's scale and c = A^T b - penalty. False if an entry is not finite.
    __device__ bool load() {
        double largest = 0, largest_norm = 0;
        for_each<Team>(options.m, [&](int i) {
            largest = MaxMagnitude<double>()(largest,
                                             magnitude(static_cast<double>(given_b[i * b_stride])));
        });
        for_each<Team>(options.n, [&](int j) {
            largest_norm = MaxMagnitude<double>()(largest_norm, magnitude(at.matrix.norm[j]));
        });
        largest = team.reduce(largest, Called<MaxMagnitude<double>>());
        largest_norm = team.reduce(largest_norm, Called<MaxMagnitude<double>>());
        if (!(max(largest, largest_norm) < Floating<double>::infinity())) return false;
        b_scale = inverse_power_of_two(largest);
        b_norm = square_root(sum(options.rows(), [&](int i) {
            const double value = i < options.m ? b(i) : 0;
            at.witness[i] = value;
            return value * value;
        }));
        multiply_columns(at.witness, at.c);
        team.sync();
        for_each<Team>(options.n, [&](int j) { at.c[j] = gradient(at.c[j], j, at.witness); });
        status = converged;
        nit = n_updates = n_downdates = inverse.length = 0;
        return true;
    }

    /// w = c - G x, from the rows of G of the passive variables. Ends without a barrier.
    __device__ void make_gradient() {
        for_each<Team>(options.n, [&](int j) {
            at.w[j] = at.c[j] - combine(at.matrix.G.from(j), options.n, at.x);
        });
    }

    /// Append a variable of value x_j, if it is independent of the others and x_j will be positive.
    ///
    /// Column j is projected onto the passive columns; `u` has the coefficients. `least` limits the
    /// decrease of the objective along its orthogonal part. Ends without a barrier.
    __device__ bool append(int j, double x_j, double least) {
        const int last = inverse.length;
        if (last == options.capacity()) return false;
        for_each<Team>(last, [&](int p) { at.g[p] = gram(j)[variable(p)]; });
        team.sync();
        inverse.multiply(at.g, at.u);
        Two along = AddTwo::identity();
        for_each<Team>(last, [&](int p) {
            along = AddTwo()(along, {at.u[p] * at.g[p], at.u[p] * at.passive_w[p]});
        });
        along = team.reduce(along, Called<AddTwo>());
        const double square = gram(j)[j] - along.a, descent = at.w[j] - along.b;
        if (!(square > resolved_part * at.matrix.norm[j] * at.matrix.norm[j])) return false;
        if (!(descent > least * square_root(square))) return false;
        inverse.append(j, at.u, square);
        if (Team::rank() == 0) {
            at.x[last] = x_j;
            at.passive_w[last] = at.w[j];
        }
        ++n_updates;
        return true;
    }

    /// sum_k |a_k| x_k.
    __device__ double size() {
        return sum(inverse.length, [&](int p) { return at.matrix.norm[variable(p)] * at.x[p]; });
    }

    /// The first variable from j whose entry in `guess`, which is not scaled, is positive and
    /// finite; -1 if there is none.
    __device__ int next_guessed(const T* guess, int j) const {
        for (; j < options.n; ++j) {
            const double value = to_scaled(guess[j], j);
            if (value > 0 && is_finite(value)) return j;
        }
        return -1;
    }

    /// Append the steepest variables, at most `most`; with a `guess`, the variables that are
    /// positive there. False if none is appended. Once a variable entered, the first one that is
    /// refused ends the search.
    ///
    /// Slopes must exceed rounding errors of the terms that cancel in b - A x.
    __device__ bool enter(int most, bool fresh, const T* guess) {
        for_each<Team>(options.n, [&](int j) {
            at.slope[j] = at.matrix.norm[j] > 0 ? at.w[j] / at.matrix.norm[j] : 0;
        });
        team.sync();
        for_each<Team>(inverse.length, [&](int p) {
            at.passive_w[p] = at.w[variable(p)];
            at.slope[variable(p)] = 0;
        });
        const double cancelling = options.tol * (b_norm + size());
        double steep = fresh ? cancelling : slack * cancelling;
        int entered = 0;
        for (int j = -1; guess != nullptr || entered < most;) {
            Located<double> steepest = ArgMax<double>::identity();
            for_each<Team>(guess == nullptr ? options.n : 0, [&](int i) {
                if (at.slope[i] > steep) steepest = ArgMax<double>()(steepest, {at.slope[i], i});
            });
            steepest = team.reduce(steepest, Called<ArgMax<double>>());
            j = guess == nullptr ? steepest.index : next_guessed(guess, j + 1);
            if (j < 0) break;
            const bool accepted =
                append(j, guess == nullptr ? 0 : to_scaled(guess[j], j),
                       guess == nullptr ? cancelling : -Floating<double>::infinity());
            if (!accepted && entered > 0 && guess == nullptr) break;
            if (accepted && entered++ == 0) steep = max(steep, steep_part * steepest.value);
            for_each<Team>(options.n, [&](int i) {
                if (i == j ||
                    (accepted && fabs(gram(j)[i]) > alike * at.matrix.norm[i] * at.matrix.norm[j]))
                    at.slope[i] = 0;
            });
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
            inverse.multiply(at.passive_w, at.d);
            Located<double> first = ArgMax<double>::identity();
            for_each<Team>(inverse.length, [&](int p) {
                const double x = at.x[p], d = at.d[p];
                // Steps are negated; 1 is that of a d that is not finite.
                if (!is_finite(d))
                    first = ArgMax<double>()(first, {1, p});
                else if (!(x + d > 0))
                    first = ArgMax<double>()(first, {x > 0 ? x / d : 0, p});
            });
            first = team.reduce(first, Called<ArgMax<double>>());
            if (first.value > 0) {
                status = uncertified;
                return moved;
            }
            const double step = first.index < 0 ? 1 : -first.value;
            for_each<Team>(inverse.length, [&](int p) {
                const double x = at.x[p] + step * at.d[p];
                at.x[p] = first.index < 0 || x > 0 ? x : 0;
                at.passive_w[p] *= 1 - step;
            });
            if (first.index < 0) return true;
            moved = moved || step > 0;
            remove(first.index);
        }
        status = iteration_limit;
        return moved;
    }

    /// Remove the variable at a position. Ends without a barrier.
    __device__ void remove(int position) {
        inverse.remove(team, position, at.d);
        if (Team::rank() == 0) {
            at.x[position] = at.x[inverse.length];
            at.passive_w[position] = at.passive_w[inverse.length];
        }
        ++n_downdates;
    }

    /// Convert a coefficient from scaled variables, and back; each conversion rounds once.
    __device__ T to_given(double value, int j) const {
        return static_cast<T>(shifted(value, column_shift(j) - b_shift()));
    }
    __device__ double to_scaled(T value, int j) const {
        return shifted(static_cast<double>(value), b_shift() - column_shift(j));
    }
    __device__ int column_shift(int j) const {
        return Floating<double>::exponent(at.matrix.column_scale[j]);
    }
    __device__ int b_shift() const { return Floating<double>::exponent(b_scale); }

    /// out = b - A x in twice the working precision, and then -damping x in the rows of the l2
    /// penalty. A thread stores the elements of its rank. Ends with a barrier.
    __device__ void make_residual(Reals out) {
        for_each<Team>(options.n, [&](int j) { at.all_x[j] = 0; });
        team.sync();
        for_each<Team>(inverse.length, [&](int p) { at.all_x[variable(p)] = at.x[p]; });
        team.sync();
        for_each<Team>(options.rows(), [&](int i) {
            out[i] = i < options.m ? subtract_accurately<Team>(
                                         b(i), at.matrix.columns.from(i), at.matrix.leading,
                                         at.inverse.variables, inverse.length, at.x)
                                   : -damping(i - options.m) * at.all_x[i - options.m];
        });
        team.sync();
    }

    /// Make the witness orthogonal to the passive columns; `change` is the correction of x.
    __device__ void correct() {
        for_each<Team>(inverse.length, [&](int p) { at.change[p] = 0; });
        for (int correction = 0; correction < most_corrections; ++correction) {
            multiply_passive_columns(at.witness, at.passive_w);
            const double square =
                sum(options.rows(), [&](int i) { return at.witness[i] * at.witness[i]; });
            const double limit = options.tol / 2 * square_root(square);
            const double visible = sum(inverse.length, [&](int p) {
                const double w = gradient(at.passive_w[p], variable(p), at.witness);
                at.passive_w[p] = w;
                return fabs(w) > limit * at.matrix.norm[variable(p)] ? 1.0 : 0.0;
            });
            if (visible == 0) return;
            inverse.multiply(at.passive_w, at.d);
            for_each<Team>(inverse.length, [&](int p) {
                if (!is_finite(at.d[p])) at.d[p] = 0;
                at.change[p] += at.d[p];
            });
            team.sync();
            subtract_fitted();
            team.sync();
        }
    }

    /// Subtract A d, with the rows of the l2 penalty, from the witness.
    __device__ void subtract_fitted() {
        for_each<Team>(options.m, [&](int i) {
            at.witness[i] -= combine(at.matrix.columns.from(i), at.matrix.leading, at.d);
        });
        if (options.has_ridge())
            for_each<Team>(inverse.length, [&](int p) {
                at.witness[options.m + variable(p)] -= damping(variable(p)) * at.d[p];
            });
    }

    /// Correct x by the residual b - A x, unless the solver was stopped. Computes the residual of x
    /// and the witness. Returns whether the corrected x is positive, so that it is x now.
    ///
    /// The part of the residual along the passive columns is due to an error of x. Without that
    /// part it is the witness of the certificate.
    __device__ bool refresh() {
        Reals out = at.witness;
        bool follows = false;
        for (int k = 0; k < 2; ++k, out = at.residual) {
            make_residual(out);
            if (k == 1) break;
            correct();
            const double blocked =
                sum(inverse.length, [&](int p) { return at.x[p] + at.change[p] > 0 ? 0.0 : 1.0; });
            follows = status == converged && blocked == 0;
            for_each<Team>(inverse.length, [&](int p) {
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
        multiply_columns(at.witness, at.w);
        Two apart_and_gap{0, 0}, fit_and_length{0, 0};
        double objective = 0;
        for_each<Team>(options.rows(), [&](int i) {
            const double left = at.residual[i], witness = at.witness[i];
            const Two squares{(left - witness) * (left - witness), 0};
            apart_and_gap = AddTwo()(apart_and_gap, squares);
            objective += left * left;
            fit_and_length =
                AddTwo()(fit_and_length, {i < options.m ? left * left : 0, witness * witness});
        });
        fit_and_length = team.reduce(fit_and_length, Called<AddTwo>());
        double slope = 0;
        for_each<Team>(options.n, [&](int j) {
            const double x = at.all_x[j], w = gradient(at.w[j], j, at.witness);
            at.w[j] = w;
            const double violation = x > 0 ? fabs(w) : max(w, 0.0);
            if (at.matrix.norm[j] > 0)
                slope = MaxMagnitude<double>()(slope, violation / at.matrix.norm[j]);
            if (x > 0) apart_and_gap.b += x * w;
            if (x > 0) objective += 2 * penalty(j) * x;
        });
        apart_and_gap = team.reduce(apart_and_gap, Called<AddTwo>());
        slope = team.reduce(slope, Called<MaxMagnitude<double>>());
        objective = team.reduce(objective, Called<Add<double>>());
        const double length = square_root(fit_and_length.b);
        return {{square_root(apart_and_gap.a), apart_and_gap.b, slope, length, b_norm, size()},
                square_root(fit_and_length.a),
                square_root(objective)};
    }

    /// Let w and c agree with the true residual. Ends without a barrier.
    __device__ void correct_gradient() {
        multiply_passive_columns(at.residual, at.passive_w);
        team.sync();
        for_each<Team>(inverse.length, [&](int p) {
            at.w[variable(p)] = gradient(at.passive_w[p], variable(p), at.residual);
        });
        team.sync();
        for_each<Team>(options.n, [&](int j) {
            at.c[j] = at.w[j] + combine(at.matrix.G.from(j), options.n, at.x);
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
        int most = most_entering;
        for (int refreshes = 0;;) {
            if (!fresh) {
                team.sync();
                make_gradient();
            }
            const bool entered = status == converged && enter(most, fresh, guess);
            const bool polish = most == 0;
            if (guess != nullptr) {
                guess = nullptr;
                if (!(Floating<T>::epsilon * ratio(size(), b_norm) <= hidden<T>))
                    inverse.length = 0;
                most = inverse.length > 0 ? 0 : most_entering;
                fresh = false;
                continue;
            }
            if (entered || (polish && status == converged)) {
                most = make_feasible() ? most_entering : 1;
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
                outcome = {found.certificate.is_good(false, options.tol),
                           found.certificate.is_hidden(),
                           found.certificate.is_good(true, options.tol), found.misfit};
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
            if (kkt > drift * tol) {
                guess = results.x + k * options.n;
                inverse.length = 0;
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
        return outcome.misfit - (outcome.is_certified ? certified<T> * b_norm : 0);
    }

    /// Write x and its certificate in the original units.
    __device__ void store(const GramResults<T>& results, long long k,
                          const Certified& found) const {
        const int n = options.n;
        for_each<Team>(n, [&](int j) {
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

/// Write the scaled columns of each matrix, one after another, and their scales and norms.
///
/// A block has 32 columns of one matrix, which it reads twice.
template <class T>
__global__ void __launch_bounds__(scale_warps* warp_threads)
    scale_columns(const T* A, const long long* A_offset, long long A_stride, long long first_matrix,
                  long long row_stride, long long column_stride, int m, int n, double root_l2,
                  double* columns, double* norm, double* column_scale) {
    constexpr int columns_of_warp = scale_tile / scale_warps;
    const int tiles = (n + scale_tile - 1) / scale_tile;
    const long long matrix = blockIdx.x / tiles;
    const int first_column = blockIdx.x % tiles * scale_tile;
    const long long begin = BatchOffsets{A_offset, A_stride}[first_matrix + matrix];
    const GivenMatrix<T> given{A + begin, row_stride, column_stride};
    double scale[columns_of_warp], squares[columns_of_warp];
    for (int q = 0; q < columns_of_warp; ++q) scale[q] = root_l2, squares[q] = 0;
    for_each_entry(given, m, n, first_column, [&](int q, int, double value) {
        scale[q] = MaxMagnitude<double>()(scale[q], magnitude(value));
    });
    for (int q = 0; q < columns_of_warp; ++q)
        scale[q] = scale_of(warp_reduce(scale[q], MaxMagnitude<double>()));
    const long long first = matrix * n + first_column + warp_index();
    for_each_entry(given, m, n, first_column, [&](int q, int i, double value) {
        const double scaled = scaled_by(value, scale[q]);
        columns[(first + scale_warps * q) * m + i] = scaled;
        squares[q] += scaled * scaled;
    });
    for (int q = 0; q < columns_of_warp; ++q) {
        const double sum = warp_reduce(squares[q], Add<double>());
        if (lane_index() == 0 && first_column + warp_index() + scale_warps * q < n) {
            norm[first + scale_warps * q] = norm_of(sum, root_l2, scale[q]);
            column_scale[first + scale_warps * q] = scale[q];
        }
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
              long long column_stride, const double* columns, const double* G, const double* norm,
              const double* column_scale, const long long* which, long long which_stride,
              const T* b, const long long* b_offset, long long b_batch_stride, long long b_stride,
              long long first, long long systems, int m, int n, double l1, double root_l2,
              double tol, int maxiter, int warm, int limited, T* x, T* rnorm, T* dual, T* kkt,
              int* nit, int* status, int* n_updates, int* n_downdates, bool* repaired,
              unsigned char* method, ListedSystem* listed, BatchCounters* counters,
              long long matrix_bytes, long long vectors_bytes, long long near_entries,
              long long shared_bytes, int vectors_in_shared, unsigned char* workspace,
              long long workspace_stride, unsigned char* barrier) {
    __shared__ typename Team::Storage storage;
    Team team(storage, barrier);
    const GramOptions options{m, n, l1, root_l2, tol, maxiter};
    const GramResults<T> results{x,      rnorm,     dual,        kkt,      nit,
                                 status, n_updates, n_downdates, repaired, method};

    __shared__ GramArrays<Team> arrays_of_block[Team::memories_of_block];
    GramArrays<Team>& arrays = arrays_of_block[Team::memory_of_block()];
    const GivenMatrix<T> given{A, row_stride, column_stride};
    constexpr bool scales = Team::is_small;
    const bool scales_once = scales && Team::stride == 1 && matrix_bytes > 0;
    if (Team::places()) {
        unsigned char* shared = dynamic_shared_memory();
        if (scales_once) arrays.matrix.place({shared}, options);
        shared += matrix_bytes + Team::memory_of_block() * shared_bytes;
        unsigned char* global = workspace + Team::index() * workspace_stride;
        TeamMemory<Team> vectors{vectors_in_shared ? shared : global};
        arrays.place(vectors, options);
        if (scales && !scales_once) arrays.matrix.place(vectors, options);
        (vectors_in_shared ? shared : global) += vectors_bytes;
        TeamMemory<Team> near{shared}, far{global};
        arrays.inverse.near_entries = near_entries;
        arrays.inverse.near = near.template take<double>(near_entries);
        arrays.inverse.far = far.template take<double>(0);
    }
    __syncthreads();
    if constexpr (scales)
        if (scales_once) scale_matrix<BlockTeam>(arrays.matrix, options, given.of(0));

    for (long long k = Team::index(); k < systems; k += Team::teams()) {
        if constexpr (scales) {
            if (!scales_once)
                scale_matrix<Team>(arrays.matrix, options,
                                   given.of(BatchOffsets{A_offset, A_stride}[first + k]));
        } else {
            if (Team::places())
                arrays.matrix.refer(BatchOffsets{which, which_stride}[k], options, columns, G, norm,
                                    column_scale);
            team.sync();
        }
        GramSystem<T, Team> system{team,
                                   options,
                                   arrays,
                                   {arrays.inverse, 0},
                                   b + BatchOffsets{b_offset, b_batch_stride}[first + k],
                                   b_stride};
        if (!system.load()) {
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
