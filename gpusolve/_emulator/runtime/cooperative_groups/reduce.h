// Reductions of a tile, and of coalesced threads.

#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

template <class T>
struct plus {
    T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct less {
    T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T>
struct greater {
    T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T>
struct bit_and {
    T operator()(T a, T b) const { return a & b; }
};
template <class T>
struct bit_or {
    T operator()(T a, T b) const { return a | b; }
};
template <class T>
struct bit_xor {
    T operator()(T a, T b) const { return a ^ b; }
};

/// The combination of the values of the tile's threads, in every thread.
template <unsigned Size, class Parent, class T, class Op>
T reduce(const thread_block_tile<Size, Parent>& tile, T value, Op op) {
    for (unsigned threads = Size / 2; threads > 0; threads /= 2)
        value = op(value, static_cast<T>(tile.shfl_xor(value, threads)));
    return value;
}

/// The combination of the values of the group's threads, in every thread.
template <class T, class Op>
T reduce(const coalesced_group& group, T value, Op op, EMULATOR_SITE) {
    return emulator::combine(group.emulated_mask(), value, op, {file, line});
}

}  // namespace cooperative_groups
