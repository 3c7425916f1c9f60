// Cox's partial likelihood: the gradient and the loss of all rows, for several fits at once.
//
// Problem. With the rows ascending in time, the weights w and the predictor f, the risk set of a
// row consists of the rows whose time is not earlier. With S_i = sum over the risk set of i of
// w exp(f), and with event_i 0 or 1,
//     u_i    = event_i - exp(f_i) sum over the events j whose time is not later of w_j / S_j,
//     loss_i = event_i (log S_i - f_i).
// Rows of the same time share S and the sum of the events (Breslow). S is a scan of the rows from
// the last to the first, the sum of the events a scan from the first to the last. A second S, of
// the weights of rows that are held out, is for their loss.
//
// Mapping. Each fit has `chunks` blocks, each a contiguous chunk of the places; a place is the
// position of a row by time. A scan is two phases between grid barriers: the blocks sum their
// chunks; then each block adds up the sums of the chunks before its own, and scans its chunk in
// tiles of a place for each thread, by shuffles (BlockScan). Both S are a single scan of pairs.
// The maximum of f is subtracted from f, so that exp does not overflow. No sum uses atomics: on the
// same device a fit has the same bits in every run.
//
// Memory. Reads the row, first and last of each place in order, and f and the weights of the row:
// these are scattered. Work of three doubles for each place. Shared memory: totals of the warps.
// Cost. Four grid barriers, and two for the maximum of f. For each row, 22 numbers are read and 7
// written.
// Source. Breslow, "Covariance Analysis of Censored Survival Data" (1974); Hofner, Mayr, Robinzonov
// & Schmid, "Model-based Boosting in R" (2014); Blelloch, "Prefix Sums and Their Applications"
// (1990).

#pragma once

#include "families.cuh"
#include "floating.cuh"
#include "ordered.cuh"
#include "row_sums.cuh"

/// Sums of pairs, as a monoid.
struct AddTwo {
    using Value = Two;
    static constexpr bool commutative = true;
    static __device__ __forceinline__ Two identity() { return {0, 0}; }
    __device__ __forceinline__ Two operator()(Two a, Two b) const {
        return {a.first + b.first, a.second + b.second};
    }
};

/// The maximum of any values.
struct Maximum {
    static __device__ __forceinline__ double identity() { return -Floating<double>::infinity(); }
    __device__ __forceinline__ double operator()(double a, double b) const { return fmax(a, b); }
};

/// The rows by time, which all fits share, and the sums of each fit.
struct RiskSets {
    const long long* places;  // [3][place]: the row, and the first and last place of its time
    double* sums;             // work: [fit][3][place]: S, S of the rows held out, sum of events
    Two* totals;              // work: [fit][chunk]
    double* most;             // [fit], the maximum of f
    long long rows;
    int fits, chunks;

    __device__ long long row(long long place) const { return places[place]; }
    __device__ long long first(long long place) const { return places[rows + place]; }
    __device__ long long last(long long place) const { return places[2 * rows + place]; }
    __device__ double* sum(int fit) const { return sums + 3 * fit * rows; }
    __device__ double* held_out_sum(int fit) const { return sum(fit) + rows; }
    __device__ double* hazard(int fit) const { return sum(fit) + 2 * rows; }

    __device__ long long begin(int chunk) const {
        const long long size = (rows + chunks - 1) / chunks;
        return min(rows, chunk * size);
    }

    /// A block calls body(fit, chunk) for each of its chunks.
    template <class Body>
    __device__ void each_chunk(Body body) const {
        for (int unit = blockIdx.x; unit < fits * chunks; unit += gridDim.x)
            body(unit / chunks, unit % chunks);
    }

    /// totals = the sums of value(fit, place) over each chunk. A grid barrier must follow.
    template <class Value>
    __device__ void total(BlockScan<AddTwo>& scan, Value value) const {
        each_chunk([&](int fit, int chunk) {
            Two own{0, 0};
            for (long long place = begin(chunk) + threadIdx.x; place < begin(chunk + 1);
                 place += blockDim.x)
                own = AddTwo()(own, value(fit, place));
            const Two whole = scan.fold(own);
            if (threadIdx.x == 0) totals[fit * chunks + chunk] = whole;
        });
    }

    /// The sum of the totals of the chunks from `from` to `to` - 1 of a fit, in every thread.
    __device__ Two carried(BlockScan<AddTwo>& scan, int fit, int from, int to) const {
        Two own{0, 0};
        for (int chunk = from + threadIdx.x; chunk < to; chunk += blockDim.x)
            own = AddTwo()(own, totals[fit * chunks + chunk]);
        return scan.fold(own);
    }

    /// Calls store(place, sum) with the inclusive scan of value(place) over a chunk, after
    /// `before`: from the first place to the last, or the reverse.
    template <bool is_reverse, class Value, class Store>
    __device__ void scan_chunk(BlockScan<AddTwo>& scan, int chunk, Two before, Value value,
                               Store store) const {
        const long long from = begin(chunk), to = begin(chunk + 1);
        for (long long tile = 0; tile < to - from; tile += blockDim.x) {
            const long long step = tile + threadIdx.x;
            const bool is_inside = step < to - from;
            const long long place = is_reverse ? to - 1 - step : from + step;
            const Two own = is_inside ? value(place) : Two{0, 0};
            Two whole;
            const Two earlier = scan.exclusive(own, whole);
            if (is_inside) store(place, AddTwo()(before, AddTwo()(earlier, own)));
            before = AddTwo()(before, whole);
        }
    }
};

/// The sums of all risk sets and the hazards up to all places, of f whose maxima are known. Ends
/// with a grid barrier.
__device__ void scan_risk_sets(const RiskSets& sets, const Observations& data,
                               GridBarrier& barrier) {
    __shared__ BlockScan<AddTwo>::Storage storage;
    BlockScan<AddTwo> scan(storage);
    sets.total(scan, [&](int fit, long long place) {
        const long long row = sets.row(place);
        const double relative = exp(data.f[fit * data.rows + row] - sets.most[fit]);
        const double weight = data.weight(fit, row), held_out = data.weight_held_out(fit, row);
        const Two both{weight == 0 ? 0.0 : weight * relative,
                       held_out == 0 ? 0.0 : held_out * relative};
        sets.sum(fit)[place] = both.first;
        sets.held_out_sum(fit)[place] = both.second;
        return both;
    });
    barrier.wait();
    sets.each_chunk([&](int fit, int chunk) {
        double *sum = sets.sum(fit), *held_out = sets.held_out_sum(fit);
        const Two later = sets.carried(scan, fit, chunk + 1, sets.chunks);
        sets.template scan_chunk<true>(
            scan, chunk, later, [&](long long place) { return Two{sum[place], held_out[place]}; },
            [&](long long place, Two found) {
                sum[place] = found.first;
                held_out[place] = found.second;
            });
    });
    barrier.wait();
    sets.total(scan, [&](int fit, long long place) {
        const long long row = sets.row(place);
        const double weight = data.weight(fit, row);
        const bool happens = data.response(fit, row) > 0 && weight > 0;
        const double hazard = happens ? weight / sets.sum(fit)[sets.first(place)] : 0.0;
        sets.hazard(fit)[place] = hazard;
        return Two{hazard, 0};
    });
    barrier.wait();
    sets.each_chunk([&](int fit, int chunk) {
        double* hazard = sets.hazard(fit);
        const Two earlier = sets.carried(scan, fit, 0, chunk);
        sets.template scan_chunk<false>(
            scan, chunk, earlier, [&](long long place) { return Two{hazard[place], 0}; },
            [&](long long place, Two found) { hazard[place] = found.first; });
    });
    barrier.wait();
}

/// The gradient of the row at a place, written to u, and its losses, added to `own`.
__device__ __forceinline__ void evaluate_in_risk_sets(const RiskSets& sets,
                                                      const Observations& data, int fit,
                                                      long long place, double* own) {
    const long long row = sets.row(place);
    const double distance = data.f[fit * data.rows + row] - sets.most[fit];
    const double weight = data.weight(fit, row), held_out = data.weight_held_out(fit, row);
    const bool happens = data.response(fit, row) > 0;
    const double hazard = exp(distance) * sets.hazard(fit)[sets.last(place)];
    data.u[fit * data.rows + row] = weight == 0 ? 0.0 : weight * ((happens ? 1 : 0) - hazard);
    if (!happens) return;
    const long long first = sets.first(place);
    if (weight != 0) own[0] += weight * (log(sets.sum(fit)[first]) - distance);
    if (held_out != 0) own[1] += held_out * (log(sets.held_out_sum(fit)[first]) - distance);
}

/// `evaluate_in_risk_sets` of all rows, after a pass that finds the maxima of f. Begins with a grid
/// barrier.
__device__ void evaluate_all_risk_sets(const RowSums& sums, const RiskSets& sets) {
    sums.barrier.wait();
    sums.finish<1>(Maximum(), [&](int fit, const double* most) { sets.most[fit] = most[0]; });
    sums.barrier.wait();
    scan_risk_sets(sets, sums.data, sums.barrier);
    sums.pass<2>(Add<double>(), [&](int fit, int) {
        return [=, &sums, &sets](long long place, double* own) {
            if (place < sets.rows) evaluate_in_risk_sets(sets, sums.data, fit, place, own);
        };
    });
}

/// The curvature of a row times its weight: the mean of the event and of its expectation event - u,
/// which is at its present f. `gradient` is the weight times u.
static __device__ __forceinline__ double curvature_in_risk_set(double y, double weight,
                                                               double gradient) {
    return (y > 0 ? weight : 0.0) - gradient / 2;
}

/// The partial likelihood of Cox's model; y is the time, negative for a censored row.
struct CoxPH : FamilyBase<Nuisance::risk_sets> {};
