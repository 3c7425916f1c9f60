// Fits whose coefficients obey linear inequalities, by a block.
//
// Problem. min b'Ab / 2 - b'c over all b with C b >= 0, where H = A^-1 is known. The multipliers
// mu >= 0 of the inequalities minimise mu'S mu / 2 + mu'd, with S = C H C' and d = C H c, and
// b = H c + H C' mu.
//
// Method. Lawson & Hanson, "Solving Least Squares Problems" (1974), chapter 23. The tableau holds
// w = S mu + d; for constraints that bind, w_i and mu_i are exchanged by a pivot, so that its last
// column has mu_i of constraints that bind, and w_i of all others. In the end mu is corrected once
// by the residual of the equations that it solves.
//
// Shared memory. m (m + 4) doubles for m inequalities. Cost. m (m + 1) multiply-adds and two
// barriers for each pivot. Every warp makes the same decisions, without barriers.

#pragma once

#include "block.cuh"
#include "floating.cuh"
#include "learners.cuh"

/// The inequalities of a learner.
struct Cone {
    const double* projection;  // C H, [inequality][function]
    const double* gram;        // C H C', [inequality][inequality]
    int size, functions;       // inequalities and functions
};

/// The state of the active set, in shared memory.
struct ActiveSet {
    int size;
    double *tableau, *mu, *change;  // tableau[inequality][size + 1]
    int* binds;                     // 1: w_i and mu_i are exchanged

    __device__ ActiveSet(int size, double* memory) : size(size) {
        tableau = memory;
        mu = tableau + size * (size + 1);
        change = mu + size;
        binds = reinterpret_cast<int*>(change + size);
    }
    __device__ double& constant(int i) const { return tableau[i * (size + 1) + size]; }
    __device__ double& pivot(int i) const { return tableau[i * (size + 1) + i]; }

    /// Exchanges w_k and mu_k. Begins and ends with a barrier.
    __device__ void exchange(int k, int state) const {
        const int stride = size + 1;
        __syncthreads();
        const double inverse = 1 / pivot(k);
        for (int e = threadIdx.x; e < size * stride; e += blockDim.x) {
            const int i = e / stride, j = e % stride;
            if (i != k && j != k)
                tableau[e] -= tableau[i * stride + k] * inverse * tableau[k * stride + j];
        }
        __syncthreads();
        for (int e = threadIdx.x; e < stride; e += blockDim.x) {
            if (e == k) continue;
            tableau[k * stride + e] *= -inverse;
            if (e < size) tableau[e * stride + k] *= inverse;
        }
        if (threadIdx.x == 0) {
            pivot(k) = inverse;
            binds[k] = state;
        }
        __syncthreads();
    }

    /// The largest value(i) of the inequalities in a state, and its index; -1 without such an
    /// inequality.
    template <class Value>
    __device__ Located<double> largest(int state, Value value) const {
        Located<double> best = ArgMax<double>::identity();
        for (int i = lane_index(); i < size; i += warp_threads)
            if (binds[i] == state) best = ArgMax<double>()(best, {value(i), i});
        return warp_reduce(best, ArgMax<double>());
    }

    /// Moves mu to the solution for the inequalities that bind. Inequalities whose mu would become
    /// negative stop to bind.
    __device__ void move() const {
        for (;;) {
            const Located<double> blocking = largest(1, [&](int i) {
                const double to = constant(i);
                if (to > 0) return -2.0;
                return mu[i] > 0 ? -mu[i] / (mu[i] - to) : 0.0;
            });
            const bool is_blocked = blocking.index >= 0 && blocking.value >= -1;
            const double share = is_blocked ? -blocking.value : 1.0;
            __syncthreads();
            for (int i = threadIdx.x; i < size; i += blockDim.x)
                if (binds[i] == 1)
                    mu[i] = share < 1 ? mu[i] + share * (constant(i) - mu[i]) : constant(i);
            __syncthreads();
            if (!is_blocked) return;
            if (threadIdx.x == 0) mu[blocking.index] = 0;
            exchange(blocking.index, 0);
        }
    }
};

/// b += H C' mu, for b = H c. b, another vector and the active set follow c in memory. Begins and
/// ends with a barrier.
__device__ __noinline__ void fit_in_cone(Cone cone, double* c) {
    const int size = cone.size;
    double* b = c + cone.functions;
    const ActiveSet set(size, b + 2 * cone.functions);
    multiply(cone.projection, c, size, cone.functions, set.change);
    for (int e = threadIdx.x; e < size * (size + 1); e += blockDim.x) {
        const int i = e / (size + 1), j = e % (size + 1);
        set.tableau[e] = j < size ? cone.gram[i * size + j] : set.change[i];
    }
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        set.mu[i] = 0;
        set.binds[i] = 0;
    }
    __syncthreads();

    const double rounding = 16 * size * Floating<double>::epsilon;
    const double scale = set.largest(0, [&](int i) { return fabs(set.constant(i)); }).value;
    for (int turn = 0; turn < 8 * size; ++turn) {
        const Located<double> worst = set.largest(0, [&](int i) { return -set.constant(i); });
        if (worst.index < 0 || worst.value <= rounding * scale) break;
        const int k = worst.index;
        // It depends on the inequalities that bind, so w_k, the largest w, is a rounding error.
        if (set.pivot(k) <= rounding * cone.gram[k * size + k]) break;
        set.exchange(k, 1);
        set.move();
    }

    // w of the inequalities that bind should be 0; its rounding error corrects mu.
    for (int i = warp_index(); i < size; i += warp_count()) {
        double w = 0, d = 0;
        for (int j = lane_index(); j < size; j += warp_threads)
            w += cone.gram[i * size + j] * set.mu[j];
        for (int f = lane_index(); f < cone.functions; f += warp_threads)
            d += cone.projection[i * cone.functions + f] * c[f];
        w = warp_reduce(w + d, Add<double>());
        if (lane_index() == 0) set.change[i] = set.binds[i] == 1 ? w : 0.0;
    }
    __syncthreads();
    for (int i = warp_index(); i < size; i += warp_count()) {
        double change = 0;
        for (int j = lane_index(); j < size; j += warp_threads)
            change += set.tableau[i * (size + 1) + j] * set.change[j];
        change = warp_reduce(change, Add<double>());
        if (lane_index() == 0 && set.binds[i] == 1) set.mu[i] = fmax(0.0, set.mu[i] - change);
    }
    __syncthreads();
    for (int f = threadIdx.x; f < cone.functions; f += blockDim.x) {
        double sum = b[f];
        for (int i = 0; i < size; ++i) sum += cone.projection[i * cone.functions + f] * set.mu[i];
        b[f] = sum;
    }
    __syncthreads();
}
