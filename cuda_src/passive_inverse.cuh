// The inverse H of a positive definite matrix, restricted to a changing set of variables.
//
// A variable enters or leaves by an update of H of rank one. The last variable takes the position
// of one that leaves, so H never has gaps. The specification in NumPy is
// gpusolve/reference/_nnls_gram.py, class PassiveInverse.
//
// Memory. H is symmetric, and stored as its lower triangle, row after row: entry (i, k) with
// k <= i is at i (i + 1) / 2 + k. The triangle grows at its end, so its first entries can be in
// shared memory (`near`), and the others in global memory (`far`). 16 neighbouring threads that
// read one column access all banks: 16 successive triangular numbers are distinct modulo 16.
//
// Cost. For l variables, an update reads and writes l^2 / 2 numbers, a product reads l^2.

#pragma once

#include "team.cuh"

template <class Team>
struct PassiveInverseArrays {
    Vector<double, Team> near, far;
    long long near_entries;
    Vector<int, Team> variables;

    __device__ __forceinline__ double& entry(long long place) const {
        return Team::is_small || place < near_entries ? near[place] : far[place - near_entries];
    }
};

template <class Team>
struct PassiveInverse {
    using Reals = Vector<double, Team>;

    const PassiveInverseArrays<Team>& at;
    int length;

    static __device__ __forceinline__ long long row(int i) {
        return static_cast<long long>(i) * (i + 1) / 2;
    }
    __device__ __forceinline__ double& h(int i, int k) const {
        return i >= k ? at.entry(row(i) + k) : at.entry(row(k) + i);
    }

    /// out = H in. A thread computes the elements of its rank. Ends without a barrier.
    __device__ void multiply(Reals in, Reals out) const {
        for_each<Team>(length, [&](int p) { out[p] = row_times(at, length, p, in); });
    }

    /// Append a variable. Its column is the passive columns times `u`, plus an orthogonal part
    /// whose square norm is `square`. Ends without a barrier.
    __device__ void append(int variable, Reals u, double square) {
        const double scale = 1 / square;
#pragma unroll 1
        for (int i = Team::group(); i < length; i += Team::groups())
#pragma unroll 1
            for (int k = Team::lane(); k <= i; k += Team::lanes())
                at.entry(row(i) + k) += scale * u[i] * u[k];
        for_each<Team>(length + 1, [&](int k) {
            at.entry(row(length) + k) = k < length ? -scale * u[k] : scale;
        });
        if (Team::rank() == 0) at.variables[length] = variable;
        ++length;
    }

    /// Remove the variable at `position`; the last one takes its position. Overwrites v. Begins and
    /// ends without a barrier.
    __device__ void remove(Team& team, int position, Reals v) {
        for_each<Team>(length, [&](int k) { v[k] = h(position, k); });
        team.sync();
        const int last = length - 1;
        const double scale = 1 / v[position];
#pragma unroll 1
        for (int i = Team::group(); i < last; i += Team::groups()) {
            const int from = i == position ? last : i;
#pragma unroll 1
            for (int k = Team::lane(); k <= i; k += Team::lanes()) {
                const int other = k == position ? last : k;
                at.entry(row(i) + k) = h(from, other) - scale * v[from] * v[other];
            }
        }
        if (Team::rank() == 0) at.variables[position] = at.variables[last];
        --length;
    }

  private:
    /// sum_k H(p, k) in[k].
    static __device__ __noinline__ double row_times(const PassiveInverseArrays<Team>& at,
                                                    int length, int p, Reals in) {
        double sum = 0;
        for (int k = 0; k <= p; ++k) sum += at.entry(row(p) + k) * in[k];
        for (int k = p + 1; k < length; ++k) sum += at.entry(row(k) + p) * in[k];
        return sum;
    }
};
