// Component-wise boosting of penalised B-splines with squared loss: the whole loop in a single
// launch, with no host synchronisation between steps. A device with a watchdog needs several
// launches; each continues from the state after the previous launch.
//
// Problem. K learners, each a basis X_i of n rows and k functions, of which `width`
// neighbouring functions are not zero in a row. A step fits every learner to the residual u,
//     b_i = (X_i' W X_i + lambda_i S)^-1 c_i,    c_i = X_i' W u,
// selects the first learner with the least |u - X_i b_i|_W, that is the largest
// 2 c_i' b_i - b_i' (X_i' W X_i) b_i, and updates u -= rate X_s b_s.
//
// All c_i are computed once; a step then updates c_i -= rate (X_i' W X_s) b_s. The blocks
// X_i' W X_s of the Gram matrix are computed when learner s is first selected, and kept. Other
// steps do not read the n rows. `stacked.cu` computes c_i from u in every step instead.
//
// Mapping. All blocks are resident and meet in grid barriers. Learner i belongs to block
// i mod gridDim.x, which keeps c_i and fits the learner. Sums over rows as in learners.cuh. No sum
// uses atomics: on the same device a fit has the same bits in every run.
//
// Shared memory. Sums of each warp: copies of k doubles, or k * k for as many warps as fit;
// three vectors of k; the learners' slots; twice 32 rows for each warp.
// Cost of a step. Reads K k^2 doubles, a grid barrier; more if the learner is selected for the
// first time.
// Source. Sieminski & Lee, "Gradient-Boosted Generalised Additive Models with GPU
// Acceleration" (2023), Algorithm 2, and the "holistic approach" that its conclusion proposes;
// learners are selected as in mboost.

#include "block.cuh"
#include "grid.cuh"
#include "learners.cuh"

/// Results of the fits, shared by all blocks: b, and c' b and b' G b. Double-buffered: a slow
/// block may still read the results of step t while a fast block writes the results of step t + 1.
struct Fits {
    double* coefficients;  // [2][learner][function]
    double* products;      // [2][learner][2]
    int count, functions;

    __device__ double* coefficients_of(int turn, int learner) const {
        return coefficients + (static_cast<long long>(turn) * count + learner) * functions;
    }
    __device__ double* products_of(int turn, int learner) const {
        return products + 2 * (static_cast<long long>(turn) * count + learner);
    }
};

// ---- a fit --------------------------------------------------------------------------

/// The sum of x[f] y[f], in every thread.
__device__ double dot(const double* x, const double* y, int size, BlockReduce<double>& reduce) {
    double sum = 0;
    for (int f = threadIdx.x; f < size; f += blockDim.x) sum += x[f] * y[f];
    return reduce(sum, Add<double>());
}

/// Fit a learner to the residual whose c_i is `moments`, and write the results to `fits`. `b`
/// and `Gb` are vectors of the block. Ends without a barrier.
template <class T>
__device__ void fit(const Learners<T>& learners, int learner, const double* moments, double* b,
                    double* Gb, const Fits& fits, int turn, BlockReduce<double>& reduce) {
    const int functions = learners.functions;
    const long long square = static_cast<long long>(functions) * functions;
    multiply(learners.inverse + learner * square, moments, functions, functions, b);
    multiply(learners.gram + learner * square, b, functions, functions, Gb);
    const double linear = dot(moments, b, functions, reduce);
    const double quadratic = dot(b, Gb, functions, reduce);
    double* coefficients = fits.coefficients_of(turn, learner);
    for (int f = threadIdx.x; f < functions; f += blockDim.x) coefficients[f] = b[f];
    if (threadIdx.x == 0) {
        fits.products_of(turn, learner)[0] = linear;
        fits.products_of(turn, learner)[1] = quadratic;
    }
}

/// The first of the learners that reduce the sum of squares most, in every thread.
__device__ int select(const Fits& fits, int turn, BlockReduce<Located<double>>& reduce) {
    Located<double> best = ArgMax<double>::identity();
    for (int i = threadIdx.x; i < fits.count; i += blockDim.x) {
        const double* products = fits.products_of(turn, i);
        best = ArgMax<double>()(best, {2 * products[0] - products[1], i});
    }
    return reduce(best, ArgMax<double>()).index;
}

/// The selected learner and the change of its coefficients, for every step; written by block 0.
struct BoostingPath {
    int* selected;    // [step]
    double* updates;  // [step][function]
    double* risk;     // [step + 1], the first value given

    __device__ void write(int step, int learner, const double* b, double rate, int functions) {
        if (blockIdx.x != 0) return;
        if (threadIdx.x == 0) selected[step] = learner;
        double* update = updates + static_cast<long long>(step) * functions;
        for (int f = threadIdx.x; f < functions; f += blockDim.x) update[f] = rate * b[f];
    }
};

/// The vectors of a block, in dynamic shared memory.
struct Vectors {
    double *moments, *b, *Gb, *rest;

    __device__ Vectors(int functions) {
        moments = reinterpret_cast<double*>(dynamic_shared_memory());
        b = moments + functions;
        Gb = b + functions;
        rest = Gb + functions;
    }
};

/// All c_i from the residual, in chunks: parts[chunk][learner][function]. After a grid barrier,
/// c_i is the sum over its chunks.
template <class T, int width>
__device__ void accumulate_all_moments(const Learners<T>& learners, const double* residual,
                                       int pitch, double* sums, double* parts) {
    const long long units = static_cast<long long>(learners.count) * learners.chunks;
    for (long long unit = blockIdx.x; unit < units; unit += gridDim.x)
        accumulate_moments<T, width>(learners, static_cast<int>(unit % learners.count),
                                     static_cast<int>(unit / learners.count), residual, pitch, sums,
                                     parts + unit * learners.functions);
}

/// result[0:size] = the sum of parts[chunk][learner][0:size] over the chunks, in their order.
/// Ends with a barrier.
__device__ void sum_chunks(const double* parts, int learner, int count, int chunks, long long size,
                           double* result) {
    for (long long f = threadIdx.x; f < size; f += blockDim.x) {
        double total = 0;
        for (int chunk = 0; chunk < chunks; ++chunk)
            total += parts[(static_cast<long long>(chunk) * count + learner) * size + f];
        result[f] = total;
    }
    __syncthreads();
}

/// X_i b of 32 rows, for which all lanes of a warp call it: in lane l, of the row `start` + l.
template <class T, int width>
__device__ double fitted_rows(const Learners<T>& learners, int learner, long long start,
                              const double* b, Batch<width>& batch) {
    Rows<T, width> rows;
    rows.read(learners, learner, start, learners.rows);
    batch.put(rows);
    __syncwarp();
    double result = 0;
#pragma unroll
    for (int j = 0; j < width; ++j) result += batch.values[j][lane_index()] * b[rows.first + j];
    __syncwarp();
    return result;
}

/// The sum of `block_sums`, a number from each block, in every thread of the block.
__device__ double sum_blocks(const double* block_sums, BlockReduce<double>& reduce) {
    double total = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) total += block_sums[i];
    return reduce(total, Add<double>());
}

// ---- the loop -----------------------------------------------------------------------

/// A launch makes the steps from `begin` to `end` - 1, out of `steps`. Work arrays, in doubles:
/// `moments` K * k, for the c_i; `parts` K * chunks * k * k if chunks > 1, else K * k;
/// `blocks_of_gram` K * k * k for each learner that may be selected; `totals` K * k, zero before
/// the first launch. slots[i] is the index of learner i in `blocks_of_gram`, or -1; it is kept
/// between launches. `gram_warps` warps have k * k sums in shared memory, as in
/// `accumulate_gram`; `pitch` as in `SumCopies`.
///
/// The risk is computed last. The final residual is computed from the rows; the decreases of
/// the steps are added to its risk from the last step to the first, so no digits cancel.
template <class T, int width, int threads>
__global__ void __launch_bounds__(threads, learner_blocks_per_multiprocessor)
    boost_gram(const int* first, const T* values, const double* weights, const double* gram,
               const double* inverse, long long rows, int count, int functions, int chunks,
               int pitch, double rate, int begin, int end, int steps, const double* residual,
               double* parts, double* fit_coefficients, double* fit_products, double* block_risks,
               double* moments, double* blocks_of_gram, double* totals, int* slots, int gram_warps,
               int* selected, double* updates, double* risk, unsigned long long* arrived) {
    __shared__ BlockReduce<double>::Storage sum_storage;
    __shared__ BlockReduce<Located<double>>::Storage best_storage;
    __shared__ Batch<width> batches[threads / warp_threads];
    __shared__ Batch<width> partners[threads / warp_threads];
    BlockReduce<double> sum(sum_storage);
    BlockReduce<Located<double>> best(best_storage);
    const Learners<T> learners{first, values, weights,   gram,  inverse,
                               rows,  count,  functions, chunks};
    const Fits fits{fit_coefficients, fit_products, count, functions};
    BoostingPath path{selected, updates, risk};
    GridBarrier barrier(arrived);
    Vectors vectors(functions);
    const long long square = static_cast<long long>(functions) * functions;
    const long long units = static_cast<long long>(count) * chunks;
    int* slot_of = reinterpret_cast<int*>(vectors.rest);  // by learner; -1: never selected
    double* sums = vectors.rest + (count + 1) / 2;

    int used = 0;
    for (int i = threadIdx.x; i < count; i += threads) {
        slot_of[i] = slots[i];
        used += slots[i] >= 0;
    }
    used = static_cast<int>(sum(used, Add<double>()));
    if (begin == 0) {
        accumulate_all_moments<T, width>(learners, residual, pitch, sums, parts);
        barrier.wait();
        for (int i = blockIdx.x; i < count; i += gridDim.x) {
            double* own = moments + static_cast<long long>(i) * functions;
            sum_chunks(parts, i, count, chunks, functions, own);
            fit(learners, i, own, vectors.b, vectors.Gb, fits, 0, sum);
        }
    }
    for (int step = begin; step < end; ++step) {
        const int turn = step % 2;
        barrier.wait();
        const int chosen = select(fits, turn, best);
        const double* b = fits.coefficients_of(turn, chosen);
        const double* products = fits.products_of(turn, chosen);
        path.write(step, chosen, b, rate, functions);
        if (blockIdx.x == 0) {
            if (threadIdx.x == 0) risk[step + 1] = rate * (2 * products[0] - rate * products[1]);
            double* total = totals + static_cast<long long>(chosen) * functions;
            for (int f = threadIdx.x; f < functions; f += threads) total[f] += rate * b[f];
        }

        const bool is_new = slot_of[chosen] < 0;
        __syncthreads();
        if (is_new) {
            if (threadIdx.x == 0) slot_of[chosen] = used;
            ++used;
            __syncthreads();
        }
        double* columns = blocks_of_gram + slot_of[chosen] * (count * square);
        if (is_new) {
            for (long long unit = blockIdx.x; unit < units; unit += gridDim.x)
                accumulate_gram(learners, static_cast<int>(unit % count), chosen,
                                static_cast<int>(unit / count), batches[warp_index()],
                                partners[warp_index()], sums, gram_warps,
                                (chunks > 1 ? parts : columns) + unit * square);
            if (chunks > 1) {
                barrier.wait();
                for (int i = blockIdx.x; i < count; i += gridDim.x)
                    sum_chunks(parts, i, count, chunks, square, columns + i * square);
            }
        }
        for (int i = blockIdx.x; i < count; i += gridDim.x) {
            double* own = moments + static_cast<long long>(i) * functions;
            multiply(columns + i * square, b, functions, functions, vectors.b);
            for (int f = threadIdx.x; f < functions; f += threads)
                own[f] = vectors.moments[f] = own[f] - rate * vectors.b[f];
            __syncthreads();
            fit(learners, i, vectors.moments, vectors.b, vectors.Gb, fits, 1 - turn, sum);
            __syncthreads();
        }
    }

    barrier.wait();
    if (end < steps) {
        if (blockIdx.x == 0)
            for (int i = threadIdx.x; i < count; i += threads) slots[i] = slot_of[i];
        return;
    }
    double own_risk = 0;
    const long long all_threads = static_cast<long long>(gridDim.x) * threads;
    for (long long row = blockIdx.x * threads + threadIdx.x; row - lane_index() < rows;
         row += all_threads) {
        double left = row < rows ? residual[row] : 0;
        for (int i = 0; i < count; ++i)
            if (slot_of[i] >= 0)
                left -= fitted_rows(learners, i, row - lane_index(),
                                    totals + static_cast<long long>(i) * functions,
                                    batches[warp_index()]);
        if (row < rows) own_risk += learners.weight(row) * left * left;
    }
    own_risk = sum(own_risk, Add<double>());
    if (threadIdx.x == 0) block_risks[blockIdx.x] = own_risk;
    barrier.wait();
    if (blockIdx.x != 0) return;
    double after = sum_blocks(block_risks, sum);
    if (threadIdx.x != 0) return;
    for (int step = steps; step > 0; --step) {
        const double decrease = risk[step];
        risk[step] = after;
        after += decrease;
    }
    risk[0] = after;
}
