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
struct PassiveInverse {
    using Reals = Vector<double, Team::stride>;

    Reals near, far;
    long long near_entries;
    Vector<int, Team::stride> variables;
    Reals v;  // a column, which an update reads
    int length;

    __device__ __forceinline__ double& entry(long long place) const {
        return place < near_entries ? near[place] : far[place - near_entries];
    }
    static __device__ __forceinline__ long long row(int i) {
        return static_cast<long long>(i) * (i + 1) / 2;
    }
    __device__ __forceinline__ double& h(int i, int k) const {
        return i >= k ? entry(row(i) + k) : entry(row(k) + i);
    }

    /// store(p, sum_k H(p, k) factor(k)) for every position p; one thread stores a position. Ends
    /// without a barrier.
    template <class Factor, class Store>
    __device__ void multiply(const Team& team, Factor factor, Store store) const {
        for (int p = team.rank(); p < length; p += team.size()) {
            double sum = 0;
            for (int k = 0; k <= p; ++k) sum += entry(row(p) + k) * factor(k);
            for (int k = p + 1; k < length; ++k) sum += entry(row(k) + p) * factor(k);
            store(p, sum);
        }
    }

    /// Append a variable. Its column is the passive columns times `u`, plus an orthogonal part
    /// whose square norm is `square`. Ends without a barrier.
    __device__ void append(Team& team, int variable, Reals u, double square) {
        const double scale = 1 / square;
        for (int i = team.group(); i < length; i += team.groups())
            for (int k = team.lane(); k <= i; k += team.lanes())
                entry(row(i) + k) += scale * u[i] * u[k];
        for (int k = team.rank(); k <= length; k += team.size())
            entry(row(length) + k) = k < length ? -scale * u[k] : scale;
        if (team.rank() == 0) variables[length] = variable;
        ++length;
    }

    /// Remove the variable at `position`; the last one takes its position. Begins and ends without
    /// a barrier.
    __device__ void remove(Team& team, int position) {
        for (int k = team.rank(); k < length; k += team.size()) v[k] = h(position, k);
        team.sync();
        const int last = length - 1;
        const double scale = 1 / v[position];
        for (int i = team.group(); i < last; i += team.groups()) {
            const int from = i == position ? last : i;
            for (int k = team.lane(); k <= i; k += team.lanes()) {
                const int other = k == position ? last : k;
                entry(row(i) + k) = h(from, other) - scale * v[from] * v[other];
            }
        }
        if (team.rank() == 0) variables[position] = variables[last];
        --length;
    }
};
