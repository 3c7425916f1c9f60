// Checks each access against the exact bounds of the memory that the kernel has.
//
// Without these checks an access is found only if it leaves the pages of an array, or overwrites
// the bytes next to shared memory. The compiler's checks of declared arrays and of alignment
// report here, too: see declared_arrays.cpp.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "races.h"
#include "shadow.h"

namespace emulator {

/// What is wrong with an access.
enum class Misuse { none, outside, past_shared_memory, unwritten };

/// The arrays of a launch. Memory of which they have a page is theirs, up to their last byte.
class ArrayBounds {
  public:
    /// `only_arrays`: besides them, a kernel may access variables of its object only.
    ArrayBounds(std::vector<MemorySpan> arrays, bool only_arrays);

    /// The first byte of an access that is outside of the arrays; 0 if there is none.
    std::uintptr_t find_outside(std::uintptr_t address, std::size_t bytes) const;

  private:
    std::vector<MemorySpan> arrays_;  // by address
    const bool only_arrays_;
};

/// The shared memory of a running block: which bytes it has, and which were written.
class SharedMemoryCheck {
  public:
    /// Start a block. Variables are at `shared`; of dynamic memory, `dynamic_bytes` may be used.
    void begin(const MemorySpan& shared, std::uintptr_t dynamic, std::size_t dynamic_bytes);

    std::uintptr_t start() const { return shared_.start; }
    bool contains(std::uintptr_t address) const { return shared_.contains(address); }

    /// Whether an address is a little before shared memory, where a negative index leads.
    bool is_before(std::uintptr_t address) const {
        return address - (shared_.start - shared_guard_bytes) < shared_guard_bytes;
    }

    /// Check an access to shared memory, and keep what it writes.
    Misuse check(std::uintptr_t address, std::size_t bytes, AccessKind how);

  private:
    MemorySpan shared_{};
    std::uintptr_t dynamic_ = 0;
    std::size_t dynamic_bytes_ = 0;
    std::vector<bool> written_;  // by offset
};

}  // namespace emulator
