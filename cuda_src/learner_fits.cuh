// The fits of all learners to their moments c = X' W u: b = H c for a matrix H or a diagonal, the
// best b that obeys inequalities (cone.cuh), or the best cut of ordered bins (stump.cuh).
//
// Mapping. A block fits a learner of a fit.
// Shared memory. Three vectors of k, and the arrays of cone.cuh; none for a diagonal.

#pragma once

#include "block.cuh"
#include "cone.cuh"
#include "designs.cuh"
#include "stump.cuh"

/// The matrices of the learners: [learner][system][function][function], or diagonals. All fits
/// share a single system, or each fit has a system.
struct Matrices {
    const double *gram, *inverse;
    const double* cones;  // [learner][system]: the projection, then the matrix of a `Cone`
    int systems;

    __device__ long long system(int fit) const { return systems == 1 ? 0 : fit; }
    __device__ long long place(const LearnerPlace& learner, int fit) const {
        return learner.matrix * systems + system(fit) * learner.entries;
    }
    __device__ Cone cone(const LearnerPlace& learner, int fit) const {
        const long long size = learner.inequalities, product = size * learner.functions;
        const double* projection =
            cones + learner.cone * systems + system(fit) * (product + size * size);
        return {projection, projection + product, static_cast<int>(size),
                static_cast<int>(learner.functions)};
    }
};

/// The fitted coefficients, and how much they reduce the sum of squares.
struct Fitted {
    double* coefficients;  // [fit][function of all learners]
    double* scores;        // [fit][learner]
};

/// The moment c of a function, in a fit: the sum of its partial sums.
struct Moments {
    const double* sums;
    long long partials, stride;  // stride: from a sum to the next sum

    __device__ double operator()(int f) const {
        double total = 0;
        for (long long i = 0; i < partials; ++i) total += sums[i * stride + f];
        return total;
    }
};

/// Writes b = H c, or the best b that obeys the inequalities. Returns this thread's part of the
/// score. `shared`: three vectors, as `fit_in_cone` says.
__device__ double fit_by_matrix(const Matrices& matrices, const LearnerPlace& learner, int fit,
                                const Moments& moments, double* shared, double* coefficients) {
    const int functions = static_cast<int>(learner.functions);
    double *c = shared, *b = c + functions, *Gb = b + functions;
    for (int f = threadIdx.x; f < functions; f += blockDim.x) c[f] = moments(f);
    __syncthreads();
    const long long place = matrices.place(learner, fit);
    multiply_symmetric(matrices.inverse + place, c, functions, b);
    if (learner.inequalities > 0) fit_in_cone(matrices.cone(learner, fit), c);
    multiply_symmetric(matrices.gram + place, b, functions, Gb);
    double score = 0;
    for (int f = threadIdx.x; f < functions; f += blockDim.x) {
        score += b[f] * (2 * c[f] - Gb[f]);
        coefficients[f] = b[f];
    }
    return score;
}

/// The same for a diagonal matrix, of any size.
__device__ double fit_by_diagonal(const Matrices& matrices, const LearnerPlace& learner, int fit,
                                  const Moments& moments, double* coefficients) {
    const long long place = matrices.place(learner, fit);
    double score = 0;
    for (int f = threadIdx.x; f < learner.functions; f += blockDim.x) {
        const double c = moments(f), b = matrices.inverse[place + f] * c;
        score += b * (2 * c - matrices.gram[place + f] * b);
        coefficients[f] = b;
    }
    return score;
}

/// The same for the best cut of the bins. The first thread returns the score.
__device__ double fit_by_cut(const Matrices& matrices, const LearnerPlace& learner, int fit,
                             const Moments& moments, double* shared, double* coefficients,
                             BlockReduce<Located<double>>& best) {
    const int bins = static_cast<int>(learner.functions);
    double *c = shared, *g = c + bins;
    const double* weights = matrices.gram + matrices.place(learner, fit);
    for (int f = threadIdx.x; f < bins; f += blockDim.x) {
        c[f] = moments(f);
        g[f] = weights[f];
    }
    const double score = fit_stump(c, g, bins, learner.least, coefficients, best);
    return threadIdx.x == 0 ? score : 0.0;
}

/// Fits a learner to the gradient of a fit.
template <class T>
__device__ __forceinline__ void fit_learner(const Designs<T>& designs, const Matrices& matrices,
                                            const double* sums, long long j, int fit,
                                            double* shared, const Fitted& fitted,
                                            BlockReduce<double>& reduce,
                                            BlockReduce<Located<double>>& best) {
    const LearnerPlace& learner = designs.learners[j];
    const Moments moments{sums + learner.sums * designs.fits + fit * learner.functions,
                          learner.partials, designs.fits * learner.functions};
    double* coefficients =
        fitted.coefficients + fit * static_cast<long long>(designs.columns) + learner.column;
    double score;
    if (learner.kind == by_matrix)
        score = fit_by_matrix(matrices, learner, fit, moments, shared, coefficients);
    else if (learner.kind == by_diagonal)
        score = fit_by_diagonal(matrices, learner, fit, moments, coefficients);
    else
        score = fit_by_cut(matrices, learner, fit, moments, shared, coefficients, best);
    score = reduce(score, Add<double>());
    if (threadIdx.x == 0) fitted.scores[fit * static_cast<long long>(designs.count) + j] = score;
}

/// Fits all learners.
template <class T>
__device__ void fit_all(const Designs<T>& designs, const Matrices& matrices, const double* sums,
                        double* shared, const Fitted& fitted, BlockReduce<double>& reduce,
                        BlockReduce<Located<double>>& best) {
    const long long units = static_cast<long long>(designs.count) * designs.fits;
    for (long long unit = blockIdx.x; unit < units; unit += gridDim.x)
        fit_learner(designs, matrices, sums, unit / designs.fits,
                    static_cast<int>(unit % designs.fits), shared, fitted, reduce, best);
}
