// A QR factorisation of one block, updated as columns are appended and removed.
//
//     A[:, passive] = Q R,   columns are appended at the end and removed anywhere
//
// Source. Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on Multi-Core
// Architectures", sections 3.1, 3.4 and 5.2. The specification in NumPy is
// gpusolve/reference/_nnls_qr.py, class PassiveQR.
//
// Mapping. The threads of the block stride over the rows of Q and over the columns of R. A row
// of Q, of the new column and of the residual always belongs to the same thread.
//
// Memory. The columns of Q and the rows and columns of R are stored in slots and never move.
// Position p of the factorisation is in slot slots[p]; a removal shifts only this list (the
// paper's list P-hat). R has two more columns, to which all rotations are applied as well: Q^T b
// and, for the l1 penalty, the s of R^T s = penalty. Q and R are in shared or global memory.
//
// Cost, with l columns and m rows. append: 4 m l operations and l barriers (twice that if
// cancellation requires a second pass; also a solve if the part orthogonal to the passive
// columns is small). remove: 6 m (l - p) operations and l - p barriers. solve: l^2 operations
// and l barriers. correct: as append.

#pragma once

#include "block.cuh"
#include "floating.cuh"

/// This thread's part of a scalar product: rows threadIdx.x, threadIdx.x + blockDim.x, ...
template <class T>
__device__ __noinline__ T part_of_dot(const T* x, const T* y, int rows) {
    T sum = 0;
    for (int i = threadIdx.x; i < rows; i += blockDim.x) sum += x[i] * y[i];
    return sum;
}

/// The norm of a vector of the block.
template <class T>
__device__ T norm_of(const T* x, int rows, BlockReduce<T>& reduce) {
    return square_root(reduce(part_of_dot(x, x, rows), Called<Add<T>>()));
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
    T* row;          // capacity + 2: the row of R that a removal rotates away
    T* diagonal;     // capacity
    T* cosine;       // capacity
    T* sine;         // capacity
    int* slots;      // capacity: a permutation; free slots follow those in use
    int* variables;  // capacity: the variable at each position
};

/// Replace `solution` by the y of R y = solution; both are ordered by position. Ends without a
/// barrier: element p is written by thread p mod blockDim.x, for the same thread.
template <class T>
__device__ __noinline__ void back_substitute(const PassiveQRArrays<T>& at, int length) {
    const auto r = [&](int row, int column) {
        return at.R[at.slots[row] + static_cast<long long>(at.capacity) * at.slots[column]];
    };
    __syncthreads();
    for (int p = length - 1; p > 0; --p) {
        const T known = at.solution[p] / r(p, p);
        for (int above = threadIdx.x; above < p; above += blockDim.x)
            at.solution[above] -= known * r(above, p);
        __syncthreads();
    }
    for (int p = threadIdx.x; p < length; p += blockDim.x) at.solution[p] /= r(p, p);
}

template <class T>
struct PassiveQR {
    const PassiveQRArrays<T>& at;
    int length;

    __device__ T* q(int slot) const { return at.Q + static_cast<long long>(at.rows) * slot; }
    __device__ T& r(int row_slot, int column_slot) const {
        return at.R[row_slot + static_cast<long long>(at.capacity) * column_slot];
    }
    __device__ T& rhs(int slot) const { return r(slot, at.capacity); }
    __device__ T& shift(int slot) const { return r(slot, at.capacity + 1); }

    /// Remove all columns. Other threads see it after the caller's next barrier.
    __device__ void clear() {
        length = 0;
        for (int p = threadIdx.x; p < at.capacity; p += blockDim.x) at.slots[p] = p;
    }

    /// Append `column` as `variable`, by modified Gram-Schmidt (Algorithm 2). Overwrites `column`.
    ///
    /// Returns false and leaves the factorisation unchanged in two cases. The column is dependent:
    /// the norm of its part orthogonal to the passive columns is at most `dependent` times the
    /// sum of the terms that cancel. Or its right-hand side is at most `least`; the square of
    /// that is twice the decrease of the objective. Other threads see the column after the
    /// caller's next barrier.
    __device__ bool append(int variable, T penalty, T dependent, T least, BlockReduce<T>& reduce) {
        if (length == at.capacity) return false;
        const int slot = at.slots[length];
        const T before = norm_of(at.column, at.rows, reduce);
        T norm = before;
        for (int pass = 0; pass < 2; ++pass) {
            project_out(slot, pass, reduce);
            const T previous = norm;
            norm = norm_of(at.column, at.rows, reduce);
            if (norm > orthogonality<T> * previous) break;
        }
        T cancelling = before;
        if (norm < resolved<T> * before) cancelling += terms(slot, reduce);
        if (!(norm > dependent * cancelling)) return false;

        T from_shift = 0;
        for (int p = threadIdx.x; p < length; p += blockDim.x)
            from_shift += r(at.slots[p], slot) * shift(at.slots[p]);
        const T new_shift = (penalty - reduce(from_shift, Called<Add<T>>())) / norm;
        for (int i = threadIdx.x; i < at.rows; i += blockDim.x) at.column[i] /= norm;
        const T new_rhs = along(at.column, reduce) - new_shift;
        if (!(new_rhs > least)) return false;

        subtract(at.column, new_rhs);
        for (int i = threadIdx.x; i < at.rows; i += blockDim.x) q(slot)[i] = at.column[i];
        if (threadIdx.x == 0) {
            r(slot, slot) = norm;
            rhs(slot) = new_rhs;
            shift(slot) = new_shift;
            at.variables[length] = variable;
        }
        ++length;
        return true;
    }

    /// Remove the column at `position` by Givens rotations (Algorithm 3).
    ///
    /// The row of R in the removed slot is rotated with each later row in turn. Each rotation
    /// makes one of its entries zero. The same rotations are applied to Q.
    __device__ void remove(int position) {
        const int slot = at.slots[position];
        rotate_rows(position, slot);
        rotate_columns(position, slot);
        const T leaving = at.row[length];
        for (int i = threadIdx.x; i < at.rows; i += blockDim.x)
            at.residual[i] += leaving * q(slot)[i];
        shift_left(at.slots, position, slot);
        shift_left(at.variables, position, at.variables[position]);
        --length;
    }

    /// Compute the coefficients of the passive columns, in `solution`.
    __device__ void solve() {
        for (int p = threadIdx.x; p < length; p += blockDim.x) at.solution[p] = rhs(at.slots[p]);
        back_substitute(at, length);
    }

    /// Make `residual` orthogonal to the passive columns. Its part along these columns (up to the
    /// penalty) is due to an error of x. The correction of x is written to `solution`.
    __device__ void correct(BlockReduce<T>& reduce) {
        for (int p = threadIdx.x; p < length; p += blockDim.x) at.solution[p] = 0;
        T norm = norm_of(at.residual, at.rows, reduce);
        for (int pass = 0; pass < 2; ++pass) {
            for (int p = 0; p < length; ++p) {
                const int k = at.slots[p];
                const T projection = along(q(k), reduce) - shift(k);
                subtract(q(k), projection);
                if (threadIdx.x == 0) at.solution[p] += projection;
            }
            const T previous = norm;
            norm = norm_of(at.residual, at.rows, reduce);
            if (norm > orthogonality<T> * previous) break;
        }
        back_substitute(at, length);
    }

  private:
    /// The product of the residual and a unit vector.
    __device__ T along(const T* unit, BlockReduce<T>& reduce) const {
        return reduce(part_of_dot(unit, at.residual, at.rows), Called<Add<T>>());
    }

    /// Subtract a multiple of a unit vector from the residual.
    __device__ void subtract(const T* unit, T multiple) const {
        for (int i = threadIdx.x; i < at.rows; i += blockDim.x)
            at.residual[i] -= multiple * unit[i];
    }

    /// sum_k |a_k c_k|: c are the coefficients of the projection in `slot`.
    __device__ T terms(int slot, BlockReduce<T>& reduce) {
        for (int p = threadIdx.x; p < length; p += blockDim.x)
            at.solution[p] = r(at.slots[p], slot);
        back_substitute(at, length);
        T sum = 0;
        for (int p = threadIdx.x; p < length; p += blockDim.x)
            sum += at.norm[at.variables[p]] * fabs(at.solution[p]);
        return reduce(sum, Called<Add<T>>());
    }

    /// Subtract from `column` its projections onto the columns of Q, one after another.
    __device__ void project_out(int slot, int pass, BlockReduce<T>& reduce) {
        for (int p = 0; p < length; ++p) {
            const int k = at.slots[p];
            const T* direction = q(k);
            T projection = 0;
            for (int i = threadIdx.x; i < at.rows; i += blockDim.x)
                projection += direction[i] * at.column[i];
            projection = reduce(projection, Called<Add<T>>());
            for (int i = threadIdx.x; i < at.rows; i += blockDim.x)
                at.column[i] -= projection * direction[i];
            if (threadIdx.x == 0) r(k, slot) = pass == 0 ? projection : r(k, slot) + projection;
        }
    }

    /// The slot of R's column c: the passive ones by position, then Q^T b and the shift.
    __device__ int column_slot(int c) const {
        return c < length ? at.slots[c] : at.capacity + (c - length);
    }

    /// Rotate row `slot` of R with the rows after `position`; store the rotations.
    __device__ void rotate_rows(int position, int slot) {
        for (int c = position + 1 + threadIdx.x; c < length + 2; c += blockDim.x) {
            at.row[c] = r(slot, column_slot(c));
            if (c < length) at.diagonal[c] = r(at.slots[c], at.slots[c]);
        }
        __syncthreads();
        for (int p = position + 1; p < length; ++p) {
            const int k = at.slots[p];
            const T length_of_pair = hypot(at.diagonal[p], at.row[p]);
            const T c = at.diagonal[p] / length_of_pair, s = at.row[p] / length_of_pair;
            for (int right = p + 1 + threadIdx.x; right < length + 2; right += blockDim.x) {
                T& entry = r(k, column_slot(right));
                const T above = at.row[right];
                at.row[right] = c * above - s * entry;
                entry = c * entry + s * above;
            }
            if (threadIdx.x == 0) {
                r(k, k) = length_of_pair;
                at.cosine[p] = c;
                at.sine[p] = s;
            }
            __syncthreads();
        }
    }

    /// Apply the stored rotations to Q, each thread to its own rows; no barrier is needed.
    __device__ void rotate_columns(int position, int slot) {
        for (int i = threadIdx.x; i < at.rows; i += blockDim.x) {
            T travelling = q(slot)[i];
            for (int p = position + 1; p < length; ++p) {
                T& entry = q(at.slots[p])[i];
                const T other = entry;
                entry = at.cosine[p] * other + at.sine[p] * travelling;
                travelling = at.cosine[p] * travelling - at.sine[p] * other;
            }
            q(slot)[i] = travelling;
        }
    }

    /// Move list[position + 1:length] one place to the left, and set list[length - 1] = freed.
    __device__ void shift_left(int* list, int position, int freed) {
        for (int first = position; first < length; first += blockDim.x) {
            const int p = first + threadIdx.x;
            const int next = p + 1 < length ? list[p + 1] : freed;
            __syncthreads();
            if (p < length) list[p] = next;
            __syncthreads();
        }
    }
};
