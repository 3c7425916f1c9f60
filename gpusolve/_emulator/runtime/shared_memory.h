// Shared memory: this object's thread-local variables, on the thread of the running block.

#pragma once

#include <cstddef>

namespace emulator {

/// What memory holds that nobody wrote: NaN in floating point, -1 in integers.
constexpr unsigned char poison = 0xff;

/// Of what kernels declare as `extern __shared__`.
constexpr std::size_t dynamic_shared_bytes = EMULATOR_DYNAMIC_SHARED_BYTES;

struct Span {
    void* start;
    std::size_t bytes;
};

/// All thread-local variables of this object: the kernel's, and the emulator's own few.
Span thread_local_variables();

/// How much of it the kernel's `__shared__` variables take, without the dynamic ones, in
/// whole units.
std::size_t static_shared_bytes();

/// Poison it all but `kept`.
void poison_shared_memory(Span kept);

/// The first byte that was written past the end of a `__shared__` variable, or of the
/// `shared_bytes` of dynamic shared memory; null if there is none.
const unsigned char* find_overrun(std::size_t shared_bytes);

}  // namespace emulator
