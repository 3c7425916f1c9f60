#include "memory_check.h"

#include <algorithm>

#include "shared_memory.h"

namespace emulator {

namespace {

constexpr std::uintptr_t page_bytes = 4096;

std::uintptr_t end_of(const MemorySpan& span) {
    return span.start + span.bytes;
}

}  // namespace

ArrayBounds::ArrayBounds(std::vector<MemorySpan> arrays, bool only_arrays)
    : arrays_(std::move(arrays)), only_arrays_(only_arrays) {
    std::sort(arrays_.begin(), arrays_.end(),
              [](const MemorySpan& a, const MemorySpan& b) { return a.start < b.start; });
}

std::uintptr_t ArrayBounds::find_outside(std::uintptr_t address, std::size_t bytes) const {
    const auto shares_page = [=](const MemorySpan& span) {
        return span.start / page_bytes * page_bytes < address + bytes &&
               address < (end_of(span) + page_bytes - 1) / page_bytes * page_bytes;
    };
    const auto span = std::find_if(arrays_.begin(), arrays_.end(), shares_page);
    if (span == arrays_.end()) {
        std::uint64_t offset = address;
        return only_arrays_ && !make_relative(offset) ? address : 0;
    }
    if (address < span->start) return address;
    return address + bytes <= end_of(*span) ? 0 : std::max(address, end_of(*span));
}

void SharedMemoryCheck::begin(const MemorySpan& shared, std::uintptr_t dynamic,
                              std::size_t dynamic_bytes) {
    shared_ = shared;
    dynamic_ = dynamic;
    dynamic_bytes_ = dynamic_bytes;
    written_.assign(shared.bytes, false);
}

Misuse SharedMemoryCheck::check(std::uintptr_t address, std::size_t bytes, AccessKind how) {
    const bool in_guard = dynamic_ - shared_guard_bytes < address + bytes && address < dynamic_;
    const bool is_dynamic = dynamic_ <= address && address < dynamic_ + dynamic_shared_bytes;
    if (in_guard || (is_dynamic && address + bytes > dynamic_ + dynamic_bytes_))
        return Misuse::past_shared_memory;
    const auto first = written_.begin() + static_cast<std::ptrdiff_t>(address - shared_.start);
    const auto last = first + static_cast<std::ptrdiff_t>(
                                  std::min<std::uintptr_t>(bytes, end_of(shared_) - address));
    // A structure may have bytes that nothing writes, between its members.
    if (how.reads && std::find(first, last, true) == last) return Misuse::unwritten;
    if (how.writes) std::fill(first, last, true);
    return Misuse::none;
}

}  // namespace emulator
