// The inverse H of a positive definite matrix, restricted to a changing set of variables.
//
// A variable enters or leaves by an update of H of rank 1. The specification in NumPy is
// gpusolve/reference/_nnls_gram.py, class PassiveInverse. A variable has a position in H:
//
// - For large teams, as in the specification. The last variable takes the position of the
//   variable that leaves, so H never has gaps.
// - For lanes of a warp, the position of a variable is its own number. Rows and columns of other
//   variables are 0.
//
// Memory of large teams. H is symmetric, and stored as its lower triangle, row after row: entry
// (i, k) with k <= i is at i (i + 1) / 2 + k. The triangle grows at its end, so its first entries
// can be in shared memory (`near`), and the others in global memory (`far`). 16 neighbouring
// threads that read a column access all banks: 16 successive triangular numbers are distinct
// modulo 16. A lane has its rows of H in registers.
//
// Cost. For l variables, an update reads and writes l^2 / 2 numbers, a product reads l^2. For
// lanes: l shuffles.

#pragma once

#include "team.cuh"

/// Variables of a problem, in some order: from a list, or the first variables if it is null.
template <class Team>
struct Chosen {
    Vector<int> list;
    int count;

    __device__ __forceinline__ int operator[](int p) const {
        return list.first == nullptr ? p : list[p];
    }
    /// Whether variable j, which `by_all` has, is chosen by this team: lanes visit variables of
    /// other teams, too.
    static constexpr __device__ bool has(int) { return true; }
    /// The last variables of the list.
    __device__ Chosen last(int some) const { return {list.from(count - some), some}; }
    /// body(p, j) for every position p and its variable j, by every member.
    template <class Body>
    __device__ __forceinline__ void by_all(Body body) const {
        for (int p = 0; p < count; ++p) body(p, (*this)[p]);
    }
};

template <class Team>
struct PassiveInverseArrays {
    Vector<double> near, far;
    long long near_entries;
    Vector<int> variables;

    /// Allocate the variables.
    __device__ void place(TeamMemory& memory, int capacity) { memory.take(variables, capacity); }
    /// Allocate H.
    __device__ void place(unsigned char* shared, unsigned char* global, long long entries) {
        near.first = reinterpret_cast<double*>(shared);
        far.first = reinterpret_cast<double*>(global);
        near_entries = entries;
    }

    __device__ __forceinline__ double& entry(long long place) const {
        return place < near_entries ? near[place] : far[place - near_entries];
    }
};

template <class Team>
class PassiveInverse {
  public:
    using Reals = Vector<double>;

    int length = 0;

    __device__ explicit PassiveInverse(const PassiveInverseArrays<Team>& arrays) : at(arrays) {}

    __device__ __forceinline__ int variable(int p) const { return at.variables[p]; }
    __device__ __forceinline__ Chosen<Team> passive() const { return {at.variables, length}; }
    __device__ __forceinline__ Chosen<Team> all(int n) const { return {{nullptr}, n}; }
    __device__ void clear() { length = 0; }

    /// body(p) for every position, by the thread that has its element.
    template <class Body>
    __device__ __forceinline__ void for_each(Body body) const {
        ::for_each<Team>(length, body);
    }

    /// out = H in. A thread computes the elements of its rank. Ends without a barrier.
    __device__ void multiply(Reals in, Reals out) const {
        for_each([&](int p) { out[p] = row_times(at, length, p, in); });
    }

    /// Append a variable, and return its position. Its column is the passive columns times `u`,
    /// plus an orthogonal part whose square norm is `square`. Ends without a barrier.
    __device__ int append(int variable, Reals u, double square) {
        const double scale = 1 / square;
#pragma unroll 1
        for (int i = Team::group(); i < length; i += Team::groups())
#pragma unroll 1
            for (int k = Team::lane(); k <= i; k += Team::lanes())
                at.entry(row(i) + k) += scale * u[i] * u[k];
        ::for_each<Team>(length + 1, [&](int k) {
            at.entry(row(length) + k) = k < length ? -scale * u[k] : scale;
        });
        if (Team::rank() == 0) at.variables[length] = variable;
        return length++;
    }

    /// Remove the variable at `position`; the last variable takes its position, also in x and w.
    /// Overwrites v. Begins and ends without a barrier.
    __device__ void remove(Team& team, int position, Reals v, Reals x, Reals w) {
        for_each([&](int k) { v[k] = h(position, k); });
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
        if (Team::rank() == 0) {
            at.variables[position] = at.variables[last];
            x[position] = x[last];
            w[position] = w[last];
        }
        --length;
    }

  private:
    const PassiveInverseArrays<Team>& at;

    static __device__ __forceinline__ long long row(int i) {
        return static_cast<long long>(i) * (i + 1) / 2;
    }
    __device__ __forceinline__ double& h(int i, int k) const {
        return i >= k ? at.entry(row(i) + k) : at.entry(row(k) + i);
    }

    /// sum_k H(p, k) in[k].
    static __device__ __noinline__ double row_times(const PassiveInverseArrays<Team>& at,
                                                    int length, int p, Reals in) {
        double sum = 0;
        for (int k = 0; k <= p; ++k) sum += at.entry(row(p) + k) * in[k];
        for (int k = p + 1; k < length; ++k) sum += at.entry(row(k) + p) * in[k];
        return sum;
    }
};
