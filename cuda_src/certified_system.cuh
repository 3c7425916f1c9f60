// A system of least squares in scaled variables, as a block solves it, and the certificate of its
// x: for nnls_qr.cu and nnls_mgs.cu, which differ in how they find x.
//
// The specification in NumPy is gpusolve/_numerics: system.py and certificate.py.
//
// Scaling. Columns of A and b are multiplied by powers of two when they are read: this is exact,
// and prevents overflow and underflow.

#pragma once

#include "batch.cuh"
#include "block.cuh"
#include "certificate.cuh"
#include "compensated.cuh"
#include "floating.cuh"
#include "nnls_systems.cuh"
#include "passive_qr.cuh"
#include "variables.cuh"

enum VariableState : int { resting, passive, barred, guessed };

/// One system. Strides are in elements; `kind` has the bits of `ProblemKind`. Unless it is
/// `general`, all bounds are 0 and infinity, l2 is the same for all variables, and there are
/// neither l1, nor weights, nor a fixed sum.
template <class T, bool general, class Given = T>
struct NnlsProblem {
    const Given* A;
    long long row_stride, column_stride;
    const Given* b;
    long long b_stride;
    RootWeights<Given> weights;
    Variables variables;
    int m, n, kind;
    T tol;
    int maxiter;

    __device__ bool has_ridge() const { return kind & with_ridge; }
    __device__ bool has_sum() const { return general && kind & with_sum; }
    __device__ bool has_penalties() const { return general && kind & with_penalties; }

    /// The elements of A and b, times the square roots of the weights.
    __device__ T a(int i, int j) const {
        return weighted(A[i * row_stride + j * column_stride], i);
    }
    __device__ T element_of_b(int i) const { return weighted(b[i * b_stride], i); }
    __device__ T weighted(T value, int i) const {
        return general ? weights.times(value, i) : value;
    }

    __device__ T l1(int j) const { return general ? static_cast<T>(variables.l1(j)) : T(0); }
    __device__ T root_l2(int j) const {
        return static_cast<T>(general ? variables.root_l2(j) : variables.same_root_l2);
    }
    __device__ bool has_numbers(int j) const { return !general || variables.are_finite(j); }

    /// The rows of A, of the l2 penalty and of the sum.
    __device__ int rows() const { return m + (has_ridge() ? n : 0) + has_sum(); }

    /// The fields that all systems share.
    __device__ void set(const NnlsSystems<Given>& systems) {
        *this = {systems.A,
                 systems.row_stride,
                 systems.column_stride,
                 systems.b,
                 systems.b_stride,
                 {systems.root_weight, systems.weight_stride},
                 {systems.options, systems.n, systems.lower, systems.upper, systems.l1,
                  systems.root_l2, systems.sum},
                 systems.m,
                 systems.n,
                 systems.kind,
                 static_cast<T>(systems.tol),
                 systems.maxiter};
    }

    /// The arrays of system k of the batch.
    __device__ void take(const NnlsSystems<Given>& systems, long long k) {
        A = systems.A_of(k);
        b = systems.b_of(k);
        weights.root = systems.weights_of(k).root;
        variables.of_each = systems.variables_of(k).of_each;
    }
};

/// Where a block's regions begin, as computed by the host: R and Q at these bytes of their memory,
/// the vectors at byte 0 of their memory. The first `in_shared` of vectors, R and Q are in shared
/// memory; the rest is in the block's part of `workspace`. The fields are as in `QR_MEMORY` in
/// gpusolve/_nnls/nnls_qr_kernel.py, in the same order.
struct QrMemory {
    unsigned char* workspace;
    long long workspace_stride;
    long long R, Q;
    int in_shared;
};

/// The arrays of a block: the same for all threads, so stored in shared memory.
template <class T>
struct NnlsArrays {
    PassiveQRArrays<T> factors;
    T* x;             // n, in scaled variables: of passive and of resting variables
    T* w;             // n: negative gradient
    T* norm;          // n: column norms, including the rows of the l2 penalty and of the sum
    T* column_scale;  // n: powers of two
    int* state;       // n: VariableState

    /// Divide the block's memory into the arrays. Q has `capacity` columns.
    __device__ void place(const QrMemory& memory, int rows, int n, int capacity) {
        unsigned char* shared = dynamic_shared_memory();
        unsigned char* global = memory.workspace + blockIdx.x * memory.workspace_stride;
        const auto region = [&](int index, long long begin) {
            return reinterpret_cast<T*>((index < memory.in_shared ? shared : global) + begin);
        };
        T* next = region(0, 0);
        const auto take = [&](int count) {
            T* piece = next;
            next += count;
            return piece;
        };

        factors.rows = rows;
        factors.capacity = capacity;
        factors.residual = take(rows);
        factors.column = take(rows);
        x = take(n);
        w = take(n);
        norm = take(n);
        column_scale = take(n);
        factors.solution = take(capacity);
        factors.cosine = take(capacity);
        factors.sine = take(capacity);
        factors.row = take(capacity + 2);
        state = reinterpret_cast<int*>(next);
        factors.slots = state + n;
        factors.variables = factors.slots + capacity;
        factors.norm = norm;
        factors.R = region(1, memory.R);
        factors.Q = region(2, memory.Q);
    }
};

/// The values of a variable.
template <class T>
struct Interval {
    T lower, upper;

    /// Whether `target` is a bound or outside, and the bound that is reached on the way there.
    __device__ bool is_reached_by(T target) const { return target <= lower || target >= upper; }
    __device__ T towards(T target) const { return target <= lower ? lower : upper; }
};

/// A system in scaled variables. `b_scale` is a power of two, and so is `sum_scale`, a factor of
/// the row of a fixed sum.
template <class T, bool general, class Given = T>
struct ScaledSystem {
    const NnlsProblem<T, general, Given>& problem;
    const NnlsArrays<T>& at;
    T b_scale, sum_scale;

    __device__ T a(int i, int j) const { return problem.a(i, j) * at.column_scale[j]; }
    __device__ T b(int i) const { return problem.element_of_b(i) * b_scale; }
    __device__ T damping(int j) const { return problem.root_l2(j) * at.column_scale[j]; }
    __device__ T penalty(int j) const {
        if (!general) return T(0);
        const T limit = Floating<T>::largest() / 16;
        const T value = problem.l1(j) * b_scale * at.column_scale[j];
        return min(max(value, -limit), limit);
    }
    __device__ bool row_major() const { return problem.column_stride < problem.row_stride; }

    /// The row of a fixed sum, and its elements of A and b.
    __device__ int sum_row() const { return at.factors.rows - 1; }
    __device__ T of_sum(int j) const { return at.column_scale[j] * sum_scale; }
    __device__ T total() const {
        return static_cast<T>(problem.variables.sum()) * b_scale * sum_scale;
    }
    /// The number of the other rows.
    __device__ int data_rows() const { return at.factors.rows - problem.has_sum(); }

    /// Convert a coefficient from scaled variables, and back; each conversion rounds once.
    __device__ Given to_given(T value, int j) const {
        return static_cast<Given>(shifted(value, column_shift(j) - b_shift()));
    }
    __device__ T to_scaled(T value, int j) const {
        return shifted(value, b_shift() - column_shift(j));
    }

    __device__ int column_shift(int j) const { return Floating<T>::exponent(at.column_scale[j]); }
    __device__ int b_shift() const { return Floating<T>::exponent(b_scale); }
};

/// The bounds of variable j.
template <class T, bool general, class Given>
__device__ __noinline__ Interval<T> scaled_bounds(ScaledSystem<T, general, Given> system, int j) {
    const Variables& variables = system.problem.variables;
    const int shift = system.b_shift() - system.column_shift(j);
    return {shifted(static_cast<T>(variables.lower(j)), shift),
            shifted(static_cast<T>(variables.upper(j)), shift)};
}

/// result[j] = a_j vector - penalty, or |a_j| if `vector` is null, for every column a_j of A and
/// its rows of the l2 penalty and of the sum. Ends without a barrier.
template <class T, bool general, class Given>
__device__ __noinline__ void multiply_columns(ScaledSystem<T, general, Given> system,
                                              const T* vector, T* result) {
    const int m = system.problem.m;
    reduce_each<T>(
        system.problem.n, m, system.row_major(), Called<Add<T>>(),
        [&](int j, int i) {
            const T entry = system.a(i, j);
            return entry * (vector == nullptr ? entry : vector[i]);
        },
        [&](int j, T product) {
            const auto add = [&](T entry, int i) {
                product += entry * (vector == nullptr ? entry : vector[i]);
            };
            if (system.problem.has_ridge()) add(system.damping(j), m + j);
            if (system.problem.has_sum()) add(system.of_sum(j), system.sum_row());
            result[j] = vector == nullptr ? square_root(product) : product - system.penalty(j);
        });
}

/// result = b - A x, in twice the working precision, rounded once; then -damping x for the rows of
/// the l2 penalty. Unless there are bounds, only the first `length` variables of the factorisation
/// are not zero. Ends with a barrier.
template <class T, bool general, class Given>
__device__ __noinline__ void make_residual(ScaledSystem<T, general, Given> system, int length,
                                           T* result) {
    const NnlsProblem<T, general, Given>& problem = system.problem;
    const NnlsArrays<T>& at = system.at;
    const int m = problem.m;
    const auto is_sum = [&](int i) { return problem.has_sum() && i == m; };
    reduce_each<Twofold<T>, 1>(
        m + problem.has_sum(), general ? problem.n : length, !system.row_major(),
        Called<AddTwofold<T>>(),
        [&](int i, int p) {
            const int j = general ? p : at.factors.variables[p];
            return two_product(is_sum(i) ? system.of_sum(j) : system.a(i, j), -at.x[j]);
        },
        [&](int i, Twofold<T> minus_fitted) {
            const T given = is_sum(i) ? system.total() : system.b(i);
            const Twofold<T> left = AddTwofold<T>()({given, T(0)}, minus_fitted);
            result[is_sum(i) ? system.sum_row() : i] = left.high + left.low;
        });
    for (int i = m + threadIdx.x; i < system.data_rows(); i += blockDim.x)
        result[i] = -system.damping(i - m) * at.x[i - m];
    __syncthreads();
}

/// A system that is solved by changes of a factorisation, `Factors`, which has the `length` of the
/// passive set. The arrays `at.factors` have the passive variables by position, and the residual.
template <class T, bool general, class Given, class Factors>
struct CertifiedSystem : ScaledSystem<T, general, Given> {
    using Base = ScaledSystem<T, general, Given>;
    using Base::column_shift, Base::b_shift;
    using Base::data_rows, Base::to_given, Base::to_scaled;
    using Base::penalty, Base::row_major, Base::sum_row, Base::of_sum, Base::total;
    using Base::problem, Base::at, Base::b_scale, Base::sum_scale;

    Factors factors;
    BlockReduce<T> reduce;
    BlockReduce<Located<T>> reduce_located;
    const BatchCounters* counters;

    T magnitude_of_b;  // |b|, plus the size of A x if x has to be different from 0
    int nit, n_updates, n_downdates;

    /// Compute the scales and the column norms. False if an entry or an option is not finite.
    __device__ bool load() {
        T largest = 0;  // of b; infinite if a number is not finite
        T largest_scale = 0;
        reduce_each<T, 1>(
            problem.n, problem.m, row_major(), Called<MaxMagnitude<T>>(),
            [&](int j, int i) { return magnitude(problem.a(i, j)); },
            [&](int j, T of_column) {
                const T root_l2 = problem.root_l2(j);
                of_column = MaxMagnitude<T>()(of_column, root_l2);
                if (!(of_column < Floating<T>::infinity() && problem.has_numbers(j)))
                    largest = Floating<T>::infinity();
                at.column_scale[j] = inverse_power_of_two(of_column);
                largest_scale = MaxMagnitude<T>()(largest_scale, at.column_scale[j]);
            });
#pragma unroll 1
        for (int i = threadIdx.x; i < problem.m; i += blockDim.x)
            largest = MaxMagnitude<T>()(largest, magnitude(problem.element_of_b(i)));
        largest = reduce(largest, Called<MaxMagnitude<T>>());
        if (!(largest < Floating<T>::infinity())) return false;

        b_scale = inverse_power_of_two(largest);
        if (problem.has_sum())
            sum_scale = ratio(T(1), reduce(largest_scale, Called<MaxMagnitude<T>>()));
        multiply_columns<T, general, Given>(*this, nullptr, at.norm);
        return true;
    }

    __device__ Interval<T> bounds_of(int j) const {
        if (!general) return {T(0), Floating<T>::infinity()};
        return scaled_bounds<T, general, Given>(*this, j);
    }

    /// The norm of the residual, without the row of a fixed sum.
    __device__ T residual_norm() { return norm_of(at.factors.residual, data_rows(), reduce); }

    /// sum_k |a_k x_k|.
    __device__ T size() {
        T sum = 0;
#pragma unroll 1
        for (int p = threadIdx.x; p < (general ? problem.n : factors.length); p += blockDim.x) {
            const int j = general ? p : at.factors.variables[p];
            sum += at.norm[j] * fabs(at.x[j]);
        }
        return reduce(sum, Called<Add<T>>());
    }

    __device__ void let_barred_rest() {
#pragma unroll 1
        for (int j = threadIdx.x; j < problem.n; j += blockDim.x)
            if (at.state[j] == barred) at.state[j] = resting;
    }

    /// The first variable from j that has been chosen to enter; -1 without such a variable. Ends
    /// with a barrier.
    __device__ int next_guessed(int j) const {
        while (j < problem.n && at.state[j] != guessed) ++j;
        __syncthreads();
        return j < problem.n ? j : -1;
    }

    /// The last position whose variable is not passive any more, or -1.
    __device__ int last_not_passive() {
        Located<T> last = ArgMax<T>::identity();
        for (int p = threadIdx.x; p < factors.length; p += blockDim.x)
            if (at.state[at.factors.variables[p]] != passive) last = ArgMax<T>()(last, {T(p), p});
        return reduce_located(last, Called<ArgMax<T>>()).index;
    }

    /// The quality of x by its certificate, in scaled variables.
    struct Found {
        T fit;     // |b - A x|
        T misfit;  // root of twice the objective, minus a little if certified; else with the
                   // rounding errors of x; infinite without the fixed sum
        T kkt;
        NnlsStatus status;
        bool settled;  // a larger threshold for dependent columns would not help
    };

    /// The result of a system with NaN or infinity.
    __device__ Found refuse() {
        const T nan = Floating<T>::nan();
        nit = n_updates = n_downdates = 0;
#pragma unroll 1
        for (int j = threadIdx.x; j < problem.n; j += blockDim.x) at.x[j] = at.w[j] = nan;
        return {nan, nan, nan, not_finite, true};
    }

    /// Whether x keeps a fixed sum, if any; `terms` belong to this thread. The sum and the residual
    /// are read before the barrier: after it, thread 0 may take the next system.
    __device__ bool keeps_sum(T terms) {
        if (!problem.has_sum()) return true;
        const T left = at.factors.column[sum_row()], of_total = fabs(total());
        terms = reduce(terms, Called<Add<T>>()) + of_total;
        return ::keeps_sum<Given>(left, terms, magnitude_of_b);
    }

    /// Certify x; the residual is its witness. `outcome` is the status of the solver.
    __device__ Found certify(NnlsStatus outcome) {
        for (int p = threadIdx.x; p < factors.length; p += blockDim.x) {
            const int j = at.factors.variables[p];
            at.x[j] = to_scaled(to_given(at.x[j], j), j);
        }
        __syncthreads();
        make_residual<T, general, Given>(*this, factors.length, at.factors.column);
        T fit = 0, apart = 0, penalties = 0, gap = 0, slope = 0, above = 0, terms = 0;
#pragma unroll 1
        for (int i = threadIdx.x; i < data_rows(); i += blockDim.x) {
            const T left = at.factors.column[i], between = left - at.factors.residual[i];
            apart += between * between;
            (i < problem.m ? fit : penalties) += left * left;
        }
#pragma unroll 1
        for (int j = threadIdx.x; j < problem.n; j += blockDim.x) {
            const Interval<T> bounds = bounds_of(j);
            const T x = at.x[j], w = at.w[j];
            const T moves = violation(x, w, bounds.lower, bounds.upper);
            slope = MaxMagnitude<T>()(slope, ratio(moves, at.norm[j]));
            const T inside = bound_distance(x, bounds.lower, bounds.upper);
            if (x != 0) penalties += 2 * penalty(j) * x;
            if (inside != 0) gap += inside * w;
            above += penalty_slack(penalty(j), x, bounds.lower, bounds.upper);
            if (problem.has_sum()) terms += fabs(of_sum(j) * x);
        }
        fit = reduce(fit, Called<Add<T>>());
        penalties = reduce(penalties, Called<Add<T>>());
        apart = square_root(reduce(apart, Called<Add<T>>()));
        gap = reduce(gap, Called<Add<T>>());
        slope = reduce(slope, Called<MaxMagnitude<T>>());
        if (general) above = reduce(above, Called<Add<T>>());
        const Certificate<Given, T> certificate(apart, gap, slope, residual_norm(), magnitude_of_b,
                                                size(), above);
        const bool ended = outcome == converged;
        const bool keeps = keeps_sum(terms),
                   good = keeps && certificate.is_good(ended, problem.tol);
        const NnlsStatus refused = ended ? uncertified : outcome;
        const T square = fit + penalties, root = square_root(fabs(square));
        const T kkt = certificate.kkt();
        T misfit = square < 0 ? -root : root;
        const int units = general && problem.kind & with_rounded_matrix ? rounded_units : 1;
        misfit += magnitude_of_b * (good ? -certified<Given> : units * certificate.rounding_of_x());
        if (!(keeps && misfit == misfit)) misfit = Floating<T>::infinity();
        return {square_root(fit), misfit, kkt, good ? converged : refused,
                !ended || (good && kkt <= certified<Given>)};
    }

    /// Write the result of system k in the original units.
    __device__ void store(const NnlsResults<Given>& results, long long k, const Found& found,
                          NnlsMethod method) const {
        const int n = problem.n;
        for (int j = threadIdx.x; j < n; j += blockDim.x) {
            results.x[k * n + j] = to_given(at.x[j], j);
            results.dual[k * n + j] = shifted(at.w[j], -column_shift(j) - b_shift());
        }
        if (threadIdx.x == 0) {
            results.rnorm[k] = shifted(found.fit, -b_shift());
            results.kkt[k] = found.kkt;
            results.status[k] = found.status;
            results.nit[k] = nit;
            results.n_updates[k] = n_updates;
            results.n_downdates[k] = n_downdates;
            results.method[k] = method;
        }
    }
};
