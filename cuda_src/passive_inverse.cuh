// The inverse H of a positive definite matrix, restricted to a changing set of variables.
//
// A variable enters or leaves by an update of H of rank 1. A variable has the position in H at
// which it entered. The last variable takes the position of the variable that leaves, so H never
// has gaps. Teams of lanes have H in a tableau, where a variable's position is its number:
// tableau.cuh.
//
// Memory. The first rows and columns, before `side`, are a square in shared memory, whose rows are
// read and written 16 bytes at a time; columns that no variable has are 0. Later rows are in global
// memory, up to the diagonal, one after another. `side` is 8 more than a multiple of 16: two
// neighbouring rows begin in different halves of the banks.
//
// Cost. For l variables, an update reads and writes l^2 numbers in shared memory, or half as many
// in global memory, a product reads l^2.

#pragma once

#include "team.cuh"

/// Variables of a problem, in some order: from a list, or the first variables without a list.
template <class Team>
struct Chosen {
    typename ArrayLike<typename Team::Reals, int>::Type list;
    int count;

    __device__ __forceinline__ int operator[](int p) const { return list.first ? list[p] : p; }
    /// The last variables of the list.
    __device__ Chosen last(int some) const { return {list.from(count - some), some}; }
    /// body(p, j) for every position p and its variable j, by every member.
    template <class Body>
    __device__ __forceinline__ void by_all(Body body) const {
        for (int p = 0; p < count; ++p) body(p, (*this)[p]);
    }
};

/// The memory of H. The compiler knows which part is in shared memory.
template <class Team>
struct SymmetricRows {
    NearVector<double> square;
    double* far_rows;  // where row 0 would be, if all rows were in global memory
    int side;

    /// Entries before a row in global memory.
    static __device__ __forceinline__ long long before(int i) {
        return static_cast<long long>(i) * (i + 1) / 2;
    }
    __device__ __forceinline__ double* near(int i) const { return &square[i * side]; }
    __device__ __forceinline__ double* far(int i) const { return far_rows + before(i); }
    /// An entry in global memory.
    __device__ __forceinline__ double& far(int i, int k) const { return far(max(i, k))[min(i, k)]; }
    __device__ __forceinline__ double& operator()(int i, int k) const {
        return max(i, k) < side ? near(i)[k] : far(i, k);
    }
};

template <class Team>
struct PassiveInverseArrays {
    SymmetricRows<Team> H;
    decltype(Chosen<Team>::list) variables;

    /// Allocate the variables.
    __device__ void place(TeamMemory& memory, int capacity) { memory.take(variables, capacity); }
    /// Allocate H.
    __device__ void place(unsigned char* shared, unsigned char* global, int side) {
        H = {NearVector<double>::at(reinterpret_cast<double*>(shared)),
             reinterpret_cast<double*>(global) - H.before(side), side};
    }
};

template <class Team>
class PassiveInverse {
  public:
    using Reals = typename Team::Reals;

    int length = 0;

    __device__ explicit PassiveInverse(const PassiveInverseArrays<Team>& arrays) : at(arrays) {}

    __device__ __forceinline__ int variable(int p) const { return at.variables[p]; }
    __device__ __forceinline__ Chosen<Team> passive() const { return {at.variables, length}; }
    __device__ __forceinline__ Chosen<Team> all(int n) const { return {{}, n}; }
    __device__ void clear() {
        length = 0;
        ::for_each<Team>(at.H.side * at.H.side / 2,
                         [&](int i) { reinterpret_cast<double2*>(at.H.near(0))[i] = {0, 0}; });
    }

    /// body(p) for every position, by the thread that has its element.
    template <class Body>
    __device__ __forceinline__ void for_each(Body body) const {
        ::for_each<Team>(length, body);
    }

    /// out = H in. Ends with a barrier.
    __device__ void multiply(Team& team, Reals in, Reals out) const {
        multiply_rows(at.H, length, in, in, out);
        team.sync();
    }

    /// u = H g. Returns the products of u with g and w; finds the largest of all threads, which may
    /// be of anything else. Ends with a barrier.
    __device__ Two project(Team& team, Reals g, Reals w, Reals u, Located<double>& largest) const {
        Two sums = multiply_rows(at.H, length, g, w, u);
#pragma unroll
        for (int distance = Team::lanes_of_row; distance < warp_threads; distance *= 2)
            sums = AddTwo()(sums, shuffle_xor(sums, distance));
        if (Team::rank() == 0) {
            u[length] = -1;
            u[length + 1] = 0;
        }
        largest = Team::reduce_group(largest, Called<ArgMax<double>>());
        const SumsAndLargest found =
            team.reduce_groups(SumsAndLargest{sums, largest}, Called<AddTwoAndArgMax>());
        largest = found.largest;
        return found.sums;
    }

    /// Append a variable, and return its position. Its column is the passive columns times `u`,
    /// plus an orthogonal part whose square norm is `square`. Ends without a barrier.
    __device__ int append(int variable, Reals u, double square) {
        const double root = 1 / square_root(square);
        add_square(root, root, u);
        ::for_each<Team>(length + 1, [&](int k) { at.H(length, k) = -root * (root * u[k]); });
        by_owner<Team>(length, [&](int p) { at.variables[p] = variable; });
        return length++;
    }

    /// Remove the variable at `position`; the last variable takes its position, also in x and w.
    /// d = H w becomes `left` times the product of the others: it needs no product with H.
    /// Overwrites v. Begins and ends without a barrier.
    __device__ void remove(Team& team, int position, Reals v, Reals x, Reals w, Reals d,
                           double left) {
        const int last = length - 1;
        const double removed = left * d[position];
        for_each([&](int k) {
            if (k == last) v[k] = v[k + 1] = 0;
            if (k == last) return;
            const bool is_position = k == position;
            const int from = is_position ? last : k;
            const double pivot = at.H(k, k);
            v[k] = at.H(position, from);
            at.H(position, k) = at.H(k, position) = at.H(last, from);
            if (last < at.H.side) at.H(k, last) = 0;
            if (is_position) at.H(last, last) = pivot;
        });
        team.sync();
        --length;
        const double square = at.H(last, last);
        const double root = 1 / square_root(fabs(square));
        add_square(root, square < 0 ? root : -root, v);
        const double part = removed / square;
        for_each([&](int k) {
            const int from = k == position ? last : k;
            d[k] = left * d[from] - part * v[k];
            if (k != position) return;
            at.variables[position] = at.variables[last];
            x[position] = x[last];
            w[position] = w[last];
        });
    }

  private:
    const PassiveInverseArrays<Team>& at;

    /// H += (root v)(signed_root v)^T, with the next column of the square, too; v has two elements
    /// more than H has rows. A warp changes 64 columns of four rows of the square at once, or a row
    /// in global memory.
    __device__ __forceinline__ void add_square(double root, double signed_root, Reals v) const {
        constexpr int rows = 4;
        const SymmetricRows<Team> H = at.H;
        const int count = length, near_end = min(count, H.side), step = rows * Team::groups();
#pragma unroll 1
        for (int k = 2 * lane_index(); k < min(count + 1, H.side); k += 2 * warp_threads) {
            const double2 loaded = *pair_of(&v[k]), scaled{root * loaded.x, root * loaded.y};
            int i = rows * Team::group();
            double* row = H.near(i) + k;
#pragma unroll 1
            for (; i + rows <= near_end; i += step, row += step * H.side)
                add_rows<rows>(row, H.side, v.from(i), signed_root, scaled);
#pragma unroll 1
            for (; i < near_end; ++i, row += H.side)
                add_rows<1>(row, H.side, v.from(i), signed_root, scaled);
        }
#pragma unroll 1
        for (int i = H.side + Team::group(); i < count; i += Team::groups()) {
            const double scaled = signed_root * v[i];
            double* const row = H.far(i);
            load_ahead<warp_threads>(
                lane_index(), i + 1,
                [&](int k, int ahead) { return Pair{row[k + ahead], v[k + ahead]}; },
                [&](int k, int ahead, Pair loaded) {
                    row[k + ahead] = loaded.a + scaled * (root * loaded.b);
                });
        }
    }

    /// Two columns of rows += scale * vector * factor.
    template <int rows>
    static __device__ __forceinline__ void add_rows(double* row, int side, Reals vector,
                                                    double scale, double2 factor) {
        double2 entries[rows];
        double factors[rows];
#pragma unroll
        for (int q = 0; q < rows; ++q) {
            entries[q] = *pair_of(row + q * side);
            factors[q] = scale * vector[q];
        }
#pragma unroll
        for (int q = 0; q < rows; ++q)
            *pair_of(row + q * side) = {entries[q].x + factors[q] * factor.x,
                                        entries[q].y + factors[q] * factor.y};
    }

    static __device__ __forceinline__ double2* pair_of(double* entry) {
        return reinterpret_cast<double2*>(entry);
    }

    /// out = H in. Neighbouring lanes compute a row. Returns the part of these lanes in the
    /// products of `out` with the vector and with another one.
    static __device__ __noinline__ Two multiply_rows(SymmetricRows<Team> H, int length, Reals in,
                                                     Reals other, Reals out) {
        Two products = AddTwo::identity();
        constexpr int lanes = Team::lanes_of_row, rows = warp_threads / lanes;
        const int lane = lane_index() % lanes;
#pragma unroll 1
        for (int first = rows * Team::group(); first < length; first += rows * Team::groups()) {
            const int p = first + lane_index() / lanes;
            double sum = times<lanes>(H, length, min(p, length - 1), lane, in);
#pragma unroll
            for (int distance = 1; distance < lanes; distance *= 2)
                sum += shuffle_xor(sum, distance);
            if (p >= length) continue;
            if (lane == 0) out[p] = sum;
            products = AddTwo()(products, {sum * in[p], sum * other[p]});
        }
        return products;
    }

    /// The part of sum_k H(p, k) in[k] that a lane of row p computes, two columns at once.
    template <int lanes>
    static __device__ __forceinline__ double times(SymmetricRows<Team> H, int length, int p,
                                                   int lane, Reals in) {
        struct Loaded {
            double2 row, in;
        };
        double even = 0, odd = 0;
        const auto add = [&](int, int, const Loaded& loaded) {
            even += loaded.row.x * loaded.in.x;
            odd += loaded.row.y * loaded.in.y;
        };
        const bool is_near = p < H.side;
        const int near_end = is_near ? min(length, H.side) : 0, last = near_end - 1;
        double* const row = H.near(p);
        load_ahead<2 * lanes>(
            2 * lane, last,
            [&](int k, int ahead) {
                return Loaded{*pair_of(row + k + ahead), *pair_of(&in[k + ahead])};
            },
            add);
        if (near_end % 2 == 1 && last % (2 * lanes) == 2 * lane) even += row[last] * in[last];
        load_ahead<2 * lanes>((is_near ? H.side : 0) + 2 * lane, length,
                              [&](int k, int ahead) {
                                  const int one = k + ahead, other = one + 1;
                                  const bool has_other = other < length;
                                  return Loaded{{H.far(p, one), has_other ? H.far(p, other) : 0},
                                                {in[one], has_other ? in[other] : 0}};
                              },
                              add);
        return even + odd;
    }
};
