// What is remembered of each byte of global memory: who wrote and who read it.

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "clock.h"

namespace emulator {

/// A piece of global memory, as Python names it.
struct GlobalSpan {
    std::uintptr_t start;
    std::uint64_t bytes;

    bool contains(std::uintptr_t address) const { return address - start < bytes; }
};

struct ShadowByte {
    Event written{};
    std::uint64_t write = 0;               // the number of that write; 0 is before the launch
    std::shared_ptr<const Clock> carried;  // what a strong read of it may learn
    std::vector<Event> reads;              // since then
};

class Shadow {
  public:
    explicit Shadow(const GlobalSpan& span) : span_(span), pages_(span.bytes / page_bytes + 1) {}

    const GlobalSpan& span() const { return span_; }

    ShadowByte& at(std::uintptr_t address) {
        const std::size_t offset = address - span_.start;
        auto& page = pages_[offset / page_bytes];
        if (!page) page = std::make_unique<ShadowByte[]>(page_bytes);
        return page[offset % page_bytes];
    }

  private:
    /// Made when first touched.
    static constexpr std::size_t page_bytes = 256;

    GlobalSpan span_;
    std::vector<std::unique_ptr<ShadowByte[]>> pages_;
};

}  // namespace emulator
