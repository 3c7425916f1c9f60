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
//   theta:  s is search.theta() after `auto search = family.start(sum of moments(y, f))` and
//           `while (!search.done) search.update(sum of terms(y, f, search.theta()))`, a pass
//           for each sum.
//
// Sources. Hofner, Mayr, Robinzonov & Schmid, "Model-based Boosting in R" (2014); Lawless,
// "Negative Binomial and Mixed Poisson Regression" (1987); Minka, "Estimating a Gamma Distribution"
// (2002).

#pragma once

#include "gamma_function.cuh"

/// How a family finds its parameter; see above.
enum class Nuisance { fixed, median, shape, theta };

/// The limits of a shape and of theta.
static constexpr double least_nuisance = 1e-8, most_nuisance = 1e8;

/// log(1 + exp(x)) without overflow.
static __device__ __forceinline__ double softplus(double x) {
    return fmax(x, 0.0) + log1p(exp(-fabs(x)));
}

/// 1 / (1 + exp(-x)).
static __device__ __forceinline__ double logistic(double x) {
    return 1 / (1 + exp(-x));
}

struct Gaussian {
    static constexpr Nuisance nuisance = Nuisance::fixed;
    static constexpr bool is_curved = false;
    double parameter;

    __device__ double gradient(double y, double f, double) const { return y - f; }
    __device__ double loss(double y, double f, double) const { return (y - f) * (y - f); }
};

struct Laplace {
    static constexpr Nuisance nuisance = Nuisance::fixed;
    static constexpr bool is_curved = false;
    double parameter;

    __device__ double gradient(double y, double f, double) const {
        return y == f ? 0.0 : copysign(1.0, y - f);
    }
    __device__ double loss(double y, double f, double) const { return fabs(y - f); }
};

/// `parameter` is tau.
struct Quantile {
    static constexpr Nuisance nuisance = Nuisance::fixed;
    static constexpr bool is_curved = false;
    double parameter;

    __device__ double gradient(double y, double f, double) const {
        return y >= f ? parameter : parameter - 1;
    }
    __device__ double loss(double y, double f, double s) const {
        return gradient(y, f, s) * (y - f);
    }
};

/// `parameter` is tau.
struct Expectile {
    static constexpr Nuisance nuisance = Nuisance::fixed;
    static constexpr bool is_curved = true;
    double parameter;

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
struct Huber {
    static constexpr Nuisance nuisance = found;
    static constexpr bool is_curved = true;
    double parameter;

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
struct BinomialHalfLogit {
    static constexpr Nuisance nuisance = Nuisance::fixed;
    static constexpr bool is_curved = true;
    double parameter;

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
struct BinomialLogit {
    static constexpr Nuisance nuisance = Nuisance::fixed;
    static constexpr bool is_curved = true;
    double parameter;

    __device__ double gradient(double y, double f, double) const {
        const double sign = 2 * y - 1;
        return sign * logistic(-sign * f);
    }
    __device__ double loss(double y, double f, double) const { return softplus(-(2 * y - 1) * f); }
    __device__ double curvature(double y, double f, double s) const {
        return fabs(gradient(y, f, s)) / 2;
    }
};

struct Poisson {
    static constexpr Nuisance nuisance = Nuisance::fixed;
    static constexpr bool is_curved = true;
    double parameter;

    __device__ double gradient(double y, double f, double) const { return y - exp(f); }
    __device__ double loss(double y, double f, double) const {
        return exp(f) - y * f + lgamma(y + 1);
    }
    __device__ double curvature(double y, double f, double) const { return (y + exp(f)) / 2; }
};

/// s is the shape, given or of maximum likelihood.
template <Nuisance found>
struct Gamma {
    static constexpr Nuisance nuisance = found;
    static constexpr bool is_curved = true;
    double parameter;

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

/// s is theta, given or of maximum likelihood: the variance is mu + mu^2 / theta, with mu = exp(f).
template <Nuisance found>
struct NegativeBinomial {
    static constexpr Nuisance nuisance = found;
    static constexpr bool is_curved = true;
    double parameter;

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
        const double lower = log(least_nuisance), upper = log(most_nuisance);
        if (sums.first <= 0) return {upper, upper, upper, 0, true};
        const double begin = log(sums.second / sums.first);
        return {begin > lower && begin < upper ? begin : 0, lower, upper, 0, false};
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
