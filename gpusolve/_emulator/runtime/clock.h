// Who knows of what: vector clocks of blocks.

#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace emulator {

/// A touch of memory, as its block made it.
struct Event {
    std::uint64_t block;
    std::uint32_t time;  // of that block; 0 is before the launch
    bool is_strong;
    std::uint64_t instruction;
};

/// For each block, the time up to which all that it did is known.
class Clock {
  public:
    void set(std::uint64_t block, std::uint32_t time) { times_[block] = time; }

    bool knows(const Event& event) const {
        if (event.time == 0) return true;
        const auto found = times_.find(event.block);
        return found != times_.end() && event.time <= found->second;
    }

    void learn(const Clock& other) {
        for (const auto& [block, time] : other.times_) {
            std::uint32_t& own = times_[block];
            own = std::max(own, time);
        }
    }

  private:
    std::unordered_map<std::uint64_t, std::uint32_t> times_;
};

}  // namespace emulator
