// Least squares with linear constraints: a system in scaled variables, and its factors.
//
//     x = argmin of |A x - b|^2 / 2 + sum_j (l1_j x_j + l2_j x_j^2 / 2)
//         subject to C x >= d, or C x = d, and lower <= x <= upper
//
// Rows. The constraints are rows of C: -A_ub, A_eq, and a row of ones if the sum of x is fixed.
// Behind them the unit vectors of the bounded variables are rows, too.
//
// Scaling. Variables, b and rows are multiplied by powers of two: this is exact.
//
// Factors. With H = A^T A + diag(l2) = J^-T J^-1, M = C J, and the inner products M M^T of the rows
// that were active. If columns of A are almost dependent, H has a proximal term. Systems that
// share A and C share all these matrices.

#pragma once

#include "nnls_systems.cuh"
#include "team_rows.cuh"

/// The linear constraints of a batch. Strides and offsets are in elements. The fields are as in
/// gpusolve/_nnls/nnls_constrained_kernel.py.
template <class T>
struct ConstraintRows {
    const double* C_ub;
    const long long* C_ub_offset;
    long long C_ub_batch_stride, C_ub_row_stride, C_ub_column_stride;
    const double* d_ub;
    const long long* d_ub_offset;
    long long d_ub_batch_stride, d_ub_stride;
    const double* C_eq;
    const long long* C_eq_offset;
    long long C_eq_batch_stride, C_eq_row_stride, C_eq_column_stride;
    const double* d_eq;
    const long long* d_eq_offset;
    long long d_eq_batch_stride, d_eq_stride;
    int below, equal;  // rows of A_ub and of A_eq
    int same_l2;       // whether all systems have the same l2
    int at_once;       // systems that a thread takes from the counter
    int method;        // that results name
    int is_gram;       // whether A and b are G and c of x G x / 2 - c x
    double eps;        // the rounding of G
    T *dual_ub, *dual_eq;

    /// The rows of A_ub and of A_eq of system k of the batch, if there are any.
    __device__ const double* ub_of(long long k) const {
        return C_ub + BatchOffsets{C_ub_offset, C_ub_batch_stride}[k];
    }
    __device__ const double* eq_of(long long k) const {
        return C_eq + BatchOffsets{C_eq_offset, C_eq_batch_stride}[k];
    }
};

/// The arrays of a team. Matrices are stored row by row.
struct ConstrainedArrays {
    int m, n, k;  // rows of A, variables, rows of C
    // What systems may share.
    Vector<double> A, norm, scale, C, row_scale, per_unit, J, M, inner;
    Vector<int> has_inner;
    // Of the system.
    Vector<double> b, r, image, lower, upper, l1, l2, side, terms, missing;
    Vector<double> x, x_rest, slope, w, e, v, old_x, old_rest, old_w, size, push;
    Vector<double> value, multiplier, low, high, tolerance, weight, order, L, l, along, general;
    Vector<int> state, active;

    template <class T>
    __device__ void set_sizes(const NnlsSystems<T>& systems, const ConstraintRows<T>& constraints) {
        m = systems.m;
        n = systems.n;
        k = constraints.below + constraints.equal + ((systems.kind & with_sum) != 0);
    }

    __device__ int rows() const { return k + n; }

    __device__ void place(TeamMemory& memory) {
        const long long N = n, R = rows();
        memory.take(A, m * N);
        memory.take(C, k * N);
        memory.take(J, N * N);
        memory.take(M, k * N);
        memory.take(inner, R * R);
        memory.take(L, N * N);
        Vector<double>* const by_variable[] = {
            &norm, &scale, &lower, &upper,    &l1,    &l2,   &x,    &x_rest, &slope, &w,
            &e,    &v,     &old_x, &old_rest, &old_w, &size, &push, &l,      &along};
        for (Vector<double>* one : by_variable) memory.take(*one, N);
        Vector<double>* const by_constraint[] = {&row_scale, &per_unit, &side,
                                                 &terms,     &missing,  &general};
        for (Vector<double>* one : by_constraint) memory.take(*one, k);
        Vector<double>* const by_row[] = {&b, &r, &image};
        for (Vector<double>* one : by_row) memory.take(*one, m);
        Vector<double>* const by_any_row[] = {&value,     &multiplier, &low,  &high,
                                              &tolerance, &weight,     &order};
        for (Vector<double>* one : by_any_row) memory.take(*one, R);
        memory.take(has_inner, R);
        memory.take(state, R);
        memory.take(active, N);
    }
};

constexpr double dependent_pivot = 1e-10;    // of H: a smaller pivot needs the proximal term
constexpr double proximal_weight = 0x1p-20;  // its weight; diagonal elements of H are up to 1

constexpr double null_units = 8;
constexpr int rows_at_once = 256;  // after which a stop is noticed

/// 2^-e for a magnitude of m 2^e with m in [0.5, 1); 1 for zero.
__device__ __forceinline__ double scale_to_one(double value) {
    return value == 0 ? 1.0 : inverse_power_of_two(value);
}

/// The matrices of a system, read and scaled by its team.
template <class T, class Team>
struct ConstrainedMatrices {
    Team& team;
    ConstrainedArrays& at;
    const NnlsSystems<T>& systems;
    const ConstraintRows<T>& rows;

    __device__ bool has_sum() const { return systems.kind & with_sum; }

    /// Element j of row i of the given constraints, as rows with a lower side.
    __device__ double given_row(const double* of_ub, const double* of_eq, int i, int j) const {
        if (i < rows.below) return -of_ub[i * rows.C_ub_row_stride + j * rows.C_ub_column_stride];
        if (i < rows.below + rows.equal)
            return of_eq[(i - rows.below) * rows.C_eq_row_stride + j * rows.C_eq_column_stride];
        return 1;
    }

    /// Read and scale A and C, and factorise. False if an element is not finite or too large.
    __device__ bool read(long long number) {
        const int m = at.m, n = at.n, k = at.k;
        const auto A = systems.matrix_of(number);
        const auto variables = systems.variables_of(number);
        const double *const of_ub = rows.ub_of(number), *const of_eq = rows.eq_of(number);
        for_each_element(team, m, n, [&](int i, int j) { at.A[i * n + j] = A(i, j); });
        for_each_element(team, k, n,
                         [&](int i, int j) { at.C[i * n + j] = given_row(of_ub, of_eq, i, j); });
        for_each<Team>(n, [&](int j) { at.e[j] = 0; });
        if (!rows.is_gram) add_squares(team, at.A.first, m, n, at.e.first);
        for_each<Team>(n, [&](int j) {
            double squares = rows.is_gram ? at.A[j * n + j] : at.e[j];
            const double root = variables.root_l2(j);
            squares += root * root;
            double size = sqrt(squares);
            if (squares == 0)
                for (int i = 0; i < k; ++i) size = fmax(size, fabs(at.C[i * n + j]));
            at.scale[j] = scale_to_one(size);
            at.l2[j] = root * root * at.scale[j] * at.scale[j];
            at.norm[j] = squares == 0 ? 0 : size * at.scale[j];
            // Squares that are out of range are left to a slower solver.
            at.e[j] = squares == 0 || (squares > 1e-200 && squares < 1e200)
                          ? size
                          : Floating<double>::nan();
        });
        if (!(largest_over(team, n, [&](int j) { return at.e[j]; }) < Floating<double>::infinity()))
            return false;
        for_each_element(team, m, n, [&](int i, int j) {
            at.A[i * n + j] *= at.scale[j] * (rows.is_gram ? at.scale[i] : 1.0);
        });
        for_each<Team>(k, [&](int i) {
            double* const row = at.C.first + i * n;
            double largest = 0;
            for (int j = 0; j < n; ++j) {
                row[j] *= at.scale[j];
                largest = MaxMagnitude<double>()(largest, magnitude(row[j]));
            }
            at.row_scale[i] = largest < Floating<double>::infinity() ? scale_to_one(largest)
                                                                     : Floating<double>::nan();
            double per_unit = 0;
            for (int j = 0; j < n; ++j) {
                row[j] *= at.row_scale[i];
                per_unit += fabs(row[j]) / column_size(j);
            }
            at.per_unit[i] = per_unit;
        });
        if (!(largest_over(team, k, [&](int i) { return magnitude(at.per_unit[i]); }) <
              Floating<double>::infinity()))
            return false;
        return factorise_matrix();
    }

    /// Whether no eigenvalue of H is as small as rounding errors of G; NULL of
    /// gpusolve/_nnls/bounded_qp.py.
    __device__ bool is_definite() {
        const int n = at.n;
        const double inverse = sum_over(team, n * n, [&](int e) { return at.J[e] * at.J[e]; });
        const double trace = sum_over(team, n, [&](int j) { return at.norm[j] * at.norm[j]; });
        return 1 > null_units * n * rows.eps * trace * inverse;
    }

    __device__ double column_size(int j) const { return at.norm[j] > 0 ? at.norm[j] : 1.0; }

    __device__ bool factorise_matrix() {
        const int n = at.n;
        double* const H = at.L.first;
        for (int attempt = 0; attempt < 2; ++attempt) {
            for_each_element(team, n, n, [&](int i, int j) {
                H[i * n + j] = i == j ? at.l2[j] + attempt * proximal_weight : 0;
            });
            if (rows.is_gram) {
                for_each<Team>(n * n, [&](int e) { H[e] += at.A[e]; });
                team.sync();
            } else {
                for (int i = 0; i < at.m; i += rows_at_once) {
                    if (team.is_stopped()) return false;
                    const double* const part = at.A.first + static_cast<long long>(i) * n;
                    add_gram(team, part, min(rows_at_once, at.m - i), n, H);
                }
            }
            if (factorise(team, H, n, dependent_pivot)) break;
            if (attempt == 1 || rows.is_gram) return false;
            team.sync();
        }
        invert_transposed(team, H, n, at.J.first);
        if (rows.is_gram && !is_definite()) return false;
        for (int i = 0; i < at.k; i += rows_at_once) {
            if (team.is_stopped()) return false;
            const long long first = static_cast<long long>(i) * n;
            multiply_upper(team, at.C.first + first, min(rows_at_once, at.k - i), n, at.J.first,
                           at.M.first + first);
        }
        for_each<Team>(at.rows(), [&](int i) { at.has_inner[i] = 0; });
        team.sync();
        return true;
    }
};
