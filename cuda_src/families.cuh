// Families of gradient boosting: the negative gradient and the loss of a row, and how a family
// adapts its parameter to the rows.
//
//     y  the response;  f  the additive predictor;  s  the family's parameter at this step
//
// A curved family has curvature(y, f, s), which scales the steps: a bound on gradient / (f* - f),
// where f* is the f of least loss. For a likelihood it is linear in y, so it bounds this ratio also
// for the sum of rows that share f, and its mean is the information if f is true. The curvature of
// other families is 1.
//
// The losses are mboost's. They neither overflow nor cancel where the result is a number: softplus
// and the logistic function replace exp, and the remainder of Stirling's approximation replaces
// differences of log Gamma. gpusolve/gam/families.py has the same functions in NumPy, which take
// the same steps, so that both agree to rounding.
//
// A family with `nuisance`
//   fixed:  s is `parameter`;
//   median: s is the weighted median of |y - f|;
//   shape:  s is solve(mean of term(y, f)), a pass over the rows;
//   theta, scale:
//           s is search.theta() after `auto search = family.start(sum of moments(y, f))` and
//           `while (!search.done) search.update(sum of terms(y, f, search.theta()))`, a pass
//           for each sum;
//   thresholds: s points to the thresholds of `ThresholdSearch`, a pass for the first guess and
//           for each step;
//   risk_sets: u and the loss of a row depend on other rows, see risk_sets.cuh.
//
// Sources. Hofner, Mayr, Robinzonov & Schmid, "Model-based Boosting in R" (2014); Lawless,
// "Negative Binomial and Mixed Poisson Regression" (1987); Minka, "Estimating a Gamma Distribution"
// (2002).

#pragma once

#include "floating.cuh"
#include "gamma_function.cuh"
#include "thresholds.cuh"

/// How a family finds its parameter; see above.
enum class Nuisance { fixed, median, shape, theta, scale, thresholds, risk_sets };

/// The limits of a shape, of theta and of a scale.
static constexpr double least_nuisance = 1e-8, most_nuisance = 1e8;

/// A family whose parameter s is found in this way. `parameter` is given by the user, and the
/// curvature of a family that is not curved is 1.
template <Nuisance found, bool curved = true>
struct FamilyBase {
    static constexpr Nuisance nuisance = found;
    static constexpr bool is_curved = curved;
    double parameter;
};

struct Gaussian : FamilyBase<Nuisance::fixed, false> {
    __device__ double gradient(double y, double f, double) const { return y - f; }
    __device__ double loss(double y, double f, double) const { return (y - f) * (y - f); }
};

struct Laplace : FamilyBase<Nuisance::fixed, false> {
    __device__ double gradient(double y, double f, double) const {
        return y == f ? 0.0 : copysign(1.0, y - f);
    }
    __device__ double loss(double y, double f, double) const { return fabs(y - f); }
};

/// `parameter` is tau.
struct Quantile : FamilyBase<Nuisance::fixed, false> {
    __device__ double gradient(double y, double f, double) const {
        return y >= f ? parameter : parameter - 1;
    }
    __device__ double loss(double y, double f, double s) const {
        return gradient(y, f, s) * (y - f);
    }
};

/// `parameter` is tau.
struct Expectile : FamilyBase<Nuisance::fixed> {
    __device__ double gradient(double y, double f, double) const {
        return 2 * factor(y, f) * (y - f);
    }
    __device__ double loss(double y, double f, double) const {
        return factor(y, f) * (y - f) * (y - f);
    }
    __device__ double curvature(double y, double f, double) const { return 2 * factor(y, f); }

  private:
    __device__ double factor(double y, double f) const { return y > f ? parameter : 1 - parameter; }
};

/// s is delta, given or the median of |y - f|.
template <Nuisance found>
struct Huber : FamilyBase<found> {
    __device__ double gradient(double y, double f, double s) const {
        return fmax(-s, fmin(y - f, s));
    }
    __device__ double loss(double y, double f, double s) const {
        const double distance = fabs(y - f), near = fmin(distance, s);
        return near * (distance - near / 2);
    }
    __device__ double curvature(double y, double f, double s) const {
        constexpr double tiny = 2.2250738585072014e-308;  // s is 0 if most rows are exact
        return s / fmax(fmax(fabs(y - f), s), tiny);
    }
};

/// y is 0 or 1, and f is half the logit.
struct BinomialHalfLogit : FamilyBase<Nuisance::fixed> {
    __device__ double gradient(double y, double f, double) const {
        constexpr double inverse_log_two = 1.44269504088896340736;
        const double sign = 2 * y - 1;
        return 2 * inverse_log_two * sign * logistic(-2 * sign * f);
    }
    __device__ double loss(double y, double f, double) const {
        return softplus(-2 * (2 * y - 1) * f);
    }
    __device__ double curvature(double y, double f, double s) const {
        return fabs(gradient(y, f, s));
    }
};

/// y is 0 or 1, and f is the logit.
struct BinomialLogit : FamilyBase<Nuisance::fixed> {
    __device__ double gradient(double y, double f, double) const {
        const double sign = 2 * y - 1;
        return sign * logistic(-sign * f);
    }
    __device__ double loss(double y, double f, double) const { return softplus(-(2 * y - 1) * f); }
    __device__ double curvature(double y, double f, double s) const {
        return fabs(gradient(y, f, s)) / 2;
    }
};

struct Poisson : FamilyBase<Nuisance::fixed> {
    __device__ double gradient(double y, double f, double) const { return y - exp(f); }
    __device__ double loss(double y, double f, double) const {
        return exp(f) - y * f + lgamma(y + 1);
    }
    __device__ double curvature(double y, double f, double) const { return (y + exp(f)) / 2; }
};

/// y is one of `parameter` ordered classes, and s has the thresholds between them.
struct PropOdds : FamilyBase<Nuisance::thresholds> {
    __device__ int count() const { return static_cast<int>(parameter) - 1; }
    __device__ double gradient(double y, double f, const double* s) const {
        return logistic(lower(y, s) - f) - logistic(f - upper(y, s));
    }
    __device__ double loss(double y, double f, const double* s) const {
        const double below = lower(y, s), above = upper(y, s);
        return softplus(f - above) + softplus(below - f) - log(-expm1(below - above));
    }
    __device__ double curvature(double y, double f, const double* s) const {
        return (logistic(lower(y, s) - f) + logistic(f - upper(y, s))) / 2;
    }

  private:
    __device__ double lower(double y, const double* s) const {
        return y > 0 ? s[static_cast<int>(y) - 1] : -Floating<double>::infinity();
    }
    __device__ double upper(double y, const double* s) const {
        return y < count() ? s[static_cast<int>(y)] : Floating<double>::infinity();
    }
};

/// `parameter` is the power of the mean that the variance is proportional to, between 1 and 2.
struct Tweedie : FamilyBase<Nuisance::fixed> {
    __device__ double gradient(double y, double f, double) const {
        return y * exp((1 - parameter) * f) - exp((2 - parameter) * f);
    }
    __device__ double loss(double y, double f, double) const {
        const double low = parameter - 1, high = 2 - parameter;
        return exp(high * f) / high + y * exp(-low * f) / low - pow(y, high) / (low * high);
    }
    __device__ double curvature(double y, double f, double) const {
        return (y * exp((1 - parameter) * f) + exp((2 - parameter) * f)) / 2;
    }
};

/// s is the shape, given or of maximum likelihood.
template <Nuisance found>
struct Gamma : FamilyBase<found> {
    __device__ double gradient(double y, double f, double s) const { return s * expm1(log(y) - f); }
    __device__ double loss(double y, double f, double s) const {
        return s * term(y, f) + stirling_error(s) - log(s) / 2 + half_log_two_pi;
    }
    __device__ double curvature(double y, double f, double s) const {
        return s * (1 + exp(log(y) - f)) / 2;
    }

    /// exp(d) - 1 - d with d = log y - f. The shape depends only on its weighted mean.
    __device__ double term(double y, double f) const {
        const double d = log(y) - f;
        return expm1(d) - d;
    }

    /// The s within the limits with log s - digamma(s) = mean. That is a convex function of t = 1 /
    /// s between t / 2 and t, so Newton's method descends from t = 2 mean without a safeguard.
    __device__ double solve(double mean) const {
        constexpr double tolerance = 1e-8;
        constexpr int steps = 30;
        const double target = fmax(least_nuisance / 2, fmin(mean, most_nuisance));
        double t = 2 * target;
        for (int step = 0; step < steps; ++step) {
            const double s = 1 / t;
            const double change =
                (log_minus_digamma(s) - target) / (s * s * trigamma_minus_inverse(s));
            t -= change;
            if (fabs(change) <= tolerance * t) break;
        }
        return 1 / t;
    }
};

/// Two sums over rows.
struct Two {
    double first, second;
};

/// A maximum over log theta, by Newton's method within an interval that it shrinks.
struct ThetaSearch {
    double log_theta, lower, upper;
    int steps;
    bool done;

    __device__ double theta() const { return exp(log_theta); }

    /// Move by the first and the second derivative; halve the interval where Newton leaves it.
    __device__ void update(Two derivatives) {
        constexpr double tolerance = 1e-7;
        constexpr int most = 60;
        (derivatives.first > 0 ? lower : upper) = log_theta;
        double next = log_theta - derivatives.first / derivatives.second;
        if (!(derivatives.second < 0 && next > lower && next < upper)) next = (lower + upper) / 2;
        done = fabs(next - log_theta) <= tolerance || ++steps == most;
        log_theta = next;
    }
};

/// A search that begins at `theta` if the limits allow it, else at 1.
static __device__ __forceinline__ ThetaSearch search_from(double theta) {
    const double begin = log(theta), lower = log(least_nuisance), upper = log(most_nuisance);
    return {begin > lower && begin < upper ? begin : 0, lower, upper, 0, false};
}

/// s is theta, given or of maximum likelihood: the variance is mu + mu^2 / theta, with mu = exp(f).
template <Nuisance found>
struct NegativeBinomial : FamilyBase<found> {
    __device__ double gradient(double y, double f, double s) const {
        const double z = f - log(s);
        return y * logistic(-z) - s * logistic(z);
    }
    __device__ double loss(double y, double f, double s) const {
        const double ratio = log1p(y / s);
        return lgamma(y + 1) + y - y * f - (s + y) * (ratio - softplus(f - log(s))) + ratio / 2 +
               stirling_error(s) - stirling_error(s + y);
    }
    __device__ double curvature(double y, double f, double s) const {
        const double z = f - log(s);
        return (y * logistic(-z) + s * logistic(z)) / 2;
    }

    /// The variance in excess of Poisson's, and mu^2.
    __device__ Two moments(double y, double f) const {
        const double mean = exp(f);
        return {(y - mean) * (y - mean) - y, mean * mean};
    }

    /// Without an excess theta is the largest allowed; else begin at the estimate of moments.
    __device__ ThetaSearch start(Two sums) const {
        const double upper = log(most_nuisance);
        if (sums.first <= 0) return {upper, upper, upper, 0, true};
        return search_from(sums.second / sums.first);
    }

    /// The first and the second derivative of the log likelihood of a row by log theta.
    __device__ Two terms(double y, double f, double theta) const {
        const double z = f - log(theta), whole = theta + y;
        const double r = y / theta * logistic(-z) - logistic(z);  // (y - mu) / (theta + mu)
        const double slope = log1p(y / theta) - softplus(z) - r + log_minus_digamma(theta) -
                             log_minus_digamma(whole);
        const double curvature =
            r * r / whole - trigamma_minus_inverse(theta) + trigamma_minus_inverse(whole);
        return {theta * slope, theta * (slope + theta * curvature)};
    }
};

/// Counts above zero of a negative binomial distribution with mean exp(f). Divided by
/// exp(log_rest), the share of these counts is `share`, and theta mu / (theta + mu) is `pull`:
/// log_rest is negative where the share, which is then proportional to mu, would underflow.
struct Truncation {
    double exponent, share, log_rest, pull;  // exponent: -log P(y = 0)

    __device__ Truncation(double f, double theta) {
        constexpr double least = -50;  // log(1 + exp(x)) is exp(x) below it, up to rounding
        const double log_theta = log(theta), raised = fmax(f, fmin(log_theta, 0.0) + least);
        exponent = theta * softplus(raised - log_theta);
        share = -expm1(-exponent);
        log_rest = f - raised;
        pull = theta * logistic(raised - log_theta);
    }
};

/// The distribution of `NegativeBinomial` for counts above zero.
template <Nuisance found>
struct Hurdle : FamilyBase<found> {
    __device__ double gradient(double y, double f, double s) const {
        const Truncation truncated(f, s);
        return y * logistic(log(s) - f) - truncated.pull / truncated.share;
    }
    __device__ double loss(double y, double f, double s) const {
        const Truncation truncated(f, s);
        return whole().loss(y, f, s) + log(truncated.share) + truncated.log_rest;
    }
    __device__ double curvature(double y, double f, double s) const {
        const Truncation truncated(f, s);
        return (y * logistic(log(s) - f) + truncated.pull / truncated.share) / 2;
    }
    __device__ Two moments(double y, double f) const {
        const Two sums = whole().moments(y, f);
        const double mean = fmax(exp(f), 1e-100);  // its square is not 0
        return {sums.first + mean * mean / expm1(mean), sums.second};
    }
    __device__ ThetaSearch start(Two sums) const { return whole().start(sums); }

    /// As for all counts, plus the derivatives of -log P(y > 0).
    __device__ Two terms(double y, double f, double theta) const {
        const Two sums = whole().terms(y, f, theta);
        const Truncation truncated(f, theta);
        const double odds = 1 / expm1(truncated.exponent);         // P(y = 0) / P(y > 0)
        const double slope = truncated.pull - truncated.exponent;  // of log P(y = 0)
        const double curvature = slope + truncated.pull * truncated.pull / theta;
        return {sums.first + odds * slope,
                sums.second + odds * (curvature + slope * slope * (1 + odds))};
    }

  private:
    __device__ NegativeBinomial<found> whole() const { return {this->parameter}; }
};

// ---- survival times: y is the time, negative for a censored row ---------------------

/// log t = f + s e, where `Distribution` is the distribution of e. s is the scale, given or of
/// maximum likelihood.
template <class Distribution, Nuisance found>
struct AcceleratedFailure : FamilyBase<found> {
    __device__ double gradient(double y, double f, double s) const {
        return Distribution::slope((log(fabs(y)) - f) / s, y > 0) / s;
    }
    __device__ double loss(double y, double f, double s) const {
        const double of_scale = y > 0 ? log(s) : 0.0;
        return of_scale + Distribution::standard((log(fabs(y)) - f) / s, y > 0);
    }

    __device__ double curvature(double y, double f, double s) const {
        return Distribution::steepness((log(fabs(y)) - f) / s, y > 0) / (s * s);
    }

    /// The square of the residual, and the number of events.
    __device__ Two moments(double y, double f) const {
        const double residual = log(fabs(y)) - f;
        return y > 0 ? Two{residual * residual, 1} : Two{0, 0};
    }
    __device__ ThetaSearch start(Two sums) const {
        return search_from(sqrt(sums.first / sums.second));
    }

    /// The first and the second derivative of the log likelihood of a row by log s.
    __device__ Two terms(double y, double f, double s) const {
        const double z = (log(fabs(y)) - f) / s;
        const double first = z * Distribution::slope(z, y > 0);
        return {first - (y > 0 ? 1 : 0), -first - z * z * Distribution::bend(z, y > 0)};
    }
};

/// Distributions have `standard`, the loss at z of an event, -log density, or of a censored row,
/// -log P(e > z); `slope` and `bend` are its derivatives by z, and `steepness` is its curvature.
struct ExtremeValue {
    static __device__ double standard(double z, bool event) { return exp(z) - (event ? z : 0); }
    static __device__ double slope(double z, bool event) { return exp(z) - (event ? 1 : 0); }
    static __device__ double bend(double z, bool) { return exp(z); }
    static __device__ double steepness(double z, bool event) {
        return (exp(z) + (event ? 1 : 0)) / 2;
    }
};

struct Logistic {
    static __device__ double standard(double z, bool event) {
        return event ? 2 * softplus(z) - z : softplus(z);
    }
    static __device__ double slope(double z, bool event) {
        return event ? 2 * logistic(z) - 1 : logistic(z);
    }
    static __device__ double bend(double z, bool event) {
        return (event ? 2 : 1) * logistic(z) * logistic(-z);
    }
    static __device__ double steepness(double z, bool event) {
        return (event ? 1 : logistic(z)) / 2;
    }
};

struct Normal {
    static __device__ double standard(double z, bool event) {
        if (event) return z * z / 2 + half_log_two_pi;
        if (z > far) return z * z / 2 + half_log_two_pi + log(hazard(z));
        return z > 0 ? -log(erfc(z * root_half) / 2) : -log1p(-erfc(-z * root_half) / 2);
    }
    static __device__ double slope(double z, bool event) { return event ? z : hazard(z); }
    static __device__ double bend(double z, bool event) {
        return event ? 1 : hazard(z) * (hazard(z) - z);
    }
    static __device__ double steepness(double z, bool event) { return bend(z, event); }

  private:
    static constexpr double root_half = 0.70710678118654752440;
    static constexpr double far = 10;  // from here a continued fraction has the digits of a double

    /// density(z) / P(e > z).
    static __device__ double hazard(double z) {
        if (z <= far) return 2 * exp(-z * z / 2 - half_log_two_pi) / erfc(z * root_half);
        constexpr int terms = 16;
        double result = z;
        for (int k = terms; k > 0; --k) result = z + k / result;
        return result;
    }
};

template <Nuisance found>
using Weibull = AcceleratedFailure<ExtremeValue, found>;
template <Nuisance found>
using LogLogistic = AcceleratedFailure<Logistic, found>;
template <Nuisance found>
using LogNormal = AcceleratedFailure<Normal, found>;
