// The scaled matrix of a system for a team of one thread: see gram_matrix.cuh.

#pragma once

#include "../gram_matrix.cuh"
#include "serial_team.cuh"

/// Columns are in order. G is computed if the columns for each system are so few that most
/// elements of G are needed.
template <>
struct GramMatrix<SerialTeam> {
    Vector<double> entries;
    long long leading;
    Vector<double> G, norm;
    Vector<int> column_shift;

    bool has_gram() const { return G.first != nullptr; }

    void place(TeamMemory& memory, const GramOptions<SerialTeam>& options, bool with_gram) {
        leading = options.height();
        memory.take(entries, leading * options.n);
        memory.take(norm, options.n);
        memory.take(column_shift, options.n);
        G.first = nullptr;
        if (with_gram) memory.take(G, static_cast<long long>(options.n) * options.n);
    }

    Vector<double> column(int j) const { return entries.from(leading * j); }
    MatrixView view() const { return {entries, 1, leading}; }
    double& operator()(int i, int j) const { return column(j)[i]; }
};

/// The rows whose products are added to G before the next rows are read: they stay in a cache.
constexpr int rows_at_once = 512;

/// Copy some columns of a given matrix with its weights, all in a pass over its rows.
template <int count, class T>
__forceinline__ void copy_columns(const GramMatrix<SerialTeam>& at, int m,
                                  const GivenMatrix<T>& given, int first) {
    double* columns[count];
    for (int q = 0; q < count; ++q) columns[q] = at.column(first + q).first;
    const T* entries = given.A + first * given.column_stride;
    for (int i = 0; i < m; ++i, entries += given.row_stride)
        for (int q = 0; q < count; ++q)
            columns[q][i] =
                given.weights.times(static_cast<double>(entries[q * given.column_stride]), i);
}

/// Copy a column whose rows are contiguous. The loops compute with several rows at once.
template <class T>
__forceinline__ void copy_contiguous(const T* from, double* to, int m, const T* root_weights) {
    if (root_weights == nullptr)
        for (int i = 0; i < m; ++i) to[i] = static_cast<double>(from[i]);
    else
        for (int i = 0; i < m; ++i)
            to[i] = RootWeights<T>{root_weights, 1}.times(static_cast<double>(from[i]), i);
}

template <class T>
inline void copy_matrix(SerialTeam team, const GramMatrix<SerialTeam>& at, int m, int n,
                        const GivenMatrix<T>& given) {
    const RootWeights<T>& weights = given.weights;
    const bool contiguous =
        given.row_stride == 1 && (weights.root == nullptr || weights.stride == 1);
    int j = 0;
    for (; contiguous && j < n; ++j) {
        if (team.is_stopped()) return;
        copy_contiguous(given.A + j * given.column_stride, at.column(j).first, m, weights.root);
    }
    for (; j + four <= n; j += four) {
        if (team.is_stopped()) return;
        copy_columns<four>(at, m, given, j);
    }
    for (; j < n; ++j) copy_columns<1>(at, m, given, j);
}

/// Add the products of two and four columns with each other, in some rows, to G.
__forceinline__ void multiply_tile(const GramMatrix<SerialTeam>& at, int begin, int end, int n,
                                   int j, int k) {
    const double *one[2], *other[four];
    for (int p = 0; p < 2; ++p) one[p] = at.column(min(j + p, n - 1)).first;
    for (int q = 0; q < four; ++q) other[q] = at.column(min(k + q, n - 1)).first;
    Four sum[2][four] = {};
    int i = begin;
    for (; i + four <= end; i += four) {
        const Four first = load_four(one[0] + i), second = load_four(one[1] + i);
        for (int q = 0; q < four; ++q) {
            const Four value = load_four(other[q] + i);
            sum[0][q] = multiply_add(first, value, sum[0][q]);
            sum[1][q] = multiply_add(second, value, sum[1][q]);
        }
    }
    double total[2][four];
    for (int p = 0; p < 2; ++p)
        for (int q = 0; q < four; ++q) total[p][q] = sum_of_four(sum[p][q]);
    for (int p = 0; p < 2; ++p)
        for (int q = 0; q < four; ++q) {
            if (j + p >= n || k + q > j + p) continue;
            double& product = at.G[(j + p) * static_cast<long long>(n) + k + q];
            double rest = begin == 0 ? 0 : product;
            for (int r = i; r < end; ++r) rest = multiply_add(one[p][r], other[q][r], rest);
            product = total[p][q] + rest;
            at.G[(k + q) * static_cast<long long>(n) + j + p] = product;
        }
}

/// Scale a matrix, and compute the norms of its columns and, if needed, G. The scales include the
/// l2 penalty: `root_l2`, or the penalty of the system if `root_l2` is null.
template <class T>
inline void scale_matrix(SerialTeam team, const GramMatrix<SerialTeam>& at,
                         const GramOptions<SerialTeam>& options, const GivenMatrix<T>& given,
                         const Variables& variables, const double* root_l2) {
    const int m = options.m, n = options.n, height = options.height();
    copy_matrix(team, at, m, n, given);
    for (int j = 0; j < n; ++j) {
        double* column = at.column(j).first;
        const double penalty = root_l2 != nullptr ? root_l2[j] : variables.root_l2(j);
        const auto square = [&](int shift) {
            const double damping = shifted(penalty, shift);
            return dot(column, column, m) + damping * damping;
        };
        double squares = square(0);
        const int extreme = scale_column(column, 1, m, penalty, squares);
        if (extreme != 0) squares = square(extreme);
        const int shift = shift_of(squares, options.has_sum());
        const double scale = Floating<double>::power_of_two(shift);
        for (int i = 0; i < m; ++i) column[i] *= scale;
        at.column_shift[j] = extreme + shift;
    }
    if (options.has_sum()) {
        const int unit = sum_shift(at.column_shift, n);
        for (int j = 0; j < n; ++j) at(m, j) = shifted(1.0, at.column_shift[j] - unit);
    }
    if (at.has_gram())
        for (int i = 0; i < height; i += rows_at_once)
            for (int j = 0; j < n && !team.is_stopped(); j += 2)
                for (int k = 0; k <= j + 1; k += four)
                    multiply_tile(at, i, min(i + rows_at_once, height), n, j, k);
    for (int j = 0; j < n; ++j) {
        const double* column = at.column(j).first;
        const double squares = at.has_gram() ? at.G[j * (n + 1LL)] : dot(column, column, height);
        at.norm[j] = square_root(squares);
    }
}
