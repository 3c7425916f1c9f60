// Products of the designs of learners on a CPU, for Gram matrices and for the loop in NumPy.
//
// A call computes for some learners and some rows, in one thread. Its sums do not depend on other
// calls.

#include "cuda.h"

#include "compact_rows.h"
#include "exported.h"

namespace {

/// G += X'WX of a part; rows of G are `pitch` numbers apart. Products are symmetric to the last
/// bit.
bool add_square(const CompactPart& part, long long begin, long long end, const double* weights,
                double* G, long long pitch) {
    const long long square = static_cast<long long>(part.width) * part.width;
    const Sums sums(part.cells * square);
    if (sums.first == nullptr) return false;
    RowBlock block;
    with_width(part.width, [&](auto width) {
        for_blocks(part, begin, end, block, [&](long long row, int rows) {
            for (int i = 0; i < rows; ++i) {
                const double* const values = block.values + i * width;
                const double weight = weights == nullptr ? 1.0 : weights[row + i];
                double* sum = sums.first + block.cell[i] * width * width;
                for (int k = 0; k < width; ++k, sum += width)
                    for (int j = 0; j < width; ++j) sum[j] += weight * (values[k] * values[j]);
            }
        });
    });
    const double* sum = sums.first;
    for (int cell = 0; cell < part.cells; ++cell)
        for (int k = 0; k < part.width; ++k)
            for (int j = 0; j < part.width; ++j)
                G[(cell + part.offsets[k]) * pitch + cell + part.offsets[j]] += *sum++;
    return true;
}

/// G += X'WY of two parts.
void add_cross(const CompactPart& part, const CompactPart& other, long long begin, long long end,
               const double* weights, double* G, long long pitch) {
    RowBlock block, of_other;
    with_width(other.width, [&](auto width) {
        for_blocks(part, begin, end, block, [&](long long row, int rows) {
            load(other, row, rows, of_other);
            for (int i = 0; i < rows; ++i) {
                const double weight = weights == nullptr ? 1.0 : weights[row + i];
                const double* const values = of_other.values + i * width;
                for (int k = 0; k < part.width; ++k) {
                    const double value = block.values[i * part.width + k];
                    double* const sum =
                        G + (block.cell[i] + part.offsets[k]) * pitch + of_other.cell[i];
                    for (int j = 0; j < width; ++j)
                        sum[other.offsets[j]] += weight * (value * values[j]);
                }
            }
        });
    });
}

}  // namespace

/// c += X'u of the learners, for rows begin to end - 1 of `fits` vectors u. The sums of a vector
/// are `pitch` numbers apart.
GPUSOLVE_EXPORTED int gpusolve_project(const CompactDesigns* designs, long long first,
                                       long long last, long long begin, long long end,
                                       const double* u, long long u_stride, long long fits,
                                       double* c, long long pitch) {
    for (long long j = first; j < last; ++j)
        for (long long p = designs->begin_part[j]; p < designs->begin_part[j + 1]; ++p)
            if (!project(designs->parts[p], begin, end, u, u_stride, fits,
                         c + designs->begin_function[j], pitch))
                return out_of_memory;
    return finished;
}

/// f += X b of a learner, for rows begin to end - 1.
GPUSOLVE_EXPORTED int gpusolve_add_product(const CompactDesigns* designs, long long learner,
                                           long long begin, long long end, const double* b,
                                           double* f) {
    for (long long p = designs->begin_part[learner]; p < designs->begin_part[learner + 1]; ++p)
        add_product(designs->parts[p], begin, end, b, f);
    return finished;
}

/// The matrices X'WX of the learners first to last - 1, or X'WY with the design Y of another
/// learner, one after the other; `other` is -1 for X'WX. W is 1 if `weights` is null.
GPUSOLVE_EXPORTED int gpusolve_cross(const CompactDesigns* designs, long long first, long long last,
                                     long long other, long long begin, long long end,
                                     const double* weights, double* G) {
    for (long long j = first; j < last; ++j) {
        const long long with = other < 0 ? j : other, pitch = designs->functions_of(with);
        for (long long p = designs->begin_part[j]; p < designs->begin_part[j + 1]; ++p)
            for (long long q = designs->begin_part[with]; q < designs->begin_part[with + 1]; ++q) {
                const CompactPart &part = designs->parts[p], &second = designs->parts[q];
                if (p != q)
                    add_cross(part, second, begin, end, weights, G, pitch);
                else if (!add_square(part, begin, end, weights, G, pitch))
                    return out_of_memory;
            }
        G += designs->functions_of(j) * pitch;
    }
    return finished;
}
