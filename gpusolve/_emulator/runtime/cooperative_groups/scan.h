// Scans of the values of a group's threads, in the order of their ranks.

#pragma once

#include "reduce.h"

namespace cooperative_groups {

template <class Group, class T, class Op = plus<T>>
T inclusive_scan(const Group& group, T value, Op op = {}) {
    for (unsigned threads = 1; threads < group.size(); threads *= 2) {
        const T before = group.shfl_up(value, threads);
        if (group.thread_rank() >= threads) value = op(before, value);
    }
    return value;
}

/// The first thread gets T(), which is the identity of a sum.
template <class Group, class T, class Op = plus<T>>
T exclusive_scan(const Group& group, T value, Op op = {}) {
    const T before = group.shfl_up(inclusive_scan(group, value, op), 1);
    return group.thread_rank() == 0 ? T() : before;
}

}  // namespace cooperative_groups
