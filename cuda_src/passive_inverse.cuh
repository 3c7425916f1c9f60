// The inverse H of a positive definite matrix, restricted to a changing set of variables.
//
// A variable enters or leaves by an update of H of rank one. The specification in NumPy is
// gpusolve/reference/_nnls_gram.py, class PassiveInverse. A variable has a position in H:
//
// - For large teams, as in the specification. The last variable takes the position of one that
//   leaves, so H never has gaps.
// - For lanes of a warp, the position of a variable is its own number. Rows and columns of other
//   variables are 0.
//
// Memory of large teams. H is symmetric, and stored as its lower triangle, row after row: entry
// (i, k) with k <= i is at i (i + 1) / 2 + k. The triangle grows at its end, so its first entries
// can be in shared memory (`near`), and the others in global memory (`far`). 16 neighbouring
// threads that read one column access all banks: 16 successive triangular numbers are distinct
// modulo 16. A lane has its rows of H in registers.
//
// Cost. For l variables, an update reads and writes l^2 / 2 numbers, a product reads l^2. For
// lanes: l shuffles.

#pragma once

#include "team.cuh"

// ---- large teams --------------------------------------------------------------------------

/// Variables of a problem, in some order: those of a list, or the first ones if it is null.
template <class Team>
struct Chosen {
    Vector<int> list;
    int count;

    __device__ __forceinline__ int operator[](int p) const {
        return list.first == nullptr ? p : list[p];
    }
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

    /// Remove the variable at `position`; the last one takes its position, also in x and w.
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

// ---- lanes of a warp ------------------------------------------------------------------------

/// Variables of a problem, as a set of bits.
template <int lanes, int each>
struct Chosen<LaneTeam<lanes, each>> {
    unsigned bits;

    __device__ __forceinline__ bool has(int j) const { return bits >> j & 1; }
    template <class Body>
    __device__ __forceinline__ void by_all(Body body) const {
#pragma unroll 1
        for (unsigned left = bits; left != 0; left &= left - 1) {
            const int j = __ffs(static_cast<int>(left)) - 1;
            body(j, j);
        }
    }
};

template <int lanes, int each>
struct PassiveInverseArrays<LaneTeam<lanes, each>> {
    __device__ void place(TeamMemory&, int) {}
    __device__ void place(unsigned char*, unsigned char*, long long) {}
};

template <int lanes, int each>
class PassiveInverse<LaneTeam<lanes, each>> {
  public:
    using Team = LaneTeam<lanes, each>;
    using Reals = LaneVector<double, Team>;

    int length;

    __device__ explicit PassiveInverse(const PassiveInverseArrays<Team>&) { clear(); }

    template <class Position>
    __device__ __forceinline__ Position variable(Position p) const {
        return p;
    }
    __device__ __forceinline__ Chosen<Team> passive() const { return chosen_; }
    __device__ __forceinline__ Chosen<Team> all(int n) const {
        return {whole_warp >> (warp_threads - n)};
    }
    __device__ void clear() {
        length = 0;
        chosen_.bits = 0;
        for_each_entry([](int, int, double& entry) { entry = 0; });
    }

    template <class Body>
    __device__ __forceinline__ void for_each(Body body) const {
        for_each_variable<Team>(width, [&](auto p) {
            if (chosen_.has(p)) body(p);
        });
    }

    __device__ void multiply(const Reals& in, Reals& out) const {
        Reals sum{};
#pragma unroll
        for (int k = 0; k < width; ++k) {
            if (!chosen_.has(k)) continue;
            const double value = in.of(k);
#pragma unroll
            for (int q = 0; q < each; ++q) sum.own[q] += rows_[q][k] * value;
        }
        out = sum;
    }

    __device__ int append(int variable, Reals u, double square) {
        for_each_variable<Team>(width, [&](auto p) {
            if (!chosen_.has(p)) u[p] = p == variable ? -1 : 0;
        });
        chosen_.bits |= 1u << variable;
        add_product(1 / square, u);
        ++length;
        return variable;
    }

    __device__ void remove(Team&, int position, Reals& v, Reals&, Reals&) {
        for_each_entry([&](auto p, int k, double& entry) {
            if (k == position) v[p] = entry;
        });
        add_product(-1 / v.of(position), v);
        for_each_entry([&](int p, int k, double& entry) {
            if (p == position || k == position) entry = 0;
        });
        chosen_.bits &= ~(1u << position);
        --length;
    }

  private:
    static constexpr int width = Team::width;

    double rows_[each][width];
    Chosen<Team> chosen_;

    /// body(p, k, entry) for the entries of this lane's rows.
    template <class Body>
    __device__ __forceinline__ void for_each_entry(Body body) {
#pragma unroll
        for (int k = 0; k < width; ++k)
            for_each_variable<Team>(width, [&](auto p) { body(p, k, rows_[p.slot][k]); });
    }

    /// H += factor v v^T. The product of two elements comes first, so that H stays symmetric.
    __device__ void add_product(double factor, const Reals& v) {
#pragma unroll
        for (int k = 0; k < width; ++k) {
            if (!chosen_.has(k)) continue;
            const double value = v.of(k);
#pragma unroll
            for (int q = 0; q < each; ++q) rows_[q][k] += factor * (v.own[q] * value);
        }
    }
};
