// The solver of nnls_gram.cu: from the arrays of a system to its result.

#pragma once

#include "gram_residual.cuh"
#include "nnls_systems.cuh"

/// Limit on how often the residual is recomputed.
constexpr int most_refreshes = 10;

/// H is recomputed if `kkt` exceeds this number times `tol` after a refresh.
constexpr double drift = 64;

template <class T, class Team>
struct GramSolver : GramResidual<T, Team> {
    using Base = GramResidual<T, Team>;
    using Base::given_b, Base::scaled_b, Base::is_data, Base::gradient, Base::transpose_times;
    using Base::make_gradient, Base::make_sum, Base::enter, Base::make_feasible;
    using Base::most_entering, Base::knows_gradient;
    using Base::refresh, Base::certify, Base::keeps_sum, Base::correct_gradient;
    using Base::ridge, Base::rest, Base::sum, Base::size, Base::place, Base::clear;
    using Base::status, Base::nit, Base::n_updates, Base::n_downdates;
    using Base::team, Base::options, Base::at, Base::inverse, Base::magnitude;
    using Base::to_given, Base::to_scaled, Base::column_shift, Base::b_shift, Base::all_x;
    using typename Base::Certified;

    /// Compute b's scale and c = A^T (b - A rest) - penalty. False if an entry is not finite.
    __device__ bool load(const Variables& variables) {
        double largest = 0, norms = 0;
        for_each<Team>(options.m, [&](int i) {
            const double value = given_b(i);
            if constexpr (Team::is_small) at.b[i] = value;
            largest = MaxMagnitude<double>()(largest, ::magnitude(value));
        });
        for_each_variable<Team>(options.variables(), [&](auto j) {
            norms += at.matrix.norm[j];
            if ((options.has_ridge() || options.has_bounds()) && !variables.are_finite(j))
                norms = Floating<double>::infinity();
        });
        largest = team.reduce(largest, Called<MaxMagnitude<double>>());
        norms = team.reduce(norms, Called<Add<double>>());
        const bool finite = is_finite(largest) && is_finite(norms);
        if (!team.any(finite)) return false;
        double b_scale = inverse_power_of_two(largest);
        if (options.has_sum()) {
            const int unit = sum_shift(at.matrix.column_shift, options.n);
            const double total = shifted(fabs(variables.sum()), -unit);
            // Unless squares may overflow, nnls_qr.cu has the same scale: scores are compared.
            if (total * b_scale > Floating<double>::power_of_two(256))
                b_scale = inverse_power_of_two(min(total, Floating<double>::largest()));
        }
        b_shift = Floating<double>::exponent(b_scale);
        scale_variables(variables);
        magnitude = square_root(sum(options.rows(), [&](int i) {
            if (Team::is_small && i < options.m) at.b[i] *= b_scale;
            const double value = i < options.m ? scaled_b(i) : (is_data(i) ? 0 : at.total[0]);
            at.witness[i] = value;
            if (!is_data(i)) at.residual[i] = 0;
            return value * value;
        }));
        if (at.matrix.has_gram()) {
            transpose_times(inverse.all(options.n), at.witness, at.w);
            team.sync();
            for_each_variable<Team>(options.variables(),
                                    [&](auto j) { at.c[j] = gradient(at.w[j], j, at.witness); });
        }
        status = converged;
        nit = n_updates = n_downdates = 0;
        if (options.has_bounds()) {
            for (int j = 0; j < options.n; ++j)
                place(
                    j, 0,
                    first_rest(at.norm.of(j), at.penalties.of(j), at.lower.of(j), at.upper.of(j)));
            if constexpr (Team::is_small)
                for_each_variable<Team>(options.n, [&](auto j) { at.x[j] = at.rest[j]; });
            magnitude += size();
        }
        return finite;
    }

    /// Convert penalties and bounds to the scaled variables; all variables rest at 0. Ends with a
    /// barrier if there are any.
    __device__ void scale_variables(const Variables& variables) {
        if (options.has_ridge())
            for_each_variable<Team>(options.n, [&](auto j) {
                const double damping = shifted(variables.root_l2(j), column_shift(j));
                at.damping[j] = damping;
                if constexpr (Team::is_small) return;
                const double norm = at.matrix.norm[j];
                at.norm[j] = square_root(norm * norm + damping * damping);
            });
        if (options.has_bounds())
            for_each_variable<Team>(options.n, [&](auto j) {
                at.lower[j] = to_scaled(variables.lower(j), j);
                at.upper[j] = to_scaled(variables.upper(j), j);
                at.rest[j] = 0;
                at.penalties[j] = min(shifted(variables.l1(j), column_shift(j) + b_shift),
                                      Floating<double>::largest() / 16);
            });
        if (options.has_sum()) {
            const int unit = sum_shift(at.matrix.column_shift, options.n);
            for_each_variable<Team>(
                options.n, [&](auto j) { at.sum_row[j] = shifted(1.0, column_shift(j) - unit); });
            if (Team::rank() == 0) at.total[0] = shifted(variables.sum(), b_shift - unit);
            team.sync();
        }
    }

    /// How accurate x is: no other method could improve a convincing x.
    enum Accuracy : int { insufficient, sufficient, convincing };

    struct Outcome {
        Accuracy accuracy;
        bool is_hidden;  // rounding x may change A x too much
    };

    /// What is known of x. Certified x is harder to beat; other x yields to x that is as good.
    __device__ Outcome judge(const Certified& found, bool keeps_sum) const {
        const bool is_hidden = found.certificate.is_hidden();
        const bool is_certified = keeps_sum && found.certificate.is_good(true, options.tol);
        Accuracy accuracy = is_certified ? sufficient : insufficient;
        if (is_certified && found.certificate.is_good(false, options.tol)) accuracy = convincing;
        const double rounding = certified<T> * magnitude;
        const double score = found.misfit + (is_certified ? -rounding : rounding);
        if (Team::rank() == 0)
            at.kept[1] = is_hidden || !keeps_sum ? Floating<double>::nan() : score;
        return {accuracy, is_hidden};
    }

    /// What the next iteration does.
    struct Plan {
        bool clears;   // whether no variable is passive at first
        bool starts;   // whether x starts from a guess
        int first;     // if not negative, the variable that enters
        int most;      // variables that enter at once; if 0, x is moved even if none enters
        bool fresh;    // whether w is the gradient of a fresh residual
        bool entered;  // whether a variable has entered since then
    };

    /// Let variables enter, and move x, until no variable enters, if the team `iterates` at all. It
    /// may start from a guess.
    ///
    /// Each step is called in one place only, because it is inlined there.
    __device__ void iterate(bool iterates, const T* guess, Plan& next) {
        while (team.any(iterates)) {
            if (team.any(iterates && next.clears)) clear(iterates && next.clears);
            next.clears = false;
            if (!knows_gradient && team.any(iterates && !next.fresh)) {
                team.sync();
                make_gradient(next.fresh);
            }
            const bool first_enters = next.first >= 0, starts = iterates && next.starts;
            const bool searches = iterates && status == converged;
            int leaving = -1;
            const bool entered =
                team.any(searches) &&
                enter(searches, next.most, next.fresh, starts && !first_enters ? guess : nullptr,
                      next.first, leaving);
            const bool polishes = next.most == 0 && status == converged;
            const bool moves = iterates && !starts && (entered || polishes);
            if (team.any(starts)) follow_guess(starts && !first_enters, next);
            const bool moved = make_feasible(moves, leaving, next.first >= 0);
            if (moves) {
                next.most = moved ? most_entering : 1;
                next.entered = next.entered || entered;
            }
            iterates = starts || moves;
            if (iterates) next.fresh = false;
        }
    }

    /// Go on without the guess; without its variables, if rounding them changes A x too much.
    __device__ void follow_guess(bool follows, Plan& next) {
        const bool is_small = Floating<T>::epsilon * ratio(size(), magnitude) <= hidden<T>;
        if (!follows) return;
        next.starts = false;
        next.clears = !is_small && !options.has_sum();
        next.most = inverse.length > 0 && !next.clears ? 0 : most_entering;
    }

    /// Iterate to convergence, if the team `solves` the system, and store the best x. If the start
    /// is `warm`, x has a guess.
    __device__ Outcome solve(bool solves, bool warm, const NnlsResults<T>& results, long long k) {
        Outcome outcome{insufficient, false};
        if (Team::rank() == 0) at.kept[0] = Floating<double>::infinity();
        Plan next{true, warm, -1, most_entering, false, true};
        if (options.has_sum()) {
            next.first = make_sum();
            next.most = 0;
        }
        bool continues = solves;
        for (int refreshes = 0; team.any(continues);) {
            iterate(continues, results.x + k * options.n, next);
            const bool follows = refresh(), keeps = keeps_sum();
            const Certified found = certify();
            const double kkt = found.certificate.kkt();
            const bool better = kkt < at.kept.of(0);
            if (continues && (better || refreshes == 0)) {
                outcome = judge(found, keeps);
                store(results, k, found);
            }
            const double tol =
                max(options.tol, 4.0 * Floating<T>::epsilon) * (1 + found.certificate.size_to_b);
            continues = continues && (better || next.entered) && kkt > tol && status == converged &&
                        !team.is_stopped();
            if (++refreshes == most_refreshes || !team.any(continues)) break;
            correct_gradient();
            if (better && Team::rank() == 0) at.kept[0] = kkt;  // all threads have read it
            next.entered = false;
            next.fresh = true;
            next.most = follows ? most_entering : 0;
            next.clears = next.starts = continues && kkt > drift * tol && !options.has_sum();
        }
        const bool good = outcome.accuracy >= (status == iteration_limit ? convincing : sufficient);
        if (solves && Team::rank() == 0) {
            const NnlsStatus refused = status == converged ? uncertified : status;
            results.status[k] = good ? converged : refused;
            results.nit[k] = nit;
            results.n_updates[k] = n_updates;
            results.n_downdates[k] = n_downdates;
            results.repaired[k] = false;
            results.method[k] = by_gram;
        }
        return outcome;
    }

    /// Solve system k of the launch, whose number in the batch is `number`, and write its result,
    /// if the team `solves` it. If another method might solve it better, list it.
    __device__ void run(bool solves, const NnlsSystems<T>& systems, const NnlsResults<T>& results,
                        long long k, long long number) {
        const int n = options.n;
        at.forget();
        const bool finite = load(systems.variables_of(number));
        if (solves && !finite) refuse(results, k);
        solves = solves && finite;
        if (!team.any(solves)) return;
        const Outcome outcome = solve(solves, systems.warm, results, k);
        if (!solves) return;
        const bool settled =
            outcome.accuracy == convincing || (systems.limited && status == iteration_limit);
        if (settled || systems.listed == nullptr) return;
        if (outcome.is_hidden) for_each<Team>(n, [&](int j) { results.x[k * n + j] = 0; });
        if (Team::rank() == 0)
            systems.listed[atomicAdd(&systems.counters->listed, 1ull)] = {k, at.kept[1]};
    }

    /// Write the result of a system that has NaN or infinity in it.
    __device__ void refuse(const NnlsResults<T>& results, long long k) const {
        const int n = options.n;
        const T nan = Floating<T>::nan();
        for_each<Team>(n, [&](int j) { results.x[k * n + j] = results.dual[k * n + j] = nan; });
        if (Team::rank() > 0) return;
        results.rnorm[k] = results.kkt[k] = nan;
        results.status[k] = not_finite;
        results.nit[k] = results.n_updates[k] = results.n_downdates[k] = 0;
        results.repaired[k] = false;
        results.method[k] = by_gram;
    }

    /// Write x and its certificate in the original units.
    __device__ void store(const NnlsResults<T>& results, long long k,
                          const Certified& found) const {
        const int n = options.n;
        for_each_variable<Team>(n, [&](auto j) {
            results.x[k * n + j] = to_given(all_x()[j], j);
            results.dual[k * n + j] = static_cast<T>(shifted(at.w[j], -column_shift(j) - b_shift));
        });
        if (Team::rank() == 0) {
            results.rnorm[k] = static_cast<T>(shifted(found.fit, -b_shift));
            results.kkt[k] = static_cast<T>(found.certificate.kkt());
        }
    }
};
