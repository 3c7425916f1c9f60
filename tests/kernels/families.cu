// Kernels that test families.cuh: one thread per row, and one thread for a search.

#include "families.cuh"
#include "thread.cuh"

template <class Family>
__global__ void evaluate(const double* y, const double* f, const double* s, double parameter,
                         int rows, double* gradient, double* loss, double* curvature) {
    const long long i = thread_of_grid();
    if (i >= rows) return;
    const Family family{parameter};
    gradient[i] = family.gradient(y[i], f[i], s[i]);
    loss[i] = family.loss(y[i], f[i], s[i]);
    if constexpr (Family::is_curved)
        curvature[i] = family.curvature(y[i], f[i], s[i]);
    else
        curvature[i] = 1;
}

__global__ void gamma_functions(const double* x, int count, double* stirling, double* digamma,
                                double* trigamma) {
    const long long i = thread_of_grid();
    if (i >= count) return;
    stirling[i] = stirling_error(x[i]);
    digamma[i] = log_minus_digamma(x[i]);
    trigamma[i] = trigamma_minus_inverse(x[i]);
}

/// The shape of all rows, as one thread.
__global__ void find_shape(const double* y, const double* f, const double* w, int rows,
                           double* shape) {
    const Gamma<Nuisance::shape> family{0};
    double total = 0, weights = 0;
    for (int i = 0; i < rows; ++i) {
        total += w[i] * family.term(y[i], f[i]);
        weights += w[i];
    }
    *shape = family.solve(total / weights);
}

/// Theta of all rows, as one thread, and the number of passes over the rows.
template <class Family>
__global__ void find_theta(const double* y, const double* f, const double* w, int rows,
                           double* theta, int* passes) {
    const Family family{0};
    const auto sum = [&](auto term) {
        Two total{0, 0};
        for (int i = 0; i < rows; ++i) {
            const Two one = term(y[i], f[i]);
            total.first += w[i] * one.first;
            total.second += w[i] * one.second;
        }
        return total;
    };
    ThetaSearch search =
        family.start(sum([&](double y, double f) { return family.moments(y, f); }));
    for (*passes = 1; !search.done; ++*passes)
        search.update(sum([&](double y, double f) { return family.terms(y, f, search.theta()); }));
    *theta = search.theta();
}
