// Component-wise boosting of learners of any kind and any family, for several fits at once: the
// whole loop in a single launch, with no host synchronisation between steps. A device with a
// watchdog needs several launches; each continues from the state after the previous launch.
//
// Problem. K learners, each a design matrix X_i of n rows and k_i functions, and F fits of the
// same learners, with different weights W, responses y or starts. A step of a fit computes the
// negative gradient u of the loss at f, fits every learner to it,
//     b_i = H_i c_i,    c_i = X_i' W u,    H_i = (X_i' W X_i + lambda_i P_i)^-1,
// selects the first learner with the least |u - X_i b_i|_W, that is the largest
// 2 c_i' b_i - b_i' (X_i' W X_i) b_i, and updates f += size d with d = X_s b_s. The size is `rate`,
// or for scaled steps of curved families rate |d|_W^2 / |d|_WH^2, with the curvatures H of the
// rows. The coefficients of a learner may be constrained by C b >= 0: then b_i is the best fit of
// such coefficients (cone.cuh). The matrices of a factor are diagonal, and stored as vectors. A
// stump has no matrix H_i: its b_i is the best cut of ordered bins (stump.cuh).
//
// A factor of many levels has a list of its rows by level (level_sums.cuh).
// A design matrix is a sum of parts. A part stores `width` values of each row, and the function of
// the first value; the distances to the functions of the other values are the same in all rows.
//
// Mapping. All blocks are resident and meet in grid barriers. A step has three phases:
//   moments  c_i in chunks of the rows. A warp adds several rows at once, each to its own copy
//            of the k_i sums. The fits follow each other, so that they share X_i in the cache.
//   fits     c_i is the sum over its chunks; a block computes b_i.
//   rows     f of every row, the gradient there and the risk. A row belongs to the same thread in
//            all steps, so that f needs no barrier.
// Scaled steps add a pass over the rows before the last phase, and a barrier.
// A family whose nuisance parameter depends on f adds passes over the rows to the last phase, with
// two barriers each: 17 passes for a median, of which 16 find four bits each, a pass for a shape,
// and a pass for each Newton step, or for eight thresholds of it. If the rows depend on each other,
// pairs of rows add three passes (ranks.cuh); two scans over the rows add four barriers
// (risk_sets.cuh), and two for the maximum of f. No sum uses atomics: on the same device a fit has
// the same bits in every run.
//
// Shared memory. Copies of k sums for each warp, or of as many functions as fit, in windows that
// pass over the rows window after window; in the second phase, three vectors of k instead, and the
// arrays of cone.cuh.
// Cost of a step of a fit. Reads K n (width values, an index) and K n times u; three barriers.
// Source. Hofner, Mayr, Robinzonov & Schmid, "Model-based boosting in R" (2014), Algorithm 1;
// Sieminski & Lee, "Gradient-Boosted Generalised Additive Models with GPU Acceleration" (2023).

#include "block.cuh"
#include "cone.cuh"
#include "distributions.cuh"
#include "floating.cuh"
#include "grid.cuh"
#include "learners.cuh"
#include "level_sums.cuh"
#include "ranks.cuh"
#include "risk_sets.cuh"
#include "stacked_fits.cuh"
#include "stump.cuh"

/// K learners on n rows, and the data of F fits.
template <class T>
struct Designs {
    const int* first;
    const T* values;
    const int* offsets;  // [part][32], from the first function to the function of each value
    const PartPlace* parts;
    const LearnerPlace* learners;
    const long long* by_level;
    long long rows;
    int count, fits, columns;  // columns: functions of all learners

    __device__ RowsByLevel<T> rows_by_level(const LearnerPlace& learner) const {
        const long long* begins = by_level + learner.by_level;
        return {begins, begins + learner.functions + 1, values + parts[learner.begin_part].values,
                learner.functions, rows};
    }
};

// ---- X' W u -------------------------------------------------------------------------

/// Copies of sums in shared memory, which a warp adds to at once: lane l adds to copy
/// l >> shift. Groups of 2^shift functions are `pitch` apart; within a group, the copies follow
/// each other. With a pitch of 32, lanes that add to neighbouring functions use different banks.
struct SumCopies {
    double* sums;
    int shift, pitch;

    __device__ int copies() const { return pitch >> shift; }
    __device__ int size(int functions) const {
        return ((functions + (1 << shift) - 1) >> shift) * pitch;
    }
    __device__ double& operator()(int copy, int function) const {
        const int member = function & ((1 << shift) - 1);
        return sums[(function >> shift) * pitch + (copy << shift) + member];
    }
};

/// A value of a row, to be added to the sum of its function; -1 for none.
template <class T>
struct Entry {
    int function;
    T value;
    double u;
};

/// Adds the rows of a warp, in a part, to the sums of the functions from `begin`.
template <class T>
__device__ void add_part(const Designs<T>& designs, long long part, const RowRange& range,
                         const double* u, const SumCopies& own, int begin, int window) {
    constexpr int steps = 3;  // that are in flight
    const PartPlace place = designs.parts[part];
    const int copies = own.copies(), copy = lane_index() >> own.shift;
    const int j = lane_index() & ((1 << own.shift) - 1);
    const bool adds = copy < copies && j < place.width;
    const int offset = adds ? designs.offsets[part * warp_threads + j] - begin : 0;
    const int width = static_cast<int>(place.width);
    const int count = static_cast<int>(range.end - range.begin);  // at most 2^31 for any memory
    const int* first = designs.first + place.first + range.begin;
    const T* values = designs.values + place.values + range.begin * width + j;
    u += range.begin;
    Entry<T> next[steps];
    const auto read = [&](int start) {
#pragma unroll
        for (int k = 0; k < steps; ++k) {
            const int row = start + k * copies + copy;
            next[k].function = -1;
            if (adds && row < count)
                next[k] = {first[row] + offset, values[static_cast<long long>(row) * width],
                           u[row]};
        }
    };
    read(0);
    for (int start = 0; start < count; start += steps * copies) {
        Entry<T> here[steps];
#pragma unroll
        for (int k = 0; k < steps; ++k) here[k] = next[k];
        read(start + steps * copies);
#pragma unroll
        for (int k = 0; k < steps; ++k) {
            if (static_cast<unsigned>(here[k].function) < static_cast<unsigned>(window))
                own(copy, here[k].function) += static_cast<double>(here[k].value) * here[k].u;
            __syncwarp();
        }
    }
}

/// result = X_i' u over a chunk of the rows. `sums`: `SumCopies` for each warp.
template <class T>
__device__ void accumulate_moments(const Designs<T>& designs, const LearnerPlace& learner,
                                   int chunk, const double* u, double* sums, double* result) {
    const int functions = static_cast<int>(learner.functions);
    const int window = static_cast<int>(learner.window);
    const int shift = static_cast<int>(learner.shift), pitch = static_cast<int>(learner.pitch);
    const int size = SumCopies{sums, shift, pitch}.size(window);
    const SumCopies own{sums + warp_index() * size, shift, pitch};
    const int copies = own.copies();
    const RowRange range(designs.rows, static_cast<int>(learner.chunks), chunk, warp_count());
    for (int begin = 0; begin < functions; begin += window) {
        const int end = min(window, functions - begin);
        clear(sums, static_cast<long long>(warp_count()) * size);
        for (long long part = learner.begin_part; part < learner.end_part; ++part)
            add_part(designs, part, range, u, own, begin, end);
        sum_parts(warp_count() * copies, end, result + begin, [&](int part, long long f) {
            const SumCopies some{sums + part / copies * size, shift, pitch};
            return some(part % copies, static_cast<int>(f));
        });
    }
}

/// The sums of all chunks of all learners, for all fits; `pairs` are a learner and a chunk.
template <class T>
__device__ void accumulate_all_moments(const Designs<T>& designs, const int* pairs, int pair_count,
                                       const double* u, double* shared, double* sums) {
    const long long units = static_cast<long long>(pair_count) * designs.fits;
    for (long long unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const long long pair = unit / designs.fits, fit = unit % designs.fits;
        const int chunk = pairs[2 * pair + 1];
        const LearnerPlace& learner = designs.learners[pairs[2 * pair]];
        const double* own = u + fit * designs.rows;
        const long long partial = learner.by_level < 0 ? chunk : 0;
        double* result =
            sums + learner.sums * designs.fits + (partial * designs.fits + fit) * learner.functions;
        if (learner.by_level < 0)
            accumulate_moments(designs, learner, chunk, own, shared, result);
        else
            designs.rows_by_level(learner).add(chunk, learner.chunks, own, result);
    }
}

// ---- a fit of each learner ----------------------------------------------------------

/// The matrices of the learners: [learner][system][function][function], or diagonals. All fits
/// share a single system, or each fit has a system.
struct Matrices {
    const double *gram, *inverse;
    const double* cones;  // [learner][system]: the projection, then the matrix of a `Cone`
    int systems;

    __device__ long long system(int fit) const { return systems == 1 ? 0 : fit; }
    __device__ long long place(const LearnerPlace& learner, int fit) const {
        return learner.matrix * systems + system(fit) * learner.entries;
    }
    __device__ Cone cone(const LearnerPlace& learner, int fit) const {
        const long long size = learner.inequalities, product = size * learner.functions;
        const double* projection =
            cones + learner.cone * systems + system(fit) * (product + size * size);
        return {projection, projection + product, static_cast<int>(size),
                static_cast<int>(learner.functions)};
    }
};

/// The fitted coefficients, and how much they reduce the sum of squares.
struct Fitted {
    double* coefficients;  // [fit][function of all learners]
    double* scores;        // [fit][learner]
};

/// The moment c of a function, in a fit: the sum of its partial sums.
struct Moments {
    const double* sums;
    long long partials, stride;  // stride: from a sum to the next sum

    __device__ double operator()(int f) const {
        double total = 0;
        for (long long i = 0; i < partials; ++i) total += sums[i * stride + f];
        return total;
    }
};

/// Writes b = H c, or the best b that obeys the inequalities. Returns this thread's part of the
/// score. `shared`: three vectors, as `fit_in_cone` says.
__device__ double fit_by_matrix(const Matrices& matrices, const LearnerPlace& learner, int fit,
                                const Moments& moments, double* shared, double* coefficients) {
    const int functions = static_cast<int>(learner.functions);
    double *c = shared, *b = c + functions, *Gb = b + functions;
    for (int f = threadIdx.x; f < functions; f += blockDim.x) c[f] = moments(f);
    __syncthreads();
    const long long place = matrices.place(learner, fit);
    multiply(matrices.inverse + place, c, functions, functions, b);
    if (learner.inequalities > 0) fit_in_cone(matrices.cone(learner, fit));
    multiply(matrices.gram + place, b, functions, functions, Gb);
    double score = 0;
    for (int f = threadIdx.x; f < functions; f += blockDim.x) {
        score += b[f] * (2 * c[f] - Gb[f]);
        coefficients[f] = b[f];
    }
    return score;
}

/// The same for a diagonal matrix, of any size.
__device__ double fit_by_diagonal(const Matrices& matrices, const LearnerPlace& learner, int fit,
                                  const Moments& moments, double* coefficients) {
    const long long place = matrices.place(learner, fit);
    double score = 0;
    for (int f = threadIdx.x; f < learner.functions; f += blockDim.x) {
        const double c = moments(f), b = matrices.inverse[place + f] * c;
        score += b * (2 * c - matrices.gram[place + f] * b);
        coefficients[f] = b;
    }
    return score;
}

/// The same for the best cut of the bins. The first thread returns the score.
__device__ double fit_by_cut(const Matrices& matrices, const LearnerPlace& learner, int fit,
                             const Moments& moments, double* shared, double* coefficients,
                             BlockReduce<Located<double>>& best) {
    const int bins = static_cast<int>(learner.functions);
    double *c = shared, *g = c + bins;
    const double* weights = matrices.gram + matrices.place(learner, fit);
    for (int f = threadIdx.x; f < bins; f += blockDim.x) {
        c[f] = moments(f);
        g[f] = weights[f];
    }
    const double score = fit_stump(c, g, bins, coefficients, best);
    return threadIdx.x == 0 ? score : 0.0;
}

/// Fits all learners.
template <class T>
__device__ void fit_all(const Designs<T>& designs, const Matrices& matrices, const double* sums,
                        double* shared, const Fitted& fitted, BlockReduce<double>& reduce,
                        BlockReduce<Located<double>>& best) {
    const long long units = static_cast<long long>(designs.count) * designs.fits;
    for (long long unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const int fit = static_cast<int>(unit % designs.fits);
        const LearnerPlace& learner = designs.learners[unit / designs.fits];
        const Moments moments{sums + learner.sums * designs.fits + fit * learner.functions,
                              learner.partials, designs.fits * learner.functions};
        double* coefficients =
            fitted.coefficients + fit * static_cast<long long>(designs.columns) + learner.column;
        double score;
        if (learner.kind == by_matrix)
            score = fit_by_matrix(matrices, learner, fit, moments, shared, coefficients);
        else if (learner.kind == by_diagonal)
            score = fit_by_diagonal(matrices, learner, fit, moments, coefficients);
        else
            score = fit_by_cut(matrices, learner, fit, moments, shared, coefficients, best);
        score = reduce(score, Add<double>());
        if (threadIdx.x == 0)
            fitted.scores[fit * static_cast<long long>(designs.count) + unit / designs.fits] =
                score;
    }
}

/// The first of the learners that reduce the sum of squares most, in every thread.
__device__ int select(const double* scores, int count, BlockReduce<Located<double>>& reduce) {
    Located<double> best = ArgMax<double>::identity();
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        best = ArgMax<double>()(best, {scores[i], i});
    return reduce(best, ArgMax<double>()).index;
}

/// X_i b of 32 rows, for which all lanes of a warp call it: in lane l, of the row `start` + l.
template <class T>
__device__ double fitted_rows(const Designs<T>& designs, const LearnerPlace& learner,
                              const double* b, long long start) {
    const int shift = static_cast<int>(learner.shift), lanes = 1 << shift;
    const int at_once = warp_threads >> shift;  // rows
    const int own = lane_index() >> shift, j = lane_index() & (lanes - 1);
    double result = 0;
    for (long long part = learner.begin_part; part < learner.end_part; ++part) {
        const PartPlace place = designs.parts[part];
        const int offset = j < place.width ? designs.offsets[part * warp_threads + j] : 0;
#pragma unroll 4
        for (int turn = 0; turn < lanes; ++turn) {
            const long long row = start + turn * at_once + own;
            double sum = 0;
            if (j < place.width && row < designs.rows)
                sum = static_cast<double>(designs.values[place.values + row * place.width + j]) *
                      b[designs.first[place.first + row] + offset];
            for (int distance = lanes / 2; distance > 0; distance /= 2)
                sum += shuffle_xor(sum, distance);
            sum = __shfl_sync(whole_warp, sum, (lane_index() % at_once) << shift);
            if (lane_index() / at_once == turn) result += sum;
        }
    }
    return result;
}

// ---- the rows of each fit -----------------------------------------------------------

/// The arrays of the fits, by row. The strides are n, or 0 for values that all fits share.
struct Observations {
    const double *y, *weights, *held_out;  // weights and held_out may be null
    long long y_stride, weight_stride;
    long long rows;
    double *f, *u;  // [fit][row]

    __device__ double response(int fit, long long row) const { return y[fit * y_stride + row]; }
    __device__ double weight(int fit, long long row) const {
        return weights ? weights[fit * weight_stride + row] : 1.0;
    }
    __device__ double weight_held_out(int fit, long long row) const {
        return held_out ? held_out[fit * rows + row] : 0.0;
    }
    /// The binary form of |y - f|: it has the order of the values.
    __device__ unsigned long long residual_bits(int fit, long long row) const {
        const double r = response(fit, row) - f[fit * rows + row];
        return static_cast<unsigned long long>(__double_as_longlong(fabs(r)));
    }
};

/// Halves the number of values of each lane, down to 1: lanes that are `half` apart exchange the
/// values that the other lane keeps.
template <int half, class Op>
__device__ __forceinline__ void exchange(double* own, Op op) {
    if constexpr (half > 0) {
        const bool is_upper = (lane_index() & half) != 0;
#pragma unroll
        for (int i = 0; i < half; ++i) {
            const double sent = is_upper ? own[i] : own[i + half];
            const double kept = is_upper ? own[i + half] : own[i];
            own[i] = op(kept, shuffle_xor(sent, half));
        }
        exchange<half / 2>(own, op);
    }
}

/// The reductions of `size` values, a power of two, over the lanes of a warp: lane l has the
/// reduction of value l % size. Takes size - 1 + log(32 / size) shuffles.
template <int size, class Op>
__device__ __forceinline__ double reduce_values(double* own, Op op) {
    exchange<size / 2>(own, op);
    double result = own[0];
#pragma unroll
    for (int distance = size; distance < warp_threads; distance *= 2)
        result = op(result, shuffle_xor(result, distance));
    return result;
}

/// Sums over the rows of each fit: the rows are divided into `chunks`, a chunk for each block.
struct RowSums {
    static constexpr int along = 16;        // the first sum that the next pass does not replace
    static constexpr int most = along + 2;  // sums of a fit

    long long rows;
    int fits, chunks;
    double* partial;  // [fit][sum][chunk]
    double* storage;  // of the block: `most` for each warp, then `most` totals

    /// add(fit, chunk) is called by the block, and returns the function (row, sums) that adds a
    /// row. It is called by whole warps, also for rows after the last. A grid barrier must follow.
    template <int size, int first = 0, class Op, class Add>
    __device__ void pass(Op op, Add add) const {
        for (int unit = blockIdx.x; unit < fits * chunks; unit += gridDim.x) {
            const int fit = unit / chunks, chunk = unit % chunks;
            const auto add_row = add(fit, chunk);
            double own[size];
#pragma unroll
            for (int i = 0; i < size; ++i) own[i] = Op::identity();
            const long long step = static_cast<long long>(chunks) * blockDim.x;
#pragma unroll 1
            for (long long row = chunk * static_cast<long long>(blockDim.x) + threadIdx.x;
                 row - lane_index() < rows; row += step)
                add_row(row, own);
            const double of_warp = reduce_values<size>(own, op);
            if (lane_index() < size) storage[warp_index() * most + lane_index()] = of_warp;
            __syncthreads();
            if (threadIdx.x < size) {
                double total = Op::identity();
                for (int warp = 0; warp < warp_count(); ++warp)
                    total = op(total, storage[warp * most + threadIdx.x]);
                partial[(fit * most + first + threadIdx.x) * static_cast<long long>(chunks) +
                        chunk] = total;
            }
            __syncthreads();
        }
    }

    /// The sums of a fit, for all threads of the block. A block barrier must follow.
    template <int size, int first = 0, class Op>
    __device__ const double* totals(int fit, Op op) const {
        double* found = storage + warp_count() * most;
        for (int i = warp_index(); i < size; i += warp_count()) {
            const double* own = partial + (fit * most + first + i) * static_cast<long long>(chunks);
            double total = Op::identity();
            for (int chunk = lane_index(); chunk < chunks; chunk += warp_threads)
                total = op(total, own[chunk]);
            total = warp_reduce(total, op);
            if (lane_index() == 0) found[i] = total;
        }
        __syncthreads();
        return found;
    }

    /// A block calls finish(fit, sums) in a single thread, for each of its fits. Another grid
    /// barrier must follow before other blocks read the results.
    template <int size, class Op, class Finish>
    __device__ void finish(Op op, Finish finish) const {
        for (int fit = blockIdx.x; fit < fits; fit += gridDim.x) {
            const double* found = totals<size>(fit, op);
            if (threadIdx.x == 0) finish(fit, found);
            __syncthreads();
        }
    }
};

// ---- nuisance parameters ------------------------------------------------------------

/// The smaller of two values.
struct Minimum {
    static __device__ __forceinline__ double identity() { return Floating<double>::infinity(); }
    __device__ __forceinline__ double operator()(double a, double b) const { return fmin(a, b); }
};

/// The search for a weighted median of a fit, four bits of its binary form in each pass.
struct MedianSearch {
    unsigned long long key;  // the bits that are known, zeros below
    double below, through;   // weights of the values below the key, and up to the key
    double total;            // weight of all values
};

/// Finds the weighted medians of |y - f|: the mean of the least value whose weight, with the values
/// below, is at least half of all, and of the least value whose weight is more than half.
/// Ends with a grid barrier.
__device__ void find_medians(const RowSums& sums, const Observations& data, MedianSearch* searches,
                             double* medians, long long stride, GridBarrier& barrier) {
    constexpr int bits = 4, digits = 1 << bits;
    const Add<double> add;
#pragma unroll 1
    for (int shift = 64 - bits; shift >= 0; shift -= bits) {
        const bool is_first = shift == 64 - bits;
        sums.pass<digits>(add, [&](int fit, int) {
            const unsigned long long known = is_first ? 0 : searches[fit].key >> shift >> bits;
            return [=, &data](long long row, double* own) {
                if (row >= sums.rows) return;
                const unsigned long long key = data.residual_bits(fit, row) >> shift;
                if (!is_first && key >> bits != known) return;
                const double weight = data.weight(fit, row);
#pragma unroll
                for (int digit = 0; digit < digits; ++digit)
                    own[digit] += static_cast<int>(key % digits) == digit ? weight : 0.0;
            };
        });
        barrier.wait();
        sums.finish<digits>(add, [&](int fit, const double* counts) {
            MedianSearch search = is_first ? MedianSearch{} : searches[fit];
            if (is_first)
                for (int digit = 0; digit < digits; ++digit) search.total += counts[digit];
            int digit = 0;
            while (digit < digits - 1 && 2 * (search.below + counts[digit]) < search.total)
                search.below += counts[digit++];
            search.through = search.below + counts[digit];
            search.key |= static_cast<unsigned long long>(digit) << shift;
            searches[fit] = search;
        });
        barrier.wait();
    }
    sums.pass<1>(Minimum(), [&](int fit, int) {
        const unsigned long long key = searches[fit].key;
        return [=, &data](long long row, double* own) {
            if (row >= sums.rows || data.weight(fit, row) == 0) return;
            const unsigned long long bits_of_row = data.residual_bits(fit, row);
            if (bits_of_row > key)
                own[0] = fmin(own[0], __longlong_as_double(static_cast<long long>(bits_of_row)));
        };
    });
    barrier.wait();
    sums.finish<1>(Minimum(), [&](int fit, const double* next) {
        const MedianSearch& search = searches[fit];
        const double lower = __longlong_as_double(static_cast<long long>(search.key));
        const double upper = 2 * search.through > search.total ? lower : next[0];
        medians[fit * stride] = (lower + upper) / 2;
    });
    barrier.wait();
}

/// The shapes: a single pass. Ends with a grid barrier.
template <class Family>
__device__ void find_shapes(const Family& family, const RowSums& sums, const Observations& data,
                            double* shapes, long long stride, GridBarrier& barrier) {
    const Add<double> add;
    sums.pass<2>(add, [&](int fit, int) {
        return [=, &data, &family](long long row, double* own) {
            if (row >= sums.rows) return;
            const double weight = data.weight(fit, row);
            if (weight == 0) return;
            own[0] += weight * family.term(data.response(fit, row), data.f[fit * sums.rows + row]);
            own[1] += weight;
        };
    });
    barrier.wait();
    sums.finish<2>(add, [&](int fit, const double* found) {
        shapes[fit * stride] = family.solve(found[0] / found[1]);
    });
    barrier.wait();
}

/// The thetas, or the scales: a pass for the first guess, then a pass for each Newton step, until
/// all fits are done. Ends with a grid barrier.
template <class Family>
__device__ void find_thetas(const Family& family, const RowSums& sums, const Observations& data,
                            ThetaSearch* searches, double* thetas, long long stride,
                            GridBarrier& barrier) {
    const Add<double> add;
    bool is_first = true, is_done = false;
    while (!is_done) {
        sums.pass<2>(add, [&](int fit, int) {
            const bool rests = !is_first && searches[fit].done;
            const double theta = is_first ? 0 : thetas[fit * stride];
            return [=, &data, &family](long long row, double* own) {
                if (row >= sums.rows || rests) return;
                const double weight = data.weight(fit, row);
                if (weight == 0) return;
                const double y = data.response(fit, row), f = data.f[fit * sums.rows + row];
                const Two found = is_first ? family.moments(y, f) : family.terms(y, f, theta);
                own[0] += weight * found.first;
                own[1] += weight * found.second;
            };
        });
        barrier.wait();
        sums.finish<2>(add, [&](int fit, const double* found) {
            const Two both{found[0], found[1]};
            if (is_first)
                searches[fit] = family.start(both);
            else if (!searches[fit].done)
                searches[fit].update(both);
            thetas[fit * stride] = searches[fit].theta();
        });
        barrier.wait();
        is_first = false;
        is_done = true;
        for (int fit = 0; fit < sums.fits; ++fit) is_done = is_done && searches[fit].done;
    }
}

/// sums[i] = the weighted sum of part(i, class, f) of the rows, for i below `size`, then
/// finish(search), for each fit whose search is not done: a pass for each 16 sums. Ends with a grid
/// barrier.
template <class SearchOf, class Part, class Finish>
__device__ void sum_classes(const RowSums& sums, const Observations& data, int size, bool is_first,
                            SearchOf search_of, Part part, Finish finish, GridBarrier& barrier) {
    constexpr int at_once = RowSums::along;
    const Add<double> add;
    for (int begin = 0; begin < size; begin += at_once) {
        sums.pass<at_once>(add, [&](int fit, int) {
            const ThresholdSearch search = search_of(fit);
            const bool rests = !is_first && search.done();
            return [=, &data](long long row, double* own) {
                if (row >= sums.rows || rests) return;
                const double weight = data.weight(fit, row);
                if (weight == 0) return;
                const int y = static_cast<int>(data.response(fit, row));
                const double f = data.f[fit * sums.rows + row];
#pragma unroll
                for (int i = 0; i < at_once; ++i)
                    if (begin + i < size) own[i] += weight * part(search, begin + i, y, f);
            };
        });
        barrier.wait();
        sums.finish<at_once>(add, [&](int fit, const double* found) {
            const ThresholdSearch search = search_of(fit);
            if (!is_first && search.done()) return;
            for (int i = 0; i < at_once && begin + i < size; ++i)
                search.sums()[begin + i] = found[i];
            if (begin + at_once >= size) finish(search);
        });
        barrier.wait();
    }
}

/// The thresholds, until all fits are done. Ends with a grid barrier.
__device__ void find_thresholds(int count, const RowSums& sums, const Observations& data,
                                double* searches, double* thresholds, long long stride,
                                GridBarrier& barrier) {
    const auto search_of = [=](int fit) {
        const long long size = ThresholdSearch::size(count);
        return ThresholdSearch{searches + fit * size, thresholds + fit * stride, count};
    };
    sum_classes(
        sums, data, search_of(0).sums_to_start(), true, search_of,
        [](const ThresholdSearch& search, int i, int y, double f) {
            return search.part_of_start(i, y, f);
        },
        [](const ThresholdSearch& search) { search.start(); }, barrier);
    bool is_done = false;
    while (!is_done) {
        sum_classes(
            sums, data, search_of(0).sums_to_update(), false, search_of,
            [](const ThresholdSearch& search, int i, int y, double f) {
                return search.part_of_update(i, y, f);
            },
            [](const ThresholdSearch& search) { search.update(); }, barrier);
        is_done = true;
        for (int fit = 0; fit < sums.fits; ++fit) is_done = is_done && search_of(fit).done();
    }
}

/// The numbers of a nuisance parameter.
template <class Family>
__device__ int nuisances_of(const Family& family) {
    if constexpr (Family::nuisance == Nuisance::thresholds)
        return family.count();
    else
        return 1;
}

/// The parameter s at a place of the path, as the functions of the family take it.
template <class Family>
__device__ auto read_nuisance(const Family& family, const double* place) {
    if constexpr (Family::nuisance == Nuisance::fixed)
        return family.parameter;
    else if constexpr (Family::nuisance == Nuisance::thresholds)
        return place;
    else
        return *place;
}

/// nuisance[fit * stride] = the parameter s of each fit, at its f. Ends with a grid barrier.
template <class Family>
__device__ void estimate(const Family& family, const RowSums& sums, const Observations& data,
                         double* searches, double* nuisance, long long stride,
                         GridBarrier& barrier) {
    if constexpr (Family::nuisance == Nuisance::median)
        find_medians(sums, data, reinterpret_cast<MedianSearch*>(searches), nuisance, stride,
                     barrier);
    else if constexpr (Family::nuisance == Nuisance::shape)
        find_shapes(family, sums, data, nuisance, stride, barrier);
    else if constexpr (Family::nuisance == Nuisance::thresholds)
        find_thresholds(family.count(), sums, data, searches, nuisance, stride, barrier);
    else
        find_thetas(family, sums, data, reinterpret_cast<ThetaSearch*>(searches), nuisance, stride,
                    barrier);
}

// ---- the loop -----------------------------------------------------------------------

/// The results of each fit and step; step 0 is the start.
struct Paths {
    int* selected;     // [fit][step - 1]
    double* updates;   // [fit][step - 1][function], padded to `functions`
    double* risk;      // [fit][step]
    double* held_out;  // [fit][step]
    double* nuisance;  // [fit][step][number]
    int steps, functions, nuisances;

    __device__ long long place(int fit, int step) const { return fit * (steps + 1LL) + step; }
    __device__ double* nuisance_at(int fit, int step) const {
        return nuisance + place(fit, step) * nuisances;
    }
    /// Written by the block, before a step is made.
    __device__ void write(int fit, int step, int learner, const double* b, int count, double size) {
        const long long place = fit * static_cast<long long>(steps) + step - 1;
        if (threadIdx.x == 0) selected[place] = learner;
        for (int f = threadIdx.x; f < functions; f += blockDim.x)
            updates[place * functions + f] = f < count ? size * b[f] : 0.0;
    }
};

/// The gradient at a row's f, written to u, and its losses, added to `own`.
template <class Family, class Parameter>
__device__ __forceinline__ void evaluate(const Family& family, const Observations& data, int fit,
                                         long long row, double f, Parameter s, double* own) {
    const double y = data.response(fit, row), weight = data.weight(fit, row);
    const double held_out = data.weight_held_out(fit, row);
    data.u[fit * data.rows + row] = weight == 0 ? 0.0 : weight * family.gradient(y, f, s);
    if (weight == 0 && held_out == 0) return;
    const double loss = family.loss(y, f, s);
    if (weight != 0) own[0] += weight * loss;  // the loss of a row left out may be infinite
    if (held_out != 0) own[1] += held_out * loss;
}

template <class T>
__device__ Designs<T> designs_of(const StackedFits<T>& all) {
    return {all.first,    all.values, all.offsets, all.parts, all.learners,
            all.by_level, all.rows,   all.count,   all.fits,  all.columns};
}

template <class T>
__device__ Observations observations_of(const StackedFits<T>& all) {
    return {all.y,    all.weights, all.held_out, all.y_stride, all.weight_stride,
            all.rows, all.f,       all.u};
}

/// |d|_W^2 and |d|_WH^2 of a row, added to `own`: d is the fit of the chosen learner, and H the
/// curvature.
template <class Family, class Parameter>
__device__ __forceinline__ void add_curvature(const Family& family, const Observations& data,
                                              int fit, long long row, double d, Parameter s,
                                              double* own) {
    const double weight = data.weight(fit, row);
    if (weight == 0) return;
    const double y = data.response(fit, row);
    own[0] += weight * d * d;
    if constexpr (Family::nuisance == Nuisance::risk_sets)
        own[1] += d * d * curvature_in_risk_set(y, weight, data.u[fit * data.rows + row]);
    else
        own[1] += weight * d * d * family.curvature(y, data.f[fit * data.rows + row], s);
}

/// The scale of f in a fit.
struct Scale {
    double weight, mean;  // of all rows
    double inverse;       // 1 / sd(f), or 1 if f is constant
};

/// The weight of a row and the weighted f, added to `own`.
__device__ void add_to_mean(const Observations& data, int fit, long long row, double f,
                            double* own) {
    const double weight = data.weight(fit, row);
    if (weight == 0) return;
    own[0] += weight;
    own[1] += weight * f;
}

/// The scales, after a pass that adds to the means. Begins and ends with a grid barrier.
__device__ void find_scales(const RowSums& sums, const Observations& data, Scale* scales,
                            GridBarrier& barrier) {
    const Add<double> add;
    barrier.wait();
    sums.finish<2>(add, [&](int fit, const double* found) {
        scales[fit] = {found[0], found[1] / found[0], 1};
    });
    barrier.wait();
    sums.pass<1>(add, [&](int fit, int) {
        const double mean = scales[fit].mean;
        return [=, &data](long long row, double* own) {
            if (row >= data.rows) return;
            const double weight = data.weight(fit, row);
            const double distance = data.f[fit * data.rows + row] - mean;
            if (weight != 0) own[0] += weight * distance * distance;
        };
    });
    barrier.wait();
    sums.finish<1>(add, [&](int fit, const double* found) {
        const double freedom = fmax(scales[fit].weight - 1, 1.0);
        if (found[0] > 0) scales[fit].inverse = sqrt(freedom / found[0]);
    });
    barrier.wait();
}

/// The gradient of a row among all pairs, written to u, and its part of the `PairSums`.
__device__ void evaluate_pairs(const Observations& data, int fit, long long row, double scale,
                               double* own) {
    const OtherClass others = compare_row(data, fit, row, scale);
    const double weight = data.weight(fit, row);
    const bool is_one = data.response(fit, row) == 1;
    data.u[fit * data.rows + row] = weight == 0 ? 0.0 : weight * others.gradient;
    PairSums::add(own, weight, is_one, others.not_below);
    if (data.held_out)
        PairSums::add(own + PairSums::count, data.held_out[fit * data.rows + row], is_one,
                      others.held_out_not_below);
}

/// The resident blocks of a multiprocessor. The search for thresholds needs the registers of two
/// blocks: with fewer registers it spills.
template <class Family>
constexpr int resident_blocks() {
    return Family::nuisance == Nuisance::thresholds ? 1 : learner_blocks_per_multiprocessor;
}

template <class T, class Family, int threads>
__global__ void __launch_bounds__(threads, resident_blocks<Family>())
    boost_stacked(const StackedFits<T> all) {
    __shared__ BlockReduce<double>::Storage sum_storage;
    __shared__ BlockReduce<Located<double>>::Storage best_storage;
    __shared__ double row_storage[(threads / warp_threads + 1) * RowSums::most];
    BlockReduce<double> reduce(sum_storage);
    BlockReduce<Located<double>> best(best_storage);
    const Designs<T> designs = designs_of(all);
    const Matrices matrices{all.gram, all.inverse, all.cones, all.systems};
    const Fitted fitted{all.coefficients, all.scores};
    const Observations data = observations_of(all);
    const RowSums row_sums{all.rows, all.fits, all.row_chunks, all.partial, row_storage};
    const Family family{all.parameter};
    Paths paths{all.selected, all.updates, all.risk,      all.held_out_risk,
                all.nuisance, all.steps,   all.functions, nuisances_of(family)};
    GridBarrier barrier(all.arrived);
    double* shared = reinterpret_cast<double*>(dynamic_shared_memory());
    const Add<double> add;
    constexpr bool is_fixed = Family::nuisance == Nuisance::fixed;
    constexpr bool has_pairs = Family::nuisance == Nuisance::pairs;
    constexpr bool has_risk_sets = Family::nuisance == Nuisance::risk_sets;
    constexpr bool has_parameter = !is_fixed && !has_pairs && !has_risk_sets;
    const RiskSets risk_sets{all.places,    all.risk_sets, reinterpret_cast<Two*>(all.partial),
                             all.searches,  all.rows,      all.fits,
                             all.row_chunks};
    const auto chosen = [&](int fit) {
        const long long count = all.count;
        return select(all.scores + fit * count, all.count, best);
    };

    for (int step = all.begin; step < all.end; ++step) {
        if (step > 0) {
            accumulate_all_moments(designs, all.pairs, all.pair_count, all.u, shared, all.sums);
            barrier.wait();
            fit_all(designs, matrices, all.sums, shared, fitted, reduce, best);
            barrier.wait();
        }
        if constexpr (Family::is_curved) {
            if (all.scaled && step > 0) {
                row_sums.pass<2, RowSums::along>(add, [&](int fit, int) {
                    const LearnerPlace* learner = all.learners + chosen(fit);
                    const double* b = all.coefficients + fit * static_cast<long long>(all.columns) +
                                      learner->column;
                    const auto s = read_nuisance(family, paths.nuisance_at(fit, step - 1));
                    return [=, &designs, &data, &family](long long row, double* own) {
                        const double d = fitted_rows(designs, *learner, b, row - lane_index());
                        if (row < data.rows) add_curvature(family, data, fit, row, d, s, own);
                    };
                });
                barrier.wait();
            }
        }
        const auto update = [&](int fit, int chunk) {
            const LearnerPlace* learner = nullptr;
            const double* b = all.coefficients + fit * static_cast<long long>(all.columns);
            double size = all.rates[fit];
            if (step > 0) {
                const int j = chosen(fit);
                learner = all.learners + j;
                b += learner->column;
                if (Family::is_curved && all.scaled) {
                    const double* along = row_sums.totals<2, RowSums::along>(fit, add);
                    if (along[1] > 0) size *= along[0] / along[1];
                }
                if (chunk == 0)
                    paths.write(fit, step, j, b, static_cast<int>(learner->functions), size);
            }
            return [=, &designs, &data, &family](long long row, double* own) {
                const double change =
                    learner ? fitted_rows(designs, *learner, b, row - lane_index()) : 0.0;
                if (row >= data.rows) return;
                double& f = data.f[fit * data.rows + row];
                const double after = f + size * change;
                f = after;
                if constexpr (is_fixed)
                    evaluate(family, data, fit, row, after, family.parameter, own);
                else if constexpr (has_pairs)
                    add_to_mean(data, fit, row, after, own);
                else if constexpr (has_risk_sets)
                    own[0] = fmax(own[0], after);
            };
        };
        if constexpr (has_risk_sets) {
            row_sums.pass<1>(Maximum(), update);
            barrier.wait();
            row_sums.finish<1>(Maximum(),
                               [&](int fit, const double* most) { all.searches[fit] = most[0]; });
            barrier.wait();
            scan_risk_sets(risk_sets, data, barrier);
            row_sums.pass<2>(add, [&](int fit, int) {
                return [=, &data, &risk_sets](long long place, double* own) {
                    if (place < data.rows) evaluate_in_risk_sets(risk_sets, data, fit, place, own);
                };
            });
        } else {
            row_sums.pass<2>(add, update);
        }
        if constexpr (has_pairs) {
            const auto scales = reinterpret_cast<Scale*>(all.searches);
            find_scales(row_sums, data, scales, barrier);
            row_sums.pass<8>(add, [&](int fit, int) {
                const double scale = scales[fit].inverse;
                return [=, &data](long long row, double* own) {
                    if (row < data.rows) evaluate_pairs(data, fit, row, scale, own);
                };
            });
        } else if constexpr (has_parameter) {
            const long long stride = paths.nuisances * (all.steps + 1LL);
            estimate(family, row_sums, data, all.searches, paths.nuisance_at(0, step), stride,
                     barrier);
            row_sums.pass<2>(add, [&](int fit, int) {
                const auto s = read_nuisance(family, paths.nuisance_at(fit, step));
                return [=, &data, &family](long long row, double* own) {
                    if (row < data.rows)
                        evaluate(family, data, fit, row, data.f[fit * data.rows + row], s, own);
                };
            });
        }
        barrier.wait();
        row_sums.finish<has_pairs ? 8 : 2>(add, [&](int fit, const double* sums) {
            const long long place = paths.place(fit, step);
            paths.risk[place] = has_pairs ? PairSums::risk(sums) : sums[0];
            paths.held_out[place] = has_pairs ? PairSums::risk(sums + PairSums::count) : sums[1];
            if constexpr (!has_parameter) *paths.nuisance_at(fit, step) = family.parameter;
        });
    }
}

// ---- the loop for families of several predictors --------------------------------------
//
// A model has P fits, its predictors. The row phase belongs to a model: gradients and losses need
// all predictors of a row. A joint step updates all predictors by one learner; other steps update a
// single predictor, in turn, or the predictor whose best learner reduces the risk most. The latter
// is found from the risks of the P candidates: a pass over the rows for each, and two barriers
// more. Scaled steps take a pass and a barrier, too.

/// Predictors of a model that are updated by one learner, from fit `first` to `last` - 1.
struct Update {
    int first, last, learner;
};

/// The first learner with the largest sum of scores over some predictors; [predictor][learner].
__device__ int select_learner(const double* scores, const int* allowed, int first, int last,
                              int count, BlockReduce<Located<double>>& reduce) {
    Located<double> best = ArgMax<double>::identity();
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        double total = 0;
        for (int p = first; p < last; ++p) {
            const long long place = p * static_cast<long long>(count) + i;
            total += allowed && !allowed[place] ? -Floating<double>::infinity() : scores[place];
        }
        best = ArgMax<double>()(best, {total, i});
    }
    return reduce(best, ArgMax<double>()).index;
}

/// The first of the predictors whose update leaves the least risk.
__device__ __forceinline__ int least_candidate(const double* candidates, int predictors) {
    int least = 0;
    double risk = Floating<double>::infinity();
    for (int p = 0; p < predictors; ++p) {
        if (!(candidates[p] < risk)) continue;
        risk = candidates[p];
        least = p;
    }
    return least;
}

/// `evaluate` of all predictors of a row, which follow the fit `first`.
template <class Family>
__device__ __forceinline__ void evaluate_all(const Family& family, const Observations& data,
                                             int predictors, int first, long long row,
                                             double* own) {
    const long long place = first * data.rows + row;
    const double y = data.response(first, row), weight = data.weight(first, row);
    const double held_out = data.held_out ? data.held_out[place] : 0.0;
    const PredictorRow f{data.f + place, data.rows};
    const GradientRow u{data.u + place, data.rows, weight};
    if (weight == 0)
        for (int p = 0; p < predictors; ++p) u(p, 0.0);
    else
        family.gradient(y, f, u);
    if (weight == 0 && held_out == 0) return;
    const double loss = family.loss(y, f);
    if (weight != 0) own[0] += weight * loss;  // the loss of a row left out may be infinite
    if (held_out != 0) own[1] += held_out * loss;
}

/// The row phase of models of several predictors.
template <class T, class Family>
struct CoupledRows {
    const StackedFits<T>& all;
    const Family& family;
    const Designs<T>& designs;
    const Observations& data;
    BlockReduce<Located<double>>& best;
    double* storage;

    /// Sums for each model, or for each update that may be made.
    __device__ RowSums sums(int members) const {
        return {all.rows, all.fits / members, all.row_chunks, all.partial, storage};
    }
    /// How many predictors an update has.
    __device__ int members() const { return Family::is_joint ? all.predictors : 1; }

    /// The best update of the fits from `first`, for all threads of the block.
    __device__ Update update(int first) const {
        const int p = first % all.predictors;
        const long long place = (first - p) * static_cast<long long>(all.count);
        const int learner =
            select_learner(all.scores + place, all.allowed, p, p + members(), all.count, best);
        return {first, first + members(), learner};
    }
    __device__ double along(const Update& update, int fit, long long row) const {
        const LearnerPlace& learner = all.learners[update.learner];
        const double* b =
            all.coefficients + fit * static_cast<long long>(all.columns) + learner.column;
        return fitted_rows(designs, learner, b, row - lane_index());
    }
    /// The size of the steps of an update, after `add_curvatures`; for all threads of the block.
    __device__ double size(const Update& update) const {
        const double rate = all.rates[update.first];
        if (!all.scaled) return rate;
        const double* along = sums(members()).template totals<2, RowSums::along>(
            update.first / members(), Add<double>());
        return along[1] > 0 ? rate * along[0] / along[1] : rate;
    }
    /// The first fit that a step updates.
    __device__ int first_updated(int model, int step) const {
        const int first = model * all.predictors;
        if (Family::is_joint) return first;
        if (all.is_cyclic) return first + (all.made + step - 1) % all.predictors;
        return first + least_candidate(all.candidates + first, all.predictors);
    }

    /// The curvatures along the best updates, or along the updates that are made in turn. A grid
    /// barrier must follow. The gradient is not needed any more: u has the fits of the learners.
    __device__ void add_curvatures(int step) const {
        sums(members()).template pass<2, RowSums::along>(Add<double>(), [&](int unit, int) {
            const Update own_update = update(unit * members());
            const int first = own_update.first - own_update.first % all.predictors;
            const bool rests = !Family::is_joint && all.is_cyclic &&
                               own_update.first != first_updated(first / all.predictors, step);
            return [=, *this](long long row, double* own) {
                if (rests) return;
                for (int fit = own_update.first; fit < own_update.last; ++fit) {
                    const double d = along(own_update, fit, row);
                    if (row < data.rows) data.u[fit * data.rows + row] = d;
                }
                const double weight = row < data.rows ? data.weight(first, row) : 0.0;
                if (weight == 0) return;
                const long long place = first * data.rows + row;
                const PredictorRow f{data.f + place, data.rows};
                const CurvatureRow take{
                    data.u + place,          data.rows, weight, own_update.first - first,
                    own_update.last - first, own};
                family.curvature(data.response(first, row), f, take);
            };
        });
    }

    /// candidates[fit] = the risk of the model if only this predictor is updated. Ends with a grid
    /// barrier.
    __device__ void find_candidates(GridBarrier& barrier) const {
        const Add<double> add;
        sums(1).template pass<1>(add, [&](int fit, int) {
            const Update own_update = update(fit);
            const double own_size = size(own_update);
            const int p = fit % all.predictors, first = fit - p;
            return [=, *this](long long row, double* own) {
                const double change = own_size * along(own_update, fit, row);
                const double weight = row < data.rows ? data.weight(first, row) : 0.0;
                if (weight == 0) return;
                const PredictorRow f{data.f + first * data.rows + row, data.rows, p, change};
                own[0] += weight * family.loss(data.response(first, row), f);
            };
        });
        barrier.wait();
        sums(1).template finish<1>(
            add, [&](int fit, const double* risk) { all.candidates[fit] = risk[0]; });
        barrier.wait();
    }

    /// Updates f, and evaluates gradients and risks there; the start if `step` is 0. A grid barrier
    /// must follow.
    __device__ void advance(Paths& paths, int step) const {
        sums(all.predictors).template pass<2>(Add<double>(), [&](int model, int chunk) {
            const int first = model * all.predictors;
            Update own_update{first, first, 0};
            double own_size = 0;
            if (step > 0) {
                own_update = update(first_updated(model, step));
                own_size = size(own_update);
                if (chunk == 0) write(paths, first, step, own_update, own_size);
            }
            return [=, *this](long long row, double* own) {
                for (int fit = own_update.first; fit < own_update.last; ++fit) {
                    const double change = own_size * along(own_update, fit, row);
                    if (row < data.rows) data.f[fit * data.rows + row] += change;
                }
                if (row < data.rows) evaluate_all(family, data, all.predictors, first, row, own);
            };
        });
    }
    __device__ void write(Paths& paths, int first, int step, const Update& update,
                          double size) const {
        const LearnerPlace& learner = all.learners[update.learner];
        for (int fit = first; fit < first + all.predictors; ++fit) {
            const bool is_updated = fit >= update.first && fit < update.last;
            const double* b =
                all.coefficients + fit * static_cast<long long>(all.columns) + learner.column;
            paths.write(fit, step, is_updated ? update.learner : -1, b,
                        is_updated ? static_cast<int>(learner.functions) : 0, size);
        }
    }

    /// The risk of a model belongs to its first predictor.
    __device__ void finish(Paths& paths, int step) const {
        sums(all.predictors).template finish<2>(Add<double>(), [&](int model, const double* risks) {
            for (int p = 0; p < all.predictors; ++p) {
                const long long place = paths.place(model * all.predictors + p, step);
                paths.risk[place] = p == 0 ? risks[0] : 0.0;
                paths.held_out[place] = p == 0 ? risks[1] : 0.0;
                paths.nuisance[place] = 0;
            }
        });
    }
};

template <class T, class Family, int threads>
__global__ void __launch_bounds__(threads, learner_blocks_per_multiprocessor)
    boost_coupled(const StackedFits<T> all) {
    __shared__ BlockReduce<double>::Storage sum_storage;
    __shared__ BlockReduce<Located<double>>::Storage best_storage;
    __shared__ double row_storage[(threads / warp_threads + 1) * RowSums::most];
    BlockReduce<double> reduce(sum_storage);
    BlockReduce<Located<double>> best(best_storage);
    const Designs<T> designs = designs_of(all);
    const Matrices matrices{all.gram, all.inverse, all.cones, all.systems};
    const Fitted fitted{all.coefficients, all.scores};
    const Observations data = observations_of(all);
    const Family family{all.parameter};
    const CoupledRows<T, Family> rows{all, family, designs, data, best, row_storage};
    Paths paths{all.selected, all.updates, all.risk,      all.held_out_risk,
                all.nuisance, all.steps,   all.functions, 1};
    GridBarrier barrier(all.arrived);
    double* shared = reinterpret_cast<double*>(dynamic_shared_memory());

    for (int step = all.begin; step < all.end; ++step) {
        if (step > 0) {
            accumulate_all_moments(designs, all.pairs, all.pair_count, all.u, shared, all.sums);
            barrier.wait();
            fit_all(designs, matrices, all.sums, shared, fitted, reduce, best);
            barrier.wait();
            if (all.scaled) {
                rows.add_curvatures(step);
                barrier.wait();
            }
            if constexpr (!Family::is_joint)
                if (!all.is_cyclic) rows.find_candidates(barrier);
        }
        rows.advance(paths, step);
        barrier.wait();
        rows.finish(paths, step);
    }
}
