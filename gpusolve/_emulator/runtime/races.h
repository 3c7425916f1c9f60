// A race detector: what threads do to each other in memory without an order between.
//
// The order is that of CUDA's memory model, by vector clocks (Flanagan & Freund, "FastTrack",
// PLDI 2009). Each thread has its own clock, and two accesses of different threads conflict if
// they touch a byte in common, one of them writes, one of them is weak, and the thread of the
// later one does not know of the earlier one. What a thread comes to know:
//
// - behind __syncthreads(), what any thread of the block knew in front of it;
// - behind __syncwarp(mask), what any lane of the mask knew in front of it;
// - what lay in memory before the launch.
//
// Plain accesses are weak; volatile ones and atomics are strong, and order nothing by
// themselves. A strong write carries what its thread knew at its last __threadfence(), and
// an atomic update hands on what the value before it carried. Who reads that by a strong
// access knows as much after a __threadfence() of its own. Within a block
// __threadfence_block() serves as well.
//
// Shuffles and votes order nothing, as the programming guide has it ("do not imply a memory
// barrier"), although on today's devices their lanes run in step.
//
// Not seen: what is written to another thread's local array, through a pointer to const by a
// cast, or by a call of memcpy that GCC makes no moves of; nor what happens only in an
// interleaving of blocks, or for data, other than this launch's. Within a block the verdict
// does not depend on the order of the threads, unless their way through the kernel does.

#pragma once

#include <mutex>
#include <optional>

#include "device.h"
#include "shadow.h"

namespace emulator {

/// How memory is touched.
struct Touch {
    bool reads, writes, is_strong;
};

/// What a touch meets. Torn: it reads as one what was written in parts.
struct Race {
    std::uintptr_t address;
    Event other;
    bool is_torn;

    std::uint32_t other_thread() const {
        return other.warp * warpSize + static_cast<std::uint32_t>(__builtin_ctz(other.lanes));
    }
};

/// What the threads of a running block know, and what they did to their shared memory.
class BlockWitness {
  public:
    BlockWitness(std::uint32_t threads, const MemorySpan& shared_memory);

    const MemorySpan& shared_memory() const { return shared_.span(); }

    /// A new block begins.
    void begin(std::uint64_t block);

    /// All threads meet in a barrier.
    void barrier();

    /// The lanes of a warp meet in a __syncwarp().
    void sync(std::uint32_t warp, std::uint32_t lanes);

    /// A thread calls a fence.
    void fence(std::uint32_t thread, Scope scope);

  private:
    friend class RaceDetector;

    struct Thread {
        std::uint32_t time;
        Knowledge known;                         // of the others
        Knowledge seen_in_block, seen_anywhere;  // are known after a fence of that scope
        std::shared_ptr<const Message> message;  // for the next strong write
    };

    std::uint64_t block_ = 0;
    std::vector<Thread> threads_;
    Shadow shared_;
};

class RaceDetector {
  public:
    RaceDetector(const MemorySpan* spans, std::size_t count);

    /// Whether it is global memory that is watched.
    bool watches(std::uintptr_t address) const;

    /// A thread of the block touches shared memory, or global memory that is watched.
    std::optional<Race> touch(BlockWitness& block, std::uint32_t thread, std::uintptr_t address,
                              std::size_t bytes, Touch touch, std::uint64_t instruction);

  private:
    /// One touch, while it is looked at.
    struct Now {
        BlockWitness::Thread& thread;
        Event event;
        bool reads;

        std::uint32_t unknown(const Event& earlier) const;
    };

    void find_places(BlockWitness& block, std::uintptr_t address, std::size_t bytes);
    std::optional<Race> find_race(const Now& now) const;
    static std::optional<Race> conflict(const Place& place, const Now& now);
    std::optional<Race> tear(const Now& now) const;
    void remember(const Now& now);
    static void remember_event(std::vector<Event>& events, const Now& now);
    void remember_write(Cell& cell, const Now& now) const;

    std::mutex mutex_;
    std::vector<Shadow> shadows_;
    std::vector<Place> places_;  // of the touch that is looked at
    std::uint64_t writes_ = 0;
};

}  // namespace emulator
