// Batched least squares within bounds: for every system k
//
//     x_k = argmin over lower <= x <= upper of
//               |W^(1/2) (A_k x - b_k)|^2 / 2 + sum_j l1_j x_j + sum_j l2_j x_j^2 / 2
//
// and, if it is fixed, over the x with a given sum. Bounds, weights W, penalties and the sum may
// differ between systems. For non-negative least squares, the bounds are 0 and infinity.
//
// Source. Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on Multi-Core
// Architectures": Algorithm 1 (Lawson & Hanson's active-set method) on the updated
// factorisation of passive_qr.cuh. Differences: the sign of the step length (Algorithm 1, line
// 10) is corrected, tolerances are relative, the variable of steepest descent
// per unit column norm enters, m and n are arbitrary, and bounds may be any (Stark & Parker,
// "Bounded-Variable Least-Squares: an Algorithm and Applications", 1995). The specification in
// NumPy is gpusolve/reference/_nnls.py, class ActiveSet; both use the same names for most steps.
//
// A variable that is not passive rests at a bound, or at 0 if it is free; `x` has its value, and
// its column times this value is subtracted from b. A fixed sum is the last row of A. Its element
// of b is free, and is chosen so that the passive solution has this sum.
//
// Mapping. One block solves one system at a time. The grid is persistent, with as many blocks as
// the device (or the memory for their factorisations) holds at once; each takes the next system
// from an atomic counter. Threads stride over rows, columns or positions. A is read in place,
// through its strides, so a shared A is a single matrix in the L2 cache.
//
// Accuracy. Convergence is declared, and certified, on b - A x in twice the working precision.
// If a solution is not certified, a passive column may consist of rounding noise: the block
// solves again with a larger threshold for dependent columns, and keeps the best solution.
//
// Forms. The `general` kernel takes all of this. The other kernel is smaller and faster: it has the
// bounds 0 and infinity, the same l2 for all variables, no l1, no weights and no sum.
//
// Memory. A block has three regions: its vectors, R and Q. The host puts as many regions as fit,
// in this order, into shared memory, and the rest into the block's part of `workspace`.
//
// Steps. A system ends after at most `maxiter` passive solutions for each threshold, else it has
// status 1. At most min(rows, n) variables enter from a guess. After that, a passive solution
// follows each variable that enters, so that at most maxiter + 1 enter, and no more leave. An
// exchange either is followed by a passive solution, too, or makes a passive variable leave.
//
// Cost. An iteration of the outer loop reads A once (the gradient, 2 m n operations) and Q once
// (4 m l, for l passive columns); a removal reads and writes the later columns of Q. A fixed sum
// reads Q once more for each passive solution.

#include "certified_system.cuh"
#include "passive_qr.cuh"

constexpr int nnls_max_threads = 256;

/// The outcome for a variable that was chosen to enter.
enum Entered { refused, appended, exchanged };

/// Threshold for dependent columns, in units of eps times the sum of the terms that cancel. It is
/// the eps of the given type: x is rounded to that type. Each further attempt multiplies it by
/// `more_caution`, up to `most_caution`.
constexpr int dependent_units = 4, more_caution = 64, most_caution = 64 * 64;

/// Limit on how often the residual is recomputed to look for entering variables.
constexpr int fresh_rounds = 32;

/// Threshold for a difference of penalties, in units of eps times the sum of the terms that cancel.
constexpr int significant_units = 512;

/// The decrease of the objective for each unit of a fixed sum that variable j adds, if it moves
/// until nothing is `missing`, or as far as its bound.
template <class T, bool general, class Given>
__device__ __noinline__ T gain_of_sum(ScaledSystem<T, general, Given> system, int j, T missing) {
    const NnlsArrays<T>& at = system.at;
    const Interval<T> bounds = scaled_bounds<T, general, Given>(system, j);
    const T coefficient = system.of_sum(j), change = ratio(missing, coefficient);
    const T whole = (missing >= 0 ? bounds.upper : bounds.lower) - at.x[j];
    const T move = fabs(whole) < fabs(change) ? whole : change;
    const T gain = ratio(at.w[j] - at.norm[j] * at.norm[j] * move / 2, coefficient);
    return missing >= 0 ? gain : -gain;
}

template <class T, bool general, class Given = T>
struct NnlsSystem : CertifiedSystem<T, general, Given, PassiveQR<T>> {
    using Base = CertifiedSystem<T, general, Given, PassiveQR<T>>;
    using Base::bounds_of, Base::residual_norm, Base::size, Base::let_barred_rest;
    using Base::damping, Base::penalty, Base::sum_row, Base::of_sum, Base::total, Base::data_rows;
    using Base::factors, Base::reduce, Base::reduce_located, Base::counters;
    using Base::magnitude_of_b, Base::nit, Base::n_updates, Base::n_downdates;
    using Base::next_guessed, Base::last_not_passive;
    using Base::problem, Base::at, Base::to_scaled, Base::a, Base::b;

    T multiplier;  // the decrease of the element of b in the row of a fixed sum
    T dependent;
    bool replaces;  // whether a variable has to leave and another to enter, by `exchange`

    /// Let all variables rest, at the feasible values next to 0. `caution` is a factor on the
    /// threshold for dependent columns.
    __device__ void start(T caution) {
        dependent = caution * dependent_units * static_cast<T>(Floating<Given>::epsilon);
        multiplier = 0;
        replaces = false;
        nit = n_updates = n_downdates = 0;
        if constexpr (general) __syncthreads();
#pragma unroll 1
        for (int j = threadIdx.x; j < problem.n; j += blockDim.x) {
            const Interval<T> bounds = bounds_of(j);
            at.state[j] = resting;
            at.x[j] = first_rest(at.norm[j], penalty(j), bounds.lower, bounds.upper);
        }
#pragma unroll 1
        for (int i = threadIdx.x; i < at.factors.rows; i += blockDim.x)
            at.factors.residual[i] = i < problem.m ? b(i) : (i < data_rows() ? T(0) : total());
        factors.clear();
        magnitude_of_b = norm_of(at.factors.residual, at.factors.rows, reduce);
        if (general) magnitude_of_b += size();
    }

    /// Choose the first entering variables: all between their bounds in `guess`, which is not
    /// scaled; `w` has their values then. Other variables rest at the bound that the guess reaches.
    /// With a fixed sum, entering variables start where they rest; one of them makes up the sum.
    __device__ void choose(const Given* guess) {
        if (problem.has_sum()) make_sum();
        if (guess != nullptr)
#pragma unroll 1
            for (int j = threadIdx.x; j < problem.n; j += blockDim.x) {
                const Interval<T> bounds = bounds_of(j);
                const T given = to_scaled(guess[j], j), now = at.x[j];
                const T value = clipped(given, bounds.lower, bounds.upper);
                if (!(fabs(given) < Floating<T>::infinity()) || at.state[j] == guessed) continue;
                if (value > bounds.lower && value < bounds.upper && value != now) {
                    at.state[j] = guessed;
                    at.w[j] = problem.has_sum() ? now : value;
                } else if (!problem.has_sum()) {
                    at.x[j] = value;
                }
            }
        if (!general) return;
        __syncthreads();
        make_residual<T, general, Given>(*this, 0, at.factors.residual);
    }

    /// Let variables rest elsewhere, the cheapest first, until x has its sum. The last variable
    /// enters, with its value in `w`. If the bounds do not allow the sum, no variable enters.
    __device__ void make_sum() {
        make_residual<T, general, Given>(*this, 0, at.factors.residual);
        multiply_columns<T, general, Given>(*this, at.factors.residual, at.w);
        T missing = at.factors.residual[sum_row()];
        const T sign = missing >= 0 ? T(1) : T(-1);
        for (bool enough = false; !enough;) {
            __syncthreads();
            Located<T> cheapest = ArgMax<T>::identity();  // the cost for each unit, negated
#pragma unroll 1
            for (int j = threadIdx.x; j < problem.n; j += blockDim.x)
                if (at.state[j] == resting)
                    cheapest = ArgMax<T>()(cheapest,
                                           {gain_of_sum<T, general, Given>(*this, j, missing), j});
            const int j = reduce_located(cheapest, Called<ArgMax<T>>()).index;
            if (j < 0) break;
            const Interval<T> bounds = bounds_of(j);
            const T now = at.x[j], end = sign > 0 ? bounds.upper : bounds.lower;
            const T change = ratio(missing, of_sum(j));
            enough = bounds.lower < bounds.upper && fabs(end - now) >= fabs(change);
            missing -= of_sum(j) * (end - now);
            __syncthreads();
            if (threadIdx.x > 0) continue;
            at.state[j] = enough ? guessed : barred;
            (enough ? at.w : at.x)[j] = enough ? now + change : end;
        }
        __syncthreads();
        let_barred_rest();
    }

    /// The variable of steepest descent that may enter, or -1.
    __device__ int entering(T threshold) {
        Located<T> steepest = ArgMax<T>::identity();
        for (int j = threadIdx.x; j < problem.n; j += blockDim.x) {
            if (at.state[j] != resting) continue;
            const Interval<T> bounds = bounds_of(j);
            const T slope = violation(rest(j), at.w[j], bounds.lower, bounds.upper);
            if (slope > threshold * at.norm[j])
                steepest = ArgMax<T>()(steepest, {ratio(slope, at.norm[j]), j});
        }
        return reduce_located(steepest, Called<ArgMax<T>>()).index;
    }

    /// The value at which variable j rests.
    __device__ T rest(int j) const { return general ? at.x[j] : T(0); }

    /// Split the column of variable j by the passive columns.
    __device__ typename PassiveQR<T>::Split project(int j) {
        for (int i = threadIdx.x; i < at.factors.rows; i += blockDim.x) {
            T entry = i - problem.m == j ? damping(j) : T(0);
            if (i < problem.m) entry = a(i, j);
            if (i == data_rows()) entry = of_sum(j);
            at.factors.column[i] = entry;
        }
        return factors.project(dependent, reduce);
    }

    /// Append variable j to the passive set if the factorisation accepts it; else, if its column is
    /// dependent and this `may_exchange`, exchange it.
    __device__ Entered append(int j, bool shrinks, T least, bool may_exchange) {
        may_exchange = may_exchange && problem.has_penalties();
        if (factors.length == at.factors.capacity && !may_exchange) return refused;
        if (counters->is_stopped()) return refused;
        const auto split = project(j);
        if (factors.append(j, rest(j), penalty(j), split, shrinks, least, reduce)) {
            ++n_updates;
            return appended;
        }
        return may_exchange && split.norm == 0 && exchange(j, shrinks) ? exchanged : refused;
    }

    /// Move along a dependence of column j on passive columns, if a penalty falls. `solution` has
    /// the coefficients of the column.
    ///
    /// A x does not change, so that only a bound ends the move: of j, or of a passive
    /// variable, which j replaces. False if nothing moves.
    __device__ bool exchange(int j, bool shrinks) {
        T total = 0, terms = 0;
#pragma unroll 1
        for (int p = threadIdx.x; p < factors.length; p += blockDim.x) {
            const T term = at.factors.solution[p] * penalty(at.factors.variables[p]);
            total += term;
            terms += fabs(term);
        }
        const T own = penalty(j), change = reduce(total, Called<Add<T>>()) - own;
        terms = reduce(terms, Called<Add<T>>()) + fabs(own);
        const T least = significant_units * Floating<T>::epsilon * terms;
        if (!((shrinks ? -change : change) > least)) return false;

        const T before = at.x[j], own_end = end_of(j, shrinks);
        Located<T> first{-fabs(own_end - before), 0};  // how far x may move, negated; position + 1
#pragma unroll 1
        for (int p = threadIdx.x; p < factors.length; p += blockDim.x) {
            const int k = at.factors.variables[p];
            const T u = at.factors.solution[p];
            const T left = fabs(end_of(k, (u > 0) != shrinks) - at.x[k]);
            if (u != 0) first = ArgMax<T>()(first, {-ratio(left, fabs(u)), p + 1});
        }
        first = reduce_located(first, Called<ArgMax<T>>());
        const T length = shrinks ? first.value : -first.value;
        if (!(fabs(length) < Floating<T>::infinity())) return false;
        replaces = first.index > 0;
        const T after = replaces ? before + length : own_end;
#pragma unroll 1
        for (int p = threadIdx.x; p < factors.length; p += blockDim.x) {
            const int k = at.factors.variables[p];
            const T u = at.factors.solution[p];
            const Interval<T> bounds = bounds_of(k);
            const bool leaves = p + 1 == first.index;
            at.x[k] = leaves ? end_of(k, (u > 0) != shrinks)
                             : clipped(at.x[k] - length * u, bounds.lower, bounds.upper);
            if (leaves) at.state[k] = resting;
        }
        factors.subtract(after - before);
        if (threadIdx.x == 0) {
            at.x[j] = at.w[j] = after;
            at.state[j] = replaces ? guessed : resting;
        }
        return true;
    }

    /// The lower or the upper bound of variable j.
    __device__ T end_of(int j, bool is_lower) const {
        const Interval<T> bounds = bounds_of(j);
        return is_lower ? bounds.lower : bounds.upper;
    }

    /// Append or exchange the steepest variable that lowers the objective; when `starting`, append
    /// the chosen variables. False if x is to stay.
    ///
    /// The decrease must exceed rounding errors. These are relative to the terms that cancel in
    /// b - A x; after `refresh` (`fresh`), to the residual itself.
    __device__ bool enter(bool fresh, bool starting) {
        T length = residual_norm();
        const T cancelling = magnitude_of_b + size();
        if (!starting && !(length > problem.tol * cancelling)) {
            if (!problem.has_penalties()) return false;
            length = cancelling;
        }
        const T least =
            starting ? -Floating<T>::infinity() : problem.tol * (fresh ? length : cancelling);
        replaces = false;
        bool entered = false;
        for (int j = -1; starting || !entered;) {
            j = starting ? next_guessed(j + 1) : entering(problem.tol * length);
            if (j < 0) break;
            const Entered how = append(j, general && !starting && at.w[j] < 0, least, !starting);
            if (threadIdx.x == 0 && how != exchanged) {
                at.state[j] = how == appended ? passive : barred;
                if (how == appended && starting) at.x[j] = at.w[j];
            }
            __syncthreads();
            entered = entered || how != refused;
        }
        let_barred_rest();
        return entered;
    }

    /// Choose the multiplier of a fixed sum so that the passive solution has this sum.
    __device__ void keep_sum(T sum) {
        T* const partial = reduce.next();
        multiplier += fit_row(at.factors, factors.length, sum_row(), sum, magnitude_of_b, partial,
                              reduce.next());
    }

    /// A fixed sum, minus the sum of the resting variables.
    __device__ T missing() {
        T fitted = 0;
#pragma unroll 1
        for (int j = threadIdx.x; j < problem.n; j += blockDim.x)
            if (at.state[j] != passive) fitted += of_sum(j) * at.x[j];
        return total() - reduce(fitted, Called<Add<T>>());
    }

    /// Whether there is a single passive variable, which has to make up a fixed sum.
    __device__ bool has_to_stay() const { return problem.has_sum() && factors.length == 1; }

    /// The step length towards the solution of the passive set (Algorithm 1, lines 9 and 10): the
    /// position whose coefficient reaches a bound first, and the negative of the step; index -1 for
    /// a full step.
    __device__ Located<T> first_to_reach_bound() {
        Located<T> first = ArgMax<T>::identity();
        for (int p = threadIdx.x; p < factors.length; p += blockDim.x) {
            const int j = at.factors.variables[p];
            const Interval<T> bounds = bounds_of(j);
            const T now = at.x[j], target = at.factors.solution[p];
            if (!bounds.is_reached_by(target)) continue;
            first = ArgMax<T>()(first, {-ratio(bounds.towards(target) - now, target - now), p});
        }
        return reduce_located(first, Called<ArgMax<T>>());
    }

    /// Remove the variables that have left the passive set. The last variable stays if the sum is
    /// fixed, unless another variable replaces it.
    __device__ void remove_resting() {
        for (;;) {
            const int p = last_not_passive();
            if (p < 0 || (has_to_stay() && !(general && replaces)) || counters->is_stopped()) break;
            factors.remove(p, rest(at.factors.variables[p]));
            ++n_downdates;
        }
        if (has_to_stay()) {
            if (threadIdx.x == 0) at.state[at.factors.variables[0]] = passive;
            __syncthreads();
        }
    }

    /// Move x to the passive solution; remove variables that reach a bound. False if the iteration
    /// limit is reached first. If a variable `replaces` another, x stays, and the other is removed.
    __device__ bool make_feasible() {
        for (bool leaving = general && replaces;; leaving = true) {
            if (leaving) remove_resting();
            if (general && replaces) return true;
            if (nit >= problem.maxiter || counters->is_stopped()) return false;
            ++nit;
            const T sum = problem.has_sum() ? missing() : T(0);
            factors.load_rhs();
            if (problem.has_sum()) keep_sum(sum);
            factors.solve();
            Located<T> first = first_to_reach_bound();
            if (has_to_stay()) first.index = -1;
            for (int p = threadIdx.x; p < factors.length; p += blockDim.x) {
                const int j = at.factors.variables[p];
                const Interval<T> bounds = bounds_of(j);
                const T target = at.factors.solution[p], end = bounds.towards(target);
                if (first.index < 0) {
                    at.x[j] = bounds.is_reached_by(target) ? end : target;
                } else {
                    const T moved =
                        p == first.index ? end : at.x[j] - first.value * (target - at.x[j]);
                    at.x[j] = clipped(moved, bounds.lower, bounds.upper);
                    if (bounds.is_reached_by(target) && at.x[j] == end) at.state[j] = resting;
                }
            }
            if (first.index < 0) return true;
        }
    }

    /// Recompute the residual from A, b and x. To `refine`, correct x by it if x stays between its
    /// bounds.
    ///
    /// At the optimum of the passive set, the part of the residual along the passive columns is
    /// due to errors of x. Without that part, the gradient of the other variables is accurate, and
    /// the residual is the witness of the certificate.
    __device__ void refresh(bool refine) {
        make_residual<T, general, Given>(*this, factors.length, at.factors.residual);
        T missing = 0;
        if (problem.has_sum()) {
            missing = at.factors.residual[sum_row()];
            __syncthreads();
            if (threadIdx.x == 0) at.factors.residual[sum_row()] -= multiplier;
            __syncthreads();
        }
        if (!refine) return;
        factors.correct(reduce);
        if (problem.has_sum()) keep_sum(missing);
        factors.solve();
        T blocked = 0;
        for (int p = threadIdx.x; p < factors.length; p += blockDim.x) {
            const int j = at.factors.variables[p];
            const Interval<T> bounds = bounds_of(j);
            const T refined = at.x[j] + at.factors.solution[p];
            if (!(refined > bounds.lower && refined < bounds.upper)) blocked = 1;
        }
        if (reduce(blocked, Called<Add<T>>()) == 0)
            for (int p = threadIdx.x; p < factors.length; p += blockDim.x)
                at.x[at.factors.variables[p]] += at.factors.solution[p];
    }

    /// Iterate to convergence, which is only declared on a recomputed residual. Afterwards
    /// `residual` and `w` belong to the result, unless the host has stopped the launch. With a
    /// `guess`, start from it.
    ///
    /// Each step is called in one place only, because it is inlined there.
    __device__ NnlsStatus solve(T caution, const Given* guess) {
        start(caution);
        bool entered = false, fresh = false;
        bool starting = guess != nullptr || general;
        if (starting) choose(guess);
        for (int round = 0;;) {
            const bool limit = entered && !make_feasible();
            if (counters->is_stopped()) return iteration_limit;
            if (limit || fresh) refresh(fresh);
            if (!starting) multiply_columns<T, general, Given>(*this, at.factors.residual, at.w);
            if (limit) return iteration_limit;
            entered = !(fresh && round++ == fresh_rounds) && enter(fresh, starting);
            if (fresh && !entered) return converged;
            fresh = !entered && !starting;
            starting = general && replaces;
        }
    }
};

/// Solve the systems. If `listed` is not null, only the systems that it lists are solved, and count
/// as repaired. Their results are replaced by better results. Better is the smaller objective;
/// a certificate makes up for a small difference.
template <class T, bool general, class Given = T>
__global__ void __launch_bounds__(nnls_max_threads, 2)
    nnls_qr(const NnlsSystems<Given> systems, const QrMemory memory) {
    __shared__ typename BlockReduce<T>::Storage reduce_storage;
    __shared__ typename BlockReduce<Located<T>>::Storage located_storage;
    __shared__ ListedSystem drawn;

    // In shared memory: constants that are used in loops would be kept in registers.
    __shared__ NnlsProblem<T, general, Given> problem;
    __shared__ NnlsResults<Given> results;
    __shared__ NnlsArrays<T> arrays;

    if (threadIdx.x == 0) {
        results = systems.results();
        problem.set(systems);
        const int rows = problem.rows(), n = systems.n;
        arrays.place(memory, rows, n, min(rows, n));
    }
    NnlsSystem<T, general, Given> system{{{problem, arrays, T(1), T(0)},
                                          {arrays.factors, 0},
                                          BlockReduce<T>(reduce_storage),
                                          BlockReduce<Located<T>>(located_storage),
                                          systems.counters}};

    const bool repairs = systems.listed != nullptr;
    long long count = systems.count;
    if (threadIdx.x == 0 && repairs) count = static_cast<long long>(systems.counters->listed);
    for (;;) {
        if (threadIdx.x == 0) {
            const long long turn =
                static_cast<long long>(atomicAdd(&systems.counters->taken, 1ULL));
            drawn = {turn < count ? turn : -1, Floating<double>::nan()};
            if (turn < count) {
                if (repairs) drawn = systems.listed[turn];
                problem.take(systems, systems.first + drawn.system);
            }
        }
        __syncthreads();
        const long long k = drawn.system;
        if (k < 0) return;
        T least = static_cast<T>(drawn.misfit);
        int caution = system.load() ? 1 : 0;
        for (; caution <= most_caution; caution *= more_caution) {
            const Given* guess = systems.warm && caution == 1 ? results.x + k * problem.n : nullptr;
            const NnlsStatus ended = caution > 0 ? system.solve(caution, guess) : not_finite;
            if (systems.counters->is_stopped()) break;
            const auto found = caution > 0 ? system.certify(ended) : system.refuse();
            if (!(found.misfit >= least)) {
                least = found.misfit;
                system.store(results, k, found, by_qr);
            }
            if (threadIdx.x == 0) results.repaired[k] = caution > 1 || repairs;
            if (found.settled) break;
        }
    }
}
