// A QR factorisation of a block, updated as Luo & Duraiswami do: for nnls_mgs.cu and qr_steps.cu.
//
// Source. Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on Multi-Core
// Architectures", sections 3.1, 3.4, 5.2 and 5.3. Scalar products are Algorithm 4. The listing of
// Algorithm 3 is missing; `remove` follows section 3.4. It computes a rotation by a square root of
// a sum of squares, which does not overflow: columns are scaled. The specification in NumPy is
// gpusolve/studies/_qr_updating.py, class GramSchmidtQR.
//
// Mapping. A thread has one of 512 rows of every column, in registers. If there are more rows, it
// also has every 512th row after this row, in memory. One thread computes each rotation.
//
// Memory. Q and R are in global memory. Slots never move: the paper's list P-hat has them in the
// order in which columns were appended, and free slots follow. A column of Q and a row of R are
// contiguous.
//
// Cost, with l columns. append: 10 l + 10 barriers as printed. remove: 2 (l - i) + 2 barriers.
// solve: l barriers; the paper does not say how it solves.

#pragma once

#include "block.cuh"
#include "floating.cuh"

constexpr int published_threads = 512;

/// The rows of a vector that belong to this thread: the first is in a register.
template <class T>
struct OwnRows {
    T first;
    T* memory;  // of all rows; the first 512 are not used
    int rows;

    __device__ OwnRows(T first, T* memory, int rows) : first(first), memory(memory), rows(rows) {}
    /// Load a column.
    __device__ OwnRows(T* column, int rows)
        : OwnRows(threadIdx.x < rows ? column[threadIdx.x] : T(0), column, rows) {}

    __device__ T operator()(int i) const { return i == threadIdx.x ? first : memory[i]; }

    /// Call body(element, i) for each row i.
    template <class Body>
    __device__ void each(Body body) {
        if (threadIdx.x < rows) body(first, threadIdx.x);
#pragma unroll 1
        for (int i = threadIdx.x + published_threads; i < rows; i += published_threads)
            body(memory[i], i);
    }
};

/// `reduce512`, called instead of inlined.
template <class T>
__device__ __noinline__ T sum_512(T* sums) {
    return reduce512(sums, threadIdx.x, Add<T>());
}

/// Scalar products by reduce512.
///
/// Two arrays, `apart` elements apart, are used in turn: a thread that is already in the next
/// product would otherwise replace the sum that other threads still have to read. With 0 there is
/// a single array, as in the listing.
template <class T>
struct Products {
    T* sums;
    int apart;
    int turn;

    template <class X, class Y>
    __device__ T operator()(int rows, const X& x, const Y& y) {
        T terms = 0;
#pragma unroll 1
        for (int i = threadIdx.x; i < rows; i += published_threads) terms += x(i) * y(i);
        turn = apart - turn;
        sums[turn + threadIdx.x] = terms;
        return sum_512(sums + turn);
    }
};

/// The factorisation of a block as in section 5.3.
template <class T>
struct PublishedQR {
    int rows, capacity;
    T* Q;       // global: rows x capacity, a column contiguous
    T* R;       // global: capacity x capacity, a row contiguous
    T* rhs;     // shared: Q^T b, by slot
    T* shift;   // by slot: the s of R^T s = penalty; null without a penalty
    T* row;     // shared: the row of R that a downdate rotates away
    T* column;  // shared: the column of Q that leaves; the orthogonal part of a new column
    T* angle;   // shared: cosine and sine
    int* list;  // shared: the paper's P-hat
    int length;

    __device__ T* q(int slot) const { return Q + static_cast<long long>(rows) * slot; }
    __device__ T& r(int row_slot, int column_slot) const {
        return R[static_cast<long long>(capacity) * row_slot + column_slot];
    }

    /// The MGS update (Algorithm 2), to the first free slot, which one thread may have written to
    /// the list just before: the sums have barriers. Returns the norm of the part of `a` that is
    /// orthogonal to the other columns. As `printed`, R has the products with the column itself
    /// (line 4), which costs a second product. Other threads see the column after the caller's
    /// next barrier.
    template <class B>
    __device__ T append(OwnRows<T> a, const B& b, T penalty, bool printed, Products<T>& dot) {
        OwnRows<T> u(a.first, column, rows);
        u.each([&](T& element, int i) { element = a(i); });
        T entry = 0;
        const auto keep = [&](int p, T of_r) {
            const int turn = p % published_threads;
            if (threadIdx.x == turn) entry = of_r;
            if (turn < published_threads - 1 && p < length) return;
            if (threadIdx.x <= turn) r(list[p - turn + threadIdx.x], list[length]) = entry;
        };
#pragma unroll 1
        for (int p = 0; p < length; ++p) {
            const OwnRows<T> with(q(list[p]), rows);
            const T along = dot(rows, with, u);
            const T of_r = printed ? dot(rows, with, a) : along;
            u.each([&](T& element, int i) { element -= along * with(i); });
            if (shift != nullptr) penalty -= of_r * shift[list[p]];
            keep(p, of_r);
        }
        const T norm = square_root(dot(rows, u, u));
        u.each([&](T& element, int) { element = element / norm; });
        const T new_rhs = dot(rows, u, b);
        const int slot = list[length];
        keep(length, norm);
        T* const new_column = q(slot);
        u.each([&](T& element, int i) { new_column[i] = element; });
        if (threadIdx.x == 0) {
            rhs[slot] = new_rhs;
            if (shift != nullptr) shift[slot] = penalty / norm;
        }
        ++length;
        return norm;
    }

    /// The Givens downdate (Algorithm 3). Other threads see the list after the caller's next
    /// barrier.
    __device__ void remove(int position) {
        const int slot = list[position], own = list[min(static_cast<int>(threadIdx.x), length - 1)];
#pragma unroll 1
        for (int i = threadIdx.x; i < rows; i += published_threads) column[i] = q(slot)[i];
        each_after(position, own, [&](int p, int column_slot) { row[p] = r(slot, column_slot); });
        __syncthreads();
#pragma unroll 1
        for (int later = position + 1; later < length; ++later) {
            const int with = list[later];
            if (threadIdx.x == 0) {
                const T above = row[later], below = r(with, with);
                const T hypotenuse = square_root(above * above + below * below);
                angle[0] = below / hypotenuse;
                angle[1] = above / hypotenuse;
                rotate(rhs[with], rhs[slot]);
                if (shift != nullptr) rotate(shift[with], shift[slot]);
            }
            __syncthreads();
            each_after(later - 1, own,
                       [&](int p, int column_slot) { rotate(r(with, column_slot), row[p]); });
#pragma unroll 1
            for (int i = threadIdx.x; i < rows; i += published_threads)
                rotate(q(with)[i], column[i]);
            __syncthreads();
        }
#pragma unroll 1
        for (int first = 0; first < length; first += published_threads) {
            const int p = first + threadIdx.x, next = p < length - 1 ? list[p + 1] : slot;
            __syncthreads();
            if (p >= position && p < length) list[p] = next;
        }
        --length;
    }

    /// Solve R y = Q^T b, up to the shift: `solution` is y by position. `rest` has room for as
    /// many numbers as y. Other threads see y after the caller's next barrier.
    __device__ void solve(T* rest, T* solution) const {
#pragma unroll 1
        for (int p = threadIdx.x; p < length; p += published_threads) {
            rest[p] = rhs[list[p]];
            if (shift != nullptr) rest[p] -= shift[list[p]];
        }
#pragma unroll 1
        for (int p = length - 1; p >= 0; --p) {
            const int slot = list[p];
            __syncthreads();
            const T known = rest[p] / r(slot, slot);
            if (threadIdx.x == p % published_threads) solution[p] = known;
#pragma unroll 1
            for (int above = threadIdx.x; above < p; above += published_threads)
                rest[above] -= r(list[above], slot) * known;
        }
    }

  private:
    /// Call body(p, slot) for this thread's positions after a position; `own` is the first slot.
    template <class Body>
    __device__ void each_after(int position, int own, Body body) const {
        int p = threadIdx.x;
        if (p > position && p < length) body(p, own);
#pragma unroll 1
        while ((p += published_threads) < length)
            if (p > position) body(p, list[p]);
    }

    __device__ void rotate(T& stays, T& travels) const {
        const T x = stays, y = travels, c = angle[0], s = angle[1];
        stays = c * x + s * y;
        travels = c * y - s * x;
    }
};
