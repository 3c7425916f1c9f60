// The inverse H of a positive definite matrix, restricted to a changing set of variables.
//
// A variable enters or leaves by an update of H of rank 1. A variable has a position in H:
//
// - For large teams, the position at which it entered. The last variable takes the position of
//   the variable that leaves, so H never has gaps.
// - For lanes of a warp, its own number. Rows and columns of other variables are 0.
//
// Memory of large teams. H is symmetric, and stored as its lower triangle, row after row: entry
// (i, k) with k <= i is at i (i + 1) / 2 + k. The triangle grows at its end, so its first rows can
// be in shared memory (`near`), and the others in global memory (`far`). 16 neighbouring threads
// that read the same column of their rows access all banks: 16 successive triangular numbers are
// distinct modulo 16. A lane has its rows of H in registers.
//
// Cost. For l variables, an update reads and writes l^2 / 2 numbers, a product reads l^2; a thread
// has several of them in flight. For lanes: l shuffles.

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

/// Bytes of H before row i.
__device__ __forceinline__ long long bytes_before(int i) {
    return static_cast<long long>(4 * i) * (i + 1);
}
/// Bytes from row i to row i + ahead.
__device__ __forceinline__ int bytes_between(int i, int ahead) {
    return 8 * ahead * i + 4 * ahead * (ahead + 1);
}

/// Rows of H in shared memory, which the compiler knows, and in global memory.
struct NearRows {
    int begin;  // bytes of dynamic shared memory before H

    __device__ __forceinline__ double* operator()(int i, int ahead = 0) const {
        unsigned char* const row =
            dynamic_shared_memory() + begin + static_cast<int>(bytes_before(i));
        return reinterpret_cast<double*>(row + bytes_between(i, ahead));
    }
    /// The same rows from column k on.
    __device__ __forceinline__ NearRows from(int k) const { return {begin + 8 * k}; }
};
struct FarRows {
    unsigned char* begin;  // where row 0 would be

    __device__ __forceinline__ double* operator()(int i, int ahead = 0) const {
        return reinterpret_cast<double*>(begin + bytes_before(i) + bytes_between(i, ahead));
    }
    __device__ __forceinline__ FarRows from(int k) const { return {begin + 8 * k}; }
};

/// H, row after row. If not all rows are near, near_rows is a multiple of `rows_together`.
struct Triangle {
    NearRows near;
    FarRows far;
    int near_rows;

    /// body(rows), compiled for either memory: the memory of row i.
    template <class Body>
    __device__ __forceinline__ void with_rows(int i, Body body) const {
        if (i < near_rows)
            body(near);
        else
            body(far);
    }
};
constexpr int rows_together = 16;

template <class Team>
struct PassiveInverseArrays {
    Triangle H;
    Vector<int> variables;

    /// Allocate the variables.
    __device__ void place(TeamMemory& memory, int capacity) { memory.take(variables, capacity); }
    /// Allocate H.
    __device__ void place(unsigned char* shared, unsigned char* global, int near_rows) {
        H = {{static_cast<int>(shared - dynamic_shared_memory())},
             {global - bytes_before(near_rows)},
             near_rows};
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

    /// out = H in. Ends with a barrier.
    __device__ void multiply(Team& team, Reals in, Reals out) const {
        multiply_rows(at.H, length, in, out);
        team.sync();
    }

    /// Append a variable, and return its position. Its column is the passive columns times `u`,
    /// plus an orthogonal part whose square norm is `square`. Ends without a barrier.
    __device__ int append(int variable, Reals u, double square) {
        const double scale = 1 / square;
        add_square(at.H, length, -1, scale, u);
        at.H.with_rows(length, [&](auto row) {
            ::for_each<Team>(length + 1,
                             [&](int k) { row(length)[k] = k < length ? -scale * u[k] : scale; });
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
        const double scale = -1 / v[position];
        add_square(at.H, last, position, scale, v);
        ::for_each<Team>(last, [&](int k) {
            const int other = k == position ? last : k;
            h(position, k) = h(last, other) + scale * v[last] * v[other];
        });
        if (Team::rank() == 0) {
            at.variables[position] = at.variables[last];
            x[position] = x[last];
            w[position] = w[last];
        }
        --length;
    }

  private:
    const PassiveInverseArrays<Team>& at;

    __device__ __forceinline__ double& h(int i, int k) const {
        double* entry;
        at.H.with_rows(max(i, k), [&](auto row) { entry = row(max(i, k)) + min(i, k); });
        return *entry;
    }

    /// The rows of H before `count` += scale v v^T, but for row and column `skipped`. A warp
    /// changes 32 columns of eight rows at once.
    static __device__ __forceinline__ void add_square(Triangle H, int count, int skipped,
                                                      double scale, Reals vector) {
        constexpr int rows = 8;
        const Reals v = placed<Team>(vector);
#pragma unroll 1
        for (int first = 0; first < count; first += warp_threads) {
            const int j = first + lane_index(), k = j == skipped ? count : j;
            const double factor = k < count ? scale * v[k] : 0;
#pragma unroll 1
            for (int i = first + rows * Team::group(); i < count; i += rows * Team::groups())
                H.with_rows(i, [&](auto row) {
                    const auto column = row.from(k);
                    const auto changes = [&](int i) { return k <= i && i != skipped; };
                    load_ahead<1>(
                        i, min(i + rows, count),
                        [&](int i, int ahead) {
                            const bool changed = changes(i + ahead);
                            return Pair{changed ? *column(i, ahead) : 0, v[i + ahead]};
                        },
                        [&](int i, int ahead, Pair loaded) {
                            if (changes(i + ahead))
                                *column(i, ahead) = loaded.a + factor * loaded.b;
                        });
                });
        }
    }

    /// out = H in. The threads of a warp that compute a row are `rows` apart, so that neighbours
    /// access different banks.
    static __device__ __noinline__ void multiply_rows(Triangle H, int length, Reals vector,
                                                      Reals out) {
        constexpr int lanes = Team::lanes_of_row, rows = warp_threads / lanes;
        const Reals in = placed<Team>(vector);
        const int lane = lane_index() / rows;
#pragma unroll 1
        for (int first = rows * Team::group(); first < length; first += rows * Team::groups()) {
            const int p = first + lane_index() % rows;
            double sum = times<lanes, rows>(H, length, first, min(p, length - 1), lane, in);
#pragma unroll
            for (int distance = rows; distance < warp_threads; distance *= 2)
                sum += shuffle_xor(sum, distance);
            if (p < length && lane == 0) out[p] = sum;
        }
    }

    /// The part of sum_k H(p, k) in[k] that a lane of row p computes. All rows of its warp, from
    /// `first` on, read the same k: rows of H before them, then a square, then columns.
    template <int lanes, int rows>
    static __device__ __forceinline__ double times(Triangle H, int length, int first, int p,
                                                   int lane, Reals in) {
        double sum[4] = {0, 0, 0, 0};
        const auto add = [&](int, int ahead, Pair loaded) {
            sum[ahead / lanes % 4] += loaded.a * loaded.b;
        };
        const int after = first + rows, near_end = min(length, H.near_rows);
        H.with_rows(first, [&](auto row) {
            const double* const own = row(p);
            load_ahead<lanes>(
                lane, first, [&](int k, int ahead) { return Pair{own[k + ahead], in[k + ahead]}; },
                add);
            load_ahead<lanes>(
                first + lane, min(after, length),
                [&](int k, int ahead) {
                    const int q = k + ahead;
                    const auto column = row.from(min(p, q));
                    return Pair{*column(first, max(p, q) - first), in[q]};
                },
                add);
        });
        const auto add_columns = [&](auto column, int begin, int end) {
            load_ahead<lanes>(
                begin + lane, end,
                [&](int k, int ahead) { return Pair{*column(k, ahead), in[k + ahead]}; }, add);
        };
        add_columns(H.near.from(p), after, near_end);
        add_columns(H.far.from(p), max(after, near_end), length);
        return (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
};
