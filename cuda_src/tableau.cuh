// The tableau of a small system of nnls_gram.cu, in registers of the lanes that solve it.
//
// Problem. With the passive variables P and the others N, the solution z of the passive variables
// and the gradient w of the others are linear functions of the gradient at P and the values at N:
//
//     z = t_P - H w_P - H G_PN x_N
//     w = t_N + G_NP H w_P - (G_NN - G_NP H G_PN) x_N
//
// The tableau S has these coefficients, and `w` of the system has t. At first P is empty, and S is
// G. When a variable enters or leaves, its value and its gradient are exchanged. With S come the
// projections of all columns, and with t the solution and the gradient: neither takes a product.
//
// Exchange of variable j. With the pivot p = S_jj,
//
//     S_jj' = 1 / p,  S_jk' = S_jk / p,  S_ij' = -S_ij / p,  S_ik' = S_ik - S_ij S_jk / p.
//
// All of it is one update of rank 1: S_ik - f_i r_k with f_i = S_ij / p and r_k = S_jk, but for
// f_j = (p - 1) / p and r_j = p + 1. So registers need no index that is known only at run time.
//
// Mapping. A lane has the rows of its variables; the lane that has row j writes it to shared
// memory. S is symmetric but for signs, which gives a lane its elements of column j.
//
// Cost of an exchange for n variables and L lanes: n^2 / L operations of a lane, two barriers of
// the warp. No product with H or G.
//
// Source. Principal pivoting, or the sweep operator: J. H. Goodnight, "A Tutorial on the SWEEP
// Operator", The American Statistician 33(3), 1979.

#pragma once

#include "lane_team.cuh"
#include "passive_system.cuh"

/// The tableau, in which H is: it has the place of H in other teams.
template <int lanes, int each, bool general>
class PassiveInverse<LaneTeam<lanes, each, general>> {
  public:
    using Team = LaneTeam<lanes, each, general>;
    using Reals = LaneVector<double, Team>;

    int length = 0;

    __device__ explicit PassiveInverse(const PassiveInverseArrays<Team>& arrays)
        : row_(arrays.row), chosen_{0} {}

    template <class Position>
    __device__ __forceinline__ Position variable(Position p) const {
        return p;
    }
    __device__ __forceinline__ Chosen<Team> passive() const { return chosen_; }
    __device__ __forceinline__ Chosen<Team> all(int n) const {
        return {whole_warp >> (warp_threads - n)};
    }

    template <class Body>
    __device__ __forceinline__ void for_each(Body body) const {
        for_each_variable<Team>(width, [&](auto p) {
            if (chosen_.has(p)) body(p);
        });
    }

    /// Let no variable be passive: the tableau is G, with the l2 penalty.
    template <class Ridge>
    __device__ void clear(const GramMatrix<Team>& matrix, Ridge ridge) {
        length = 0;
        chosen_ = {0};
        Reals penalty;
        const int padded = Team::padded(matrix.n);
        for_each_variable<Team>(padded, [&](auto i) { penalty[i] = ridge(i); });
#pragma unroll
        for (int k = 0; k < width; ++k)
            for_each_variable<Team>(width, [&](auto i) {
                const bool exists = k < padded && i < padded;
                rows_[i.slot][k] = exists ? matrix.gram(k)[i] + (i == k ? penalty[i] : 0) : 0;
            });
    }

    /// out = H in for the passive variables. Elements of others count as 0, and become any number.
    __device__ void multiply(Team&, const Reals& in, Reals& out) const {
        Reals passive, sum{};
        for_each_variable<Team>(width, [&](auto p) { passive[p] = chosen_.has(p) ? in.of(p) : 0; });
#pragma unroll
        for (int k = 0; k < width; ++k) {
            const double value = passive.of(k);
#pragma unroll
            for (int q = 0; q < each; ++q) sum.own[q] += rows_[q][k] * value;
        }
        out = sum;
    }

    /// Let all lanes know row j, and return its pivot. If j is passive that is an element of H,
    /// else the square of the part of column j that is orthogonal to the passive columns.
    __device__ double read(Team& team, int j) {
        team.sync();
        by_owner<Team>(j, [&](auto own) {
#pragma unroll
            for (int k = 0; k < width; k += 2)
                row_.set_pair(k, {rows_[own.slot][k], rows_[own.slot][k + 1]});
            const double pivot = row_[own];
            row_[own] = pivot + 1;
            row_[width] = pivot;
        });
        team.sync();
        return row_[width];
    }

    /// What `read` returned last.
    __device__ double pivot() const { return row_[width]; }

    /// This lane's element i of column j, after `read(j)`.
    template <class Own>
    __device__ double column(int j, Own i) const {
        if (i == j) return row_[width];
        return chosen_.has(i) == chosen_.has(j) ? row_[i] : -row_[i];
    }

    /// Let variable j enter, or leave if it is passive, after `read(j)`. A team whose tableau does
    /// not change takes part.
    ///
    /// t is a further column. Its element j is `exchanged`: the gradient of a variable that enters,
    /// or the value of a variable that leaves, less the value where it will rest. `added` is added
    /// to what takes its place.
    __device__ void exchange(bool changes, int j, Reals& t, double exchanged, double added) {
        const double pivot = row_[width], inverse = changes ? 1 / pivot : 0;
        Reals factor;
        for_each_variable<Team>(width, [&](auto i) {
            factor[i] = (i == j ? 1 - pivot : -column(j, i)) * inverse;
            if (i != j)
                t[i] += factor[i] * exchanged;
            else if (changes)
                t[i] = inverse * exchanged + added;
        });
#pragma unroll
        for (int k = 0; k < width; k += 2) {
            const double2 entries = row_.pair(k);
#pragma unroll
            for (int q = 0; q < each; ++q) {
                rows_[q][k] += factor.own[q] * entries.x;
                rows_[q][k + 1] += factor.own[q] * entries.y;
            }
        }
        if (!changes) return;
        length += chosen_.has(j) ? -1 : 1;
        chosen_.bits ^= 1u << j;
    }

  private:
    static constexpr int width = Team::width;

    double rows_[each][width];
    TeamRow<lanes, width> row_;
    Chosen<Team> chosen_;
};

/// See passive_system.cuh. `w` has the solution of passive variables, and the gradient there of
/// others. Teams that do not change anything take part.
template <class T, int lanes, int each, bool general>
struct PassiveSystem<T, LaneTeam<lanes, each, general>>
    : GramSystem<T, LaneTeam<lanes, each, general>> {
    using Team = LaneTeam<lanes, each, general>;
    using Base = GramSystem<T, Team>;
    using Base::place, Base::ridge, Base::rest, Base::team, Base::options, Base::at, Base::inverse;

    /// After each variable, the gradient of all others is known.
    static constexpr int most_entering = 1, width = Team::width;
    static constexpr bool knows_gradient = true;

    __device__ void restart() {
        inverse.clear(at.matrix, [&](int j) { return ridge(j); });
        for_each_variable<Team>(options.variables(), [&](auto j) {
            at.w[j] = at.c[j];
            at.x[j] = rest(j);
        });
    }

    __device__ void make_gradient(bool) {}
    template <class Also>
    __device__ void gather_gradient(bool, Also also) {
        inverse.for_each(also);
    }

    __device__ Projection project(int j, Located<double>&) {
        return {inverse.read(team, j), fabs(at.w.of(j))};
    }
    __device__ double recall_projection(int j) {
        inverse.for_each([&](auto p) { at.u[p] = inverse.column(j, p); });
        return inverse.pivot();
    }

    __device__ void admit(bool enters, int j, double before, const Projection&) {
        inverse.exchange(enters, j, at.w, at.w.of(j), before);
    }
    __device__ void set_entered(int j, double value) {
        by_owner<Team>(j, [&](auto i) { at.x[i] = value; });
    }

    /// The solution is beyond the bound, or next to it: `end` would take registers.
    __device__ double end_of(int j) const {
        return nearest_bound(at.w.of(j), at.lower.of(j), at.upper.of(j));
    }
    __device__ void dismiss(int j, double value, double) {
        const int any = max(j, 0);
        inverse.read(team, any);
        inverse.exchange(j >= 0, any, at.w, at.w.of(any) - value, 0);
        by_owner<Team>(j, [&](auto i) { at.x[i] = value; });
    }

    __device__ void move(bool moves, int j, double before, double value) {
        inverse.read(team, j);
        if (!moves) return;
        place(j, before, value);
        by_owner<Team>(j, [&](auto i) { at.x[i] = value; });
        for_each_variable<Team>(options.variables(), [&](auto i) {
            at.w[i] -= inverse.column(j, i) * (value - before);
        });
    }

    /// A step that `corrects` x is along the gradient of the passive variables.
    __device__ void make_direction(bool corrects) {
        if (corrects)
            inverse.multiply(team, at.passive_w, at.d);
        else
            for_each_variable<Team>(width, [&](auto p) { at.d[p] = at.w[p] - at.x[p]; });
    }
    __device__ void keep_part(int, double) {}

    /// `along` is the product of the tableau and the passive part of the sum's row.
    __device__ void shift_goal(double shift) {
        for_each_variable<Team>(options.variables(), [&](auto j) {
            const double own = inverse.passive().has(j) ? 0 : at.sum_row[j];
            at.w[j] -= shift * (at.along[j] + own);
        });
    }

    __device__ void renew_goal() {
        inverse.multiply(team, at.w, at.d);
        inverse.for_each([&](auto p) { at.w[p] = at.x[p] + at.d[p]; });
    }
};
