// The results of boosting, by fit and step.

#pragma once

/// The results of each fit and step; step 0 is the start.
struct Paths {
    int* selected;     // [fit][step - 1]
    double* updates;   // [fit][step - 1][function], padded to `functions`
    double* risk;      // [fit][step]
    double* held_out;  // [fit][step]
    double* nuisance;  // [fit][step][number]
    int steps, functions, nuisances;

    __device__ long long place(int fit, int step) const { return fit * (steps + 1LL) + step; }
    __device__ double* nuisance_at(int fit, int step) const {
        return nuisance + place(fit, step) * nuisances;
    }
    /// Written by the block, before a step is made; `learner` is -1 for a fit that rests.
    __device__ void write(int fit, int step, int learner, const double* b, int count,
                          double size) const {
        const long long place = fit * static_cast<long long>(steps) + step - 1;
        if (threadIdx.x == 0) selected[place] = learner;
        for (int f = threadIdx.x; f < functions; f += blockDim.x)
            updates[place * functions + f] = f < count ? size * b[f] : 0.0;
    }
    __device__ void write_risks(int fit, int step, double own_risk, double own_held_out) const {
        risk[place(fit, step)] = own_risk;
        held_out[place(fit, step)] = own_held_out;
    }
};
