// Vector clocks: which accesses are ordered before a point in a thread's execution.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace emulator {

template <class Visit>
void for_each_lane(unsigned lanes, Visit visit) {
    for (; lanes != 0; lanes &= lanes - 1) visit(static_cast<unsigned>(__builtin_ctz(lanes)));
}

/// An access by an instruction, made by some lanes of a warp at the same logical time.
struct Event {
    std::uint64_t block;
    std::uint64_t instruction;
    std::uint32_t warp;
    std::uint32_t lanes;
    std::uint32_t time;
    bool writes;
    bool is_strong;
    bool is_volatile;
    std::uint64_t updated_after = 0;  // of a write: the instruction by which its thread read before

    bool is_of_warp(const Event& other) const { return block == other.block && warp == other.warp; }

    Event by(std::uint32_t some_lanes) const {
        Event event = *this;
        event.lanes = some_lanes;
        return event;
    }

    /// Whether all but the lanes are equal.
    bool is_same(const Event& other) const {
        return is_of_warp(other) && time == other.time && instruction == other.instruction &&
               writes == other.writes && is_strong == other.is_strong;
    }
};

/// The vector clock of a block's threads: all accesses of a thread up to its time are
/// ordered before.
///
/// A barrier sets all threads to the same time, so one number usually represents all of them.
class BlockTimes {
  public:
    /// The lanes of an event whose accesses are not ordered before.
    std::uint32_t unordered(const Event& event) const {
        if (event.time <= all_) return 0;
        std::uint32_t unordered = event.lanes;
        for (const ThreadTime& later : threads_)
            if (later.thread / 32 == event.warp && event.time <= later.time)
                unordered &= ~(1u << later.thread % 32);
        return unordered;
    }

    void advance_all(std::uint32_t time) {
        all_ = std::max(all_, time);
        const auto is_covered = [this](const ThreadTime& later) { return later.time <= all_; };
        threads_.erase(std::remove_if(threads_.begin(), threads_.end(), is_covered),
                       threads_.end());
    }

    void advance(std::uint32_t thread, std::uint32_t time) {
        if (time <= all_) return;
        const auto found =
            std::lower_bound(threads_.begin(), threads_.end(), ThreadTime{thread, 0});
        if (found == threads_.end() || found->thread != thread)
            threads_.insert(found, {thread, time});
        else
            found->time = std::max(found->time, time);
    }

    void join(const BlockTimes& other) {
        advance_all(other.all_);
        for (const ThreadTime& later : other.threads_) advance(later.thread, later.time);
    }

  private:
    struct ThreadTime {
        std::uint32_t thread, time;
        bool operator<(const ThreadTime& other) const { return thread < other.thread; }
    };

    std::uint32_t all_ = 0;            // the time of every thread that is not in threads_
    std::vector<ThreadTime> threads_;  // threads with a later time, sorted by number
};

/// The vector clock of all threads of a launch.
class VectorClock {
  public:
    /// `block` is the block whose threads are looked up most often.
    explicit VectorClock(std::uint64_t block) : block_(block) {}

    /// The lanes of an event whose accesses are not ordered before.
    std::uint32_t unordered(const Event& event) const {
        if (event.block == block_) return own_.unordered(event);
        const auto found = others_.find(event.block);
        return found == others_.end() ? event.lanes : found->second.unordered(event);
    }

    BlockTimes& times_of(std::uint64_t block) { return block == block_ ? own_ : others_[block]; }

    void join(const VectorClock& other) {
        times_of(other.block_).join(other.own_);
        for (const auto& [block, times] : other.others_) times_of(block).join(times);
    }

  private:
    std::uint64_t block_;
    BlockTimes own_;
    std::unordered_map<std::uint64_t, BlockTimes> others_;
};

/// Shared, because many threads have equal clocks.
using SharedClock = std::shared_ptr<const VectorClock>;

}  // namespace emulator
