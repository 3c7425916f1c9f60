// Atomic functions, each for the types that CUDA offers it for.
//
// All are sequentially consistent, which is more than CUDA promises.

#pragma once

#include <type_traits>

#include "device.h"

namespace emulator {

template <class T, class... Types>
constexpr bool is_one_of = (std::is_same_v<T, Types> || ...);

template <class T>
constexpr bool is_atomic_integer = is_one_of<T, int, unsigned, unsigned long long>;

template <class T>
constexpr bool is_atomic_comparable = is_atomic_integer<T> || is_one_of<T, long long>;

template <class T>
constexpr bool is_atomic_number = is_atomic_integer<T> || is_one_of<T, float, double>;

/// The type of the address alone decides: `atomicAdd(&count, 1)` with an unsigned count.
template <class T>
using Given = std::common_type_t<T>;

/// Replace *address by update(*address), and return what was there.
template <class T, class Update>
T atomic_update(T* address, Update update) {
    breathe();
    T old, wanted;
    __atomic_load(address, &old, __ATOMIC_SEQ_CST);
    do {
        wanted = update(old);
    } while (!__atomic_compare_exchange(address, &old, &wanted, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST));
    return old;
}

}  // namespace emulator

#define EMULATOR_ATOMIC(name, offered, result)                                       \
    template <class T>                                                               \
    T name(T* address, emulator::Given<T> value) {                                   \
        static_assert(emulator::offered<T>, #name " is not offered for T");          \
        return emulator::atomic_update(address, [=](T old) -> T { return result; }); \
    }

EMULATOR_ATOMIC(atomicAdd, is_atomic_number, old + value)
EMULATOR_ATOMIC(atomicMin, is_atomic_comparable, value < old ? value : old)
EMULATOR_ATOMIC(atomicMax, is_atomic_comparable, old < value ? value : old)
EMULATOR_ATOMIC(atomicAnd, is_atomic_integer, old& value)
EMULATOR_ATOMIC(atomicOr, is_atomic_integer, old | value)
EMULATOR_ATOMIC(atomicXor, is_atomic_integer, old ^ value)

#undef EMULATOR_ATOMIC

template <class T>
T atomicSub(T* address, emulator::Given<T> value) {
    static_assert(emulator::is_one_of<T, int, unsigned>, "atomicSub is not offered for T");
    return emulator::atomic_update(address, [=](T old) -> T { return old - value; });
}

template <class T>
T atomicExch(T* address, emulator::Given<T> value) {
    static_assert(emulator::is_atomic_integer<T> || emulator::is_one_of<T, float>,
                  "atomicExch is not offered for T");
    return emulator::atomic_update(address, [=](T) { return value; });
}

template <class T>
T atomicCAS(T* address, emulator::Given<T> expected, emulator::Given<T> value) {
    static_assert(emulator::is_atomic_integer<T> || emulator::is_one_of<T, unsigned short>,
                  "atomicCAS is not offered for T");
    emulator::breathe();
    T found = expected;
    __atomic_compare_exchange(address, &found, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return found;
}

inline unsigned atomicInc(unsigned* address, unsigned limit) {
    return emulator::atomic_update(address,
                                   [=](unsigned old) { return old >= limit ? 0u : old + 1; });
}

inline unsigned atomicDec(unsigned* address, unsigned limit) {
    return emulator::atomic_update(
        address, [=](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}
