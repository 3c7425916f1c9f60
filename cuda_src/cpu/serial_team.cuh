// A team of one thread, for a CPU. Its loops compute with four numbers at once.

#pragma once

#include "../batch.cuh"
#include "../team.cuh"
#include "four.h"

struct SerialTeam {
    static constexpr int each = 1;
    static constexpr bool is_small = false, general = true, foresees = false;
    static constexpr bool shares_matrix = false;

    using Reals = Vector<double>;

    static constexpr int rank() { return 0; }
    static constexpr int size() { return 1; }
    static void sync() {}
    static constexpr bool any(bool holds) { return holds; }

    const BatchCounters* counters;
    bool is_stopped() const { return counters->is_stopped(); }

    template <class T, class Op>
    static __forceinline__ T reduce(T value, Op) {
        return value;
    }
};

template <class Value>
__forceinline__ void map_variables(const SerialTeam&, Vector<double>& out, int count, Value value) {
    double* const to = out.first;
#pragma omp simd
    for (int j = 0; j < count; ++j) to[j] = value(j);
}

template <class Condition>
__forceinline__ void clear_variables(const SerialTeam& team, Vector<double>& out, int count, int j,
                                     Condition holds) {
    map_variables(team, out, count, [&](int i) { return holds(i) ? 0 : out[i]; });
    out[j] = 0;
}

__forceinline__ Located<double> find_variable(const SerialTeam&, Vector<double>& values, int count,
                                              bool by_value, double least, int j) {
    const double* const from = values.first;
    if (!by_value) {
        do ++j;
        while (j < count && from[j] != from[j]);
        return {-1.0 * j, j < count ? j : -1};
    }
    double largest = least;
#pragma omp simd reduction(max : largest)
    for (int i = 0; i < count; ++i) largest = from[i] > largest ? from[i] : largest;
    if (!(largest > least)) return {0, -1};
    int i = 0;
    while (from[i] != largest) ++i;
    return {largest, i};
}
