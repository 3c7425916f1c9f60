// Changes of a QR factorisation by a block, with nothing else, so that a profile counts them.
//
// Source. Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on Multi-Core
// Architectures", sections 5.2 and 5.3. `as_published` is published_qr.cuh, with which
// nnls_mgs.cu solves; `as_solved` is passive_qr.cuh, with which nnls_qr.cu solves. A is
// orthogonalised already, but for its last column.
//
// A launch does its change `steps` times, 0 or 1: the difference of two launches is the cost of a
// change, without the cost of starting and ending.

#include "passive_qr.cuh"
#include "published_qr.cuh"

enum Change : int { update, downdate };

constexpr int rows = 512;
constexpr int most_columns = 128;

/// A (rows x n) is orthogonalised but for its last column, which an update appends. A downdate
/// removes the column at `position`. `order` is the list of slots after the change.
template <class T>
__global__ void as_published(const T* A, const T* b, int n, int change, int steps, int position,
                             int printed, int apart, T* Q, T* R, int* order) {
    __shared__ T sums[2 * rows];
    __shared__ T column[rows];
    __shared__ T row[most_columns], rhs[most_columns];
    __shared__ T angle[2];
    __shared__ int list[most_columns];
    const int i = threadIdx.x, length = n - 1;
    if (i < n) list[i] = i;
    if (i < n) rhs[i] = T(0);
    const T last = A[rows * length + i], given = b[i];
    __syncthreads();
    PublishedQR<T> factors{rows, n, Q, R, rhs, nullptr, row, column, angle, list, length};
    Products<T> dot{sums, apart, 0};
    const OwnRows<T> of_last(last, column, rows), of_b(given, column, rows);
    if (steps > 0 && change == update) factors.append(of_last, of_b, T(0), printed != 0, dot);
    if (steps > 0 && change == downdate) factors.remove(position);
    if (i < n) order[i] = list[i];
}

/// The same by passive_qr.cuh. R has two more columns, and columns of R are contiguous. The
/// addresses of the arrays are in registers, so that only the arrays count.
template <class T>
__global__ void as_solved(const T* A, const T* b, const T* norm, int n, int change, int steps,
                          int position, T* Q, T* R, int* order) {
    __shared__ typename BlockReduce<T>::Storage storage;
    __shared__ T column[rows], residual[rows];
    __shared__ T coefficients[4][most_columns + 2];
    __shared__ int list[most_columns], variables[most_columns];
    const int length = n - 1;
    const PassiveQRArrays<T> at{rows,
                                n,
                                norm,
                                Q,
                                R,
                                residual,
                                column,
                                coefficients[0],
                                coefficients[1],
                                coefficients[2],
                                coefficients[3],
                                list,
                                variables};
    for (int p = threadIdx.x; p < n; p += blockDim.x) list[p] = variables[p] = p;
    for (int i = threadIdx.x; i < rows; i += blockDim.x) {
        column[i] = A[rows * length + i];
        residual[i] = b[i];
    }
    __syncthreads();
    PassiveQR<T> factors{at, length};
    BlockReduce<T> reduce(storage);
    if (steps > 0 && change == update) {
        const auto split = factors.project(4 * Floating<T>::epsilon, reduce);
        factors.append(length, T(0), T(0), split, false, -Floating<T>::infinity(), reduce);
    }
    if (steps > 0 && change == downdate) factors.remove(position, T(0));
    for (int p = threadIdx.x; p < n; p += blockDim.x) order[p] = list[p];
}
