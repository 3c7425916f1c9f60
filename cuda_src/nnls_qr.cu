// Batched non-negative least squares: for every system k
//
//     x_k = argmin over x >= 0 of |A_k x - b_k|^2 / 2 + l1 sum(x) + l2 |x|^2 / 2
//
// Source. Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on Multi-Core
// Architectures": Algorithm 1 (Lawson & Hanson's active-set method) on the updated
// factorisation of passive_qr.cuh. Differences: the sign of the step length (Algorithm 1, line
// 10) is corrected, tolerances are relative, the entering variable is that of steepest descent
// per unit column norm, and m and n are arbitrary. The specification in NumPy is
// gpusolve/reference/_nnls_qr.py, class ActiveSet; both use the same names for the steps.
//
// Mapping. One block solves one system at a time. The grid is persistent, with as many blocks as
// the device (or the memory for their factorisations) holds at once; each takes the next system
// from an atomic counter. Threads stride over rows, columns or positions. A is read in place,
// through its strides, so a shared A is one matrix in the L2 cache.
//
// Accuracy. Convergence is declared, and certified, on b - A x in twice the working precision.
// If a solution is not certified, a passive column may consist of rounding noise: the block
// solves again with a larger threshold for dependent columns, and keeps the best solution.
//
// Scaling. Columns of A and b are multiplied by powers of two when they are read: this is exact,
// and prevents overflow and underflow.
//
// Memory. A block has three regions: its vectors, R and Q. The host puts as many of them as fit,
// in this order, into shared memory, and the others into the block's part of `workspace`.
//
// Cost. An iteration of the outer loop reads A once (the gradient, 2 m n operations) and Q once
// (4 m l, for l passive columns); a removal reads and writes the later columns of Q.

#include "batch.cuh"
#include "block.cuh"
#include "certificate.cuh"
#include "compensated.cuh"
#include "floating.cuh"
#include "passive_qr.cuh"

constexpr int nnls_max_threads = 256;

enum VariableState : int { at_zero, passive, barred };

/// Threshold for dependent columns, in units of eps times the sum of the terms that cancel; the
/// factor by which each further attempt multiplies it; and the number of attempts.
constexpr int dependent_units = 4, more_caution = 64, attempts = 3;

/// Limit on how often the residual is recomputed to look for entering variables.
constexpr int fresh_rounds = 32;

/// One system. Strides are in elements; `root_l2` is the square root of l2.
template <class T>
struct NnlsProblem {
    const T* A;
    long long row_stride, column_stride;
    const T* b;
    long long b_stride;
    int m, n;
    T l1, root_l2, tol;
    int maxiter;
};

/// The arrays of the results of all systems.
template <class T>
struct NnlsResults {
    T *x, *rnorm, *dual, *kkt;
    int *nit, *status, *n_updates, *n_downdates;
    bool* repaired;
    unsigned char* method;
};

/// Where a block's regions begin, as computed by the host: R and Q at these bytes of the memory
/// that they are in, the vectors at 0 of theirs. The first `in_shared` of vectors, R and Q are
/// shared.
struct NnlsRegions {
    long long R, Q;
    int in_shared;
};

/// The arrays of a block: the same for all threads, so stored in shared memory.
template <class T>
struct NnlsArrays {
    PassiveQRArrays<T> factors;
    T* x;             // n, in scaled variables
    T* w;             // n: negative gradient
    T* norm;          // n: column norms, including the rows of the l2 penalty
    T* column_scale;  // n: powers of two
    int* state;       // n: VariableState

    /// Divide the block's memory into the arrays.
    __device__ void place(const NnlsRegions& regions, int m, int n, bool has_ridge,
                          unsigned char* shared, unsigned char* global) {
        const auto region = [&](int index, long long begin) {
            return reinterpret_cast<T*>((index < regions.in_shared ? shared : global) + begin);
        };
        T* next = region(0, 0);
        const auto take = [&](int count) {
            T* piece = next;
            next += count;
            return piece;
        };

        const int rows = m + (has_ridge ? n : 0);
        const int capacity = min(rows, n);
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
        factors.R = region(1, regions.R);
        factors.Q = region(2, regions.Q);
    }
};

/// A system in scaled variables. `b_scale` is a power of two.
template <class T>
struct ScaledSystem {
    const NnlsProblem<T>& problem;
    const NnlsArrays<T>& at;
    T b_scale;

    __device__ T a(int i, int j) const {
        return problem.A[i * problem.row_stride + j * problem.column_stride] * at.column_scale[j];
    }
    __device__ T b(int i) const { return problem.b[i * problem.b_stride] * b_scale; }
    __device__ T damping(int j) const { return problem.root_l2 * at.column_scale[j]; }
    __device__ T penalty(int j) const {
        return min(problem.l1 * b_scale * at.column_scale[j], Floating<T>::largest() / 16);
    }
    __device__ bool row_major() const { return problem.column_stride < problem.row_stride; }
    __device__ bool has_ridge() const { return problem.root_l2 > 0; }
};

/// result[j] = a_j vector - penalty, or |a_j| if `vector` is null, for every column a_j of A and
/// its row of the l2 penalty. Ends without a barrier.
template <class T>
__device__ __noinline__ void multiply_columns(ScaledSystem<T> system, const T* vector, T* result) {
    const int m = system.problem.m;
    reduce_each<T>(
        system.problem.n, m, system.row_major(), Called<Add<T>>(),
        [&](int j, int i) {
            const T entry = system.a(i, j);
            return entry * (vector == nullptr ? entry : vector[i]);
        },
        [&](int j, T product) {
            if (system.has_ridge()) {
                const T entry = system.damping(j);
                product += entry * (vector == nullptr ? entry : vector[m + j]);
            }
            result[j] = vector == nullptr ? square_root(product) : product - system.penalty(j);
        });
}

/// result = b - A x, in twice the working precision, rounded once; then -damping x for the rows of
/// the l2 penalty. Only the first `length` variables of the factorisation are not zero. Ends with
/// a barrier.
template <class T>
__device__ __noinline__ void make_residual(ScaledSystem<T> system, int length, T* result) {
    const NnlsProblem<T>& problem = system.problem;
    const NnlsArrays<T>& at = system.at;
    reduce_each<Twofold<T>, 1>(
        problem.m, length, !system.row_major(), Called<AddTwofold<T>>(),
        [&](int i, int p) {
            const int j = at.factors.variables[p];
            return two_product(system.a(i, j), -at.x[j]);
        },
        [&](int i, Twofold<T> minus_fitted) {
            const Twofold<T> left = AddTwofold<T>()({system.b(i), T(0)}, minus_fitted);
            result[i] = left.high + left.low;
        });
    for (int i = problem.m + threadIdx.x; i < at.factors.rows; i += blockDim.x)
        result[i] = -system.damping(i - problem.m) * at.x[i - problem.m];
    __syncthreads();
}

template <class T>
struct NnlsSystem : ScaledSystem<T> {
    using ScaledSystem<T>::problem, ScaledSystem<T>::at, ScaledSystem<T>::b_scale;
    using ScaledSystem<T>::a, ScaledSystem<T>::b, ScaledSystem<T>::damping;
    using ScaledSystem<T>::penalty, ScaledSystem<T>::row_major, ScaledSystem<T>::has_ridge;

    PassiveQR<T> factors;
    BlockReduce<T> reduce;
    BlockReduce<Located<T>> reduce_located;

    T b_norm;
    T dependent;
    int nit, n_updates, n_downdates;

    /// Compute the scales and the column norms. False if an entry is not finite.
    __device__ bool load() {
        T largest = 0;  // of b; infinite if an entry of A or b is not finite
        reduce_each<T, 1>(
            problem.n, problem.m, row_major(), Called<MaxMagnitude<T>>(),
            [&](int j, int i) {
                return magnitude(problem.A[i * problem.row_stride + j * problem.column_stride]);
            },
            [&](int j, T of_column) {
                of_column = MaxMagnitude<T>()(of_column, problem.root_l2);
                if (!(of_column < Floating<T>::infinity())) largest = of_column;
                at.column_scale[j] = inverse_power_of_two(of_column);
            });
        for (int i = threadIdx.x; i < problem.m; i += blockDim.x)
            largest = MaxMagnitude<T>()(largest, magnitude(problem.b[i * problem.b_stride]));
        largest = reduce(largest, Called<MaxMagnitude<T>>());
        if (!(largest < Floating<T>::infinity())) return false;

        b_scale = inverse_power_of_two(largest);
        multiply_columns<T>(*this, nullptr, at.norm);
        return true;
    }

    /// Start from x = 0. `caution` is a factor on the threshold for dependent columns.
    __device__ void start(T caution) {
        dependent = caution * dependent_units * Floating<T>::epsilon;
        nit = n_updates = n_downdates = 0;
        for (int j = threadIdx.x; j < problem.n; j += blockDim.x) {
            at.state[j] = at_zero;
            at.x[j] = 0;
        }
        for (int i = threadIdx.x; i < at.factors.rows; i += blockDim.x)
            at.factors.residual[i] = i < problem.m ? b(i) : T(0);
        factors.clear();
        b_norm = residual_norm();
    }

    /// sum_k |a_k| x_k.
    __device__ T size() {
        T sum = 0;
#pragma unroll 1
        for (int p = threadIdx.x; p < factors.length; p += blockDim.x)
            sum += at.norm[at.factors.variables[p]] * at.x[at.factors.variables[p]];
        return reduce(sum, Called<Add<T>>());
    }

    __device__ T residual_norm() { return norm_of(at.factors.residual, at.factors.rows, reduce); }

    /// The variable of steepest descent that may enter; -1 if there is none.
    __device__ int entering(T threshold) {
        Located<T> steepest = ArgMax<T>::identity();
        for (int j = threadIdx.x; j < problem.n; j += blockDim.x)
            if (at.state[j] == at_zero && at.w[j] > threshold * at.norm[j])
                steepest = ArgMax<T>()(steepest, {ratio(at.w[j], at.norm[j]), j});
        return reduce_located(steepest, Called<ArgMax<T>>()).index;
    }

    /// Append variable j to the passive set if the factorisation accepts it.
    __device__ bool append(int j, T least) {
        for (int i = threadIdx.x; i < at.factors.rows; i += blockDim.x)
            at.factors.column[i] =
                i < problem.m ? a(i, j) : (i - problem.m == j ? damping(j) : T(0));
        const bool entered = factors.append(j, penalty(j), dependent, least, reduce);
        if (entered) ++n_updates;
        return entered;
    }

    /// The first variable from j whose entry in `guess`, which is not scaled, is positive and
    /// finite; -1 if there is none.
    __device__ int next_guessed(const T* guess, int j) const {
        for (; j < problem.n; ++j) {
            const T value = to_scaled(guess[j], j);
            if (value > 0 && value < Floating<T>::infinity()) return j;
        }
        return -1;
    }

    /// Append the steepest variable that lowers the objective; with a `guess`, the variables that
    /// are positive there. False if none is appended.
    ///
    /// The decrease must exceed rounding errors. These are relative to the terms that cancel in
    /// b - A x; after `refresh` (`fresh`), to the residual itself.
    __device__ bool enter(bool fresh, const T* guess) {
        const T cancelling = b_norm + size();
        const T length = residual_norm();
        if (guess == nullptr && !(length > problem.tol * cancelling)) return false;
        const T least = guess == nullptr ? problem.tol * (fresh ? length : cancelling)
                                         : -Floating<T>::infinity();
        bool entered = false;
        for (int j = -1; guess != nullptr || !entered;) {
            j = guess == nullptr ? entering(problem.tol * length) : next_guessed(guess, j + 1);
            if (j < 0) break;
            const bool accepted = append(j, least);
            if (threadIdx.x == 0) {
                at.state[j] = accepted ? passive : barred;
                if (accepted && guess != nullptr) at.x[j] = to_scaled(guess[j], j);
            }
            __syncthreads();
            entered = entered || accepted;
        }
        for (int j = threadIdx.x; j < problem.n; j += blockDim.x)
            if (at.state[j] == barred) at.state[j] = at_zero;
        return entered;
    }

    /// The step length towards the solution of the passive set (Algorithm 1, lines 9 and 10): the
    /// position whose coefficient reaches zero first, and the negative of the step; index -1 for a
    /// full step.
    __device__ Located<T> first_to_reach_zero() {
        Located<T> first = ArgMax<T>::identity();
        for (int p = threadIdx.x; p < factors.length; p += blockDim.x) {
            const T now = at.x[at.factors.variables[p]], target = at.factors.solution[p];
            if (target <= 0) first = ArgMax<T>()(first, {-ratio(now, now - target), p});
        }
        return reduce_located(first, Called<ArgMax<T>>());
    }

    /// The last position whose variable is no longer passive; -1 if there is none.
    __device__ int last_not_passive() {
        Located<T> last = ArgMax<T>::identity();
        for (int p = threadIdx.x; p < factors.length; p += blockDim.x)
            if (at.state[at.factors.variables[p]] != passive) last = ArgMax<T>()(last, {T(p), p});
        return reduce_located(last, Called<ArgMax<T>>()).index;
    }

    /// Move x to the passive least-squares solution; remove what reaches 0. False if the iteration
    /// limit is reached first.
    __device__ bool make_feasible() {
        while (nit < problem.maxiter) {
            ++nit;
            factors.solve();
            const Located<T> first = first_to_reach_zero();
            for (int p = threadIdx.x; p < factors.length; p += blockDim.x) {
                const int j = at.factors.variables[p];
                const T target = at.factors.solution[p];
                if (first.index < 0) {
                    at.x[j] = target;
                } else {
                    const T moved =
                        p == first.index ? T(0) : at.x[j] - first.value * (target - at.x[j]);
                    at.x[j] = moved > 0 ? moved : T(0);
                    if (target <= 0 && at.x[j] == 0) at.state[j] = at_zero;
                }
            }
            if (first.index < 0) return true;
            for (;;) {
                const int p = last_not_passive();
                if (p < 0) break;
                factors.remove(p);
                ++n_downdates;
            }
        }
        return false;
    }

    /// Recompute the residual from A, b and x. To `refine`, correct x by it if x stays positive.
    ///
    /// At the optimum of the passive set, the part of the residual along the passive columns is
    /// due to errors of x. Without that part, the gradient of the other variables is accurate, and
    /// the residual is the witness of the certificate.
    __device__ void refresh(bool refine) {
        make_residual<T>(*this, factors.length, at.factors.residual);
        if (!refine) return;
        factors.correct(reduce);
        T blocked = 0;
        for (int p = threadIdx.x; p < factors.length; p += blockDim.x)
            if (!(at.x[at.factors.variables[p]] + at.factors.solution[p] > 0)) blocked = 1;
        if (reduce(blocked, Called<Add<T>>()) == 0)
            for (int p = threadIdx.x; p < factors.length; p += blockDim.x)
                at.x[at.factors.variables[p]] += at.factors.solution[p];
    }

    /// Iterate to convergence, which is only declared on a recomputed residual. Afterwards
    /// `residual` and `w` are those of the result. With a `guess`, start from it.
    ///
    /// Each step is called in one place only, because it is inlined there.
    __device__ NnlsStatus solve(const T* guess) {
        bool entered = false, fresh = false;
        for (int round = 0;;) {
            const bool limit = entered && !make_feasible();
            if (limit || fresh) refresh(fresh);
            if (guess == nullptr) multiply_columns<T>(*this, at.factors.residual, at.w);
            if (limit) return iteration_limit;
            entered = !(fresh && round++ == fresh_rounds) && enter(fresh, guess);
            if (fresh && !entered) return converged;
            fresh = !entered && guess == nullptr;
            guess = nullptr;
        }
    }

    /// What the certificate of x says, in scaled variables.
    struct Found {
        T fit;     // |b - A x|
        T misfit;  // root of twice the objective, minus a little if certified
        T kkt;
        NnlsStatus status;
        bool settled;  // a larger threshold for dependent columns would not help
    };

    /// The result of a system that has NaN or infinity in it.
    __device__ Found refuse() {
        const T nan = Floating<T>::nan();
#pragma unroll 1
        for (int j = threadIdx.x; j < problem.n; j += blockDim.x) at.x[j] = at.w[j] = nan;
        return {nan, nan, nan, not_finite, true};
    }

    /// Certify x; the residual is its witness. `outcome` is the status of the solver.
    __device__ Found certify(NnlsStatus outcome) {
        for (int p = threadIdx.x; p < factors.length; p += blockDim.x) {
            const int j = at.factors.variables[p];
            at.x[j] = to_scaled(to_given(at.x[j], j), j);
        }
        __syncthreads();
        make_residual<T>(*this, factors.length, at.factors.column);
        T fit = 0, apart = 0, penalties = 0, gap = 0, slope = 0;
#pragma unroll 1
        for (int i = threadIdx.x; i < at.factors.rows; i += blockDim.x) {
            const T left = at.factors.column[i], between = left - at.factors.residual[i];
            apart += between * between;
            (i < problem.m ? fit : penalties) += left * left;
        }
#pragma unroll 1
        for (int j = threadIdx.x; j < problem.n; j += blockDim.x) {
            const T violation = at.x[j] > 0 ? fabs(at.w[j]) : (at.w[j] > 0 ? at.w[j] : T(0));
            if (at.norm[j] > 0) slope = MaxMagnitude<T>()(slope, ratio(violation, at.norm[j]));
            if (!(at.x[j] > 0)) continue;
            penalties += 2 * penalty(j) * at.x[j];
            gap += at.x[j] * at.w[j];
        }
        fit = reduce(fit, Called<Add<T>>());
        penalties = reduce(penalties, Called<Add<T>>());
        apart = square_root(reduce(apart, Called<Add<T>>()));
        gap = reduce(gap, Called<Add<T>>());
        slope = reduce(slope, Called<MaxMagnitude<T>>());
        const Certificate<T, T> certificate(apart, gap, slope, residual_norm(), b_norm, size());
        const bool ended = outcome == converged;
        const bool good = certificate.is_good(ended, problem.tol);
        const NnlsStatus refused = ended ? uncertified : outcome;
        const T misfit = square_root(fit + penalties), kkt = certificate.kkt();
        return {square_root(fit),
                good ? misfit - certified<T> * b_norm : finite_or_infinity(misfit), kkt,
                good ? converged : refused, !ended || (good && kkt <= certified<T>)};
    }

    /// Convert a coefficient from scaled variables, and back; each conversion rounds once.
    __device__ T to_given(T value, int j) const {
        return shifted(value, column_shift(j) - b_shift());
    }
    __device__ T to_scaled(T value, int j) const {
        return shifted(value, b_shift() - column_shift(j));
    }

    __device__ int column_shift(int j) const { return Floating<T>::exponent(at.column_scale[j]); }
    __device__ int b_shift() const { return Floating<T>::exponent(b_scale); }

    static __device__ T finite_or_infinity(T value) {
        return value == value ? value : Floating<T>::infinity();
    }

    /// Write the result of system k in the original units.
    __device__ void store(const NnlsResults<T>& results, long long k, const Found& found) const {
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
            results.method[k] = by_qr;
        }
    }
};

/// The systems begin with number `first` of the batch. x has their starting points before the
/// launch, their solutions after it.
///
/// If `listed` is not null, only the systems that it lists are solved, and count as repaired. Their
/// results are replaced by better ones.
template <class T>
__global__ void __launch_bounds__(nnls_max_threads, 2)
    nnls_qr(const T* A, const long long* A_offset, long long A_stride, long long row_stride,
            long long column_stride, const T* b, const long long* b_offset,
            long long b_batch_stride, long long b_stride, long long first, long long systems, int m,
            int n, T l1, T root_l2, T tol, int maxiter, int warm, T* x, T* rnorm, T* dual, T* kkt,
            int* nit, int* status, int* n_updates, int* n_downdates, bool* repaired,
            unsigned char* method, BatchCounters* counters, const ListedSystem* listed,
            long long R_begin, long long Q_begin, int regions_in_shared, unsigned char* workspace,
            long long workspace_stride) {
    __shared__ typename BlockReduce<T>::Storage reduce_storage;
    __shared__ typename BlockReduce<Located<T>>::Storage located_storage;
    __shared__ ListedSystem drawn;

    __shared__ NnlsProblem<T> problem;
    __shared__ NnlsArrays<T> arrays;

    if (threadIdx.x == 0) {
        problem = {A, row_stride, column_stride, b, b_stride, m, n, l1, root_l2, tol, maxiter};
        arrays.place({R_begin, Q_begin, regions_in_shared}, m, n, root_l2 > 0,
                     dynamic_shared_memory(), workspace + blockIdx.x * workspace_stride);
    }
    const NnlsResults<T> results{x,      rnorm,     dual,        kkt,      nit,
                                 status, n_updates, n_downdates, repaired, method};
    NnlsSystem<T> system{{problem, arrays, T(1)},
                         {arrays.factors, 0},
                         BlockReduce<T>(reduce_storage),
                         BlockReduce<Located<T>>(located_storage)};

    if (threadIdx.x == 0 && listed != nullptr) systems = static_cast<long long>(counters->listed);
    for (;;) {
        if (threadIdx.x == 0) {
            const long long turn = static_cast<long long>(atomicAdd(&counters->taken, 1ULL));
            drawn = {turn < systems ? turn : -1, Floating<double>::nan()};
            if (turn < systems) {
                if (listed != nullptr) drawn = listed[turn];
                problem.A = A + BatchOffsets{A_offset, A_stride}[first + drawn.system];
                problem.b = b + BatchOffsets{b_offset, b_batch_stride}[first + drawn.system];
            }
        }
        __syncthreads();
        const long long k = drawn.system;
        if (k < 0) return;
        const bool finite = system.load();
        T least = static_cast<T>(drawn.misfit), caution = 1;
        for (int attempt = 0; attempt < attempts; ++attempt, caution *= more_caution) {
            system.start(caution);
            const T* guess = warm && attempt == 0 ? x + k * n : nullptr;
            const auto found = finite ? system.certify(system.solve(guess)) : system.refuse();
            if (!(found.misfit >= least)) {
                least = found.misfit;
                system.store(results, k, found);
            }
            if (threadIdx.x == 0) repaired[k] = attempt > 0 || listed != nullptr;
            if (found.settled) break;
        }
    }
}
