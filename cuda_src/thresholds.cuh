// Thresholds between ordered classes, of maximum likelihood.
//
// Problem. P(y <= k) = 1 / (1 + exp(f - t_k)) with q increasing thresholds t, for classes 0 to q.
// The log likelihood of all rows at given f is a concave function of t. Its second derivatives are
// a tridiagonal matrix: a row depends on the thresholds below and above its class only.
//
// Method. Newton's method, from the thresholds of a normal f. A step keeps a share of each distance
// between neighbours, and is halved where the slope turns along it. The sums over the rows are the
// caller's. A class without weight counts as half a row, with the mean of f.
//
// Memory. size(q) doubles of a search, in global memory.
// Cost. O(q) for a step, by one thread.
// Sources. McCullagh, "Regression models for ordinal data" (1980); Pratt, "Concavity of the log
// likelihood" (1981). gpusolve/gam/_families/thresholds.py has the same steps in NumPy.

#pragma once

#include "logistic.cuh"

/// The search for the thresholds of a fit, in arrays of the caller.
struct ThresholdSearch {
    double* state;       // size(count)
    double* thresholds;  // `count`
    int count;           // q

    static __device__ int size(int count) { return 4 * count + 9; }

    __device__ bool done() const { return state[0] != 0; }
    /// The sums over the rows that `start` or `update` reads.
    __device__ double* sums() const { return state + 2 * count + 6; }
    __device__ int sums_to_start() const { return count + 3; }
    __device__ int sums_to_update() const { return 2 * count; }

    /// A row's part of sum i for `start`: the weights of the classes, then the moments of f.
    __device__ double part_of_start(int i, int y, double f) const {
        if (i <= count) return i == y ? 1.0 : 0.0;
        return i == count + 1 ? f : f * f;
    }
    /// A row's part of sum i for `update`: the derivatives by threshold i / 2.
    __device__ double part_of_update(int i, int y, double f) const {
        const int k = i / 2;
        if (y != k && y != k + 1) return 0.0;
        const double above = logistic(f - thresholds[k]), below = logistic(thresholds[k] - f);
        if (i % 2 == 1) return above * below;
        return y == k ? above : -below;
    }

    /// A mean of logistic functions of normal variables with variance v is nearly the logistic
    /// function of the mean, divided by sqrt(1 + 0.346 v).
    __device__ void start() const {
        constexpr double logistic_scale = 0.346;
        double total = 0, all = 0, below = 0;
        for (int c = 0; c <= count; ++c) total += shares()[c] = sums()[c];
        for (int c = 0; c <= count; ++c) all += share(c);
        const double mean = sums()[count + 1] / total;
        const double variance = fmax(0.0, sums()[count + 2] / total - mean * mean);
        const double spread = sqrt(1 + logistic_scale * variance);
        for (int k = 0; k < count; ++k) {
            below += share(k);
            thresholds[k] = mean + spread * log(below / (all - below));
            step()[k] = 0;
        }
        state[0] = state[1] = slope() = 0;
        this->mean() = mean;
        this->total() = total;
    }

    /// A Newton step; half of the last step if that was too long.
    __device__ void update() const {
        constexpr double tolerance = 1e-7, overshoot = -0.5;
        constexpr int most = 60;
        complete_sums();
        const bool is_too_long = along_step() < overshoot * slope();
        double largest = 0;
        if (is_too_long) {
            slope() /= 2;
            for (int k = 0; k < count; ++k) thresholds[k] -= step()[k] /= 2;
        } else {
            solve();
            const double length = feasible_length();
            for (int k = 0; k < count; ++k) {
                step()[k] *= length;
                thresholds[k] += step()[k];
                largest = fmax(largest, fabs(step()[k]));
            }
            slope() = along_step();
        }
        const bool is_last = ++state[1] == most;
        state[0] = is_last || (!is_too_long && largest <= tolerance) ? 1 : 0;
    }

  private:
    __device__ double& slope() const { return state[2]; }
    __device__ double& mean() const { return state[3]; }
    __device__ double& total() const { return state[4]; }
    __device__ double* shares() const { return state + 5; }  // the weights of the classes
    __device__ double* step() const { return state + count + 6; }
    __device__ double& gradient(int k) const { return sums()[2 * k]; }
    __device__ double& diagonal(int k) const { return sums()[2 * k + 1]; }

    __device__ bool is_absent(int c) const { return shares()[c] == 0; }
    __device__ double share(int c) const { return is_absent(c) ? 0.5 : shares()[c]; }
    /// exp(-d) / (1 - exp(-d)) with the distance d of the thresholds below and above class c.
    __device__ double gap(int c) const {
        const double near = exp(thresholds[c - 1] - thresholds[c]);
        return near / (1 - near);
    }
    /// Minus the second derivative by the thresholds below and above class c.
    __device__ double neighbour(int c) const { return share(c) * gap(c) * (1 + gap(c)); }

    /// Adds absent classes, the distances of neighbours, and a ridge.
    __device__ void complete_sums() const {
        constexpr double ridge = 1e-10;  // relative to the weights
        for (int k = 0; k < count; ++k) {
            const double above = logistic(mean() - thresholds[k]);
            const double own = is_absent(k) ? 0.5 : 0.0, next = is_absent(k + 1) ? 0.5 : 0.0;
            gradient(k) += own * above - next * (1 - above);
            diagonal(k) += (own + next) * above * (1 - above) + ridge * total();
        }
        for (int c = 1; c < count; ++c) {
            const double push = share(c) * gap(c), bend = neighbour(c);
            gradient(c) += push;
            gradient(c - 1) -= push;
            diagonal(c) += bend;
            diagonal(c - 1) += bend;
        }
    }

    __device__ double along_step() const {
        double result = 0;
        for (int k = 0; k < count; ++k) result += step()[k] * gradient(k);
        return result;
    }

    /// step = the solution of the tridiagonal system with the gradient at its right.
    __device__ void solve() const {
        step()[0] = gradient(0);
        for (int k = 1; k < count; ++k) {
            const double ratio = neighbour(k) / diagonal(k - 1);
            diagonal(k) -= ratio * neighbour(k);
            step()[k] = gradient(k) + ratio * step()[k - 1];
        }
        for (int k = count - 1; k >= 0; --k) {
            if (k + 1 < count) step()[k] += neighbour(k + 1) * step()[k + 1];
            step()[k] /= diagonal(k);
        }
    }

    /// How much of the step keeps a share of each distance, at most 1.
    __device__ double feasible_length() const {
        constexpr double least_gap = 0.1;
        double fastest = 1 - least_gap;
        for (int c = 1; c < count; ++c)
            fastest =
                fmax(fastest, (step()[c - 1] - step()[c]) / (thresholds[c] - thresholds[c - 1]));
        return (1 - least_gap) / fastest;
    }
};
