// A system of nnls_gram.cu whose passive variables enter and leave by updates of the inverse H.
//
// Teams of lanes do the same on a tableau: tableau.cuh.

#pragma once

#include "gram_system.cuh"

/// The part of a column that is orthogonal to the passive columns: the square of its norm, and the
/// negative gradient along it, positive if the variable moves inwards.
struct Projection {
    double square, descent;
};

template <class T, class Team>
struct PassiveSystem : GramSystem<T, Team> {
    using Base = GramSystem<T, Team>;
    using Base::gradient, Base::transpose_times, Base::square_of, Base::variable, Base::place;
    using Base::gram, Base::ridge, Base::team, Base::options, Base::at, Base::inverse;
    using typename Base::Reals;

    /// Limit on the variables that enter before x moves.
    static constexpr int most_entering = 16;
    /// Whether the gradient is known after each step.
    static constexpr bool knows_gradient = false;

    /// Begin without passive variables. Ends without a barrier.
    __device__ void restart() { inverse.clear(); }

    /// w = c - G x, from the rows of G of the passive variables. What the l2 penalty adds to
    /// passive variables is subtracted by `gather_gradient`. A gradient that is `kept` stays. Ends
    /// without a barrier.
    __device__ void make_gradient(bool kept) {
        if (!at.matrix.has_gram()) return make_gradient_from_columns(at.w);
        combine_gram(at.matrix, at.inverse, options.n, inverse.passive(), at.x,
                     [&](auto j, double sum) {
                         if (!kept) at.w[j] = at.c[j] - sum;
                     });
    }

    /// out = A^T (b - A x) - penalty, with all l2 penalties. Overwrites the witness.
    __device__ void make_gradient_from_columns(Reals& out) {
        Base::make_residual(at.witness, PlainSum{0});
        transpose_times(inverse.all(options.n), at.witness, out);
        for_each_variable<Team>(options.n,
                                [&](auto j) { out[j] = gradient(out[j], j, at.witness); });
    }

    /// g = the products of column j with the passive columns.
    __device__ void multiply_passive(int j) {
        if (!at.matrix.has_gram())
            return transpose_times(inverse.passive(), at.matrix.column(j), at.g);
        at.g.forget();
        inverse.for_each([&](auto p) { at.g[p] = gram(j)[variable(p)]; });
    }

    /// The gradient of the passive variables, in their order. If w is `fresh`, it has all of it.
    /// Then also(j) for each of them.
    template <class Also>
    __device__ void gather_gradient(bool fresh, Also also) {
        const bool is_whole = fresh || !at.matrix.has_gram();
        inverse.for_each([&](auto p) {
            const auto j = variable(p);
            at.passive_w[p] = is_whole ? at.w[j] : at.w[j] - ridge(j) * at.x[p];
            also(j);
        });
    }

    /// Project column j onto the passive columns; `u` has the coefficients. Finds the largest of
    /// the team, too. Ends with a barrier.
    __device__ Projection project(int j, Located<double>& largest) {
        multiply_passive(j);
        team.sync();
        const Two along = inverse.project(team, at.g, at.passive_w, at.u, largest);
        const double w = at.w.of(j);
        return {square_of(j) - along.a, w < 0 ? along.b - w : w - along.b};
    }

    /// The square of the last projection, which was of column j; `u` has its coefficients.
    __device__ double recall_projection(int j) {
        double fitted = 0;
        inverse.for_each([&](auto p) { fitted += at.u[p] * at.g[p]; });
        return square_of(j) - team.reduce(fitted, Called<Add<double>>());
    }

    /// Let variable j, if it `enters`, be passive, after `project(j)`. Ends without a barrier.
    __device__ void admit(bool, int j, double, const Projection& column) {
        inverse.append(j, at.u, column.square);
    }

    /// Let variable j, which has entered last, have a value. Ends without a barrier.
    __device__ void set_entered(int j, double value) {
        const double w = at.w.of(j);
        by_owner<Team>(inverse.length - 1, [&](auto p) {
            at.x[p] = value;
            at.passive_w[p] = w;
        });
    }

    /// Where the variable at position p will rest.
    __device__ double end_of(int p) const { return at.end.of(p); }

    /// Let the variable at a position leave; `left` is the part of the step d that x has not taken.
    /// Ends without a barrier.
    __device__ void dismiss(int position, double, double left) {
        inverse.remove(team, position, at.u, at.x, at.passive_w, at.d, left);
    }

    /// Let variable j, if it `moves`, rest at a value. Ends without a barrier.
    __device__ void move(bool moves, int j, double before, double value) {
        if (moves) place(j, before, value);
    }

    /// The step d to the passive least-squares solution.
    __device__ void make_direction(bool) { inverse.multiply(team, at.passive_w, at.d); }

    /// The variable at position p has taken a step, but for a part of it.
    __device__ void keep_part(int p, double left) { at.passive_w[p] *= left; }

    /// Let the gradient of passive variables follow the multiplier of the fixed sum.
    __device__ void shift_goal(double shift) {
        inverse.for_each([&](auto p) { at.passive_w[p] -= shift * at.row[p]; });
    }

    /// The gradient w of passive variables is new: it is gathered before its next use.
    __device__ void renew_goal() {}
};
