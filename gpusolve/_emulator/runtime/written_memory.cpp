#include "written_memory.h"

#include <algorithm>

namespace emulator {

WrittenMemory& written_memory() {
    static WrittenMemory memory;
    return memory;
}

void WrittenMemory::add(const void* memory, std::size_t bytes) {
    allocations_[reinterpret_cast<std::uintptr_t>(memory)].assign(bytes, false);
}

void WrittenMemory::remove(const void* memory) {
    allocations_.erase(reinterpret_cast<std::uintptr_t>(memory));
}

WrittenMemory::Flags WrittenMemory::find(const void* memory, std::size_t bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    auto after = allocations_.upper_bound(address);
    if (after == allocations_.begin()) return {};
    auto& [start, flags] = *--after;
    const std::size_t offset = std::min<std::size_t>(address - start, flags.size());
    return {&flags, static_cast<std::ptrdiff_t>(offset),
            static_cast<std::ptrdiff_t>(std::min(bytes, flags.size() - offset))};
}

void WrittenMemory::write(const void* memory, std::size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const Flags flags = find(memory, bytes); flags.count > 0)
        std::fill_n(flags.all->begin() + flags.first, flags.count, true);
}

void WrittenMemory::copy(const void* target, const void* source, std::size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Flags to = find(target, bytes), from = find(source, bytes);
    for (std::ptrdiff_t i = 0; i < to.count; ++i)
        (*to.all)[to.first + i] = i >= from.count || (*from.all)[from.first + i];
}

bool WrittenMemory::is_unwritten(const void* memory, std::size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Flags flags = find(memory, bytes);
    if (flags.count == 0) return false;
    const auto first = flags.all->begin() + flags.first, last = first + flags.count;
    return std::find(first, last, true) == last;
}

}  // namespace emulator
