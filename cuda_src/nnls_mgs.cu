// Batched non-negative least squares as Luo & Duraiswami publish it: for every system k
//
//     x_k = argmin over x >= 0 of |W^(1/2) (A_k x - b_k)|^2 / 2 + l1_k x + x diag(l2_k) x / 2
//
// For study and comparison; nnls_qr.cu solves the same systems, and more, with fewer barriers.
//
// Source. Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on Multi-Core
// Architectures": Algorithm 1 on the factorisation of published_qr.cuh, which is Algorithms 2 to 4.
// The specification in NumPy is gpusolve/studies/_compared/mgs.py.
//
// Their text is corrected in two places, both in line 10 of Algorithm 1:
//
// 1. the sign: the step is min x_i / (x_i - y_i), not its negative;
// 2. the minimum is over the i with y_i <= 0 only. Another i may have a smaller ratio, which is
//    negative where y_i > x_i: from x = (1, 2, 3), y = (2, -1, 4) x would go to (-2, 11, 0).
//
// Everything else is as they write it. So the variable of the largest gradient enters,
// which depends on the units of the variables. Line 4 of Algorithm 2 takes R from products with
// the column itself, which in exact arithmetic equal the products with the partly projected column.
// Q^T b (line 8) has products with b itself. Where columns are nearly dependent, Q loses its
// orthogonality, and x its accuracy: its certificate says so.
//
// Our choices, where their text leaves them open:
//
// - rounding in "w_i > 0": it is w_i > tol |a_i| (|b| + sum_k |a_k| x_k);
// - a limit on the number of least-squares solutions;
// - dependent columns: a column is refused if its part orthogonal to the passive columns is at most
//   4 rows eps of its norm, or if its variable does not become positive (Lawson & Hanson's test).
//   It may enter again after x has moved;
// - how R y = Q^T b is solved, and how the sums of lines 2, 9 and 10 are computed: as in
// nnls_qr.cu;
// - more rows than threads, weights, penalties and a start: the passive set begins with the
//   positive variables of the start.
//
// Mapping. A block of 512 threads solves one system at a time, and takes the next system from an
// atomic counter.
//
// Memory. Q (rows x n) and R (n x n) are in the block's part of `workspace`: the slot of a column
// is its variable, as in section 5.3. The vectors are in shared memory if they fit.
//
// Certificate. As in nnls_qr.cu. Its witness is the residual of x, without its part along Q.

#include "certified_system.cuh"
#include "published_qr.cuh"

/// The largest part of a dependent column that is orthogonal to the passive columns, in units of
/// `rows eps` of its norm.
constexpr int refused_units = 4;

template <class T, bool general>
struct MgsSystem : CertifiedSystem<T, general, T, PublishedQR<T>> {
    using Base = CertifiedSystem<T, general, T, PublishedQR<T>>;
    using Base::column_shift, Base::b_shift, Base::damping, Base::penalty, Base::to_scaled;
    using Base::factors, Base::reduce, Base::reduce_located, Base::counters;
    using Base::magnitude_of_b, Base::nit, Base::n_updates, Base::n_downdates;
    using Base::problem, Base::at, Base::a, Base::b;
    using Base::size, Base::let_barred_rest, Base::next_guessed, Base::last_not_passive;

    Products<T> dot;

    /// Let all variables rest, except the positive variables of the `guess`, unless rounding hides
    /// their fit. False if no variable is passive then.
    __device__ bool start(const T* guess) {
        nit = n_updates = n_downdates = factors.length = 0;
#pragma unroll 1
        for (int i = threadIdx.x; i < problem.m; i += blockDim.x) at.factors.residual[i] = b(i);
        magnitude_of_b = norm_of(at.factors.residual, problem.m, reduce);
        T fitted = 0;
#pragma unroll 1
        for (int j = threadIdx.x; j < problem.n; j += blockDim.x) {
            const T given = guess == nullptr ? T(0) : to_scaled(guess[j], j);
            const bool is_used = given > 0 && given < Floating<T>::infinity() && at.norm[j] > 0;
            at.x[j] = is_used ? given : T(0);
            fitted += at.norm[j] * at.x[j];
        }
        fitted = ratio(reduce(fitted, Called<Add<T>>()), magnitude_of_b);
        const bool is_hidden = !(Floating<T>::epsilon * fitted <= hidden<T>);
        int used = 0;
#pragma unroll 1
        for (int j = threadIdx.x; j < problem.n; j += blockDim.x) {
            if (is_hidden) at.x[j] = 0;
            at.state[j] = at.x[j] > 0 ? guessed : resting;
            used += at.x[j] > 0;
        }
        n_updates = static_cast<int>(reduce(T(used), Called<Add<T>>()));
        return n_updates > 0;
    }

    /// Line 2: w = A^T (b - A x).
    __device__ void make_gradient() {
        make_residual<T, general, T>(*this, factors.length, at.factors.residual);
        multiply_columns<T, general, T>(*this, at.factors.residual, at.w);
    }

    /// Lines 3 and 4: the variable of the largest gradient, in the original units; -1 if the
    /// gradient is within the tolerance. The sum `size` has the barrier after which w is read.
    __device__ int entering() {
        const T threshold = problem.tol * (magnitude_of_b + size());
        Located<T> largest = ArgMax<T>::identity();
#pragma unroll 1
        for (int j = threadIdx.x; j < problem.n; j += blockDim.x)
            if (at.state[j] == resting && at.w[j] > threshold * at.norm[j])
                largest = ArgMax<T>()(largest, {shifted(at.w[j], -column_shift(j) - b_shift()), j});
        return reduce_located(largest, Called<ArgMax<T>>()).index;
    }

    /// Line 5. False, and nothing changes, if the column is dependent.
    __device__ bool append(int j) {
        const int rows = at.factors.rows;
        if (factors.length == min(rows, problem.n)) return false;
        OwnRows<T> column(T(0), at.factors.residual, rows);
        column.each([&](T& element, int i) {
            element = i < problem.m ? a(i, j) : (i - problem.m == j ? damping(j) : T(0));
        });
        if (threadIdx.x == 0) factors.list[factors.length] = j;
        const auto of_b = [&](int i) { return i < problem.m ? b(i) : T(0); };
        const T norm = factors.append(column, of_b, penalty(j), true, dot);
        if (!(norm > refused_units * rows * Floating<T>::epsilon * at.norm[j])) {
            --factors.length;
            return false;
        }
        if (threadIdx.x == 0) at.state[j] = passive;
        return true;
    }

    /// Append the variables of the guess. False, and none is passive, if they are dependent.
    __device__ bool append_guessed() {
        for (int j = next_guessed(0); j >= 0; j = next_guessed(j + 1)) {
            if (append(j)) continue;
            factors.length = 0;
            n_downdates = n_updates;
#pragma unroll 1
            for (int k = threadIdx.x; k < problem.n; k += blockDim.x) {
                at.x[k] = 0;
                at.state[k] = resting;
            }
            return false;
        }
        return true;
    }

    /// Lines 9 to 16: move x to the solution, or to the first bound on the way, and remove the
    /// variables that are 0 there. Whether x has reached the solution.
    __device__ bool move() {
        Located<T> first = ArgMax<T>::identity();  // the step, negated
#pragma unroll 1
        for (int p = threadIdx.x; p < factors.length; p += blockDim.x) {
            const T x = at.x[factors.list[p]], y = at.factors.solution[p];
            if (y <= 0) first = ArgMax<T>()(first, {-ratio(x, x - y), p});
        }
        first = reduce_located(first, Called<ArgMax<T>>());
        const T step = first.index < 0 ? T(1) : -first.value;
#pragma unroll 1
        for (int p = threadIdx.x; p < factors.length; p += blockDim.x) {
            const int j = factors.list[p];
            const T x = at.x[j], y = at.factors.solution[p];
            const T moved = first.index < 0 ? y : max(x + step * (y - x), T(0));
            const bool leaves = y <= 0 && (moved <= 0 || ratio(x, x - y) <= step);
            at.x[j] = leaves ? T(0) : moved;
            if (leaves) at.state[j] = resting;
        }
        __syncthreads();
        let_barred_rest();
        if (first.index < 0) return true;
        for (int p = last_not_passive(); p >= 0; p = last_not_passive()) {
            factors.remove(p);
            ++n_downdates;
        }
        return false;
    }

    /// Algorithm 1. With a `guess`, start from it.
    __device__ NnlsStatus solve(const T* guess) {
        bool starting = start(guess), chooses = !starting;
        for (;;) {
            int j = -1;
            if (chooses) {
                make_gradient();
                j = entering();
                if (j < 0) return converged;
            }
            if (nit >= problem.maxiter || counters->is_stopped()) return iteration_limit;
            ++nit;
            bool is_solved = true;
            if (starting) is_solved = append_guessed();
            if (chooses) is_solved = append(j);
            starting = false;
            __syncthreads();
            if (is_solved) factors.solve(at.factors.row, at.factors.solution);
            __syncthreads();
            if (chooses && !(is_solved && at.factors.solution[factors.length - 1] > 0)) {
                if (is_solved) --factors.length;
                if (threadIdx.x == 0) at.state[j] = barred;
            } else if (is_solved) {
                n_updates += chooses;
                chooses = move();
            } else {
                chooses = true;
            }
        }
    }

    /// Solve the system and certify x. At the optimum of the passive set, the part of the residual
    /// along Q is an error of x. Without that part, the residual is the witness.
    __device__ typename Base::Found certified(const T* guess) {
        const NnlsStatus outcome = solve(guess);
        make_residual<T, general, T>(*this, factors.length, at.factors.residual);
        for (int pass = 0; pass < 2 && outcome == converged; ++pass) {
            project_out(at.factors, factors.length, at.factors.residual, general, pass == 0);
            __syncthreads();
        }
        multiply_columns<T, general, T>(*this, at.factors.residual, at.w);
        return Base::certify(outcome);
    }
};

/// Solve the systems. More than one resident block per multiprocessor would cause spills.
template <class T, bool general>
__global__ void __launch_bounds__(published_threads, 1)
    nnls_mgs(const NnlsSystems<T> systems, const QrMemory memory) {
    __shared__ typename BlockReduce<T>::Storage reduce_storage;
    __shared__ typename BlockReduce<Located<T>>::Storage located_storage;
    __shared__ T sums[2 * published_threads], angle[2];
    __shared__ NnlsProblem<T, general> problem;
    __shared__ NnlsResults<T> results;
    __shared__ NnlsArrays<T> arrays;
    __shared__ long long drawn;

    if (threadIdx.x == 0) {
        results = systems.results();
        problem.set(systems);
        arrays.place(memory, problem.rows(), systems.n, systems.n);
        arrays.factors.variables = arrays.factors.slots;
    }
    __syncthreads();
    const PassiveQRArrays<T>& at = arrays.factors;
    T* const rhs = at.cosine;
    T* const shift = general ? &at.shift(0) : nullptr;
    MgsSystem<T, general> system{
        {{problem, arrays, T(1), T(0)},
         {at.rows, at.capacity, at.Q, at.R, rhs, shift, at.row, at.column, angle, at.slots, 0},
         BlockReduce<T>(reduce_storage),
         BlockReduce<Located<T>>(located_storage),
         systems.counters},
        {sums, published_threads, 0}};
    for (;;) {
        if (threadIdx.x == 0) {
            const long long turn =
                static_cast<long long>(atomicAdd(&systems.counters->taken, 1ULL));
            drawn = turn < systems.count ? turn : -1;
            if (turn < systems.count) problem.take(systems, systems.first + turn);
        }
        __syncthreads();
        const long long k = drawn;
        if (k < 0) return;
        const T* guess = systems.warm ? results.x + k * problem.n : nullptr;
        const auto found = system.load() ? system.certified(guess) : system.refuse();
        system.store(results, k, found, by_mgs);
        if (threadIdx.x == 0) results.repaired[k] = false;
    }
}
