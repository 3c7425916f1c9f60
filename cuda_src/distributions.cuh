// Families of several predictors: classes, and distributions whose parameters all depend on the
// covariates.
//
//     y     the response;  f(p)  the additive predictor p;  u(p, x)  takes x, the negative gradient
//     by p, or the curvature, which is not negative
//
// A loss is the negative logarithm of the density or probability. As in families.cuh, the functions
// neither overflow nor cancel where the result is a number. gpusolve/gam/distributions.py and
// gpusolve/gam/_families/multinomial.py have the same functions in NumPy.
//
// Sources. Rigby & Stasinopoulos, "Generalized Additive Models for Location, Scale and Shape"
// (2005); Mayr, Fenske, Hofner, Kneib & Schmid, "Generalized Additive Models for Location, Scale
// and Shape for High Dimensional Data" (2012).

#pragma once

#include "families.cuh"

/// The predictors of a row, which are `stride` apart. A candidate changes one predictor.
struct PredictorRow {
    const double* f;
    long long stride;
    int changed = -1;
    double change = 0;

    __device__ double operator()(int p) const {
        return f[p * stride] + (p == changed ? change : 0.0);
    }
};

/// The weighted gradients of a row.
struct GradientRow {
    double* u;
    long long stride;
    double weight;

    __device__ void operator()(int p, double gradient) const { u[p * stride] = weight * gradient; }
};

/// |d|_W^2 and |d|_WH^2 of the predictors from `first` to `last` - 1: d(p) is at `d + p * stride`,
/// and H the curvature.
struct CurvatureRow {
    const double* d;
    long long stride;
    double weight;
    int first, last;
    double* sums;

    __device__ void operator()(int p, double curvature) const {
        if (p < first || p >= last) return;
        const double square = weight * d[p * stride] * d[p * stride];
        sums[0] += square;
        sums[1] += square * curvature;
    }
};

/// The curvature whose mean is the information, bounded for data that say nothing.
static __device__ __forceinline__ double squared(double gradient) {
    constexpr double least_curvature = 0.1;
    return fmax(gradient * gradient, least_curvature);
}

/// y is the number of the class, 0 to `parameter` - 1; P(y = k) = exp(f_k) / sum exp(f_i).
struct Multinomial {
    static constexpr bool is_joint = true;
    double parameter;

    __device__ int classes() const { return static_cast<int>(parameter); }
    __device__ double largest(const PredictorRow& f) const {
        double result = f(0);
        for (int k = 1; k < classes(); ++k) result = fmax(result, f(k));
        return result;
    }
    __device__ double odds(const PredictorRow& f, double shift) const {
        double sum = 0;
        for (int k = 0; k < classes(); ++k) sum += exp(f(k) - shift);
        return sum;
    }
    __device__ void gradient(double y, const PredictorRow& f, const GradientRow& u) const {
        const double shift = largest(f), total = odds(f, shift);
        for (int k = 0; k < classes(); ++k) u(k, (y == k ? 1.0 : 0.0) - exp(f(k) - shift) / total);
    }
    template <class Take>
    __device__ void curvature(double, const PredictorRow& f, const Take& take) const {
        const double shift = largest(f), total = odds(f, shift);
        for (int k = 0; k < classes(); ++k) {
            const double p = exp(f(k) - shift) / total;
            take(k, p * (1 - p) * (parameter / (parameter - 1)));
        }
    }
    __device__ double loss(double y, const PredictorRow& f) const {
        const double shift = largest(f);
        return log(odds(f, shift)) - (f(static_cast<int>(y)) - shift);
    }
};

namespace distributions {

/// Its steps update a single predictor.
struct Distribution {
    static constexpr bool is_joint = false;
    double parameter;
};

/// f: mu, log sigma.
struct Gaussian : Distribution {
    __device__ void gradient(double y, const PredictorRow& f, const GradientRow& u) const {
        const double scale = exp(-f(1)), z = (y - f(0)) * scale;
        u(0, z * scale);
        u(1, z * z - 1);
    }
    template <class Take>
    __device__ void curvature(double y, const PredictorRow& f, const Take& take) const {
        const double scale = exp(-f(1)), z = (y - f(0)) * scale;
        take(0, scale * scale);
        take(1, z * z + 1);
    }
    __device__ double loss(double y, const PredictorRow& f) const {
        const double log_sigma = f(1), z = (y - f(0)) * exp(-log_sigma);
        return z * z / 2 + log_sigma + half_log_two_pi;
    }
};

/// f: mu, log sigma, log df.
struct StudentT : Distribution {
    __device__ void gradient(double y, const PredictorRow& f, const GradientRow& u) const {
        const double scale = exp(-f(1)), df = exp(f(2)), z = (y - f(0)) * scale;
        const double pull = (df + 1) / (df + z * z);
        u(0, pull * z * scale);
        u(1, pull * z * z - 1);
        u(2, slope(df, z, pull));
    }
    template <class Take>
    __device__ void curvature(double y, const PredictorRow& f, const Take& take) const {
        const double scale = exp(-f(1)), df = exp(f(2)), z = (y - f(0)) * scale;
        const double pull = (df + 1) / (df + z * z);
        take(0, pull * scale * scale);
        take(1, pull * z * z + 1);
        take(2, squared(slope(df, z, pull)));
    }
    __device__ double loss(double y, const PredictorRow& f) const {
        const double log_sigma = f(1), df = exp(f(2)), z = (y - f(0)) * exp(-log_sigma);
        const double of_gamma = stirling_error(df / 2) - stirling_error((df + 1) / 2);
        const double constant = (1 - df * log1p(1 / df)) / 2 + of_gamma + half_log_two_pi;
        return constant + log_sigma + (df + 1) / 2 * log1p(z * z / df);
    }

  private:
    __device__ double slope(double df, double z, double pull) const {
        const double of_gamma = log_minus_digamma(df / 2) - log_minus_digamma((df + 1) / 2);
        const double parts = log1p(1 / df) + of_gamma - 1 / df - log1p(z * z / df);
        return (df * parts + pull * z * z) / 2;
    }
};

/// f: log mu, log shape.
struct Gamma : Distribution {
    __device__ void gradient(double y, const PredictorRow& f, const GradientRow& u) const {
        const double d = log(y) - f(0), of_mean = expm1(d), shape = exp(f(1));
        u(0, shape * of_mean);
        u(1, shape * (log_minus_digamma(shape) - (of_mean - d)));
    }
    template <class Take>
    __device__ void curvature(double y, const PredictorRow& f, const Take& take) const {
        const double shape = exp(f(1));
        take(0, ::Gamma<Nuisance::fixed>{}.curvature(y, f(0), shape));
        take(1, shape * shape * trigamma_minus_inverse(shape));
    }
    __device__ double loss(double y, const PredictorRow& f) const {
        return ::Gamma<Nuisance::fixed>{}.loss(y, f(0), exp(f(1))) + log(y);
    }
};

/// f: logit mu, log phi.
struct Beta : Distribution {
    __device__ void gradient(double y, const PredictorRow& f, const GradientRow& u) const {
        const double logit = f(0), mu = logistic(logit), rest = logistic(-logit), phi = exp(f(1));
        const double first = log(y) + softplus(-logit) + log_minus_digamma(mu * phi);
        const double second = log1p(-y) + softplus(logit) + log_minus_digamma(rest * phi);
        u(0, phi * mu * rest * (first - second));
        u(1, phi * (mu * first + rest * second - log_minus_digamma(phi)));
    }
    template <class Take>
    __device__ void curvature(double, const PredictorRow& f, const Take& take) const {
        const double mu = logistic(f(0)), rest = logistic(-f(0)), phi = exp(f(1));
        const double first = trigamma_minus_inverse(mu * phi);
        const double second = trigamma_minus_inverse(rest * phi);
        const double both = mu * mu * first + rest * rest * second, product = phi * mu * rest;
        take(0, product * product * (first + second) + product);
        take(1, phi * phi * (both - trigamma_minus_inverse(phi)));
    }
    __device__ double loss(double y, const PredictorRow& f) const {
        const double logit = f(0), log_phi = f(1), phi = exp(log_phi);
        const double a = phi * logistic(logit), b = phi * logistic(-logit);
        const double log_mu = -softplus(-logit), log_rest = -softplus(logit);
        const double log_y = log(y), log_not_y = log1p(-y);
        const double distance = a * (log_mu - log_y) + b * (log_rest - log_not_y);
        const double constant = half_log_two_pi - (log_phi + log_mu + log_rest) / 2;
        const double remainder = stirling_error(a) + stirling_error(b) - stirling_error(phi);
        return distance + constant + remainder + log_y + log_not_y;
    }
};

/// f: log mu, log theta.
struct NegativeBinomial : Distribution {
    template <class Take>
    __device__ void gradient(double y, const PredictorRow& f, const Take& u) const {
        u(0, ::NegativeBinomial<Nuisance::fixed>{}.gradient(y, f(0), exp(f(1))));
        u(1, slope(y, f));
    }
    template <class Take>
    __device__ void curvature(double y, const PredictorRow& f, const Take& take) const {
        take(0, ::NegativeBinomial<Nuisance::fixed>{}.curvature(y, f(0), exp(f(1))));
        take(1, squared(slope(y, f)));
    }
    __device__ double loss(double y, const PredictorRow& f) const {
        return ::NegativeBinomial<Nuisance::fixed>{}.loss(y, f(0), exp(f(1)));
    }

  private:
    __device__ double slope(double y, const PredictorRow& f) const {
        const double theta = exp(f(1)), z = f(0) - f(1);
        const double r = y / theta * logistic(-z) - logistic(z);  // (y - mu) / (theta + mu)
        const double of_gamma = log_minus_digamma(theta) - log_minus_digamma(theta + y);
        return theta * (log1p(y / theta) - softplus(z) - r + of_gamma);
    }
};

/// f: log mu.
struct Poisson {
    template <class Take>
    __device__ void gradient(double y, const PredictorRow& f, const Take& u) const {
        u(0, y - exp(f(0)));
    }
    template <class Take>
    __device__ void curvature(double y, const PredictorRow& f, const Take& take) const {
        take(0, ::Poisson{}.curvature(y, f(0), 0.0));
    }
    __device__ double loss(double y, const PredictorRow& f) const {
        return ::Poisson{}.loss(y, f(0), 0.0);
    }
};

/// Counts with further zeros; f: the predictors of the counts, then the logit of the share of
/// these zeros.
template <class Counts, int share>
struct ZeroInflated : Distribution {
    __device__ void gradient(double y, const PredictorRow& f, const GradientRow& u) const {
        const double logit = f(share);
        const double is_count = share_of_counts(y, f);
        Counts{}.gradient(y, f, [&](int p, double x) { u(p, is_count * x); });
        const double loss = y == 0 ? Counts{}.loss(y, f) : 0.0;
        u(share, (y == 0 ? logistic(logit + loss) : 0.0) - logistic(logit));
    }
    template <class Take>
    __device__ void curvature(double y, const PredictorRow& f, const Take& take) const {
        const double logit = f(share), is_count = share_of_counts(y, f);
        Counts{}.curvature(y, f, [&](int p, double x) { take(p, is_count * x); });
        take(share, logistic(logit) * logistic(-logit));
    }
    __device__ double loss(double y, const PredictorRow& f) const {
        const double logit = f(share), loss = Counts{}.loss(y, f);
        const double own = y == 0 ? -(logit + softplus(-loss - logit)) : loss;
        return own + softplus(logit);
    }

  private:
    /// P(the response is a count | y).
    __device__ double share_of_counts(double y, const PredictorRow& f) const {
        return y == 0 ? logistic(-f(share) - Counts{}.loss(y, f)) : 1.0;
    }
};

using ZeroInflatedPoisson = ZeroInflated<Poisson, 1>;
using ZeroInflatedNegativeBinomial = ZeroInflated<NegativeBinomial, 2>;

}  // namespace distributions
