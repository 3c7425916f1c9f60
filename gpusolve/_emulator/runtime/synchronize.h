// Barriers, shuffles, votes and fences, as the CUDA C++ Programming Guide describes them.

#pragma once

#include <time.h>

#include <cstring>
#include <type_traits>

#include "device.h"

// The source line of a call, as default arguments, which are evaluated at the call.
#define EMULATOR_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

// ---- block ------------------------------------------------------------------------------

inline void __syncthreads(EMULATOR_SITE) {
    emulator::block_barrier(emulator::Operation::syncthreads, false, {file, line});
}

inline int __syncthreads_count(int predicate, EMULATOR_SITE) {
    return emulator::block_barrier(emulator::Operation::syncthreads_count, predicate, {file, line});
}

inline int __syncthreads_or(int predicate, EMULATOR_SITE) {
    return emulator::block_barrier(emulator::Operation::syncthreads_or, predicate, {file, line}) >
           0;
}

inline int __syncthreads_and(int predicate, EMULATOR_SITE) {
    return emulator::block_barrier(emulator::Operation::syncthreads_and, !predicate,
                                   {file, line}) == 0;
}

// ---- warp -------------------------------------------------------------------------------

__attribute__((always_inline)) inline void __syncwarp(unsigned mask = 0xffffffffu, EMULATOR_SITE) {
    emulator::warp_vote(emulator::Operation::syncwarp, mask, false, {file, line});
}

__attribute__((always_inline)) inline unsigned __ballot_sync(unsigned mask, int predicate,
                                                             EMULATOR_SITE) {
    return emulator::warp_vote(emulator::Operation::ballot, mask, predicate, {file, line});
}

__attribute__((always_inline)) inline int __any_sync(unsigned mask, int predicate, EMULATOR_SITE) {
    return emulator::warp_vote(emulator::Operation::any, mask, predicate, {file, line}) != 0;
}

__attribute__((always_inline)) inline int __all_sync(unsigned mask, int predicate, EMULATOR_SITE) {
    return emulator::warp_vote(emulator::Operation::all, mask, !predicate, {file, line}) == 0;
}

namespace emulator {

inline int linear_thread() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

inline int lane() {
    return linear_thread() % warpSize;
}

/// The type in which a value is shuffled: integers smaller than int become int.
template <class T, bool = std::is_arithmetic_v<T>>
struct PromotedType {
    using Type = T;
};
template <class T>
struct PromotedType<T, true> {
    using Type = decltype(+T());
};
template <class T>
using Promoted = typename PromotedType<T>::Type;

/// A structure is shuffled in parts of 8 bytes.
template <class T>
__attribute__((always_inline)) inline Promoted<T> shuffle(Operation operation, unsigned mask,
                                                          T argument, int source, Site site) {
    static_assert(std::is_trivially_copyable_v<T>, "a shuffled value must be trivially copyable");
    constexpr std::size_t part = sizeof(unsigned long long);
    const Promoted<T> value = argument;
    Promoted<T> result;
    for (std::size_t done = 0; done < sizeof(value); done += part) {
        const std::size_t bytes = sizeof(value) - done < part ? sizeof(value) - done : part;
        unsigned long long bits = 0;
        std::memcpy(&bits, reinterpret_cast<const char*>(&value) + done, bytes);
        const int words = static_cast<int>((bytes + sizeof(int) - 1) / sizeof(int));
        bits = warp_shuffle(operation, mask, bits, words, source, site);
        std::memcpy(reinterpret_cast<char*>(&result) + done, &bits, bytes);
    }
    return result;
}

/// The first and the last lane of this lane's segment of `width` lanes.
inline int first_lane(int width) {
    return lane() & ~(width - 1);
}
inline int last_lane(int width) {
    return lane() | (width - 1);
}

}  // namespace emulator

template <class T>
__attribute__((always_inline)) inline emulator::Promoted<T> __shfl_sync(unsigned mask, T value,
                                                                        int source,
                                                                        int width = warpSize,
                                                                        EMULATOR_SITE) {
    const int from = emulator::first_lane(width) | (source & (width - 1));
    return emulator::shuffle(emulator::Operation::shfl, mask, value, from, {file, line});
}

template <class T>
__attribute__((always_inline)) inline emulator::Promoted<T> __shfl_up_sync(unsigned mask, T value,
                                                                           unsigned delta,
                                                                           int width = warpSize,
                                                                           EMULATOR_SITE) {
    const int lane = emulator::lane(), from = lane - static_cast<int>(delta);
    return emulator::shuffle(emulator::Operation::shfl_up, mask, value,
                             from < emulator::first_lane(width) ? lane : from, {file, line});
}

template <class T>
__attribute__((always_inline)) inline emulator::Promoted<T> __shfl_down_sync(unsigned mask, T value,
                                                                             unsigned delta,
                                                                             int width = warpSize,
                                                                             EMULATOR_SITE) {
    const int lane = emulator::lane(), from = lane + static_cast<int>(delta);
    return emulator::shuffle(emulator::Operation::shfl_down, mask, value,
                             from > emulator::last_lane(width) ? lane : from, {file, line});
}

/// With a width below 32, lanes of an earlier segment may be read, lanes of a later segment not.
template <class T>
__attribute__((always_inline)) inline emulator::Promoted<T> __shfl_xor_sync(unsigned mask, T value,
                                                                            int lane_mask,
                                                                            int width = warpSize,
                                                                            EMULATOR_SITE) {
    const int lane = emulator::lane(), from = lane ^ lane_mask;
    return emulator::shuffle(emulator::Operation::shfl_xor, mask, value,
                             from > emulator::last_lane(width) ? lane : from, {file, line});
}

/// The lanes that reach the same call before any lane of the warp waits for other lanes, as if the
/// warp ran in lockstep. CUDA guarantees the caller's lane only.
inline unsigned __activemask(EMULATOR_SITE) {
    return emulator::active_lanes({file, line});
}

// ---- memory and time --------------------------------------------------------------------

inline void __threadfence() {
    emulator::fence(emulator::Scope::device);
}
inline void __threadfence_block() {
    emulator::fence(emulator::Scope::block);
}
inline void __threadfence_system() {
    emulator::fence(emulator::Scope::device);
}
inline void __nanosleep(unsigned) {
    emulator::yield();
}
/// Time of the emulator, not of a GPU, in nanoseconds, as from a clock of 1 GHz.
inline long long clock64() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1'000'000'000ll + now.tv_nsec;
}

// ---- traps and assertions ---------------------------------------------------------------

[[noreturn]] inline void __trap(EMULATOR_SITE) {
    emulator::fail({file, line}, "__trap()");
}

#undef assert
#define assert(condition)  \
    ((condition) ? void(0) \
                 : emulator::fail({__FILE__, __LINE__}, "assertion failed: %s", #condition))
