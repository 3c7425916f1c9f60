// The fits of learners to the gradient on a CPU, where a design is `CompactPart`.
//
// Of many learners, a step fits only those whose score may be the largest. A score is the square of
// the length of the projection of e = W^(1/2) u, less a penalty: its root changes by at most
// |e - e'| from one gradient to another. The last gradients are kept, so that the change since a
// learner was fitted is known. Some learners with the largest scores before are fitted first; then
// each learner whose root may exceed theirs. The steps are the same as with all learners.

#pragma once

// A loop computes these once for an argument that it does not change.
static double stirling_error(double) __attribute__((const));
static double log_minus_digamma(double) __attribute__((const));
static double trigamma_minus_inverse(double) __attribute__((const));

#include <algorithm>
#include <numeric>
#include <vector>

#include "../boosting_loop.cuh"
#include "compact_rows.h"
#include "four.h"

/// What a launch on a CPU has in addition to `StackedFits`.
struct SerialFits {
    const double* root;  // [fit][row], W^(-1/2), may be null
    double* past;        // [fit][kept][row]: earlier e; the last is in the place of its step
    double* squares;     // [fit][kept]: of their norms
    double* products;    // [fit][kept + 1][row chunk]: of e with the past, and with itself
    double* limits;      // [fit][learner], of the roots of the scores
    int* when;           // [fit][learner]: the place of the e it was fitted to; `kept` for no e
    int* chosen;         // [fit][learner]: the learners that are fitted
    int* count;          // [fit]: their number
    int kept, workers;   // kept: 0 if all learners are fitted
    int workspace;       // doubles of a worker
    int unused;
};

/// The fits of an update: a block of rows of each fit is computed when its first row is needed.
template <>
struct FitsAlong<CompactPart> {
    const StackedFits<CompactPart>& all;
    const Designs<CompactPart>& designs;
    const Update update;
    mutable long long begin = -block_rows;
    mutable std::vector<double> d = std::vector<double>((update.last - update.first) * block_rows);

    double operator()(int fit, long long row) const {
        if (row < begin || row >= begin + block_rows) compute(row);
        return d[(fit - update.first) * block_rows + (row - begin)];
    }

  private:
    void compute(long long row) const {
        const LearnerPlace& learner = all.learners[update.learner];
        const long long end = min(row + block_rows, all.rows);
        begin = row;
        std::fill(d.begin(), d.end(), 0.0);
        for (int fit = update.first; fit < update.last; ++fit)
            for (long long p = learner.begin_part; p < learner.end_part; ++p)
                add_product(designs.values[p], row, end, coefficients_of(all, update, fit),
                            d.data() + (fit - update.first) * block_rows - row);
    }
};

/// The fits of all learners, for `make_steps`.
struct SerialLearners {
    const StackedFits<CompactPart>& all;
    const SerialFits& serial;
    double* shared;
    bool& failed;

    static constexpr int probes = 8;            // learners that are fitted first
    static constexpr double root_error = 1e-6;  // of a root, as a multiple of |e|

    void operator()(int step, const Designs<CompactPart>& designs, const Matrices& matrices,
                    const Fitted& fitted, BlockReduce<double>& reduce,
                    BlockReduce<Located<double>>& best, GridBarrier& barrier) const {
        const auto fit_one = [&](int fit, int j) {
            fit_learner(designs, matrices, all.sums, j, fit, shared, fitted, reduce, best);
        };
        if (serial.kept > 0) {
            const int place = (step - 1) % serial.kept;
            multiply_past(place);
            barrier.wait();
            for (int fit = blockIdx.x; fit < all.fits; fit += gridDim.x) choose_probes(fit, place);
            barrier.wait();
            fit_chosen(designs, place, fit_one, barrier);
            for (int fit = blockIdx.x; fit < all.fits; fit += gridDim.x) choose(fit);
            barrier.wait();
            const int chosen = std::accumulate(serial.count, serial.count + all.fits, 0);
            if (2 * chosen < all.count * all.fits)
                return fit_chosen(designs, place, fit_one, barrier);
            for (int i = blockIdx.x; i < all.fits * all.count; i += gridDim.x)
                serial.when[i] = place;
        }
        add_all_moments(designs);
        barrier.wait();
        fit_all(designs, matrices, all.sums, shared, fitted, reduce, best);
        barrier.wait();
    }

  private:
    /// The moments of a chunk of the rows, for some fits.
    void add_moments(const Designs<CompactPart>& designs, long long j, int chunk, int fit,
                     int members) const {
        const LearnerPlace& learner = designs.learners[j];
        const long long functions = learner.functions;
        const RowRange range(all.rows, static_cast<int>(learner.chunks), chunk, 1);
        double* c = all.sums + learner.sums * all.fits + (chunk * all.fits + fit) * functions;
        for (long long f = 0; f < members * functions; ++f) c[f] = 0;
        for (long long p = learner.begin_part; p < learner.end_part; ++p)
            if (!project(designs.values[p], range.begin, range.end, all.u + fit * all.rows,
                         all.rows, members, c, functions))
                failed = true;
    }

    void add_all_moments(const Designs<CompactPart>& designs) const {
        const int some = all.fits_at_once, groups = (all.fits + some - 1) / some;
        for (int unit = blockIdx.x; unit < all.pair_count * groups; unit += gridDim.x) {
            const int* pair = all.pairs + unit / groups * 2;
            const int fit = unit % groups * some;
            add_moments(designs, pair[0], pair[1], fit, min(some, all.fits - fit));
        }
    }

    /// Fits the chosen learners.
    template <class FitOne>
    void fit_chosen(const Designs<CompactPart>& designs, int place, FitOne fit_one,
                    GridBarrier& barrier) const {
        int unit = 0;
        const auto each = [&](auto pieces, auto use) {
            for (int fit = 0; fit < all.fits; ++fit)
                for (int i = 0; i < serial.count[fit]; ++i) {
                    const int j = serial.chosen[fit * all.count + i];
                    for (int piece = 0; piece < pieces(j); ++piece)
                        if (unit++ % gridDim.x == blockIdx.x) use(fit, j, piece);
                }
        };
        each([&](int j) { return static_cast<int>(all.learners[j].chunks); },
             [&](int fit, int j, int chunk) { add_moments(designs, j, chunk, fit, 1); });
        barrier.wait();
        each([](int) { return 1; },
             [&](int fit, int j, int) {
                 fit_one(fit, j);
                 serial.when[fit * all.count + j] = place;
             });
        barrier.wait();
    }

    /// Stores e, and multiplies it with itself and the past.
    void multiply_past(int place) const {
        const int chunks = all.row_chunks, kept = serial.kept;
        for (int unit = blockIdx.x; unit < all.fits * chunks; unit += gridDim.x) {
            const int fit = unit / chunks, chunk = unit % chunks;
            const RowRange range(all.rows, chunks, chunk, 1);
            const int count = static_cast<int>(range.end - range.begin);
            double* past = serial.past + fit * kept * all.rows + range.begin;
            double* products = serial.products + fit * (kept + 1LL) * chunks + chunk;
            const double* u = all.u + fit * all.rows + range.begin;
            const double* root = serial.root ? serial.root + fit * all.rows + range.begin : nullptr;
            double* e = shared;
            for (int i = 0; i < count; ++i) e[i] = root ? u[i] * root[i] : u[i];
            for (int k = 0; k < kept; ++k)
                products[k * static_cast<long long>(chunks)] = dot(past + k * all.rows, e, count);
            products[kept * static_cast<long long>(chunks)] = dot(e, e, count);
            for (int i = 0; i < count; ++i) past[place * all.rows + i] = e[i];
        }
    }

    /// The limits of a fit, and the learners with the largest scores before.
    void choose_probes(int fit, int place) const {
        const int kept = serial.kept, K = all.count;
        int* const when = serial.when + fit * K;
        double* const squares = serial.squares + fit * kept;
        const double* const scores = all.scores + fit * static_cast<long long>(K);
        double* const change = shared;
        const auto total = [&](int k) {
            const double* own = serial.products + (fit * (kept + 1LL) + k) * all.row_chunks;
            double sum = 0;
            for (int chunk = 0; chunk < all.row_chunks; ++chunk) sum += own[chunk];
            return sum;
        };
        const double square = total(kept);
        for (int k = 0; k < kept; ++k)
            change[k] =
                sqrt(fmax(square + squares[k] - 2 * total(k), 0.0)) + root_error * sqrt(square);
        change[kept] = Floating<double>::infinity();
        squares[place] = square;
        int* const chosen = serial.chosen + fit * K;
        for (int j = 0; j < K; ++j) {
            serial.limits[fit * K + j] = sqrt(fmax(scores[j], 0.0)) + change[when[j]];
            if (when[j] == place) when[j] = kept;
            int i = min(j, probes);  // the first i learners are sorted by their scores
            if (i == probes && !(scores[j] > scores[chosen[i - 1]])) continue;
            for (i = min(i, probes - 1); i > 0 && scores[j] > scores[chosen[i - 1]]; --i)
                chosen[i] = chosen[i - 1];
            chosen[i] = j;
        }
        serial.count[fit] = min(probes, K);
    }

    /// The other learners whose root may be the largest.
    void choose(int fit) const {
        const int K = all.count;
        int* const chosen = serial.chosen + fit * K;
        double* const limits = serial.limits + fit * K;
        const double* const scores = all.scores + fit * static_cast<long long>(K);
        double best = 0;
        for (int i = 0; i < serial.count[fit]; ++i) {
            best = fmax(best, scores[chosen[i]]);
            limits[chosen[i]] = -1;
        }
        best = sqrt(best);
        int count = 0;
        for (int j = 0; j < K; ++j)
            if (limits[j] >= best) chosen[count++] = j;
        serial.count[fit] = count;
    }
};
