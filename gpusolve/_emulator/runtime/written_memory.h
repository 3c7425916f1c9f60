// Which bytes of a program's device memory have been written, by copies of the host or by kernels.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#pragma GCC visibility push(hidden)

namespace emulator {

/// The allocations whose reads are checked; all other memory counts as written.
class WrittenMemory {
  public:
    void add(const void* memory, std::size_t bytes);
    void remove(const void* memory);
    void write(const void* memory, std::size_t bytes);

    /// The target is written where the source is.
    void copy(const void* target, const void* source, std::size_t bytes);

    /// Whether the bytes are in an allocation, and none was written. A structure may have bytes
    /// that nothing writes, between its members.
    bool is_unwritten(const void* memory, std::size_t bytes);

  private:
    /// The flags of bytes, and how many there are; no flags outside of the allocations.
    struct Flags {
        std::vector<bool>* all;
        std::ptrdiff_t first, count;
    };
    Flags find(const void* memory, std::size_t bytes);

    std::mutex mutex_;
    std::map<std::uintptr_t, std::vector<bool>> allocations_;  // by address
};

WrittenMemory& written_memory();

}  // namespace emulator

#pragma GCC visibility pop
