// CUDA's atomic functions, each for the types that CUDA supports.
//
// All are sequentially consistent, which is more than CUDA guarantees.

#pragma once

#include <type_traits>

#include "device.h"

#define EMULATOR_INLINE inline __attribute__((always_inline))

namespace emulator {

template <class T, class... Types>
constexpr bool is_one_of = (std::is_same_v<T, Types> || ...);

template <class T>
constexpr bool is_atomic_integer = is_one_of<T, int, unsigned, unsigned long long>;

template <class T>
constexpr bool is_atomic_comparable = is_atomic_integer<T> || is_one_of<T, long long>;

template <class T>
constexpr bool is_atomic_number = is_atomic_integer<T> || is_one_of<T, float, double>;

/// Excluded from template deduction: only the address determines T, so that
/// `atomicAdd(&count, 1)` compiles with an unsigned count.
template <class T>
using Operand = std::common_type_t<T>;

/// Replace *address by update(*address), and return the old value. Always inlined, as are its
/// callers, so that reports name the kernel's line.
template <class T, class Update>
EMULATOR_INLINE T atomic_update(T* address, Update update) {
    maybe_yield();
    T old, desired;
    __atomic_load(address, &old, __ATOMIC_SEQ_CST);
    do {
        desired = update(old);
    } while (!__atomic_compare_exchange(address, &old, &desired, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST));
    return old;
}

}  // namespace emulator

#define EMULATOR_ATOMIC(name, supported, result)                                     \
    template <class T>                                                               \
    EMULATOR_INLINE T name(T* address, emulator::Operand<T> value) {                 \
        static_assert(emulator::supported<T>, #name " does not support T");          \
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
EMULATOR_INLINE T atomicSub(T* address, emulator::Operand<T> value) {
    static_assert(emulator::is_one_of<T, int, unsigned>, "atomicSub does not support T");
    return emulator::atomic_update(address, [=](T old) -> T { return old - value; });
}

template <class T>
EMULATOR_INLINE T atomicExch(T* address, emulator::Operand<T> value) {
    static_assert(emulator::is_atomic_integer<T> || emulator::is_one_of<T, float>,
                  "atomicExch does not support T");
    return emulator::atomic_update(address, [=](T) { return value; });
}

template <class T>
EMULATOR_INLINE T atomicCAS(T* address, emulator::Operand<T> expected, emulator::Operand<T> value) {
    static_assert(emulator::is_atomic_integer<T> || emulator::is_one_of<T, unsigned short>,
                  "atomicCAS does not support T");
    emulator::maybe_yield();
    T found = expected;
    __atomic_compare_exchange(address, &found, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return found;
}

EMULATOR_INLINE unsigned atomicInc(unsigned* address, unsigned limit) {
    return emulator::atomic_update(address,
                                   [=](unsigned old) { return old >= limit ? 0u : old + 1; });
}

EMULATOR_INLINE unsigned atomicDec(unsigned* address, unsigned limit) {
    return emulator::atomic_update(
        address, [=](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}
