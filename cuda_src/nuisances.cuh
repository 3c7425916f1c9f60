// The nuisance parameters of all fits at their f: medians, shapes, thetas, scales and thresholds.
//
// Each function writes the parameters of a step to the paths, and ends with a grid barrier.
//
// Cost. Passes over the rows, with two grid barriers each: 17 passes for a median, of which 16 find
// four bits each, a pass for a shape, and a pass for each Newton step, or for eight thresholds of
// it.

#pragma once

#include "families.cuh"
#include "floating.cuh"
#include "paths.cuh"
#include "row_sums.cuh"

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

/// The binary form of |r|: it has the order of the values.
static __device__ __forceinline__ unsigned long long size_bits(double r) {
    return static_cast<unsigned long long>(__double_as_longlong(fabs(r)));
}

static __device__ __forceinline__ double number_of(unsigned long long bits) {
    return __longlong_as_double(static_cast<long long>(bits));
}

/// The weighted medians of |y - f|: the mean of the least value whose weight, with the values
/// below, is at least half of all, and of the least value whose weight is more than half.
__device__ void find_medians(const RowSums& sums, MedianSearch* searches, const Paths& paths,
                             int step) {
    constexpr int bits = 4, digits = 1 << bits;
    const Observations& data = sums.data;
#pragma unroll 1
    for (int shift = 64 - bits; shift >= 0; shift -= bits) {
        const bool is_first = shift == 64 - bits;
        sums.sum<digits>(
            Add<double>(),
            [&](int fit, int) {
                const unsigned long long known = is_first ? 0 : searches[fit].key >> shift >> bits;
                return [=, &data](long long row, double* own) {
                    const double r = data.response(fit, row) - data.f[fit * data.rows + row];
                    const unsigned long long key = size_bits(r) >> shift;
                    if (!is_first && key >> bits != known) return;
                    const double weight = data.weight(fit, row);  // of the few rows that are left
#pragma unroll
                    for (int digit = 0; digit < digits; ++digit)
                        own[digit] += static_cast<int>(key % digits) == digit ? weight : 0.0;
                };
            },
            [&](int fit, const double* counts) {
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
    }
    sums.sum_weighted<1>(
        Minimum(),
        [&](int fit) {
            const unsigned long long key = searches[fit].key;
            return [=](double, double y, double f, double* own) {
                if (size_bits(y - f) > key) own[0] = fmin(own[0], fabs(y - f));
            };
        },
        [&](int fit, const double* next) {
            const MedianSearch& search = searches[fit];
            const double lower = number_of(search.key);
            const double upper = 2 * search.through > search.total ? lower : next[0];
            *paths.nuisance_at(fit, step) = (lower + upper) / 2;
        });
}

/// The shapes: a single pass.
template <class Family>
__device__ void find_shapes(const Family& family, const RowSums& sums, const Paths& paths,
                            int step) {
    sums.sum_weighted<2>(
        Add<double>(),
        [&](int) {
            return [=, &family](double weight, double y, double f, double* own) {
                own[0] += weight * family.term(y, f);
                own[1] += weight;
            };
        },
        [&](int fit, const double* found) {
            *paths.nuisance_at(fit, step) = family.solve(found[0] / found[1]);
        });
}

/// The thetas, or the scales: a pass for the first guess, then a pass for each Newton step, until
/// all fits are done.
template <class Family>
__device__ void find_thetas(const Family& family, const RowSums& sums, ThetaSearch* searches,
                            const Paths& paths, int step) {
    bool is_first = true, is_done = false;
    while (!is_done) {
        sums.sum_weighted<2>(
            Add<double>(),
            [&](int fit) {
                const bool rests = !is_first && searches[fit].done;
                const double theta = is_first ? 0 : *paths.nuisance_at(fit, step);
                return [=, &family](double weight, double y, double f, double* own) {
                    if (rests) return;
                    const Two found = is_first ? family.moments(y, f) : family.terms(y, f, theta);
                    own[0] += weight * found.first;
                    own[1] += weight * found.second;
                };
            },
            [&](int fit, const double* found) {
                const Two both{found[0], found[1]};
                if (is_first)
                    searches[fit] = family.start(both);
                else if (!searches[fit].done)
                    searches[fit].update(both);
                *paths.nuisance_at(fit, step) = searches[fit].theta();
            });
        is_first = false;
        is_done = true;
        for (int fit = 0; fit < sums.fits; ++fit) is_done = is_done && searches[fit].done;
    }
}

/// search.sums()[i] = the weighted sum of part(search, i, class, f) of the rows, for i below
/// `size`, then finish(search), for each fit whose search is not done: a pass for each 16 sums.
template <class SearchOf, class Part, class Finish>
__device__ void sum_classes(const RowSums& sums, int size, bool is_first, SearchOf search_of,
                            Part part, Finish finish) {
    constexpr int at_once = RowSums::along;
    for (int begin = 0; begin < size; begin += at_once) {
        sums.sum_weighted<at_once>(
            Add<double>(),
            [&](int fit) {
                const ThresholdSearch search = search_of(fit);
                const bool rests = !is_first && search.done();
                return [=](double weight, double y, double f, double* own) {
                    if (rests) return;
#pragma unroll
                    for (int i = 0; i < at_once; ++i)
                        if (begin + i < size)
                            own[i] += weight * part(search, begin + i, static_cast<int>(y), f);
                };
            },
            [&](int fit, const double* found) {
                const ThresholdSearch search = search_of(fit);
                if (!is_first && search.done()) return;
                for (int i = 0; i < at_once && begin + i < size; ++i)
                    search.sums()[begin + i] = found[i];
                if (begin + at_once >= size) finish(search);
            });
    }
}

/// The thresholds, until all fits are done.
__device__ void find_thresholds(int count, const RowSums& sums, double* searches,
                                const Paths& paths, int step) {
    const auto search_of = [=, &paths](int fit) {
        const long long size = ThresholdSearch::size(count);
        return ThresholdSearch{searches + fit * size, paths.nuisance_at(fit, step), count};
    };
    sum_classes(
        sums, search_of(0).sums_to_start(), true, search_of,
        [](const ThresholdSearch& search, int i, int y, double f) {
            return search.part_of_start(i, y, f);
        },
        [](const ThresholdSearch& search) { search.start(); });
    bool is_done = false;
    while (!is_done) {
        sum_classes(
            sums, search_of(0).sums_to_update(), false, search_of,
            [](const ThresholdSearch& search, int i, int y, double f) {
                return search.part_of_update(i, y, f);
            },
            [](const ThresholdSearch& search) { search.update(); });
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

/// The parameter s of each fit, at its f.
template <class Family>
__device__ void estimate(const Family& family, const RowSums& sums, double* searches,
                         const Paths& paths, int step) {
    if constexpr (Family::nuisance == Nuisance::median)
        find_medians(sums, reinterpret_cast<MedianSearch*>(searches), paths, step);
    else if constexpr (Family::nuisance == Nuisance::shape)
        find_shapes(family, sums, paths, step);
    else if constexpr (Family::nuisance == Nuisance::thresholds)
        find_thresholds(family.count(), sums, searches, paths, step);
    else
        find_thetas(family, sums, reinterpret_cast<ThetaSearch*>(searches), paths, step);
}
