// The systems of a launch, as the kernels and the CPU take them: a struct, passed by value.

#pragma once

#include "batch.cuh"
#include "variables.cuh"

/// The matrix of a system as it was given, and the weights of its rows. Strides are in elements.
template <class T>
struct GivenMatrix {
    const T* A;
    long long row_stride, column_stride;
    RootWeights<T> weights;

    __device__ double operator()(int i, int j) const {
        return weights.times(static_cast<double>(A[i * row_stride + j * column_stride]), i);
    }
};

/// The arrays of the results of all systems.
template <class T>
struct NnlsResults {
    T *x, *rnorm, *dual, *kkt;
    int *nit, *status, *n_updates, *n_downdates;
    bool* repaired;
    unsigned char* method;
};

/// Systems of a batch, and where their results are written.
///
/// Strides and offsets are in elements. The offset of system k of the batch is offset[k], or
/// k * batch_stride if the pointer is null. System k of the launch is system first + k of the
/// batch; results belong to the launch. x has the starting points before the launch, the
/// solutions after it.
template <class T>
struct NnlsSystems {
    const T* A;
    const long long* A_offset;
    long long A_batch_stride, row_stride, column_stride;
    const T* b;
    const long long* b_offset;
    long long b_batch_stride, b_stride;
    const T* root_weight;  // null: every weight is 1
    const long long* weight_offset;
    long long weight_batch_stride, weight_stride;
    const double* options;  // `of_each` of `Variables`; null: the five numbers are used
    const long long* options_offset;
    long long options_batch_stride;
    double lower, upper, l1, root_l2, sum;
    double tol;
    long long first, count;
    int m, n;
    int kind;  // of `ProblemKind`
    int maxiter;
    int warm;     // whether x has starting points
    int limited;  // whether the user has set maxiter
    T *x, *rnorm, *dual, *kkt;
    int *nit, *status, *n_updates, *n_downdates;
    bool* repaired;
    unsigned char* method;
    ListedSystem* listed;  // systems for another method, or null
    BatchCounters* counters;

    /// The arrays of system k of the batch.
    __device__ const T* A_of(long long k) const {
        return A + BatchOffsets{A_offset, A_batch_stride}[k];
    }
    __device__ const T* b_of(long long k) const {
        return b + BatchOffsets{b_offset, b_batch_stride}[k];
    }
    __device__ RootWeights<T> weights_of(long long k) const {
        return RootWeights<T>{root_weight, weight_stride}.from(
            BatchOffsets{weight_offset, weight_batch_stride}[k]);
    }
    __device__ Variables variables_of(long long k) const {
        return Variables{options, n, lower, upper, l1, root_l2, sum}.from(
            BatchOffsets{options_offset, options_batch_stride}[k]);
    }
    __device__ GivenMatrix<T> matrix_of(long long k) const {
        return {A_of(k), row_stride, column_stride, weights_of(k)};
    }

    __device__ NnlsResults<T> results() const {
        return {x, rnorm, dual, kkt, nit, status, n_updates, n_downdates, repaired, method};
    }
};
