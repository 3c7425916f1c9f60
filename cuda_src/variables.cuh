// Bounds and penalties of the variables of a least-squares problem, a fixed sum, and weights of the
// rows, for a system of a batch. In the original variables and units.

#pragma once

#include "floating.cuh"

/// The options of a problem, in addition to A, b and non-negative x; the bits of `kind`.
/// `with_bounds` if x is not just non-negative, or if there are linear penalties;
/// `with_rounded_matrix` if A has rounding errors.
enum ProblemKind : int {
    with_ridge = 1,
    with_sum = 2,
    with_bounds = 4,
    with_penalties = 8,
    with_rounded_matrix = 16
};

/// The numbers are the same for all variables and systems; if `of_each` is not null, it has them
/// instead: n lower bounds, n upper bounds, n values of l1, n roots of l2, and the sum.
struct Variables {
    const double* of_each;
    int n;
    double same_lower, same_upper, same_l1, same_root_l2, same_sum;

    /// The variables of the system that begins at an offset.
    __device__ Variables from(long long offset) const {
        return {of_each ? of_each + offset : nullptr,
                n,
                same_lower,
                same_upper,
                same_l1,
                same_root_l2,
                same_sum};
    }

    __device__ double lower(int j) const { return of_each ? of_each[j] : same_lower; }
    __device__ double upper(int j) const { return of_each ? of_each[n + j] : same_upper; }
    __device__ double l1(int j) const { return of_each ? of_each[2LL * n + j] : same_l1; }
    __device__ double root_l2(int j) const { return of_each ? of_each[3LL * n + j] : same_root_l2; }
    __device__ double sum() const { return of_each ? of_each[4LL * n] : same_sum; }

    /// Whether the penalties of variable j and the sum are finite, and its bounds are not NaN.
    __device__ bool are_finite(int j) const {
        const double finite = fabs(l1(j)) + fabs(root_l2(j)) + fabs(sum());
        return finite < Floating<double>::infinity() && lower(j) == lower(j) &&
               upper(j) == upper(j);
    }
};

/// The square roots of the weights of the rows. If `root` is null, every weight is 1.
template <class T>
struct RootWeights {
    const T* root;
    long long stride;

    /// The weights of the system that begins at an offset.
    __device__ RootWeights from(long long offset) const {
        return {root ? root + offset : nullptr, stride};
    }

    /// The value in row i, times the root of its weight; a weight of 0 gives 0 even for NaN.
    template <class Real>
    __device__ Real times(Real value, int i) const {
        if (root == nullptr) return value;
        const T factor = root[i * stride];
        return factor == 0 ? Real(0) : value * factor;
    }
};

/// How far w, the negative gradient along a variable of value x, is from optimal: at a bound it
/// must not point into the interval, and between bounds it must be 0.
template <class Real>
__device__ __forceinline__ Real violation(Real x, Real w, Real lower, Real upper) {
    const bool may_move = w > 0 ? x < upper : x > lower;
    return may_move ? fabs(w) : Real(0);
}

/// How much the linear penalty of x is above its minimum within the bounds.
template <class Real>
__device__ __forceinline__ Real penalty_slack(Real penalty, Real x, Real lower, Real upper) {
    return penalty == 0 ? Real(0) : penalty * (x - (penalty > 0 ? lower : upper));
}

/// x minus the bound next to it, or minus 0 if that is nearer; 0 unless a bound is finite.
template <class Real>
__device__ __forceinline__ Real bound_distance(Real x, Real lower, Real upper) {
    const Real above = x - lower, below = x - upper;
    const Real least = above <= -below ? above : below;
    if (!(fabs(least) < Floating<Real>::infinity())) return Real(0);
    return fabs(x) < fabs(least) ? x : least;
}

/// x, or the bound that it is beyond.
template <class Real>
__device__ __forceinline__ Real clipped(Real x, Real lower, Real upper) {
    return x > lower ? (upper < x ? upper : x) : lower;
}

/// The first resting place of a variable: the feasible value next to 0. If its column is zero, the
/// bound where its penalty is least.
template <class Real>
__device__ __forceinline__ Real first_rest(Real norm, Real penalty, Real lower, Real upper) {
    const Real cheapest = penalty > 0 ? lower : upper;
    const bool is_idle = norm == 0 && penalty != 0 && fabs(cheapest) < Floating<Real>::infinity();
    return is_idle ? cheapest : clipped(Real(0), lower, upper);
}

/// The bound next to x; 0 if both are infinite.
template <class Real>
__device__ __forceinline__ Real nearest_bound(Real x, Real lower, Real upper) {
    if (!(fabs(lower) < Floating<Real>::infinity() || fabs(upper) < Floating<Real>::infinity()))
        return Real(0);
    return x - lower <= upper - x ? lower : upper;
}
