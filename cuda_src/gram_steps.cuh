// The steps of the active-set method of nnls_gram.cu: variables enter and leave the passive set,
// and x moves to the solution of the passive variables.
//
// Sources and names of the steps: see nnls_gram.cu.

#pragma once

#include "passive_system.cuh"

/// The part of the steepest slope that other variables must have to enter at once; the cosine of
/// the angle between columns that do not enter together.
constexpr double steep_part = 0.3, alike = 0.85;

/// Part of a column's square norm that must be orthogonal to the passive columns.
constexpr double resolved_part = 1e-12;

/// Part of the terms that cancel that a difference of penalties must exceed.
constexpr double significant_part = 1e-13;

/// Factor on `tol` for the less accurate gradients from the Gram matrix.
constexpr double slack = 8;

/// How often the multiplier of a fixed sum is chosen, if the first choice changes the sum by more
/// than the magnitude of the system: that change has the rounding errors of a larger number.
constexpr int sum_passes = 2;

/// What `find_variable` finds, for all threads of the team.
template <class Team, class Reals>
__device__ __forceinline__ Located<double> find_for_all(Team& team, Reals& values, int count,
                                                        bool by_value, double least, int j) {
    return team.reduce(find_variable(team, values, count, by_value, least, j),
                       Called<ArgMax<double>>());
}

template <class T, class Team>
struct GramSteps : PassiveSystem<T, Team> {
    using Base = PassiveSystem<T, Team>;
    using Base::end_of, Base::dismiss, Base::move, Base::gather_gradient, Base::make_direction;
    using Base::lower_of, Base::upper_of, Base::rest_of, Base::is_inside, Base::gram;
    using Base::make_gradient, Base::shift_goal, Base::keep_part, Base::place;
    using Base::most_entering, Base::restart, Base::project, Base::recall_projection, Base::admit;
    using Base::penalty, Base::ridge, Base::lower, Base::upper, Base::rest, Base::ridge_of;
    using Base::set_entered;
    using Base::status, Base::nit, Base::n_updates, Base::n_downdates;
    using Base::sum, Base::size, Base::to_scaled, Base::magnitude;
    using Base::team, Base::options, Base::at, Base::inverse;
    using Base::transpose_times, Base::variable, Base::owns, Base::per_norm;
    using typename Base::Reals;

    /// Remove all variables, if the team `restarts`; they rest at the bounds next to them. Ends
    /// without a barrier.
    __device__ void clear(bool restarts) {
        const auto passive = inverse.passive();
        if (options.has_bounds())
            passive.by_all([&](auto p, int j) {
                const double x = at.x.of(p);
                if (restarts && j >= 0)
                    place(j, 0, nearest_bound(x, at.lower.of(j), at.upper.of(j)));
            });
        if (restarts) restart();
    }

    /// Whether a descent is more than `least` times the root of `square`. Squares are compared: a
    /// root takes 20 instructions.
    static __device__ bool exceeds(double descent, double least, double square) {
        return (descent > 0 && descent * descent > least * least * square) || least < 0;
    }

    /// Let variable j enter with the value x_j, if the team `tries` to, and if the variable is
    /// independent of the others and moves inwards. `least` limits the decrease of the objective
    /// along the part of column j that is orthogonal to the passive columns; a negative number sets
    /// no limit. A large team finds the largest of its threads, too. Ends without a barrier.
    __device__ bool append(bool tries, int j, double x_j, double least, Located<double>& largest) {
        const bool fits = inverse.length < options.capacity();
        tries = tries && (fits || options.has_penalties()) && !team.is_stopped();
        if (!Team::is_small && !tries) return false;   // mostly a team of the warp tries to
        const double before = tries ? rest_of(j) : 0;  // a guess may have moved it just now
        const Projection column = project(j, largest);
        const double norm = at.norm.of(j);
        const bool enters = tries && fits && column.square > resolved_part * norm * norm &&
                            exceeds(column.descent, least, column.square);
        if (!team.any(enters)) return false;
        admit(enters, j, before, column);
        if (!enters) return false;
        set_entered(j, x_j);
        place(j, before, 0);
        ++n_updates;
        return true;
    }

    /// Move along a dependence of column j on passive columns, if the team `tries` to and a penalty
    /// falls. `append` has refused j, and `u` and `g` belong to its column.
    ///
    /// A x does not change, so that only a bound ends the move: of j, or of the passive
    /// variable at the position `leaving`, which j replaces. False if nothing moves. Ends with a
    /// barrier.
    __device__ bool exchange(bool tries, int j, int& leaving) {
        const double square = recall_projection(j);
        Two penalties = AddTwo::identity();
        inverse.for_each([&](auto p) {
            const double term = at.u[p] * at.penalties[variable(p)];
            penalties = AddTwo()(penalties, {term, fabs(term)});
        });
        penalties = team.reduce(penalties, Called<AddTwo>());
        const double norm = at.norm.of(j), own = at.penalties.of(j), before = at.rest.of(j);
        const double sign = at.w.of(j) < 0 ? -1 : 1, gain = sign * (penalties.a - own);
        bool moves = tries && !(square > resolved_part * norm * norm) &&
                     gain > significant_part * (penalties.b + fabs(own));
        if (!team.any(moves)) return false;

        const double end = sign > 0 ? at.upper.of(j) : at.lower.of(j), whole = fabs(end - before);
        Located<double> first = ArgMax<double>::identity();
        inverse.for_each([&](auto p) {
            const double d = -sign * at.u[p], x = at.x[p];
            const double its_end = d < 0 ? at.lower[variable(p)] : at.upper[variable(p)];
            // How far x may move, negated.
            if (d != 0) first = ArgMax<double>()(first, {(x - its_end) / d, p});
        });
        first = team.reduce(first, Called<ArgMax<double>>());
        const double by_j = square > 0 ? min(whole, gain / square) : whole;
        const bool replaces = first.index >= 0 && -first.value < by_j;
        const double length = replaces ? -first.value : by_j;
        moves = moves && is_finite(length);
        if (moves) {
            leaving = replaces ? first.index : -1;
            inverse.for_each([&](auto p) {
                const double d = -sign * at.u[p], lower = at.lower[variable(p)];
                const double upper = at.upper[variable(p)];
                at.x[p] = clipped(at.x[p] + length * d, lower, upper);
                at.end[p] = d < 0 ? lower : upper;
            });
        }
        move(moves, j, before, length == whole ? end : before + sign * length);
        team.sync();
        return moves;
    }

    /// Let variables rest elsewhere, the cheapest first, until x has its sum. The last of them may
    /// be between its bounds, and has to enter; -1 if all bounds together do not allow the sum.
    __device__ int make_sum() {
        if (!at.matrix.has_gram()) {
            make_gradient(false);
            for_each_variable<Team>(options.n, [&](auto j) { at.c[j] = at.w[j]; });
        }
        double missing =
            at.total[0] - sum(options.n, [&](int j) { return at.sum_row[j] * at.rest[j]; });
        const bool up = missing >= 0;
        for_each_variable<Team>(options.n, [&](auto j) { at.slope[j] = 0; });
        int found = -1;
        for (bool searches = true; team.any(searches);) {
            Located<double> cheapest = ArgMax<double>::identity();
            for_each_variable<Team>(options.n, [&](auto j) {
                if (at.slope[j] != at.slope[j] || !(at.sum_row[j] > 0)) return;
                const double whole = (up ? at.upper[j] : at.lower[j]) - at.rest[j];
                const double change = missing / at.sum_row[j], norm = at.norm[j];
                const double move = fabs(whole) < fabs(change) ? whole : change;
                const double gain = (at.c[j] - norm * norm * move / 2) / at.sum_row[j];
                cheapest = ArgMax<double>()(cheapest, {up ? gain : -gain, j});
            });
            const int cheapest_j = team.reduce(cheapest, Called<ArgMax<double>>()).index;
            searches = searches && cheapest_j >= 0;
            const int j = max(cheapest_j, 0);
            const double before = at.rest.of(j), coefficient = at.sum_row.of(j);
            const double lower = at.lower.of(j), upper = at.upper.of(j), end = up ? upper : lower;
            const double value = before + missing / coefficient;
            const bool fits = lower < upper && fabs(end - before) >= fabs(value - before);
            team.sync();
            if (!searches) continue;
            place(j, before, fits ? value : end);
            if (fits) found = j;
            searches = !fits;
            missing -= coefficient * (end - before);
            by_owner<Team>(j, [&](auto i) { at.slope[i] = Floating<double>::nan(); });
        }
        return found;
    }

    /// Where the guess, which is not scaled, has variable j, within its bounds; NaN if it may stay
    /// where it rests. With a fixed sum, only variables between their bounds enter.
    __device__ double guessed(const T* guess, int j) const {
        const double given = to_scaled(guess[j], j), value = clipped(given, lower(j), upper(j));
        const bool moves = is_finite(given) && value != rest(j);
        const bool is_between = value > lower(j) && value < upper(j);
        return moves && (is_between || !options.has_sum()) ? value : Floating<double>::nan();
    }

    /// The gradient along a variable that is not passive, positive if it points into its interval.
    template <class Variable>
    __device__ double inwards(Variable j) const {
        const double w = at.w[j];
        return options.has_bounds() ? violation(at.rest[j], w, at.lower[j], at.upper[j]) : w;
    }

    /// Let variable j not enter again; with G, if it was `accepted`, no variable of a like column.
    __device__ void exclude(int j, bool accepted) {
        if (most_entering == 1 || !at.matrix.has_gram())
            return by_owner<Team>(j, [&](auto i) { at.slope[i] = 0; });
        const auto column = gram(j);
        const double norm = at.norm.of(j);
        const double limit = accepted ? alike * norm : Floating<double>::infinity();
        clear_variables(team, at.slope, options.n, j,
                        [&](auto i) { return fabs(column[i]) > limit * at.norm[i]; });
    }

    /// Without G: whether column j is like the column of a variable that entered last.
    __device__ bool is_alike(int j, int entered) {
        if constexpr (Team::is_small) {
            return false;
        } else {
            if (at.matrix.has_gram()) return false;
            const auto last = inverse.passive().last(entered);
            transpose_times(last, at.matrix.column(j), at.g);
            bool found = false;
            const double limit = alike * at.norm[j];
            last.by_all([&](int p, int i) { found |= fabs(at.g[p]) > limit * at.norm[i]; });
            return found;
        }
    }

    /// Append the steepest variables, at most `most`, or exchange the steepest, if the team
    /// `searches` at all. False if nothing changes. Once a variable entered, the first refused
    /// variable ends the search.
    ///
    /// Slopes must exceed rounding errors of the terms that cancel in b - A x. With a `guess`, the
    /// variables that are between their bounds there enter instead; others rest at the bound that
    /// the guess reaches. With a fixed sum, variables enter where they rest. If `first` is not
    /// negative, this variable enters instead. It becomes the variable that has to enter after the
    /// variable at `leaving` has left. A large team finds the next variable while a variable, but
    /// the first, enters: if it is refused, the search ends.
    __device__ bool enter(bool searches, int most, bool fresh, const T* guess, int& first,
                          int& leaving) {
        const bool by_slope = guess == nullptr && first < 0;
        at.slope.forget();
        at.passive_w.forget();
        if (guess != nullptr)
            for_each_variable<Team>(options.variables(), [&](auto j) {
                at.slope[j] = j < options.n ? guessed(guess, j) : Floating<double>::nan();
            });
        else
            map_variables(team, at.slope, options.variables(),
                          [&](auto j) { return per_norm(inwards(j), j); });
        team.sync();
        gather_gradient(
            fresh, [&](auto j) { at.slope[j] = guess != nullptr ? Floating<double>::nan() : 0; });
        const double cancelling = options.tol * (magnitude + size());
        double steep = fresh ? cancelling : slack * cancelling;
        int entered = 0, j = -1, replacing = -1;
        bool exchanged = false, foresees = false;
        Located<double> next;
        for (searches = searches && (!by_slope || most > 0); team.any(searches);) {
            if (!foresees)
                next = find_for_all(team, at.slope, options.variables(), by_slope, steep, j);
            j = first < 0 ? next.index : (j < 0 ? first : -1);
            searches = searches && j >= 0;
            if (!team.any(searches)) break;
            if (!searches) j = 0;  // any variable, with which the team tries nothing
            if (by_slope && is_alike(j, entered)) {
                exclude(j, false);
                continue;
            }
            double x_j = rest_of(j);
            const bool at_bound = rests_at_guess(searches && guess != nullptr, j, x_j);
            const bool tries = searches && !at_bound;
            foresees = Team::foresees && by_slope && entered > 0;
            if (foresees) {
                exclude(j, true);
                next = find_variable(team, at.slope, options.n, true, steep, j);
            }
            const bool accepted =
                append(tries, j, x_j, by_slope ? cancelling : -Floating<double>::infinity(), next);
            const bool refused = tries && by_slope && !accepted;
            if (options.has_penalties() && team.any(refused && entered == 0) &&
                exchange(refused && entered == 0, j, leaving)) {
                exchanged = true;
                replacing = leaving < 0 ? -1 : j;
            }
            searches = searches && !exchanged && !(refused && entered > 0);
            if (accepted && entered++ == 0 && most_entering > 1)
                steep = max(steep, steep_part * next.value);
            if (!by_slope || !searches) continue;
            if (!foresees) exclude(j, accepted);
            searches = entered < most;
        }
        first = replacing;
        return exchanged || entered > 0;
    }

    /// Whether the guess of variable j, which becomes x_j, is a bound; then j rests there. Nothing
    /// changes without a guess.
    __device__ bool rests_at_guess(bool has_guess, int j, double& x_j) {
        if (options.has_sum() || !team.any(has_guess)) return false;
        const double before = x_j, guessed = at.slope.of(j);
        if (has_guess) x_j = guessed;
        const bool rests = has_guess && (x_j == lower_of(j) || x_j == upper_of(j));
        if (!team.any(rests)) return false;
        team.sync();
        move(rests, j, before, x_j);
        return rests;
    }

    /// d = H passive_w. With a fixed sum, passive_w - shift row takes the place of passive_w, so
    /// that the step d leads to that sum; returns `shift`. The step is from x, or from x + change
    /// if it `corrects` x. A product that is `kept` in d is not computed. Ends without a barrier.
    __device__ double step(bool corrects, bool kept) {
        if (options.has_sum()) {
            inverse.for_each([&](auto p) { at.row[p] = at.sum_row[variable(p)]; });
            team.sync();
            inverse.multiply(team, at.row, at.along);
        }
        if (!kept) make_direction(corrects);
        if (!options.has_sum()) return 0;
        double shift = 0;
        bool lacks = true;
#pragma unroll 1
        for (int pass = 0; pass < sum_passes && team.any(lacks); ++pass) {
            Two sums = AddTwo::identity();
            inverse.for_each([&](auto p) {
                const double x = corrects ? at.x[p] + at.change[p] : at.x[p];
                sums.a += at.row[p] * (x + at.d[p]);
                sums.b += at.row[p] * at.along[p];
            });
            for_each_variable<Team>(options.n,
                                    [&](auto j) { sums.a += at.sum_row[j] * at.rest[j]; });
            sums = team.reduce(sums, Called<AddTwo>());
            const double missing = sums.a - at.total[0], change = missing / sums.b;
            lacks = lacks && is_finite(change);
            if (!lacks) continue;
            inverse.for_each([&](auto p) { at.d[p] -= change * at.along[p]; });
            shift += change;
            lacks = fabs(missing) > magnitude;
        }
        return shift;
    }

    /// Change the multiplier of the fixed sum; it is subtracted from c, and from gradients.
    __device__ void shift_multiplier(double shift) {
        subtract_multiple<Team>(at.c, options.n, shift, at.sum_row);
        shift_goal(shift);
        if (owns(options.m)) at.residual[options.m] -= shift;
    }

    /// Move x to the passive least-squares solution, if the team `moves` it at all; remove what
    /// reaches a bound, one after another.
    ///
    /// A step also changes the passive gradient: by a part of it, because G H = 1. Returns whether
    /// x moved. The last variable stays if the sum is fixed. The variable at `leaving` is removed
    /// before, and x does not move if another variable `replaces` it.
    __device__ bool make_feasible(bool moves, int leaving, bool replaces) {
        bool moved = replaces;
        double left = 1;  // part of the last step that is not taken
        for (bool has_step = false; team.any(moves); has_step = !Team::is_small) {
            if (team.any(leaving >= 0)) remove(leaving, left);
            leaving = -1;
            moves = moves && !replaces;
            if (moves && (nit >= options.maxiter || team.is_stopped())) {
                status = iteration_limit;
                moves = false;
            }
            if (!team.any(moves)) break;
            if (!has_step) team.sync();
            const double shift = step(false, has_step);
            const bool stays = options.has_sum() && inverse.length == 1;
            Located<double> first = ArgMax<double>::identity();
            inverse.for_each([&](auto p) {
                const double x = at.x[p], d = at.d[p];
                // Steps are negated; 1 stands for a d that is not finite.
                if (!is_finite(d)) {
                    first = ArgMax<double>()(first, {1, p});
                } else if (!is_inside(x + d, p) && !stays) {
                    const double end = reached(x + d, p);
                    first = ArgMax<double>()(first, {d != 0 ? min((x - end) / d, 0.0) : 0, p});
                    if (options.has_bounds()) at.end[p] = end;
                }
            });
            first = team.reduce(first, Called<ArgMax<double>>());
            if (!moves) continue;
            ++nit;
            if (first.value > 0) {
                status = uncertified;
                moves = false;
                continue;
            }
            const double step = first.index < 0 ? 1 : -first.value;
            if (options.has_sum()) shift_multiplier(shift);
            inverse.for_each([&](auto p) {
                const int j = options.has_bounds() ? variable(p) : 0;
                at.x[p] = clipped(at.x[p] + step * at.d[p], lower(j), upper(j));
                keep_part(p, 1 - step);
            });
            left = 1 - step;
            moves = first.index >= 0;
            moved = moved || !moves || step > 0;
            leaving = first.index;
        }
        return moved;
    }

    /// The bound of the variable at position p that a value reaches.
    __device__ double reached(double value, int p) const {
        if (!options.has_bounds()) return 0;
        return value <= at.lower[variable(p)] ? at.lower[variable(p)] : at.upper[variable(p)];
    }

    /// Remove the variable at a position, if it is not -1, and let it rest at its `end`; `left` is
    /// the part of the step d that x has not taken. Ends without a barrier.
    __device__ void remove(int position, double left) {
        const int p = max(position, 0), j = options.has_bounds() ? variable(p) : 0;
        const double value = options.has_bounds() ? end_of(p) : 0;
        dismiss(position, value, left);
        if (position < 0) return;
        place(j, 0, value);
        ++n_downdates;
    }
};
