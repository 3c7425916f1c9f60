// The certificate of a solution of least squares within bounds, from sums over its rows and
// variables. See gpusolve/_numerics/certificate.py. All values are in scaled variables.

#pragma once

#include "floating.cuh"

enum NnlsStatus : int { converged = 0, iteration_limit = 1, not_finite = 2, uncertified = 3 };

enum NnlsMethod : unsigned char { by_gram = 0, by_qr = 1, by_mgs = 10 };

/// The largest `kkt` of a certified solution, and what rounding x may add to it, in units of
/// eps sum |a_k x_k| / `magnitude`.
template <class T>
constexpr T certified = sizeof(T) == 4 ? T(1e-4) : T(1e-10);
constexpr int rounded_units = 8;

/// Limit on `angle`, and on `by_x`, in eps, below which no method improves x.
constexpr int convincing_units = 4;

/// Limit on the error of a fixed sum in eps of its terms, if nothing but rounding explains it.
constexpr int summed_units = 4;

/// Limit on the change of A x due to rounding x, relative to `magnitude`.
template <class T>
constexpr T hidden = sizeof(T) == 4 ? T(1e-3) : T(1e-6);

/// Whether x keeps a fixed sum, as far as a certified x is accurate: `missing` is the fixed sum
/// minus the sum of x, `terms` the sum of the magnitudes of its terms.
template <class T, class Real>
__device__ bool keeps_sum(Real missing, Real terms, Real magnitude) {
    const Real rounding = rounded_units * Floating<T>::epsilon * magnitude;
    return fabs(missing) <= certified<T> * terms + rounding;
}

/// T is the type of solutions; sums are of type Real, which may be more precise.
template <class T, class Real>
struct Certificate {
    Real by_x, angle, size_to_b;

    /// Parameters: |y - (b - A x)|; sum (x_k - p_k) dual[k]: see `bound_distance` for p_k;
    /// the largest violation of a variable's optimality condition per column norm; |y|; |b|, plus
    /// the size of A x if x has to be different from 0; sum |a_k x_k|; how much the penalties of x
    /// are above their minimum within the bounds. y is the witness. A fixed sum is assumed to be
    /// kept.
    __device__ Certificate(Real apart, Real gap, Real slope, Real length, Real magnitude, Real size,
                           Real slack)
        : size_to_b(ratio(size, magnitude)) {
        const Real limit = slack > 0 ? square_root(length * length + 2 * slack) : length;
        by_x = ratio(apart + min(ratio(fabs(gap), length), limit), magnitude);
        angle = min(ratio(slope, length), ratio(limit, magnitude));
    }

    __device__ Real kkt() const { return by_x + angle; }

    /// The change of A x that rounding x may cause, relative to `magnitude`.
    __device__ Real rounding_of_x() const { return Floating<T>::epsilon * size_to_b; }
    /// Whether rounding x may change A x too much.
    __device__ bool is_hidden() const { return !(Floating<T>::epsilon * size_to_b <= hidden<T>); }
    /// Whether x is certified, if its solver `ended`; else whether x is convincing: so accurate
    /// that no other method could improve it.
    __device__ bool is_good(bool ended, Real tol) const {
        const Real limit = ended ? certified<T> : convincing_units * Floating<T>::epsilon;
        const Real by_rounding =
            Floating<T>::epsilon * size_to_b * (ended ? rounded_units : convincing_units);
        return by_x <= max(tol, limit + by_rounding) && angle <= max(tol, limit) && !is_hidden();
    }
};
