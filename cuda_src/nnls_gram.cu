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
#include "gram_solver.cuh"
#include "lane_team.cuh"

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
        GramSolver<T, Team> system{{{{team, options, arrays, PassiveInverse<Team>{arrays.inverse},
                                      b + BatchOffsets{b_offset, b_batch_stride}[first + k],
                                      b_stride, weights_of(first + k)}}}};
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
