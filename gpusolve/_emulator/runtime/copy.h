// memcpy, memmove and memset of a kernel, whose accesses are checked and counted.

#pragma once

#include <string.h>

#include <cstring>

#include "device.h"

#pragma GCC visibility push(hidden)

namespace emulator {

/// Copy or set memory; races and profiles see the accesses.
void* copy_memory(void* target, const void* source, std::size_t bytes);
void* move_memory(void* target, const void* source, std::size_t bytes);
void* set_memory(void* target, int value, std::size_t bytes);

/// Whether the compiler replaces a copy by a load and a store, which are checked by themselves.
constexpr bool is_access(std::size_t bytes) {
    return bytes <= 16 && (bytes & (bytes - 1)) == 0;
}

}  // namespace emulator

#pragma GCC visibility pop

#define EMULATOR_COPY __attribute__((always_inline)) inline void*

EMULATOR_COPY emulator_memcpy(void* target, const void* source, std::size_t bytes) {
    if (__builtin_constant_p(bytes) && emulator::is_access(bytes))
        return __builtin_memcpy(target, source, bytes);
    return emulator::copy_memory(target, source, bytes);
}

EMULATOR_COPY emulator_memmove(void* target, const void* source, std::size_t bytes) {
    return emulator::move_memory(target, source, bytes);
}

EMULATOR_COPY emulator_memset(void* target, int value, std::size_t bytes) {
    if (__builtin_constant_p(bytes) && emulator::is_access(bytes))
        return __builtin_memset(target, value, bytes);
    return emulator::set_memory(target, value, bytes);
}

#undef EMULATOR_COPY

// For kernels that write std::memcpy.
namespace std {
using ::emulator_memcpy;
using ::emulator_memmove;
using ::emulator_memset;
}  // namespace std

#define memcpy(...) emulator_memcpy(__VA_ARGS__)
#define memmove(...) emulator_memmove(__VA_ARGS__)
#define memset(...) emulator_memset(__VA_ARGS__)
