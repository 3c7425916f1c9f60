// Vector clocks: which accesses are ordered before a point in a thread's execution.

#pragma once

#include <algorithm>

#include "machine.h"

namespace machine {

/// An access by an instruction, made by some lanes of a warp at the same logical time.
struct Event {
    u64 block;
    const Inst* inst;
    u32 warp, lanes, time;
    bool writes, is_strong, is_volatile, is_of_block;  // of the scope of a block
    bool is_swap;                                      // compare and swap
    const Inst* updated_after = nullptr;  // of a write: how its thread read the value before

    bool is_of_warp(const Event& other) const { return block == other.block && warp == other.warp; }

    /// Whether all but the lanes are equal.
    bool is_same(const Event& other) const {
        return is_of_warp(other) && time == other.time && inst == other.inst &&
               writes == other.writes;
    }
};

/// The vector clock of a block's threads: all accesses of a thread up to its time are ordered
/// before. A barrier sets all threads to the same time, so one number usually has all of them.
class BlockTimes {
  public:
    /// The lanes of an event whose accesses are not ordered before.
    u32 unordered(const Event& event) const {
        if (event.time <= all_) return 0;
        u32 unordered = event.lanes;
        for (const auto& [thread, time] : threads_)
            if (thread / LANES == event.warp && event.time <= time)
                unordered &= ~(1u << thread % LANES);
        return unordered;
    }
    void advance_all(u32 time) {
        all_ = std::max(all_, time);
        for (auto one = threads_.begin(); one != threads_.end();)
            one = one->second <= all_ ? threads_.erase(one) : std::next(one);
    }
    void advance(u32 thread, u32 time) {
        if (time > all_) threads_[thread] = std::max(threads_[thread], time);
    }
    void join(const BlockTimes& other) {
        advance_all(other.all_);
        for (const auto& [thread, time] : other.threads_) advance(thread, time);
    }

  private:
    u32 all_ = 0;                 // the time of every thread that is not in threads_
    std::map<u32, u32> threads_;  // threads with a later time
};

/// The vector clock of all threads of a launch, by block.
struct VectorClock {
    std::unordered_map<u64, BlockTimes> blocks;

    u32 unordered(const Event& event) const {
        const auto found = blocks.find(event.block);
        return found == blocks.end() ? event.lanes : found->second.unordered(event);
    }
    void join(const VectorClock& other) {
        for (const auto& [block, times] : other.blocks) blocks[block].join(times);
    }
};

/// Shared, because many threads have equal clocks. Null: nothing is ordered before.
using Clock = std::shared_ptr<const VectorClock>;

inline Clock joined(const Clock& a, const Clock& b) {
    if (!a || a == b) return b;
    if (!b) return a;
    auto both = std::make_shared<VectorClock>(*a);
    both->join(*b);
    return both;
}

}  // namespace machine
