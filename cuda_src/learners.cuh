// Sums over the rows of the learners of a boosted additive model.
//
// A learner is a basis X_i of n rows and k functions, of which only `width` functions are not zero
// in a row.
//
// Mapping. A sum over rows is cut into `chunks` for each learner, so that few learners too
// fill the device, and a chunk into parts, a part for each warp. A warp adds several rows at once,
// each to its own copy of the k sums. Then the copies and the parts are added in their order. No
// sum uses atomics: on the same device it has the same bits in every run.
//
// Shared memory. Copies of k doubles for each warp. The layout avoids bank conflicts.

#pragma once

#include "block.cuh"

/// Minimum resident blocks per multiprocessor, for `__launch_bounds__`.
constexpr int learner_blocks_per_multiprocessor = 2;

/// The rows of this thread's warp, in a chunk that `parts` warps share: multiples of 32.
struct RowRange {
    long long begin, end;

    __device__ RowRange(long long rows, int chunks, int chunk, int parts) {
        const long long pieces = static_cast<long long>(chunks) * parts;
        const long long batches = (rows + warp_threads - 1) / warp_threads;
        const long long size = (batches + pieces - 1) / pieces * warp_threads;
        begin = (static_cast<long long>(chunk) * parts + warp_index()) * size;
        end = begin + size < rows ? begin + size : rows;
    }
};

/// Clears an even number of values, which begin at a multiple of 16 bytes. Ends with a barrier.
__device__ void clear(double* values, int size) {
    for (int i = threadIdx.x; i < size / 2; i += blockDim.x)
        reinterpret_cast<double2*>(values)[i] = {0, 0};
    __syncthreads();
}

// ---- X' W u -------------------------------------------------------------------------

/// Copies of sums in shared memory, which a warp adds to at once: lane l adds to copy
/// l >> shift. Groups of 2^shift functions are `pitch` apart; within a group, the copies follow
/// each other. With a pitch of 32, lanes that add to neighbouring functions use different banks.
struct SumCopies {
    double* sums;
    int shift, pitch;

    __device__ int copies() const { return pitch >> shift; }
    /// The copy that this lane adds to, and the value of a row that it adds.
    __device__ int copy() const { return lane_index() >> shift; }
    __device__ int member() const { return lane_index() & ((1 << shift) - 1); }
    __device__ int size(int functions) const {
        return ((functions + (1 << shift) - 1) >> shift) * pitch;
    }
    __device__ double& operator()(int copy, int function) const {
        const int member = function & ((1 << shift) - 1);
        return sums[(function - member) * copies() + (copy << shift) + member];
    }
    /// Copies that begin `distance` sums later.
    __device__ SumCopies after(int distance) const { return {sums + distance, shift, pitch}; }
};

/// result[0:count] = the sums of the copies of all warps, each of `functions` functions.
__device__ void sum_copies(const SumCopies& first, int functions, int count, double* result) {
    const int copies = first.copies(), size = first.size(functions);
    for (int f = threadIdx.x; f < count; f += blockDim.x) {
        double total = 0;
        for (int warp = 0; warp < warp_count(); ++warp)
            for (int copy = 0; copy < copies; ++copy) total += first.after(warp * size)(copy, f);
        result[f] = total;
    }
}

/// A value of a row, to be added to the sums of its function, times a factor for each fit. The
/// function is -1 for none.
template <class T, int fits>
struct Entry {
    int function;
    T value;
    double u[fits];
};

/// Adds the rows of a warp to the sums of functions, for `members` fits, at most `fits`. A row has
/// `width` values; the function of this lane's value is `offset` after the first. The factors u of
/// a fit are `u_stride` after the factors of the fit before, its sums `pitch` sums.
template <int fits, class T>
__device__ __forceinline__ void add_rows(const int* first, const T* values, int width, int offset,
                                         const RowRange& range, const double* u, long long u_stride,
                                         int members, const SumCopies& own, int pitch,
                                         int functions) {
    // A single fit reads ahead. The values of several fits need the registers for it.
    constexpr bool is_ahead = fits == 1;
    constexpr int steps = is_ahead ? 2 : 1;  // that are in flight; with 3, families spill
    const int copies = own.copies(), copy = own.copy(), j = own.member();
    const int count = static_cast<int>(range.end - range.begin);  // at most 2^31 for any memory
    const int last = copy < copies && j < width ? count : 0;
    first += range.begin;
    values += range.begin * width + j;
    u += range.begin;
    Entry<T, fits> next[steps];
    const auto read = [&](int start) {
#pragma unroll
        for (int k = 0; k < steps; ++k) {
            const int row = start + k * copies + copy;
            next[k].function = -1;
            if (row >= last) continue;
            next[k].function = first[row] + offset;
            next[k].value = values[static_cast<long long>(row) * width];
            const double* factor = u + row;
#pragma unroll
            for (int fit = 0; fit < fits; ++fit, factor += u_stride)
                if (fit == 0 || fit < members) next[k].u[fit] = *factor;
        }
    };
    if (is_ahead) read(0);
    for (int start = 0; start < count; start += steps * copies) {
        if (!is_ahead) read(start);
        Entry<T, fits> here[steps];
#pragma unroll
        for (int k = 0; k < steps; ++k) here[k] = next[k];
        if (is_ahead) read(start + steps * copies);
#pragma unroll
        for (int k = 0; k < steps; ++k) {
            if (static_cast<unsigned>(here[k].function) < static_cast<unsigned>(functions)) {
                double* sum = &own(copy, here[k].function);
#pragma unroll
                for (int fit = 0; fit < fits; ++fit, sum += pitch)
                    if (fit == 0 || fit < members)
                        *sum += static_cast<double>(here[k].value) * here[k].u[fit];
            }
            __syncwarp();
        }
    }
}

// ---- products ----------------------------------------------------------------------

/// y = A x for a matrix with contiguous rows; by the block, a warp to a row. Ends with a barrier.
__device__ void multiply(const double* A, const double* x, int rows, int columns, double* y) {
    for (int f = warp_index(); f < rows; f += warp_count()) {
        double sum = 0;
        for (int g = lane_index(); g < columns; g += warp_threads)
            sum += A[static_cast<long long>(f) * columns + g] * x[g];
        sum = warp_reduce(sum, Add<double>());
        if (lane_index() == 0) y[f] = sum;
    }
    __syncthreads();
}

/// The same for a symmetric matrix: a CPU computes all y together.
__device__ __forceinline__ void multiply_symmetric(const double* A, const double* x, int size,
                                                   double* y) {
    if constexpr (warp_threads == 1) {
        for (int f = 0; f < size; ++f) y[f] = 0;
        for (int g = 0; g < size; ++g, A += size)
            for (int f = 0; f < size; ++f) y[f] += A[f] * x[g];
    } else {
        multiply(A, x, size, size, y);
    }
}
