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
        return sums[(function >> shift) * pitch + (copy << shift) + member];
    }
    /// The copies of this lane's warp, from the copies of the first warp, of `functions` functions.
    __device__ SumCopies of_warp(int functions) const {
        return {sums + warp_index() * size(functions), shift, pitch};
    }
};

/// result[0:count] = the sums of the copies of all warps, each of `functions` functions. Begins and
/// ends with a barrier.
__device__ void sum_copies(const SumCopies& first, int functions, int count, double* result) {
    const int copies = first.copies(), size = first.size(functions);
    __syncthreads();
    for (int f = threadIdx.x; f < count; f += blockDim.x) {
        double total = 0;
        for (int part = 0; part < warp_count() * copies; ++part) {
            const SumCopies some{first.sums + part / copies * size, first.shift, first.pitch};
            total += some(part % copies, f);
        }
        result[f] = total;
    }
    __syncthreads();
}

/// A value of a row, to be added to the sum of its function; -1 for none.
template <class T>
struct Entry {
    int function;
    T value;
    double u;
};

/// Adds the rows of a warp to the sums of functions. A row has `width` values; the function of this
/// lane's value is `offset` after the first, and u(r) the factor of row r of the range.
template <class T, class U>
__device__ __forceinline__ void add_rows(const int* first, const T* values, int width, int offset,
                                         const RowRange& range, U u, const SumCopies& own,
                                         int functions) {
    constexpr int steps = 3;  // that are in flight
    const int copies = own.copies(), copy = own.copy(), j = own.member();
    const bool adds = copy < copies && j < width;
    const int count = static_cast<int>(range.end - range.begin);  // at most 2^31 for any memory
    first += range.begin;
    values += range.begin * width + j;
    Entry<T> next[steps];
    const auto read = [&](int start) {
#pragma unroll
        for (int k = 0; k < steps; ++k) {
            const int row = start + k * copies + copy;
            next[k].function = -1;
            if (adds && row < count)
                next[k] = {first[row] + offset, values[static_cast<long long>(row) * width],
                           u(row)};
        }
    };
    read(0);
    for (int start = 0; start < count; start += steps * copies) {
        Entry<T> here[steps];
#pragma unroll
        for (int k = 0; k < steps; ++k) here[k] = next[k];
        read(start + steps * copies);
#pragma unroll
        for (int k = 0; k < steps; ++k) {
            if (static_cast<unsigned>(here[k].function) < static_cast<unsigned>(functions))
                own(copy, here[k].function) += static_cast<double>(here[k].value) * here[k].u;
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
