// Batched least squares within bounds from Gram matrices: for every system k
//
//     x_k = argmin of |W_k^(1/2) (A_k x - b_k)|^2 / 2 + sum_j (l1_j x_j + l2_j x_j^2 / 2)
//           over lower <= x <= upper, and optionally with a fixed sum of x
//
// Non-negative least squares is the case without upper bounds, weights and sum.
//
// Source. Lawson & Hanson's active-set method (Algorithm 1 of Luo & Duraiswami, "Efficient Parallel
// Non-Negative Least Squares on Multi-Core Architectures"), with upper bounds Stark & Parker's, on
// G = A^T A and the inverse H of its passive part, which is updated by rank 1. Several variables
// enter at once, or one variable if all products with H are at hand (tableau.cuh). The steps are in
// gram_steps.cuh, the residual and the certificate in gram_residual.cuh, the loop in
// gram_solver.cuh. The specification in NumPy, gpusolve/reference/_nnls.py, finds the same minimum
// by a QR factorisation in each step.
//
// Bounds. A variable that is not passive rests at a bound, or at 0 if it is free. What resting
// variables fit is subtracted from c. For non-negative least squares that is 0, and costs nothing.
//
// Fixed sum. It is a further row of A. The element of a residual in this row is free: it is minus
// the multiplier of the constraint, and is kept in `residual` from one residual to the next.
//
// Mapping. A team solves one system at a time: some lanes of a warp, a block or the whole grid,
// by the size of the system (device_teams.cuh). A lane has up to four variables. On a CPU the team
// is one thread (cpu/nnls_gram.cpp).
//
// Accuracy. G squares the condition number. To make up for that, x is corrected by the residual
// b - A x in twice the working precision, and certified by it. All computation is in double, also
// for float. Systems that are not certified convincingly are listed; nnls_qr.cu solves them.
//
// Scaling. Columns of A and b are multiplied by powers of two: this is exact. `scale_columns`
// writes the scaled matrices; teams of lanes scale G and products.
//
// Memory. A team has a vector of each kind, and H. The first rows and columns of H are in shared
// memory as far as they fit. G and the scaled matrices are in global memory. Teams of lanes have a
// tableau and the vectors by variable in registers, and exchange them by shuffles; G, the scaled
// matrix, vectors by row, and the options of variables are in shared memory.
//
// Cost. l passive variables: l n operations for a gradient, 2 l^2 for a variable that enters, l^2
// for one that leaves, and l^2 for the first solution after variables have entered: when a variable
// leaves, the next step follows from the last one. A is read once for A^T b, once or twice for a
// certificate. Barriers of a team: 2 for a variable that enters, 3 for the first of several that
// enter at once, 3 for a solution, 2 for a variable that leaves, with the solution without it.
// Lanes need no barrier of their block, but for a matrix that its teams share; a variable that
// enters or leaves takes n^2 operations.

#include "batch.cuh"
#include "gram_solver.cuh"
#include "tableau.cuh"

/// Write the scaled columns of each matrix in order, and their scales and norms. A column
/// has room for `height` entries. The scale takes account of the l2 penalty. Offsets in `systems`
/// belong to matrices, of which the first has number `first`.
///
/// A warp scales a column. Its block holds `held` rows in shared memory.
template <class T>
__global__ void __launch_bounds__(scaled_columns* warp_threads, 4)
    scale_columns(const NnlsSystems<T> systems, int height, int held, double* columns, double* norm,
                  int* column_shift) {
    const int m = systems.m, n = systems.n;
    const int blocks = (n + scaled_columns - 1) / scaled_columns;
    const long long matrix = blockIdx.x / blocks;
    const int first_column = blockIdx.x % blocks * scaled_columns;
    const int j = first_column + warp_index();
    const long long which = systems.first + matrix;
    const HeldColumns<T> rows{systems.matrix_of(which), m, n, first_column, held};
    double largest = 0, squares = 0;
    rows.for_each_row(false, [&](int, double value) {
        largest = MaxMagnitude<double>()(largest, magnitude(value));
        squares += value * value;
    });
    const bool exists = j < n;
    const double penalty = exists ? systems.variables_of(which).root_l2(j) : 0;
    largest = MaxMagnitude<double>()(penalty, warp_reduce(largest, MaxMagnitude<double>()));
    const double given = warp_reduce(squares, Add<double>()), square = given + penalty * penalty;
    const bool changes = is_extreme(square);
    const double scale =
        changes ? inverse_power_of_two(largest)
                : Floating<double>::power_of_two(shift_of(square, systems.kind & with_sum));
    squares = 0;
    double* scaled = columns + (matrix * n + j) * height;
    rows.for_each_row(true, [&](int i, double value) {
        value *= scale;
        scaled[i] = value;
        squares += value * value;
    });
    const double scaled_norm =
        changes ? square_root(warp_reduce(squares, Add<double>())) : square_root(given) * scale;
    if (exists && lane_index() == 0) {
        norm[matrix * n + j] = scaled_norm;
        column_shift[matrix * n + j] = Floating<double>::exponent(scale);
    }
}

// ---- the solver -----------------------------------------------------------------------

/// The memory of a launch. The fields are as in `GRAM_MEMORY` in
/// gpusolve/_nnls/nnls_gram_kernel.py, in the same order.
struct GramMemory {
    const double *columns, *G, *norm;  // scaled matrices, unless teams are small
    const int* column_shift;           // their scales
    const long long* which;            // the matrix of system k of the launch, or
    long long which_stride;            // k times this number if it is null
    unsigned char* workspace;
    long long workspace_stride;             // of teams
    long long matrix_bytes;                 // if positive, of the matrix that all systems share
    long long vectors_bytes, shared_bytes;  // of a team
    unsigned char* barrier;                 // of the grid
    int side;                               // rows and columns of H in shared memory
};

/// Solve the systems. If there are scaled matrices, A is not read. Systems that another method
/// might solve better are listed, in any order, if `listed` is not null; x is where that method may
/// start. If the iteration limit is the user's, it is not a reason to list a system.
template <class T, class Team>
__global__ void __launch_bounds__(Team::threads, Team::blocks)
    nnls_gram(const NnlsSystems<T> systems, const GramMemory memory) {
    __shared__ typename Team::Storage storage;
    Team team(storage, memory.barrier);
    const GramOptions<Team> options{systems.m, systems.n, systems.kind, systems.tol,
                                    systems.maxiter};

    __shared__ GramArrays<Team> arrays_of_block;
    GramArrays<Team> arrays_of_thread;
    GramArrays<Team>& arrays = Team::is_small ? arrays_of_thread : arrays_of_block;
    __shared__ NnlsResults<T> results_of_block;
    const NnlsResults<T> results_of_thread = systems.results();
    const NnlsResults<T>& results = Team::is_small ? results_of_thread : results_of_block;
    if (!Team::is_small && threadIdx.x == 0) results_of_block = results_of_thread;
    constexpr bool scales = Team::is_small;
    const bool scales_once = scales && (Team::shares_matrix || memory.matrix_bytes > 0);
    if (Team::places()) {
        unsigned char* shared = dynamic_shared_memory();
        TeamMemory of_all{shared};
        if constexpr (scales)
            if (scales_once) arrays.matrix.place(of_all, options);
        shared += memory.matrix_bytes + Team::memory_of_block() * memory.shared_bytes;
        unsigned char* global = memory.workspace + Team::index() * memory.workspace_stride;
        unsigned char*& of_vectors = Team::has_near_vectors ? shared : global;
        TeamMemory vectors{of_vectors};
        if constexpr (scales)
            if (!scales_once) arrays.matrix.place(vectors, options);
        arrays.place(vectors, options);
        if (scales) arrays.refer_to_norms(options);
        of_vectors += memory.vectors_bytes;
        arrays.inverse.place(shared, global, memory.side);
    }
    if constexpr (scales)
        if (scales_once)
            scale_matrix<BlockTeam>(arrays.matrix, options, systems.matrix_of(0),
                                    systems.variables_of(0));

    for (long long k = Team::index(); team.any(k < systems.count); k += Team::teams()) {
        const bool exists = k < systems.count;
        const long long number = systems.first + (exists ? k : 0);
        if constexpr (scales) {
            if (!scales_once)
                scale_matrix<Team>(arrays.matrix, options, systems.matrix_of(number),
                                   systems.variables_of(number));
        } else {
            if (Team::places()) {
                arrays.matrix.refer(BatchOffsets{memory.which, memory.which_stride}[k], options,
                                    memory.columns, memory.G, memory.norm, memory.column_shift);
                arrays.refer_to_norms(options);
            }
            team.sync();
        }
        GramSolver<T, Team> solver{
            {{{team, options, arrays, PassiveInverse<Team>{arrays.inverse}, systems.b_of(number),
               systems.b_stride, systems.weights_of(number)}}}};
        solver.run(exists, systems, results, k, number);
        team.sync();
    }
}
