// Shadow memory: for each word of memory, the accesses that a later access can conflict with.

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "clock.h"

namespace emulator {

/// A contiguous region of memory.
struct MemorySpan {
    std::uintptr_t start;
    std::uint64_t bytes;

    bool contains(std::uintptr_t address) const { return address - start < bytes; }
};

/// The clocks that a strong write publishes: its thread's at its last fences.
struct PublishedClocks {
    std::uint64_t block;
    SharedClock for_block;   // at the last fence of any scope
    SharedClock for_device;  // at the last __threadfence()
};

/// The accesses to a word, or to a byte, that a later access can conflict with.
struct Cell {
    using Events = std::vector<Event>;

    Events events[2][2];                               // by whether they write, and are strong
    std::shared_ptr<const PublishedClocks> published;  // of the last write
    std::uint64_t write = 0;                           // its number; 0 is before the launch
};

/// A cell, and the address of its memory.
struct CellRef {
    std::uintptr_t address;
    Cell* cell;
};

/// The cells of a memory region: a cell for each word of a page. After the first access to a part
/// of a word, the page has one cell for each byte.
class Shadow {
  public:
    Shadow(const MemorySpan& span)
        : span_(span), first_(span.start / page_bytes), pages_(span.bytes / page_bytes + 2) {}

    const MemorySpan& span() const { return span_; }

    /// Append the cells of an access to `found`; bytes outside the region are ignored.
    void find(std::uintptr_t address, std::size_t bytes, std::vector<CellRef>& found) {
        const std::uintptr_t end = std::min(address + bytes, span_.start + span_.bytes);
        address = std::max(address, span_.start);
        const bool is_in_words = (address | bytes) % word_bytes == 0;
        while (address < end) {
            Page& page = pages_[address / page_bytes - first_];
            if (page.cells.empty()) page.cells.resize(page_bytes / word_bytes);
            if (!is_in_words && page.cell_bytes != 1) split(page);
            found.push_back({address, &page.cells[address % page_bytes / page.cell_bytes]});
            address += page.cell_bytes;
        }
    }

    /// Forget everything.
    void clear() {
        for (Page& page : pages_) page = {};
    }

  private:
    static constexpr std::size_t page_bytes = 256;
    static constexpr std::size_t word_bytes = 4;

    struct Page {
        std::vector<Cell> cells;  // empty before the first access
        std::size_t cell_bytes = word_bytes;
    };

    static void split(Page& page) {
        std::vector<Cell> bytes;
        bytes.reserve(page_bytes);
        for (const Cell& word : page.cells) bytes.insert(bytes.end(), word_bytes, word);
        page = {std::move(bytes), 1};
    }

    MemorySpan span_;
    std::uintptr_t first_;
    std::vector<Page> pages_;
};

}  // namespace emulator
