// A QR factorisation of a block, updated as columns are appended and removed.
//
//     A[:, passive] = Q R,   columns are appended at the end and removed anywhere
//
// Source. Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on Multi-Core
// Architectures", sections 3.1, 3.4 and 5.2. Difference: they orthogonalise a new column by
// modified Gram-Schmidt (Algorithm 2), which waits for each scalar product in turn. Here classical
// Gram-Schmidt, whose scalar products are independent, is repeated if cancellation requires it, and
// is as accurate: Daniel, Gragg, Kaufman & Stewart, "Reorthogonalization and stable algorithms for
// updating the Gram-Schmidt QR factorization", Mathematics of Computation
// 30 (1976).
//
// Mapping. A row of Q, of the new column and of the residual always belongs to the same thread;
// only scalar products with columns of Q are computed by one warp each. Triangular solves and
// rotations advance by 32 positions: a warp computes the positions that depend on each other, by
// shuffles, and then all threads apply them to the rest, each to its own rows or columns.
//
// Memory. The columns of Q and the rows and columns of R are stored in slots and never move.
// Position p of the factorisation is in slot slots[p]; a removal shifts only this list (the
// paper's list P-hat). So R is stored as a square: by slot, it is not triangular. R has two more
// columns, to which all rotations are applied as well. The first is Q^T b, where the fit of the
// resting variables is subtracted from b. The second is the s of R^T s = penalty. Q and R are in
// shared or global memory.
//
// Cost, with l columns and m rows. append: 4 m l operations and 5 barriers (another 4 m l and 2
// if cancellation requires a second pass; also a solve if the part orthogonal to the passive
// columns is small). remove: 6 m (l - p) operations and (l - p) / 32 + 2 barriers. solve: l^2
// operations and 2 l / 32 barriers. correct: as append. fit_row: 2 m l operations and 3 barriers.

#pragma once

#include "block.cuh"
#include "floating.cuh"

/// The scalar product of two vectors, with the same bits in every thread. A thread reads every
/// blockDim.x-th row.
template <class T>
__device__ __noinline__ T block_dot(const T* x, const T* y, int rows, T* partial) {
    T sum = 0;
    for (int i = threadIdx.x; i < rows; i += blockDim.x) sum += x[i] * y[i];
    return block_reduce(sum, partial, Called<Add<T>>());
}

template <class T>
__device__ T norm_of(const T* x, int rows, BlockReduce<T>& reduce) {
    return square_root(block_dot(x, x, rows, reduce.next()));
}

/// A vector is projected again if its norm falls below this part of its norm before.
template <class T>
constexpr T orthogonality = T(0.5);

/// A column is independent without further tests if more than this part of its norm is
/// orthogonal to the passive columns.
template <class T>
constexpr T resolved = T(1e-3);

/// The arrays of a factorisation: the same for all threads, so stored in shared memory.
template <class T>
struct PassiveQRArrays {
    int rows;
    int capacity;
    const T* norm;   // norms of all columns of A
    T* Q;            // rows x capacity, a column contiguous
    T* R;            // capacity x (capacity + 2), a column contiguous
    T* residual;     // rows: b minus its projection onto the passive columns
    T* column;       // rows: the column being appended
    T* solution;     // capacity: coefficients, by position
    T* row;          // capacity + 2: the row of R that a removal rotates away; products with Q
    T* cosine;       // capacity: the rotations of a removal
    T* sine;         // capacity
    int* slots;      // capacity: a permutation; free slots follow used slots
    int* variables;  // capacity: the variable at each position

    __device__ T* q(int slot) const { return Q + static_cast<long long>(rows) * slot; }
    __device__ T& r(int row_slot, int column_slot) const {
        return R[row_slot + static_cast<long long>(capacity) * column_slot];
    }
    __device__ T& rhs(int slot) const { return r(slot, capacity); }
    __device__ T& shift(int slot) const { return r(slot, capacity + 1); }
};

/// One pass of classical Gram-Schmidt: subtract Q c from `vector` and add c to `solution`, for
/// c = Q^T vector, minus the shift if `shifted`; the first pass sets `solution`. Other threads see
/// `vector` after the caller's next barrier.
template <class T>
__device__ __noinline__ void project_out(const PassiveQRArrays<T>& at, int length, T* vector,
                                         bool shifted, bool first) {
    reduce_each<T>(
        length, at.rows, false, Called<Add<T>>(),
        [&](int p, int i) { return at.q(at.slots[p])[i] * vector[i]; },
        [&](int p, T product) {
            if (shifted) product -= at.shift(at.slots[p]);
            at.row[p] = product;
            at.solution[p] = first ? product : at.solution[p] + product;
        });
    __syncthreads();
    for (int i = threadIdx.x; i < at.rows; i += blockDim.x) {
        T sum = 0;
#pragma unroll 2
        for (int p = 0; p < length; ++p) sum += at.row[p] * at.q(at.slots[p])[i];
        vector[i] -= sum;
    }
}

/// Positions that one warp computes at once, a position in each lane.
constexpr int panel = warp_threads;

/// Replace s = solution[begin:end], at most one panel, by the y of R[begin:end, begin:end] y = s.
/// By one warp; a lane has a row.
template <class T>
__device__ void back_substitute_panel(const PassiveQRArrays<T>& at, int begin, int end) {
    const int own = begin + lane_index(), slot = at.slots[min(own, end - 1)];
    const T reciprocal = ratio(T(1), at.r(slot, slot));
    T value = own < end ? at.solution[own] : T(0);
#pragma unroll 1
    for (int p = end - 1; p >= begin; --p) {
        const T known = __shfl_sync(whole_warp, value * reciprocal, p - begin);
        if (own < p) value -= known * at.r(slot, at.slots[p]);
    }
    if (own < end) at.solution[own] = value * reciprocal;
}

/// Replace `solution` by the y of R y = solution; both are ordered by position.
template <class T>
__device__ __noinline__ void back_substitute(const PassiveQRArrays<T>& at, int length) {
    for (int end = length; end > 0;) {
        const int begin = max(end - panel, 0);
        __syncthreads();
        if (warp_index() == 0) back_substitute_panel(at, begin, end);
        __syncthreads();
        for (int above = threadIdx.x; above < begin; above += blockDim.x) {
            T sum = 0;
#pragma unroll 1
            for (int p = begin; p < end; ++p)
                sum += at.r(at.slots[above], at.slots[p]) * at.solution[p];
            at.solution[above] -= sum;
        }
        end = begin;
    }
}

/// How often the multiplier of a fixed sum is chosen, if the first choice changes the sum by more
/// than the magnitude of the system: that change has the rounding errors of a larger number.
constexpr int sum_passes = 2;

/// Change b[row] so that the y of R y = solution fits this row: A[row, passive] y = value. Changes
/// `solution` with b. Returns the decrease of b[row]. `partial` serves two reductions.
/// Other threads see `residual` after the caller's next barrier.
template <class T>
__device__ __noinline__ T fit_row(const PassiveQRArrays<T>& at, int length, int row, T value,
                                  T magnitude, T* partial, T* next_partial) {
    T less = 0;
#pragma unroll 1
    for (int pass = 0; pass < sum_passes; ++pass) {
        T fitted = 0, square = 0;
#pragma unroll 1
        for (int p = threadIdx.x; p < length; p += blockDim.x) {
            const T q = at.q(at.slots[p])[row];
            at.row[p] = q;
            fitted += q * at.solution[p];
            square += q * q;
        }
        fitted = block_reduce(fitted, partial, Called<Add<T>>());
        square = block_reduce(square, next_partial, Called<Add<T>>());
        const T change = ratio(fitted - value, square);
        if (!(fabs(change) < Floating<T>::infinity())) break;
        less += change;
#pragma unroll 1
        for (int p = threadIdx.x; p < length; p += blockDim.x) {
            at.solution[p] -= change * at.row[p];
            at.rhs(at.slots[p]) -= change * at.row[p];
        }
        if (!(fabs(fitted - value) > magnitude)) break;
    }
    for (int i = threadIdx.x; i < at.rows; i += blockDim.x) {
        T along = 0;
#pragma unroll 1
        for (int p = 0; p < length; ++p) along += at.row[p] * at.q(at.slots[p])[i];
        at.residual[i] += less * (along - (i == row ? T(1) : T(0)));
    }
    return less;
}

template <class T>
struct PassiveQR {
    const PassiveQRArrays<T>& at;
    int length;

    /// Remove all columns. Other threads see it after the caller's next barrier.
    __device__ void clear() {
        length = 0;
        for (int p = threadIdx.x; p < at.capacity; p += blockDim.x) at.slots[p] = p;
    }

    /// A column that `project` has split: the norm of its orthogonal part, or 0 if the column is
    /// dependent; and this thread's terms of the product of projection and shift.
    struct Split {
        T norm, from_shift;
    };

    /// Split `column` into a part along the passive columns and an orthogonal part, which replaces
    /// `column`. The coefficients of the first part are written to `next_column`.
    ///
    /// The column is dependent if the norm of the orthogonal part is at most `dependent` times the
    /// sum of the terms that cancel. Then `solution` has its coefficients in the passive columns.
    __device__ Split project(T dependent, BlockReduce<T>& reduce) {
        T* const projection = next_column();
        const T before = norm_of(at.column, at.rows, reduce);
        const T norm = orthogonalise(at.column, before, false, reduce);
        T from_shift = 0;
        for (int p = threadIdx.x; p < length; p += blockDim.x) {
            projection[at.slots[p]] = at.solution[p];
            from_shift += at.solution[p] * at.shift(at.slots[p]);
        }
        T cancelling = before;
        if (norm < max(resolved<T>, dependent) * before) cancelling += terms(reduce);
        return {norm > dependent * cancelling ? norm : T(0), from_shift};
    }

    /// Append a column that has been split, if it is independent. Its `variable` rests at `value`.
    ///
    /// Returns false and leaves the factorisation unchanged if the right-hand side, with the
    /// opposite sign to `shrinks`, is at most `least`; its square is twice the decrease of the
    /// objective. Other threads see the column after the caller's next barrier.
    __device__ bool append(int variable, T value, T penalty, Split split, bool shrinks, T least,
                           BlockReduce<T>& reduce) {
        const T norm = split.norm;
        if (!(norm > 0) || length == at.capacity) return false;
        const int slot = at.slots[length];
        const T reciprocal = ratio(T(1), norm);
        const T new_shift = (penalty - reduce(split.from_shift, Called<Add<T>>())) * reciprocal;
        for (int i = threadIdx.x; i < at.rows; i += blockDim.x) at.column[i] *= reciprocal;
        const T along = block_dot(at.column, at.residual, at.rows, reduce.next());
        const T new_rhs = along - new_shift;
        if (!((shrinks ? -new_rhs : new_rhs) > least)) return false;

        for (int i = threadIdx.x; i < at.rows; i += blockDim.x) {
            at.residual[i] -= new_rhs * at.column[i];
            at.q(slot)[i] = at.column[i];
        }
        if (threadIdx.x == 0) {
            at.r(slot, slot) = norm;
            at.rhs(slot) = new_rhs + value * norm;
            at.shift(slot) = new_shift;
            at.variables[length] = variable;
        }
        if (value != 0) add_column(length, slot, value);
        ++length;
        return true;
    }

    /// Remove the column at `position` by Givens rotations (Algorithm 3); its variable rests at
    /// `value`.
    ///
    /// The row of R in the removed slot is rotated with each later row in turn. Each rotation
    /// makes an entry of this row zero. The same rotations are applied to Q. Other threads see
    /// the new positions after the caller's next barrier.
    __device__ void remove(int position, T value) {
        const int slot = at.slots[position];
        if (value != 0) {
            add_column(position, slot, -value);
            if (threadIdx.x == 0) at.rhs(slot) -= value * at.r(slot, slot);
            __syncthreads();
        }
        rotate_rows(position, slot);
        const T leaving = at.row[length];
        for (int i = threadIdx.x; i < at.rows; i += blockDim.x) {
            T& travelling = at.q(slot)[i];
            travelling = rotate(travelling, position + 1, length,
                                [&](int row_slot) -> T& { return at.q(row_slot)[i]; });
            at.residual[i] += leaving * travelling;
        }
        shift_left(position, slot);
        --length;
    }

    /// Subtract `value` times the column that has been split from b.
    __device__ void subtract(T value) {
        const T* const projection = next_column();
        for (int p = threadIdx.x; p < length; p += blockDim.x)
            at.rhs(at.slots[p]) -= value * projection[at.slots[p]];
        for (int i = threadIdx.x; i < at.rows; i += blockDim.x)
            at.residual[i] -= value * at.column[i];
    }

    /// Copy the right-hand side of the coefficients of the passive columns to `solution`.
    __device__ void load_rhs() {
        for (int p = threadIdx.x; p < length; p += blockDim.x) at.solution[p] = at.rhs(at.slots[p]);
    }

    /// Make `residual` orthogonal to the passive columns. Its part along these columns (up to the
    /// penalty) is due to an error of x. The right-hand side of the correction of x is written to
    /// `solution`.
    __device__ void correct(BlockReduce<T>& reduce) {
        orthogonalise(at.residual, norm_of(at.residual, at.rows, reduce), true, reduce);
    }

    /// Replace the right-hand side in `solution` by the coefficients.
    __device__ void solve() { back_substitute(at, length); }

  private:
    /// The column of R that the next variable gets, by slot. Beyond the last
    /// slot, the column is not part of R.
    __device__ T* next_column() const {
        return length < at.capacity ? &at.r(0, at.slots[length]) : at.cosine;
    }

    /// Add `value` times the column at `position`, in `slot`, to b; not its element on the
    /// diagonal of R.
    __device__ void add_column(int position, int slot, T value) {
#pragma unroll 1
        for (int p = threadIdx.x; p < position; p += blockDim.x)
            at.rhs(at.slots[p]) += value * at.r(at.slots[p], slot);
    }

    /// Subtract from `vector`, whose norm is given, its projection onto the passive columns (up to
    /// the shift), again if the norm falls much. The coefficients of the projection are written to
    /// `solution`. Returns the new norm.
    __device__ T orthogonalise(T* vector, T norm, bool shifted, BlockReduce<T>& reduce) {
        for (int pass = 0; pass < 2; ++pass) {
            project_out(at, length, vector, shifted, pass == 0);
            const T previous = norm;
            norm = norm_of(vector, at.rows, reduce);
            if (norm > orthogonality<T> * previous) break;
        }
        return norm;
    }

    /// sum_k |a_k c_k|: c are the coefficients of the projection, which are in `solution`.
    __device__ T terms(BlockReduce<T>& reduce) {
        back_substitute(at, length);
        T sum = 0;
        for (int p = threadIdx.x; p < length; p += blockDim.x)
            sum += at.norm[at.variables[p]] * fabs(at.solution[p]);
        return reduce(sum, Called<Add<T>>());
    }

    /// The slot of R's column c: passive columns by position, then Q^T b and the shift.
    __device__ int column_slot(int c) const {
        return c < length ? at.slots[c] : at.capacity + (c - length);
    }

    /// Rotate row `slot` of R with the rows after `position`, in `row`; store the rotations. Before
    /// each panel, its columns belong to the lanes of the first warp, in their order.
    __device__ void rotate_rows(int position, int slot) {
        for (int c = position + 1 + threadIdx.x; c < length + 2; c += blockDim.x)
            at.row[c] = at.r(slot, column_slot(c));
        for (int begin = position + 1; begin < length; begin += panel) {
            const int end = min(begin + panel, length);
            if (warp_index() == 0) rotate_panel(begin, end);
            __syncthreads();
            for (int c = end + threadIdx.x; c < length + 2; c += blockDim.x) {
                const int column = column_slot(c);
                at.row[c] = rotate(at.row[c], begin, end,
                                   [&](int row_slot) -> T& { return at.r(row_slot, column); });
            }
        }
        __syncthreads();
    }

    /// Rotate R[begin:end, begin:end], at most one panel, and its part of `row`. By one warp; a
    /// lane has a column. The squares neither overflow nor underflow: columns are scaled, and no
    /// diagonal element is less than `dependent` allows.
    __device__ void rotate_panel(int begin, int end) {
        const int own = begin + lane_index(), slot = at.slots[min(own, end - 1)];
        const T diagonal = own < end ? at.r(slot, slot) : T(0);
        T travelling = own < end ? at.row[own] : T(0);
#pragma unroll 1
        for (int p = begin; p < end; ++p) {
            const T above = __shfl_sync(whole_warp, travelling, p - begin);
            const T below = __shfl_sync(whole_warp, diagonal, p - begin);
            const T hypotenuse = square_root(above * above + below * below);
            const T reciprocal = ratio(T(1), hypotenuse);
            const T c = below * reciprocal, s = above * reciprocal;
            if (own == p) {
                at.r(slot, slot) = hypotenuse;
                at.cosine[p] = c;
                at.sine[p] = s;
            } else if (p < own && own < end) {
                T& entry = at.r(at.slots[p], slot);
                const T other = entry;
                entry = c * other + s * travelling;
                travelling = c * travelling - s * other;
            }
        }
    }

    /// Rotate `travelling` with entry(slot) of each position from `begin` to `end` in turn.
    template <class Entry>
    __device__ T rotate(T travelling, int begin, int end, Entry entry) const {
#pragma unroll 1
        for (int p = begin; p < end; ++p) {
            T& other = entry(at.slots[p]);
            const T before = other;
            other = at.cosine[p] * before + at.sine[p] * travelling;
            travelling = at.cosine[p] * travelling - at.sine[p] * before;
        }
        return travelling;
    }

    /// Move the positions after `position` a place to the left; `slot` becomes the first free slot.
    /// Position p is written by thread p mod blockDim.x, as everywhere.
    __device__ void shift_left(int position, int slot) {
        const int threads = blockDim.x;
        for (int first = position / threads * threads; first < length; first += threads) {
            const int p = first + threadIdx.x, next = min(p + 1, length - 1);
            const int next_slot = p < next ? at.slots[next] : slot;
            const int next_variable = at.variables[next];
            __syncthreads();
            if (p < position || p >= length) continue;
            at.slots[p] = next_slot;
            at.variables[p] = next_variable;
        }
    }
};
