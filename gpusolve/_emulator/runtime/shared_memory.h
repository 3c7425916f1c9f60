// Shared memory: the object's thread-local variables, on the thread that runs the block.

#pragma once

#include <cstddef>

namespace emulator {

/// The bytes of uninitialised memory: NaN in floating point, -1 in signed integers.
constexpr unsigned char poison = 0xff;

/// Size of the memory that kernels declare as `extern __shared__`.
constexpr std::size_t dynamic_shared_bytes = EMULATOR_DYNAMIC_SHARED_BYTES;

struct Span {
    void* start;
    std::size_t bytes;
};

/// All thread-local variables of this object: the kernel's and the emulator's.
Span thread_local_variables();

/// Size of the kernel's `__shared__` variables without dynamic memory, rounded up to units.
std::size_t static_shared_bytes();

/// Fill the shared memory with poison, except `kept`.
void poison_shared_memory(Span kept);

/// The first byte written past the end of the `__shared__` variables, or past the `shared_bytes`
/// of dynamic shared memory; null if there is none.
const unsigned char* find_overrun(std::size_t shared_bytes);

}  // namespace emulator
