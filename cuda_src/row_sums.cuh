// Sums over the rows of each fit: a pass of all blocks, a grid barrier, and the totals of the
// blocks.
//
// Mapping. The rows of a fit are divided into chunks, a chunk for each block. A row belongs to the
// same thread in all passes. No sum uses atomics: on the same device it has the same bits in every
// run.

#pragma once

#include "block.cuh"

/// The arrays of the fits, by row. The strides are n, or 0 for values that all fits share.
struct Observations {
    const double *y, *weights, *held_out;  // weights and held_out may be null
    long long y_stride, weight_stride;
    long long rows;
    double *f, *u;  // [fit][row]

    __device__ double response(int fit, long long row) const { return y[fit * y_stride + row]; }
    __device__ double weight(int fit, long long row) const {
        return weights ? weights[fit * weight_stride + row] : 1.0;
    }
    __device__ double weight_held_out(int fit, long long row) const {
        return held_out ? held_out[fit * rows + row] : 0.0;
    }
};

/// Halves the number of values of each lane, down to 1: lanes that are `half` apart exchange the
/// values that the other lane keeps.
template <int half, class Op>
__device__ __forceinline__ void exchange(double* own, Op op) {
    if constexpr (half > 0) {
        const bool is_upper = (lane_index() & half) != 0;
#pragma unroll
        for (int i = 0; i < half; ++i) {
            const double sent = is_upper ? own[i] : own[i + half];
            const double kept = is_upper ? own[i + half] : own[i];
            own[i] = op(kept, shuffle_xor(sent, half));
        }
        exchange<half / 2>(own, op);
    }
}

/// The reductions of `size` values, a power of two, over the lanes of a warp: lane l has the
/// reduction of value l % size. Takes size - 1 + log(32 / size) shuffles.
template <int size, class Op>
__device__ __forceinline__ double reduce_values(double* own, Op op) {
    exchange<size / 2>(own, op);
    double result = own[0];
#pragma unroll
    for (int distance = size; distance < warp_threads; distance *= 2)
        result = op(result, shuffle_xor(result, distance));
    return result;
}

/// Sums over the rows of each fit: the rows are divided into `chunks`, a chunk for each block.
struct RowSums {
    static constexpr int along = 16;        // the first sum that the next pass does not replace
    static constexpr int most = along + 2;  // sums of a fit

    const Observations& data;
    int fits, chunks;
    double* partial;  // [fit][sum][chunk]
    double* storage;  // of the block: `most` for each warp, then `most` totals
    GridBarrier& barrier;

    /// add(fit, chunk) is called by the block, and returns the function (row, sums) that adds a
    /// row. A grid barrier must follow.
    template <int size, int first = 0, class Op, class Add>
    __device__ void pass(Op op, Add add) const {
        for (int unit = blockIdx.x; unit < fits * chunks; unit += gridDim.x) {
            const int fit = unit / chunks, chunk = unit % chunks;
            const auto add_row = add(fit, chunk);
            double own[size];
#pragma unroll
            for (int i = 0; i < size; ++i) own[i] = Op::identity();
            double* to = partial + (fit * most + first) * static_cast<long long>(chunks) + chunk;
            if constexpr (warp_threads == 1) {  // a CPU, which reads neighbouring rows
                const long long rows_of_chunk = (data.rows + chunks - 1) / chunks;
                const long long end = min(data.rows, (chunk + 1) * rows_of_chunk);
                for (long long row = chunk * rows_of_chunk; row < end; ++row) add_row(row, own);
                for (int i = 0; i < size; ++i) to[i * static_cast<long long>(chunks)] = own[i];
                continue;
            }
            const long long step = static_cast<long long>(chunks) * blockDim.x;
#pragma unroll 1
            for (long long row = chunk * static_cast<long long>(blockDim.x) + threadIdx.x;
                 row < data.rows; row += step)
                add_row(row, own);
            const double of_warp = reduce_values<size>(own, op);
            if (lane_index() < size) storage[warp_index() * most + lane_index()] = of_warp;
            __syncthreads();
            if (threadIdx.x < size) {
                double total = Op::identity();
                for (int warp = 0; warp < warp_count(); ++warp)
                    total = op(total, storage[warp * most + threadIdx.x]);
                partial[(fit * most + first + threadIdx.x) * static_cast<long long>(chunks) +
                        chunk] = total;
            }
            __syncthreads();
        }
    }

    /// The sums of a fit, for all threads of the block. A block barrier must follow.
    template <int size, int first = 0, class Op>
    __device__ const double* totals(int fit, Op op) const {
        double* found = storage + warp_count() * most;
        for (int i = warp_index(); i < size; i += warp_count()) {
            const double* own = partial + (fit * most + first + i) * static_cast<long long>(chunks);
            double total = Op::identity();
            for (int chunk = lane_index(); chunk < chunks; chunk += warp_threads)
                total = op(total, own[chunk]);
            total = warp_reduce(total, op);
            if (lane_index() == 0) found[i] = total;
        }
        __syncthreads();
        return found;
    }

    /// A block calls finish(fit, sums) in a single thread, for each of its fits. Another grid
    /// barrier must follow before other blocks read the results.
    template <int size, class Op, class Finish>
    __device__ void finish(Op op, Finish finish) const {
        for (int fit = blockIdx.x; fit < fits; fit += gridDim.x) {
            const double* found = totals<size>(fit, op);
            if (threadIdx.x == 0) finish(fit, found);
            __syncthreads();
        }
    }

    /// `pass`, then `finish`, each with a grid barrier after it.
    template <int size, class Op, class Add, class Finish>
    __device__ void sum(Op op, Add add, Finish finish) const {
        pass<size>(op, add);
        barrier.wait();
        this->finish<size>(op, finish);
        barrier.wait();
    }

    /// `sum` over the rows with weight: add(fit) returns the function (weight, y, f, sums).
    template <int size, class Op, class Add, class Finish>
    __device__ void sum_weighted(Op op, Add add, Finish finish) const {
        const auto add_weighted = [&](int fit, int) {
            const auto add_row = add(fit);
            return [=, *this](long long row, double* own) {
                const double weight = data.weight(fit, row);
                if (weight != 0)
                    add_row(weight, data.response(fit, row), data.f[fit * data.rows + row], own);
            };
        };
        sum<size>(op, add_weighted, finish);
    }
};
