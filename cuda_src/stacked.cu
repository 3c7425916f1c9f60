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
// and a pass for each Newton step. No sum uses atomics: on the same device a fit has the same bits
// in every run.
//
// Shared memory. Copies of k sums for each warp, or of as many functions as fit, in windows that
// pass over the rows window after window; in the second phase, three vectors of k instead, and the
// arrays of cone.cuh.
// Cost of a step of a fit. Reads K n (width values, an index) and K n times u; three barriers.
// Source. Hofner, Mayr, Robinzonov & Schmid, "Model-based boosting in R" (2014), Algorithm 1;
// Sieminski & Lee, "Gradient-Boosted Generalised Additive Models with GPU Acceleration" (2023).

#include "block.cuh"
#include "cone.cuh"
#include "families.cuh"
#include "floating.cuh"
#include "grid.cuh"
#include "learners.cuh"
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
    long long rows;
    int count, fits, columns;  // columns: functions of all learners
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
        double* result = sums + learner.sums * designs.fits +
                         (chunk * static_cast<long long>(designs.fits) + fit) * learner.functions;
        accumulate_moments(designs, learner, chunk, u + fit * designs.rows, shared, result);
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

/// The moment c of a function, in a fit: the sum over the chunks of the rows.
struct Moments {
    const double* sums;
    long long functions, chunks, stride;  // stride: from a chunk to the next chunk

    __device__ double operator()(int f) const {
        double total = 0;
        for (long long chunk = 0; chunk < chunks; ++chunk) total += sums[chunk * stride + f];
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
                              learner.functions, learner.chunks, designs.fits * learner.functions};
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

/// The thetas: a pass for the first guess, then a pass for each Newton step, until all fits are
/// done. Ends with a grid barrier.
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
    double* nuisance;  // [fit][step]
    int steps, functions;

    __device__ long long place(int fit, int step) const { return fit * (steps + 1LL) + step; }
    /// Written by the block, before a step is made.
    __device__ void write(int fit, int step, int learner, const double* b, int count, double size) {
        const long long place = fit * static_cast<long long>(steps) + step - 1;
        if (threadIdx.x == 0) selected[place] = learner;
        for (int f = threadIdx.x; f < functions; f += blockDim.x)
            updates[place * functions + f] = f < count ? size * b[f] : 0.0;
    }
};

/// The gradient at a row's f, written to u, and its losses, added to `own`.
template <class Family>
__device__ __forceinline__ void evaluate(const Family& family, const Observations& data, int fit,
                                         long long row, double f, double s, double* own) {
    const double y = data.response(fit, row), weight = data.weight(fit, row);
    const double held_out = data.held_out ? data.held_out[fit * data.rows + row] : 0.0;
    data.u[fit * data.rows + row] = weight == 0 ? 0.0 : weight * family.gradient(y, f, s);
    if (weight == 0 && held_out == 0) return;
    const double loss = family.loss(y, f, s);
    if (weight != 0) own[0] += weight * loss;  // the loss of a row left out may be infinite
    if (held_out != 0) own[1] += held_out * loss;
}

/// |d|_W^2 and |d|_WH^2 of a row, added to `own`: d is the fit of the chosen learner, and H the
/// curvature.
template <class Family>
__device__ __forceinline__ void add_curvature(const Family& family, const Observations& data,
                                              int fit, long long row, double d, double s,
                                              double* own) {
    const double weight = data.weight(fit, row);
    if (weight == 0) return;
    const double square = weight * d * d;
    own[0] += square;
    own[1] += square * family.curvature(data.response(fit, row), data.f[fit * data.rows + row], s);
}

template <class T, class Family, int threads>
__global__ void __launch_bounds__(threads, learner_blocks_per_multiprocessor)
    boost_stacked(const StackedFits<T> all) {
    __shared__ BlockReduce<double>::Storage sum_storage;
    __shared__ BlockReduce<Located<double>>::Storage best_storage;
    __shared__ double row_storage[(threads / warp_threads + 1) * RowSums::most];
    BlockReduce<double> reduce(sum_storage);
    BlockReduce<Located<double>> best(best_storage);
    const Designs<T> designs{all.first, all.values, all.offsets, all.parts,  all.learners,
                             all.rows,  all.count,  all.fits,    all.columns};
    const Matrices matrices{all.gram, all.inverse, all.cones, all.systems};
    const Fitted fitted{all.coefficients, all.scores};
    const Observations data{all.y,    all.weights, all.held_out, all.y_stride, all.weight_stride,
                            all.rows, all.f,       all.u};
    const RowSums row_sums{all.rows, all.fits, all.row_chunks, all.partial, row_storage};
    const Family family{all.parameter};
    Paths paths{all.selected, all.updates, all.risk,     all.held_out_risk,
                all.nuisance, all.steps,   all.functions};
    GridBarrier barrier(all.arrived);
    double* shared = reinterpret_cast<double*>(dynamic_shared_memory());
    const Add<double> add;
    constexpr bool is_fixed = Family::nuisance == Nuisance::fixed;
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
                    const double s =
                        is_fixed ? family.parameter : all.nuisance[paths.place(fit, step - 1)];
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
            };
        };
        row_sums.pass<2>(add, update);
        if constexpr (!is_fixed) {
            double* found = all.nuisance + step;
            estimate(family, row_sums, data, all.searches, found, all.steps + 1, barrier);
            row_sums.pass<2>(add, [&](int fit, int) {
                const double s = found[fit * (all.steps + 1LL)];
                return [=, &data, &family](long long row, double* own) {
                    if (row < data.rows)
                        evaluate(family, data, fit, row, data.f[fit * data.rows + row], s, own);
                };
            });
        }
        barrier.wait();
        row_sums.finish<2>(add, [&](int fit, const double* risks) {
            const long long place = paths.place(fit, step);
            paths.risk[place] = risks[0];
            paths.held_out[place] = risks[1];
            if constexpr (is_fixed) paths.nuisance[place] = family.parameter;
        });
    }
}
