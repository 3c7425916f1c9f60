// Stumps: the best cut of ordered bins into two groups, by a block.
//
// Problem. Bin f has the weight g_f and the sum c_f of the weighted gradient. A cut after bin j
// gives both sides their means, C_j / N_j and (C - C_j) / (N - N_j), with the sums C_j, N_j of the
// bins up to j; it reduces the sum of squares by C_j^2 / N_j + (C - C_j)^2 / (N - N_j). Both sides
// have a least weight, or one side has no rows. The first of the best cuts is taken.
//
// Mapping. A warp scans c, another warp g; then each thread evaluates some cuts.
// Shared memory. Two vectors of the bins. Cost. O(bins / 32) steps of a scan, and two barriers.
// Source. Breiman, Friedman, Olshen & Stone, "Classification and Regression Trees" (1984).

#pragma once

#include "block.cuh"
#include "floating.cuh"

/// Replaces values[0:size] by their inclusive sums; called by a warp.
__device__ void scan_by_warp(double* values, int size) {
    double before = 0;
    for (int start = 0; start < size; start += warp_threads) {
        const int place = start + lane_index();
        double value = place < size ? values[place] : 0.0;
        for (int distance = 1; distance < warp_threads; distance *= 2) {
            const double other = __shfl_up_sync(whole_warp, value, distance);
            if (lane_index() >= distance) value += other;
        }
        value += before;
        if (place < size) values[place] = value;
        before = __shfl_sync(whole_warp, value, warp_threads - 1);
    }
}

/// The sums of the bins up to each bin.
struct BinSums {
    const double *moments, *weights;
    int bins;
    double least;  // weight of each side

    __device__ double rounding() const {
        return 8 * bins * Floating<double>::epsilon * weights[bins - 1];
    }
    /// c^2 / weight and c / weight; 0 for a side without rows.
    __device__ double reduction(double c, double weight) const {
        return weight > rounding() ? c * c / weight : 0.0;
    }
    __device__ double mean(double c, double weight) const {
        return weight > rounding() ? c / weight : 0.0;
    }
    __device__ double gain(int cut) const {
        const double fewer = fmin(weights[cut], weights[bins - 1] - weights[cut]);
        if (fewer > rounding() && fewer < least - rounding()) return -Floating<double>::infinity();
        return reduction(moments[cut], weights[cut]) +
               reduction(moments[bins - 1] - moments[cut], weights[bins - 1] - weights[cut]);
    }
    __device__ double left(int cut) const { return mean(moments[cut], weights[cut]); }
    __device__ double right(int cut) const {
        return mean(moments[bins - 1] - moments[cut], weights[bins - 1] - weights[cut]);
    }
};

/// Writes the effects of the bins, and returns the reduction of the sum of squares in every thread.
/// `moments` and `weights` are in shared memory, and are overwritten. Begins with a barrier.
__device__ double fit_stump(double* moments, double* weights, int bins, double least,
                            double* effects, BlockReduce<Located<double>>& reduce) {
    __syncthreads();
    for (int which = warp_index(); which < 2; which += warp_count())
        scan_by_warp(which == 0 ? moments : weights, bins);
    __syncthreads();
    const BinSums sums{moments, weights, bins, least};
    Located<double> best = ArgMax<double>::identity();
    for (int cut = threadIdx.x; cut < bins; cut += blockDim.x)
        best = ArgMax<double>()(best, {sums.gain(cut), cut});
    best = reduce(best, ArgMax<double>());
    const double left = sums.left(best.index), right = sums.right(best.index);
    for (int f = threadIdx.x; f < bins; f += blockDim.x)
        effects[f] = f <= best.index ? left : right;
    return best.value;
}
