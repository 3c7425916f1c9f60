// Which accesses are known to whom: vector clocks of threads.

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

/// An access that some lanes of a warp made at one time of theirs, by one instruction.
struct Event {
    std::uint64_t block;
    std::uint64_t instruction;
    std::uint32_t warp;
    std::uint32_t lanes;
    std::uint32_t time;
    bool writes;
    bool is_strong;

    bool is_of_warp(const Event& other) const { return block == other.block && warp == other.warp; }

    Event by(std::uint32_t some_lanes) const {
        Event event = *this;
        event.lanes = some_lanes;
        return event;
    }

    /// Apart from the lanes.
    bool is_same(const Event& other) const {
        return is_of_warp(other) && time == other.time && instruction == other.instruction &&
               writes == other.writes && is_strong == other.is_strong;
    }
};

/// For each thread of one block, the time up to which all its accesses are known.
///
/// A barrier brings all threads to one time, so that one number tells it of all of them.
class BlockTimes {
  public:
    /// Those of an event's lanes whose accesses are not known.
    std::uint32_t unknown(const Event& event) const {
        if (event.time <= all_) return 0;
        std::uint32_t unknown = event.lanes;
        for (const Later& later : later_)
            if (later.thread / 32 == event.warp && event.time <= later.time)
                unknown &= ~(1u << later.thread % 32);
        return unknown;
    }

    void learn_all(std::uint32_t time) {
        all_ = std::max(all_, time);
        const auto is_covered = [this](const Later& later) { return later.time <= all_; };
        later_.erase(std::remove_if(later_.begin(), later_.end(), is_covered), later_.end());
    }

    void learn(std::uint32_t thread, std::uint32_t time) {
        if (time <= all_) return;
        const auto found = std::lower_bound(later_.begin(), later_.end(), Later{thread, 0});
        if (found == later_.end() || found->thread != thread)
            later_.insert(found, {thread, time});
        else
            found->time = std::max(found->time, time);
    }

    void learn(const BlockTimes& other) {
        learn_all(other.all_);
        for (const Later& later : other.later_) learn(later.thread, later.time);
    }

  private:
    struct Later {
        std::uint32_t thread, time;
        bool operator<(const Later& other) const { return thread < other.thread; }
    };

    std::uint32_t all_ = 0;     // of every thread that is not listed
    std::vector<Later> later_;  // by thread
};

/// For each thread of the launch, the time up to which all its accesses are known.
class Clock {
  public:
    /// `block` is the one whose threads are asked for most.
    explicit Clock(std::uint64_t block) : block_(block) {}

    /// Those of an event's lanes whose accesses are not known.
    std::uint32_t unknown(const Event& event) const {
        if (event.block == block_) return own_.unknown(event);
        const auto found = others_.find(event.block);
        return found == others_.end() ? event.lanes : found->second.unknown(event);
    }

    BlockTimes& of(std::uint64_t block) { return block == block_ ? own_ : others_[block]; }

    void learn(const Clock& other) {
        of(other.block_).learn(other.own_);
        for (const auto& [block, times] : other.others_) of(block).learn(times);
    }

  private:
    std::uint64_t block_;
    BlockTimes own_;
    std::unordered_map<std::uint64_t, BlockTimes> others_;
};

/// Shared, since many threads know the same.
using Knowledge = std::shared_ptr<const Clock>;

}  // namespace emulator
