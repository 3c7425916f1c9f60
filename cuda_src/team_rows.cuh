// Sums, products and triangular solves with small matrices, by a team. Matrices are stored row by
// row.
//
// All functions end with a barrier. A team of one thread has its own products and solves:
// cpu/serial_rows.cuh.

#pragma once

#include "compensated.cuh"
#include "team.cuh"

/// The sum of value(i) over all i < count.
template <class Team, class Value>
__device__ __forceinline__ double sum_over(Team& team, int count, Value value) {
    double sum = 0;
    for_each<Team>(count, [&](int i) { sum += value(i); });
    return team.reduce(sum, Called<Add<double>>());
}

/// The largest value(i) over all i < count, at least 0; infinite if a value is NaN.
template <class Team, class Value>
__device__ __forceinline__ double largest_over(Team& team, int count, Value value) {
    double largest = 0;
    for_each<Team>(count, [&](int i) { largest = MaxMagnitude<double>()(largest, value(i)); });
    return team.reduce(largest, Called<MaxMagnitude<double>>());
}

/// a b, for vectors of `count` elements.
template <class Team>
__device__ __forceinline__ double sum_of_products(Team& team, const double* a, const double* b,
                                                  int count) {
    return sum_over(team, count, [&](int i) { return a[i] * b[i]; });
}

/// body(i) for all elements of a vector.
template <class Team, class Body>
__device__ __forceinline__ void for_each_element(Team& team, int count, Body body) {
    for_each<Team>(count, body);
    team.sync();
}

/// body(i, j) for all elements of a matrix.
template <class Team, class Body>
__device__ __forceinline__ void for_each_element(Team& team, int rows, int columns, Body body) {
    for_each_element(team, rows * columns, [&](int e) { body(e / columns, e % columns); });
}

/// out = M x, or |M| |x|; a group of the team computes an element.
template <bool magnitudes = false, class Team>
__device__ __noinline__ void multiply(Team& team, const double* M, int rows, int columns,
                                      const double* x, double* out) {
    for (int i = Team::group(); i < rows; i += Team::groups()) {
        const double* const row = M + static_cast<long long>(i) * columns;
        double sum = 0;
        for (int j = Team::lane(); j < columns; j += Team::lanes()) {
            const double term = row[j] * x[j];
            sum += magnitudes ? fabs(term) : term;
        }
        sum = Team::reduce_group(sum, Add<double>());
        if (Team::lane() == 0) out[i] = sum;
    }
    team.sync();
}

/// out += the sum of y[i] row(i).
template <class Team, class Row>
__device__ __forceinline__ void add_rows(Team& team, int rows, const double* y, Row row, int count,
                                         double* out) {
    for_each<Team>(count, [&](int j) {
        double sum = out[j];
        for (int i = 0; i < rows; ++i) sum += y[i] * row(i)[j];
        out[j] = sum;
    });
    team.sync();
}

/// out += M^T y, or |M|^T |y|.
template <bool magnitudes = false, class Team>
__device__ __noinline__ void add_transposed(Team& team, const double* M, int rows, int columns,
                                            const double* y, double* out) {
    for_each<Team>(columns, [&](int j) {
        double sum = out[j];
        for (int i = 0; i < rows; ++i) {
            const double term = y[i] * M[static_cast<long long>(i) * columns + j];
            sum += magnitudes ? fabs(term) : term;
        }
        out[j] = sum;
    });
    team.sync();
}

/// high + low -= M^T y, in twice the working precision.
template <class Team>
__device__ void subtract_transposed(Team& team, const double* M, int rows, int columns,
                                    const double* y, double* high, double* low) {
    for_each<Team>(columns, [&](int j) {
        Twofold<double> sum{high[j], low[j]};
        for (int i = 0; i < rows; ++i)
            sum = AddTwofold<double>()(
                sum, two_product(M[static_cast<long long>(i) * columns + j], -y[i]));
        high[j] = sum.high;
        low[j] = sum.low;
    });
    team.sync();
}

/// out += the squares of the columns' norms.
template <class Team>
__device__ void add_squares(Team& team, const double* M, int rows, int columns, double* out) {
    for_each<Team>(columns, [&](int j) {
        double sum = out[j];
        for (int i = 0; i < rows; ++i) {
            const double value = M[static_cast<long long>(i) * columns + j];
            sum += value * value;
        }
        out[j] = sum;
    });
    team.sync();
}

/// H += M^T M, in the lower triangle.
template <class Team>
__device__ void add_gram(Team& team, const double* M, int rows, int columns, double* H) {
    for_each_element(team, columns, columns, [&](int j, int l) {
        if (l > j) return;
        double sum = H[j * columns + l];
        for (int i = 0; i < rows; ++i) sum += M[i * columns + j] * M[i * columns + l];
        H[j * columns + l] = sum;
    });
}

/// out = M U, for an upper triangle U that has zeros below.
template <class Team>
__device__ void multiply_upper(Team& team, const double* M, int rows, int columns, const double* U,
                               double* out) {
    for_each_element(team, rows, columns, [&](int i, int j) {
        double sum = 0;
        for (int l = 0; l <= j; ++l) sum += M[i * columns + l] * U[l * columns + j];
        out[i * columns + j] = sum;
    });
}

/// J = L^-T for a lower triangle L; a thread computes a column, from the diagonal up.
template <class Team>
__device__ void invert_transposed(Team& team, const double* L, int n, double* J) {
    for_each<Team>(n, [&](int j) {
        for (int i = n - 1; i >= 0; --i) {
            double sum = i == j ? 1 : 0;
            for (int l = i + 1; l <= j; ++l) sum -= L[l * n + i] * J[l * n + j];
            J[i * n + j] = i > j ? 0 : sum / L[i * n + i];
        }
    });
    team.sync();
}

/// x = L^-1 x. The diagonal of L has the inverses of its elements.
template <class Team>
__device__ __noinline__ void solve_lower(Team& team, const double* L, int pitch, int count,
                                         double* x) {
    for (int i = 0; i < count; ++i) {
        const double value = x[i] * L[i * pitch + i];
        for_each<Team>(count - i - 1, [&](int step) {
            const int j = i + 1 + step;
            x[j] -= L[j * pitch + i] * value;
        });
        team.sync();
    }
    for_each<Team>(count, [&](int i) { x[i] *= L[i * pitch + i]; });
    team.sync();
}

/// x = L^-T x, for the same L.
template <class Team>
__device__ __noinline__ void solve_transposed(Team& team, const double* L, int pitch, int count,
                                              double* x) {
    for (int i = count - 1; i >= 0; --i) {
        const double value = x[i] * L[i * pitch + i];
        for_each<Team>(i, [&](int j) { x[j] -= L[i * pitch + j] * value; });
        team.sync();
    }
    for_each<Team>(count, [&](int i) { x[i] *= L[i * pitch + i]; });
    team.sync();
}

/// The product of two vectors, by one thread.
template <class Team>
__device__ __forceinline__ double dot(Team&, const double* a, const double* b, int count) {
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += a[i] * b[i];
    return sum;
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

/// start - a b, for vectors of `count` elements, in twice the working precision.
__device__ __forceinline__ double accurate_difference(double start, const double* a,
                                                      const double* b, int count) {
    Twofold<double> sum{start, 0};
    for (int j = 0; j < count; ++j) sum = AddTwofold<double>()(sum, two_product(-a[j], b[j]));
    return sum.high + sum.low;
}

/// out = start - M x, in twice the working precision.
template <class Team>
__device__ __forceinline__ void subtract_products(Team& team, const double* start, const double* M,
                                                  int rows, int columns, const double* x,
                                                  double* out) {
    for_each<Team>(rows, [&](int i) {
        const double* const row = M + static_cast<long long>(i) * columns;
        out[i] = accurate_difference(start[i], row, x, columns);
    });
    team.sync();
}
