// Reductions of a tile of a warp.

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
T reduce(const thread_block_tile<Size, Parent>& tile, T value, Op op, EMULATOR_SITE) {
    for (unsigned lanes = Size / 2; lanes > 0; lanes /= 2)
        value = op(value, static_cast<T>(tile.shfl_xor(value, lanes, file, line)));
    return value;
}

}  // namespace cooperative_groups
