// Products of small matrices in memory with vectors, by a team. Matrices are stored row by row.
//
// A CPU computes them with several numbers at once: cpu/serial_products_of_rows.cuh.

#pragma once

#include "compensated.cuh"
#include "team.cuh"

/// The sum of value(i) over all i < count.
template <class Team, class Value>
__device__ __forceinline__ double sum_over(Team& team, int count, Value value) {
    double sum = 0;
    for_each<Team>(count, [&](int i) { sum += value(i); });
    return team.reduce(sum, Add<double>());
}

/// The largest value(i) over all i < count, at least 0; infinite if a value is NaN.
template <class Team, class Value>
__device__ __forceinline__ double largest_over(Team& team, int count, Value value) {
    double largest = 0;
    for_each<Team>(count, [&](int i) { largest = MaxMagnitude<double>()(largest, value(i)); });
    return team.reduce(largest, MaxMagnitude<double>());
}

/// body(i, j) for every element of a matrix of rows x columns.
template <class Team, class Body>
__device__ __forceinline__ void for_each_element(Team&, int rows, int columns, Body body) {
    for_each<Team>(rows * columns, [&](int e) { body(e / columns, e % columns); });
}

/// An element, or its magnitude.
template <bool magnitudes>
__device__ __forceinline__ double element(double value) {
    return magnitudes ? fabs(value) : value;
}

/// out += the sum of all y[i] row(i), i < rows; vectors of `count` elements.
template <class Team, class Row>
__device__ __forceinline__ void add_rows(Team&, int rows, const double* y, Row row, int count,
                                         double* out) {
    for_each<Team>(count, [&](int j) {
        double sum = 0;
        for (int i = 0; i < rows; ++i) sum += y[i] * row(i)[j];
        out[j] += sum;
    });
}

/// out = M x for a matrix of rows x columns; |M| |x| if `magnitudes`.
template <bool magnitudes = false, class Team>
__device__ void multiply(Team& team, const double* M, int rows, int columns, const double* x,
                         double* out) {
    for (int i = Team::group(); i < rows; i += Team::groups()) {
        double sum = 0;
        for (int j = Team::lane(); j < columns; j += Team::lanes())
            sum += element<magnitudes>(M[static_cast<long long>(i) * columns + j] * x[j]);
        sum = Team::reduce_group(sum, Add<double>());
        if (Team::lane() == 0) out[i] = sum;
    }
    team.sync();
}

/// out += M^T y; |M|^T |y| if `magnitudes`.
template <bool magnitudes = false, class Team>
__device__ void add_transposed(Team& team, const double* M, int rows, int columns, const double* y,
                               double* out) {
    for_each<Team>(columns, [&](int j) {
        double sum = 0;
        for (int i = 0; i < rows; ++i)
            sum += element<magnitudes>(M[static_cast<long long>(i) * columns + j] * y[i]);
        out[j] += sum;
    });
    team.sync();
}

/// out += the squares of the elements of each column.
template <class Team>
__device__ void add_squares(Team& team, const double* M, int rows, int columns, double* out) {
    for_each<Team>(columns, [&](int j) {
        double sum = 0;
        for (int i = 0; i < rows; ++i) {
            const double value = M[static_cast<long long>(i) * columns + j];
            sum += value * value;
        }
        out[j] += sum;
    });
    team.sync();
}

/// H += M^T M, in the lower triangle.
template <class Team>
__device__ void add_gram(Team& team, const double* M, int rows, int columns, double* H) {
    for_each<Team>(columns * columns, [&](int at) {
        const int j = at / columns, i = at % columns;
        if (i > j) return;
        double sum = 0;
        for (int row = 0; row < rows; ++row) {
            const double* of = M + static_cast<long long>(row) * columns;
            sum += of[i] * of[j];
        }
        H[at] += sum;
    });
    team.sync();
}

/// out = M U for an upper triangular matrix U of columns x columns.
template <class Team>
__device__ void multiply_upper(Team& team, const double* M, int rows, int columns, const double* U,
                               double* out) {
    for_each<Team>(rows * columns, [&](int at) {
        const int i = at / columns, j = at % columns;
        double sum = 0;
        for (int l = 0; l <= j; ++l) sum += M[i * columns + l] * U[l * columns + j];
        out[at] = sum;
    });
    team.sync();
}

/// Replace the lower triangle H by its Cholesky factor. False if a pivot is at most `least`.
template <class Team>
__device__ bool factorise(Team& team, double* H, int n, double least) {
    for (int i = 0; i < n; ++i) {
        double* const row = H + i * n;
        const double pivot = row[i] - sum_over(team, i, [&](int l) { return row[l] * row[l]; });
        if (!(pivot > least) || team.is_stopped()) return false;
        team.sync();
        const double root = sqrt(pivot), inverse = 1 / root;
        for_each<Team>(n - i, [&](int step) {
            const int j = i + step;
            double* const other = H + j * n;
            if (step == 0)
                other[i] = root;
            else
                other[i] = (other[i] - dot(team, row, other, i)) * inverse;
        });
        team.sync();
    }
    return true;
}

/// a b, computed by one thread.
template <class Team>
__device__ __forceinline__ double dot(Team&, const double* a, const double* b, int count) {
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += a[i] * b[i];
    return sum;
}

/// J = L^-T for a lower triangular L; J is upper triangular, with zeros below.
template <class Team>
__device__ void invert_transposed(Team& team, const double* L, int n, double* J) {
    for_each<Team>(n, [&](int column) {
        // Column `column` of L^-1 is a row of J.
        double* const out = J + column * n;
        for (int j = 0; j < n; ++j) {
            if (j < column) {
                out[j] = 0;
                continue;
            }
            double value = j == column ? 1 : 0;
            value -= dot(team, L + j * n + column, out + column, j - column);
            out[j] = value / L[j * n + j];
        }
    });
    team.sync();
}

/// x = L^-1 x for the first `count` rows of a lower triangular L, whose rows have `pitch` elements,
/// and whose diagonal has the inverses of its elements.
template <class Team>
__device__ void solve_lower(Team& team, const double* L, int pitch, int count, double* x) {
    for (int c = 0; c < count; ++c) {
        const double value = x[c] * L[c * pitch + c];
        team.sync();
        for_each<Team>(count - c, [&](int step) {
            const int i = c + step;
            x[i] = step == 0 ? value : x[i] - L[i * pitch + c] * value;
        });
        team.sync();
    }
}

/// x = L^-T x.
template <class Team>
__device__ void solve_transposed(Team& team, const double* L, int pitch, int count, double* x) {
    for (int c = count - 1; c >= 0; --c) {
        const double value = x[c] * L[c * pitch + c];
        team.sync();
        for_each<Team>(c + 1,
                       [&](int i) { x[i] = i == c ? value : x[i] - L[c * pitch + i] * value; });
        team.sync();
    }
}

/// start - sum_j row_j x_j, with elements `step` apart, in twice the working precision.
__device__ __forceinline__ double accurate_difference(double start, const double* row, int step,
                                                      const double* x, int count) {
    Twofold<double> sum{start, 0};
    for (int j = 0; j < count; ++j)
        sum = AddTwofold<double>()(sum, two_product(-row[static_cast<long long>(j) * step], x[j]));
    return sum.high + sum.low;
}

/// high + low -= M^T y in twice the working precision.
template <class Team>
__device__ void subtract_transposed(Team& team, const double* M, int rows, int columns,
                                    const double* y, double* high, double* low) {
    for_each<Team>(columns, [&](int j) {
        Twofold<double> sum{high[j], low[j]};
        for (int i = 0; i < rows; ++i)
            sum = AddTwofold<double>()(
                sum, two_product(-M[static_cast<long long>(i) * columns + j], y[i]));
        high[j] = sum.high;
        low[j] = sum.low;
    });
    team.sync();
}
