// The area under the ROC curve: the gradient and the risk of all rows.
//
// Problem. Rows of the classes 1 and 0, with weights w and the predictor f. With x = f / sd(f),
//     u_i  = sum over the rows j of the other class of w_j max(0, 1 - |x_i - x_j|),
// negative for a row of class 0. The risk is the share of the pairs of a row i of class 1 and a row
// j of class 0, with the weight w_i w_j, for which f_i > f_j does not hold. A second risk has the
// weights of rows that are held out.
//
// Mapping. A thread has a row, and reads all rows in their order. The lanes of a warp read the same
// row, which the cache returns once for 32 rows. No sum uses atomics.
//
// Memory. None of its own. Cost. n^2 pairs for each step and fit; a pass over the rows and two
// barriers for the mean of f, and for its variance.
// Source. Schmid, Hothorn, Krause & Rabe, "A PAUC-based estimation technique for disease
// classification and biomarker selection" (2012).

#pragma once

#include "row_sums.cuh"

/// The sums of a pass over the pairs, for a set of weights: the wrong pairs of the rows of class 1,
/// and the weights of both classes.
struct PairSums {
    static constexpr int count = 3;
    static constexpr int both = 8;  // of two sets of weights, a power of two

    /// The share of wrong pairs; 0 if a class has no weight.
    static __device__ double risk(const double* sums) {
        const double pairs = sums[1] * sums[2];
        return pairs > 0 ? sums[0] / pairs : 0.0;
    }
    static __device__ void add(double* sums, double weight, bool is_one, double wrong) {
        if (weight == 0) return;
        sums[0] += is_one ? weight * wrong : 0.0;
        sums[1] += is_one ? weight : 0.0;
        sums[2] += is_one ? 0.0 : weight;
    }
};

/// What a row finds in the other class: its gradient, and the weights of the rows that are not
/// below it, of both sets of weights.
struct OtherClass {
    double gradient, not_below, held_out_not_below;
};

/// Compares a row with all rows. `scale` is 1 / sd(f).
__device__ OtherClass compare_row(const Observations& data, int fit, long long row, double scale) {
    const double* f = data.f + fit * data.rows;
    const double y = data.response(fit, row), own = f[row];
    OtherClass found{0, 0, 0};
    for (long long j = 0; j < data.rows; ++j) {
        if (data.response(fit, j) == y) continue;
        const double weight = data.weight(fit, j);
        const double near = 1 - fabs(own - f[j]) * scale;
        if (near > 0) found.gradient += weight * near;
        if (f[j] < own) continue;
        found.not_below += weight;
        if (data.held_out) found.held_out_not_below += data.held_out[fit * data.rows + j];
    }
    if (y == 0) found.gradient = -found.gradient;
    return found;
}

/// The scale of f in a fit.
struct Scale {
    double weight, mean;  // of all rows
    double inverse;       // 1 / sd(f), or 1 if f is constant
};

/// The weight of a row and the weighted f, added to `own`.
__device__ void add_to_mean(const Observations& data, int fit, long long row, double* own) {
    const double weight = data.weight(fit, row);
    if (weight == 0) return;
    own[0] += weight;
    own[1] += weight * data.f[fit * data.rows + row];
}

/// The scales, after a pass that adds to the means. Begins and ends with a grid barrier.
__device__ void find_scales(const RowSums& sums, Scale* scales) {
    sums.barrier.wait();
    sums.finish<2>(Add<double>(), [&](int fit, const double* found) {
        scales[fit] = {found[0], found[1] / found[0], 1};
    });
    sums.barrier.wait();
    sums.sum_weighted<1>(
        Add<double>(),
        [&](int fit) {
            const double mean = scales[fit].mean;
            return [=](double weight, double, double f, double* own) {
                own[0] += weight * (f - mean) * (f - mean);
            };
        },
        [&](int fit, const double* found) {
            const double freedom = fmax(scales[fit].weight - 1, 1.0);
            if (found[0] > 0) scales[fit].inverse = sqrt(freedom / found[0]);
        });
}

/// The gradient of a row among all pairs, written to u, and its part of the `PairSums`.
__device__ void evaluate_pairs(const Observations& data, int fit, long long row, double scale,
                               double* own) {
    const OtherClass others = compare_row(data, fit, row, scale);
    const double weight = data.weight(fit, row);
    const bool is_one = data.response(fit, row) == 1;
    data.u[fit * data.rows + row] = weight == 0 ? 0.0 : weight * others.gradient;
    PairSums::add(own, weight, is_one, others.not_below);
    PairSums::add(own + PairSums::count, data.weight_held_out(fit, row), is_one,
                  others.held_out_not_below);
}

/// `evaluate_pairs` of all rows, after a pass that adds to the means.
__device__ void evaluate_all_pairs(const RowSums& sums, Scale* scales) {
    find_scales(sums, scales);
    sums.pass<PairSums::both>(Add<double>(), [&](int fit, int) {
        const double scale = scales[fit].inverse;
        const Observations& data = sums.data;
        return [=, &data](long long row, double* own) {
            if (row < data.rows) evaluate_pairs(data, fit, row, scale, own);
        };
    });
}
