// Parts of log Gamma and its derivatives that stay accurate for large arguments, where the whole
// functions cancel: the remainders of Stirling's approximation.
//
// Source. The asymptotic series of NIST's Digital Library of Mathematical Functions, 5.11.1,
// 5.11.2 and 5.15.8 (Abramowitz & Stegun 6.1.40, 6.3.18 and 6.4.12), after the recurrences 5.5.2
// and 5.15.5 have carried x to 10. The first term left out is below 2e-14 of each sum, and below
// 4e-17 of the whole functions. gpusolve/gam/_families/numerics.py has the same values, from
// scipy.special.
//
// Cost. At most 10 divisions and a logarithm for the recurrence, and 7 multiply-adds.

#pragma once

static constexpr double half_log_two_pi = 0.91893853320467274178;

/// From here on the series are summed.
static constexpr double stirling_from = 10;

/// log Gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2) for x > 0: 1 / (12 x) - ..
static __device__ __noinline__ double stirling_error(double x) {
    if (x < stirling_from) return lgamma(x) - ((x - 0.5) * log(x) - x + half_log_two_pi);
    const double t = 1 / (x * x);
    double sum = 1.0 / 156;
    sum = sum * t - 691.0 / 360360;
    sum = sum * t + 1.0 / 1188;
    sum = sum * t - 1.0 / 1680;
    sum = sum * t + 1.0 / 1260;
    sum = sum * t - 1.0 / 360;
    sum = sum * t + 1.0 / 12;
    return sum / x;
}

/// log x - digamma(x) for x > 0: 1 / (2 x) + 1 / (12 x^2) - ..
static __device__ __noinline__ double log_minus_digamma(double x) {
    double inverses = 0, shifted = x;
    for (; shifted < stirling_from; shifted += 1) inverses += 1 / shifted;
    const double t = 1 / (shifted * shifted);
    double sum = 1.0 / 12;
    sum = sum * t - 691.0 / 32760;
    sum = sum * t + 1.0 / 132;
    sum = sum * t - 1.0 / 240;
    sum = sum * t + 1.0 / 252;
    sum = sum * t - 1.0 / 120;
    sum = sum * t + 1.0 / 12;
    sum = sum * t + 0.5 / shifted;
    return shifted == x ? sum : inverses + log(x / shifted) + sum;
}

/// trigamma(x) - 1 / x for x > 0: 1 / (2 x^2) + 1 / (6 x^3) - .., minus the derivative of the
/// above.
static __device__ __noinline__ double trigamma_minus_inverse(double x) {
    double squares = 0, shifted = x;
    for (; shifted < stirling_from; shifted += 1) squares += 1 / (shifted * shifted);
    const double t = 1 / (shifted * shifted);
    double sum = 7.0 / 6;
    sum = sum * t - 691.0 / 2730;
    sum = sum * t + 5.0 / 66;
    sum = sum * t - 1.0 / 30;
    sum = sum * t + 1.0 / 42;
    sum = sum * t - 1.0 / 30;
    sum = sum * t + 1.0 / 6;
    sum = (sum / shifted + 0.5) * t;
    return shifted == x ? sum : squares + (1 / shifted - 1 / x) + sum;
}
