// What is remembered of each word of memory: who wrote and who read it.

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "clock.h"

namespace emulator {

/// A piece of memory.
struct MemorySpan {
    std::uintptr_t start;
    std::uint64_t bytes;

    bool contains(std::uintptr_t address) const { return address - start < bytes; }
};

/// What a strong write tells those who read it: what its thread knew at its last fences.
struct Message {
    std::uint64_t block;
    Knowledge for_block;   // at the last fence of any scope
    Knowledge for_device;  // at the last __threadfence()
};

/// The accesses to a word, or to a byte of it, that a later one may be in conflict with.
struct Cell {
    std::vector<Event> events;
    std::shared_ptr<const Message> message;  // of the last write
    std::uint64_t write = 0;                 // its number; 0 is before the launch
};

/// A cell, and where the memory begins that it is for.
struct Place {
    std::uintptr_t address;
    Cell* cell;
};

/// The cells of a piece of memory: one for each word of a page, until an access comes that is
/// smaller than a word; then one for each byte.
class Shadow {
  public:
    explicit Shadow(const MemorySpan& span)
        : span_(span), first_(span.start / page_bytes), pages_(span.bytes / page_bytes + 2) {}

    const MemorySpan& span() const { return span_; }

    /// Append the cells of those bytes of an access that lie in this piece.
    void find(std::uintptr_t address, std::size_t bytes, std::vector<Place>& found) {
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
        std::vector<Cell> cells;  // made when first touched
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
