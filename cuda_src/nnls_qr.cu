// Batched non-negative least squares: for every system k
//
//     x_k = argmin over x >= 0 of |A_k x - b_k|^2 / 2 + l1 sum(x) + l2 |x|^2 / 2
//
// Source: Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on Multi-Core
// Architectures": Algorithm 1 (Lawson & Hanson's active-set method) on the updated
// factorisation of passive_qr.cuh. Departures: the step length has its sign corrected
// (Algorithm 1, line 10), tolerances are relative, the entering variable is the one of
// steepest descent per unit column norm, and any m and n are taken. The specification in NumPy
// is gpusolve/reference/nnls.py, class ActiveSet, whose names are used here.
//
// Mapping: one block solves one system at a time. The grid is persistent, as many blocks as the
// device (or the memory for their factorisations) holds at once; each draws the next system
// from an atomic counter. Threads stride over rows, columns or positions, as the step asks.
// A is read where it lies, through strides, so that a shared A is one matrix in the L2 cache.
//
// Scaling: columns of A and b are multiplied by powers of two on reading, so that any magnitude
// is safe and no bit is lost.
//
// Memory: a block has three regions, its vectors, R and Q, of which the host puts as many as
// fit into shared memory, in this order, and the others into the block's part of `workspace`.
//
// Cost: a pass of the outer loop reads A once (the gradient, 2 m n operations) and Q once
// (4 m l, l passive columns); a downdate reads and writes the part of Q behind it.

#include "block.cuh"
#include "floating.cuh"
#include "passive_qr.cuh"

constexpr int nnls_max_threads = 256;

enum NnlsStatus : int { converged = 0, iteration_limit = 1, not_finite = 2 };

enum VariableState : int { at_zero, passive, barred };

/// One system as the host describes it: strides in elements, `l2` as its square root.
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

/// Memory cut from one region, piece after piece.
struct Region {
    unsigned char* next;

    template <class T>
    __device__ T* take(long long count) {
        constexpr long long alignment = 16;
        T* piece = reinterpret_cast<T*>(next);
        next += (count * static_cast<long long>(sizeof(T)) + alignment - 1) / alignment * alignment;
        return piece;
    }
};

/// The bytes of a block's three regions, as the host computed them.
struct NnlsRegions {
    long long vectors, R, Q;
    int in_shared;  // how many of the three lie in shared memory
};

/// Where a block's arrays lie: the same for all threads, so kept in shared memory.
template <class T>
struct NnlsArrays {
    PassiveQRArrays<T> factors;
    T* x;             // n, in scaled variables
    T* w;             // n: negative gradient
    T* norm;          // n: column norms, ridge included
    T* column_scale;  // n: powers of two
    int* state;       // n: VariableState

    /// Cut the block's memory into the arrays.
    __device__ void place(const NnlsRegions& regions, int m, int n, bool has_ridge,
                          unsigned char* shared, unsigned char* global) {
        Region vectors{regions.in_shared > 0 ? shared : global};
        (regions.in_shared > 0 ? shared : global) += regions.vectors;
        Region R{regions.in_shared > 1 ? shared : global};
        (regions.in_shared > 1 ? shared : global) += regions.R;
        Region Q{regions.in_shared > 2 ? shared : global};

        const int rows = m + (has_ridge ? n : 0);
        const int capacity = min(rows, n);
        factors.rows = rows;
        factors.capacity = capacity;
        factors.residual = vectors.take<T>(rows);
        factors.column = vectors.take<T>(rows);
        x = vectors.take<T>(n);
        w = vectors.take<T>(n);
        norm = vectors.take<T>(n);
        column_scale = vectors.take<T>(n);
        factors.solution = vectors.take<T>(capacity);
        factors.diagonal = vectors.take<T>(capacity);
        factors.cosine = vectors.take<T>(capacity);
        factors.sine = vectors.take<T>(capacity);
        factors.row = vectors.take<T>(capacity + 2);
        state = vectors.take<int>(n);
        factors.slots = vectors.take<int>(capacity);
        factors.variables = vectors.take<int>(capacity);
        factors.R = R.take<T>(static_cast<long long>(capacity) * (capacity + 2));
        factors.Q = Q.take<T>(static_cast<long long>(rows) * capacity);
    }
};

template <class T>
struct NnlsSystem {
    const NnlsProblem<T>& problem;
    const NnlsArrays<T>& at;
    PassiveQR<T> factors;
    BlockReduce<T> reduce;
    BlockReduce<Located<T>> reduce_located;

    T b_scale;
    T b_norm;
    int nit, n_updates, n_downdates;

    __device__ T a(int i, int j) const {
        return problem.A[i * problem.row_stride + j * problem.column_stride] * at.column_scale[j];
    }
    __device__ T b(int i) const { return problem.b[i * problem.b_stride] * b_scale; }
    __device__ T damping(int j) const { return problem.root_l2 * at.column_scale[j]; }
    __device__ T penalty(int j) const { return problem.l1 * b_scale * at.column_scale[j]; }
    __device__ bool row_major() const { return problem.column_stride < problem.row_stride; }
    __device__ bool has_ridge() const { return problem.root_l2 > 0; }

    /// Scale A and b and start from x = 0. False where an entry is not finite.
    __device__ bool load() {
        const int m = problem.m, n = problem.n;
        nit = n_updates = n_downdates = 0;
        reduce_each<T>(
            n, m, row_major(), MaxMagnitude<T>(),
            [&](int j, int i) {
                return magnitude(problem.A[i * problem.row_stride + j * problem.column_stride]);
            },
            [&](int j, T largest) { at.w[j] = largest; });
        T largest_b = 0;
        for (int i = threadIdx.x; i < m; i += blockDim.x)
            largest_b = MaxMagnitude<T>()(largest_b, magnitude(problem.b[i * problem.b_stride]));
        largest_b = reduce(largest_b, MaxMagnitude<T>());
        T largest = largest_b;
        for (int j = threadIdx.x; j < n; j += blockDim.x)
            largest = MaxMagnitude<T>()(largest, at.w[j]);
        if (!(reduce(largest, MaxMagnitude<T>()) < Floating<T>::infinity())) return false;

        b_scale = inverse_power_of_two(largest_b);
        for (int j = threadIdx.x; j < n; j += blockDim.x) {
            at.column_scale[j] = inverse_power_of_two(at.w[j]);
            at.state[j] = at_zero;
            at.x[j] = 0;
        }
        factors.clear();
        __syncthreads();
        reduce_each<T>(
            n, m, row_major(), Add<T>(), [&](int j, int i) { return a(i, j) * a(i, j); },
            [&](int j, T squares) { at.norm[j] = hypot(sqrt(squares), damping(j)); });
        T squares = 0;
        for (int i = threadIdx.x; i < m; i += blockDim.x) squares += b(i) * b(i);
        b_norm = sqrt(reduce(squares, Add<T>()));
        make_residual();
        return true;
    }

    /// residual = b - A x; below it, of the ridge's rows, - damping x.
    __device__ void make_residual() {
        T* residual = at.factors.residual;
        reduce_each<T>(
            problem.m, factors.length, !row_major(), Add<T>(),
            [&](int i, int p) {
                const int j = at.factors.variables[p];
                return a(i, j) * at.x[j];
            },
            [&](int i, T fitted) { residual[i] = b(i) - fitted; });
        for (int i = problem.m + threadIdx.x; i < at.factors.rows; i += blockDim.x)
            residual[i] = -damping(i - problem.m) * at.x[i - problem.m];
        __syncthreads();
    }

    /// w = A^T residual - penalty.
    __device__ void make_gradient() {
        const T* residual = at.factors.residual;
        reduce_each<T>(
            problem.n, problem.m, row_major(), Add<T>(),
            [&](int j, int i) { return a(i, j) * residual[i]; },
            [&](int j, T product) {
                if (has_ridge()) product += damping(j) * residual[problem.m + j];
                at.w[j] = product - penalty(j);
            });
        __syncthreads();
    }

    /// |b| + sum norm x: the magnitude of what cancels in b - A x.
    __device__ T rounding_scale() {
        T sum = 0;
        for (int p = threadIdx.x; p < factors.length; p += blockDim.x)
            sum += at.norm[at.factors.variables[p]] * at.x[at.factors.variables[p]];
        return b_norm + reduce(sum, Add<T>());
    }

    __device__ T residual_norm(int rows) {
        T squares = 0;
        for (int i = threadIdx.x; i < rows; i += blockDim.x)
            squares += at.factors.residual[i] * at.factors.residual[i];
        return sqrt(reduce(squares, Add<T>()));
    }

    /// The variable of steepest descent that may enter, or -1.
    __device__ int entering(T threshold) {
        Located<T> steepest = ArgMax<T>::identity();
        for (int j = threadIdx.x; j < problem.n; j += blockDim.x)
            if (at.state[j] == at_zero && at.w[j] > threshold * at.norm[j])
                steepest = ArgMax<T>()(steepest, {at.w[j] / at.norm[j], j});
        return reduce_located(steepest, ArgMax<T>()).index;
    }

    /// Let variable j into the passive set, if the factorisation takes it.
    __device__ bool append(int j, T least) {
        for (int i = threadIdx.x; i < at.factors.rows; i += blockDim.x)
            at.factors.column[i] =
                i < problem.m ? a(i, j) : (i - problem.m == j ? damping(j) : T(0));
        const T dependent = problem.tol * sqrt(T(at.factors.rows));
        const bool entered = factors.append(j, penalty(j), dependent, least, reduce);
        if (entered) ++n_updates;
        return entered;
    }

    /// Let the steepest variable enter that lowers the objective. False if none does.
    ///
    /// Less than rounding in b - A x does not count: so the objective falls with every variable
    /// that enters, and none comes back for ever.
    __device__ bool enter() {
        const T least = problem.tol * rounding_scale();
        const T norm = residual_norm(at.factors.rows);
        if (!(norm > least)) return false;
        bool entered = false;
        while (!entered) {
            const int j = entering(problem.tol * norm);
            if (j < 0) return false;
            entered = append(j, least);
            if (threadIdx.x == 0) at.state[j] = entered ? passive : barred;
            __syncthreads();
        }
        for (int j = threadIdx.x; j < problem.n; j += blockDim.x)
            if (at.state[j] == barred) at.state[j] = at_zero;
        __syncthreads();
        return true;
    }

    /// Start from the support of `start`, given in the caller's variables.
    __device__ void warm_start(const T* start) {
        for (int j = 0; j < problem.n; ++j) {
            const T value = start[j] / at.column_scale[j] * b_scale;
            if (!(value > 0 && value < Floating<T>::infinity()) ||
                !append(j, -Floating<T>::infinity()))
                continue;
            if (threadIdx.x == 0) {
                at.state[j] = passive;
                at.x[j] = value;
            }
        }
        __syncthreads();
    }

    /// How far x may go towards the solution of the passive set: the position where a
    /// coefficient reaches zero first, and the negative of the step there; index -1 for a whole
    /// step. (Algorithm 1, lines 9 and 10.)
    __device__ Located<T> first_to_vanish() {
        Located<T> first = ArgMax<T>::identity();
        for (int p = threadIdx.x; p < factors.length; p += blockDim.x) {
            const T now = at.x[at.factors.variables[p]], wanted = at.factors.solution[p];
            if (wanted <= 0)
                first = ArgMax<T>()(first, {now > 0 ? -(now / (now - wanted)) : T(0), p});
        }
        return reduce_located(first, ArgMax<T>());
    }

    /// The last position whose variable has vanished and left, or -1.
    __device__ int last_vanished() {
        Located<T> last = ArgMax<T>::identity();
        for (int p = threadIdx.x; p < factors.length; p += blockDim.x)
            if (at.state[at.factors.variables[p]] != passive) last = ArgMax<T>()(last, {T(p), p});
        return reduce_located(last, ArgMax<T>()).index;
    }

    /// Move x towards the passive least-squares solution until that is positive. False where the
    /// iteration limit is met first.
    __device__ bool make_feasible() {
        while (nit < problem.maxiter) {
            ++nit;
            factors.solve();
            const Located<T> first = first_to_vanish();
            for (int p = threadIdx.x; p < factors.length; p += blockDim.x) {
                const int j = at.factors.variables[p];
                const T wanted = at.factors.solution[p];
                if (first.index < 0) {
                    at.x[j] = wanted;
                } else {
                    const T moved =
                        p == first.index ? T(0) : at.x[j] - first.value * (wanted - at.x[j]);
                    at.x[j] = moved > 0 ? moved : T(0);
                    if (wanted <= 0 && at.x[j] == 0) at.state[j] = at_zero;
                }
            }
            __syncthreads();
            if (first.index < 0) return true;
            for (int p = last_vanished(); p >= 0; p = last_vanished()) {
                factors.remove(p);
                ++n_downdates;
            }
        }
        return false;
    }

    /// Run to convergence, which is only declared on a freshly made residual. Leaves that
    /// residual and its gradient behind.
    __device__ NnlsStatus solve() {
        NnlsStatus status = converged;
        bool fresh = false;
        if (factors.length > 0 && !make_feasible()) status = iteration_limit;
        for (;;) {
            if (status != converged && !fresh) {
                make_residual();
                fresh = true;
            }
            make_gradient();
            if (status == converged && enter()) {
                fresh = false;
                if (!make_feasible()) status = iteration_limit;
            } else if (fresh) {
                return status;
            } else {
                make_residual();
                fresh = true;
            }
        }
    }

    /// Largest violation of the optimality conditions, from the fresh residual's gradient.
    __device__ T kkt() {
        const T scale = rounding_scale();
        T worst = 0;
        for (int j = threadIdx.x; j < problem.n; j += blockDim.x) {
            const T violation = at.x[j] > 0 ? fabs(at.w[j]) : (at.w[j] > 0 ? at.w[j] : T(0));
            const T allowed = at.norm[j] * scale;
            if (allowed > 0) worst = MaxMagnitude<T>()(worst, violation / allowed);
        }
        return reduce(worst, MaxMagnitude<T>());
    }

    /// |b - A x| in the caller's units, without the ridge's rows.
    __device__ T rnorm() { return residual_norm(problem.m) / b_scale; }
};

/// A_offset, b_offset: where each system begins, in elements. x holds the starting points and
/// receives the solutions. `next` is zero at the launch.
template <class T>
__global__ void __launch_bounds__(nnls_max_threads, 2)
    nnls_qr(const T* A, const long long* A_offset, long long row_stride, long long column_stride,
            const T* b, const long long* b_offset, long long b_stride, long long systems, int m,
            int n, T l1, T root_l2, T tol, int maxiter, int warm, T* x, T* rnorm, T* dual, T* kkt,
            int* nit, int* status, int* n_updates, int* n_downdates, unsigned long long* next,
            long long vectors_bytes, long long R_bytes, long long Q_bytes, int regions_in_shared,
            unsigned char* workspace, long long workspace_stride) {
    __shared__ typename BlockReduce<T>::Storage reduce_storage;
    __shared__ typename BlockReduce<Located<T>>::Storage located_storage;
    __shared__ long long drawn;

    __shared__ NnlsProblem<T> problem;
    __shared__ NnlsArrays<T> arrays;

    if (threadIdx.x == 0) {
        problem = {A, row_stride, column_stride, b, b_stride, m, n, l1, root_l2, tol, maxiter};
        arrays.place({vectors_bytes, R_bytes, Q_bytes, regions_in_shared}, m, n, root_l2 > 0,
                     dynamic_shared_memory(), workspace + blockIdx.x * workspace_stride);
    }
    NnlsSystem<T> system{problem,
                         arrays,
                         {arrays.factors, 0},
                         BlockReduce<T>(reduce_storage),
                         BlockReduce<Located<T>>(located_storage)};

    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) {
            drawn = static_cast<long long>(atomicAdd(next, 1ULL));
            if (drawn < systems) {
                problem.A = A + A_offset[drawn];
                problem.b = b + b_offset[drawn];
            }
        }
        __syncthreads();
        const long long k = drawn;
        if (k >= systems) return;
        T* x_k = x + k * n;
        T* dual_k = dual + k * n;

        NnlsStatus outcome = not_finite;
        T kkt_k = Floating<T>::nan(), rnorm_k = Floating<T>::nan();
        if (system.load()) {
            if (warm) system.warm_start(x_k);
            outcome = system.solve();
            kkt_k = system.kkt();
            rnorm_k = system.rnorm();
        }
        for (int j = threadIdx.x; j < n; j += blockDim.x) {
            const bool finite = outcome != not_finite;
            x_k[j] =
                finite ? arrays.x[j] * arrays.column_scale[j] / system.b_scale : Floating<T>::nan();
            dual_k[j] =
                finite ? arrays.w[j] / arrays.column_scale[j] / system.b_scale : Floating<T>::nan();
        }
        if (threadIdx.x == 0) {
            rnorm[k] = rnorm_k;
            kkt[k] = kkt_k;
            status[k] = outcome;
            nit[k] = system.nit;
            n_updates[k] = system.n_updates;
            n_downdates[k] = system.n_downdates;
        }
    }
}
