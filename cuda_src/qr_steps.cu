// Changes of a QR factorisation by one block, with nothing else, so that a profile counts them.
//
// Source. Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on Multi-Core
// Architectures", sections 5.2 and 5.3. `as_published` maps Algorithms 2 and 3 as they do: a thread
// for each of 512 rows, Q and R in global memory, scalar products by reduce512. `as_solved` is
// passive_qr.cuh, with which nnls_qr.cu solves. A is orthogonalised already, but for its last
// column.
//
// A launch does its change `steps` times, 0 or 1: the difference of two launches is what a change
// costs, without what it needs to start and to end.

#include "passive_qr.cuh"

enum Change : int { update, downdate };

constexpr int rows = 512;
constexpr int most_columns = 128;

/// The scalar product of two vectors of which each thread has an element, by reduce512.
///
/// Two arrays, `apart` elements apart, are used in turn: a thread that is already in the next
/// product would otherwise replace the sum that others still have to read. 0 is the listing's one
/// array.
template <class T>
struct Products {
    T* sums;
    int apart;
    int turn;

    __device__ T operator()(T x, T y) {
        turn = apart - turn;
        sums[turn + threadIdx.x] = x * y;
        return reduce512(sums + turn, threadIdx.x, Add<T>());
    }
};

/// The factorisation of one block as in section 5.3.
template <class T>
struct PublishedQR {
    T* Q;       // global: a column contiguous
    T* R;       // global: a row contiguous
    T* rhs;     // shared: Q^T b, by slot
    T* row;     // shared: the row of R that a downdate rotates away
    T* column;  // shared: its column of Q
    T* angle;   // shared: cosine and sine
    int* list;  // shared: the paper's P-hat; free slots follow those in use
    int capacity;

    __device__ T& q(int slot) const { return Q[rows * slot + threadIdx.x]; }
    __device__ T& r(int row_slot, int column_slot) const {
        return R[capacity * row_slot + column_slot];
    }

    /// The MGS update (Algorithm 2). `a` and `b` are elements of this thread's row. As `printed`,
    /// R has the products with the column itself, which costs a second product.
    __device__ void append(T a, T b, int length, bool printed, Products<T>& dot) const {
        T u = a, entry = 0;
        for (int p = 0; p < length; ++p) {
            const T with = q(list[p]), along = dot(with, u);
            const T of_r = printed ? dot(with, a) : along;
            if (threadIdx.x == p) entry = of_r;
            u -= along * with;
        }
        const T norm = square_root(dot(u, u));
        u = u / norm;
        const T new_rhs = dot(u, b);
        const int slot = list[length];
        if (threadIdx.x == length) entry = norm;
        if (threadIdx.x <= length) r(list[threadIdx.x], slot) = entry;
        q(slot) = u;
        if (threadIdx.x == 0) rhs[slot] = new_rhs;
    }

    /// The Givens downdate (Algorithm 3). One thread computes a rotation for all.
    __device__ void remove(int position, int length) const {
        const int p = threadIdx.x, slot = list[position], own = list[min(p, length - 1)];
        column[p] = q(slot);
        if (p > position && p < length) row[p] = r(slot, own);
        __syncthreads();
        for (int later = position + 1; later < length; ++later) {
            const int with = list[later];
            if (p == 0) {
                const T above = row[later], below = r(with, with);
                const T hypotenuse = square_root(above * above + below * below);
                angle[0] = below / hypotenuse;
                angle[1] = above / hypotenuse;
                rotate(rhs[with], rhs[slot]);
            }
            __syncthreads();
            if (p >= later && p < length) rotate(r(with, own), row[p]);
            rotate(q(with), column[p]);
            __syncthreads();
        }
        const int next = p < length - 1 ? list[p + 1] : slot;
        __syncthreads();
        if (p >= position && p < length) list[p] = next;
    }

    __device__ void rotate(T& stays, T& travels) const {
        const T x = stays, y = travels, c = angle[0], s = angle[1];
        stays = c * x + s * y;
        travels = c * y - s * x;
    }
};

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
    const PublishedQR<T> factors{Q, R, rhs, row, column, angle, list, n};
    Products<T> dot{sums, apart, 0};
    if (steps > 0 && change == update) factors.append(last, given, length, printed != 0, dot);
    if (steps > 0 && change == downdate) factors.remove(position, length);
    if (i < n) order[i] = list[i];
}

/// The same by passive_qr.cuh. R has two more columns, and a column of it is contiguous. The
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
