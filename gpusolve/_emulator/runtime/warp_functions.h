// Functions of a warp that combine or compare the values of its lanes.

#pragma once

#include "synchronize.h"

namespace emulator {

/// The combination of the values of the mask's lanes, in every lane.
template <class T, class Op>
__attribute__((always_inline)) inline T combine(unsigned mask, T value, Op op, Site site) {
    bool is_first = true;
    T result{};
    for (unsigned lanes = mask; lanes; lanes &= lanes - 1) {
        const T other = shuffle(Operation::shfl, mask, value, __builtin_ctz(lanes), site);
        result = is_first ? other : op(result, other);
        is_first = false;
    }
    return result;
}

/// The lanes of the mask whose value is equal to this lane's, bit by bit.
template <class T>
__attribute__((always_inline)) inline unsigned equal_lanes(unsigned mask, T value, Site site) {
    unsigned equal = 0;
    for (unsigned lanes = mask; lanes; lanes &= lanes - 1) {
        const int lane = __builtin_ctz(lanes);
        const Promoted<T> own = value;
        const Promoted<T> other = shuffle(Operation::shfl, mask, value, lane, site);
        if (std::memcmp(&own, &other, sizeof(own)) == 0) equal |= 1u << lane;
    }
    return equal;
}

}  // namespace emulator

#define EMULATOR_REDUCTION(name, T, expression)                                                    \
    __attribute__((always_inline)) inline T __reduce_##name##_sync(unsigned mask, T value,         \
                                                                   EMULATOR_SITE) {                \
        return emulator::combine(mask, value, [](T a, T b) { return static_cast<T>(expression); }, \
                                 {file, line});                                                    \
    }

EMULATOR_REDUCTION(add, int, static_cast<unsigned>(a) + b)
EMULATOR_REDUCTION(add, unsigned, a + b)
EMULATOR_REDUCTION(min, int, a < b ? a : b)
EMULATOR_REDUCTION(min, unsigned, a < b ? a : b)
EMULATOR_REDUCTION(max, int, a < b ? b : a)
EMULATOR_REDUCTION(max, unsigned, a < b ? b : a)
EMULATOR_REDUCTION(and, unsigned, a& b)
EMULATOR_REDUCTION(or, unsigned, a | b)
EMULATOR_REDUCTION(xor, unsigned, a ^ b)

#undef EMULATOR_REDUCTION

template <class T>
__attribute__((always_inline)) inline unsigned __match_any_sync(unsigned mask, T value,
                                                                EMULATOR_SITE) {
    return emulator::equal_lanes(mask, value, {file, line});
}

/// The mask if all values are equal, else 0.
template <class T>
__attribute__((always_inline)) inline unsigned __match_all_sync(unsigned mask, T value,
                                                                int* all_equal, EMULATOR_SITE) {
    *all_equal = emulator::equal_lanes(mask, value, {file, line}) == mask;
    return *all_equal ? mask : 0;
}
