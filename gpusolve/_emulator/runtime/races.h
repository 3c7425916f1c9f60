// A race detector: what blocks do to each other in global memory without an order between.
//
// The order is that of CUDA's memory model, by vector clocks (Flanagan & Freund, "FastTrack",
// PLDI 2009). Plain accesses are weak; volatile ones and atomics are strong, and order nothing
// by themselves. A strong write carries what its block knew at its last __threadfence(), and
// an atomic update hands on what the value before it carried. Who reads that by a strong
// access knows as much after a __threadfence() of its own. What lay in memory before the
// launch is known to all.
//
// Two touches of a byte conflict if they are of two blocks, one of them writes, one of them
// is weak, and the block of the later one does not know of the earlier one.
//
// Approximate in this: a clock is a block's, not a thread's, as if a barrier stood wherever
// one thread runs after another. What threads of one block do to each other is for the
// permuted orders to find. And of the writes to a byte only the last is remembered.

#pragma once

#include <mutex>
#include <optional>

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
    bool other_writes;
    bool is_torn;
};

class RaceDetector {
  public:
    RaceDetector(const GlobalSpan* spans, std::size_t count);

    bool watches(std::uintptr_t address) const;

    /// A thread of the block touches memory that is watched.
    std::optional<Race> touch(std::uint64_t block, std::uintptr_t address, std::size_t bytes,
                              Touch touch, std::uint64_t instruction);

    /// A thread of the block calls __threadfence().
    void fence(std::uint64_t block);

  private:
    struct Block {
        std::uint32_t time;
        Clock known;
        Clock seen;                           // is known after the next fence
        std::shared_ptr<const Clock> fenced;  // was known at the last one
    };

    /// One touch, while it is looked at.
    struct Now {
        Block& block;
        Touch touch;
        Event event;
    };

    Block& block_of(std::uint64_t number);
    void find_bytes(std::uintptr_t address, std::size_t count);
    std::optional<Race> find_race(std::uintptr_t address, const Now& now) const;
    static bool conflicts(const Event& earlier, const Now& now);
    static std::optional<Race> conflict(const ShadowByte& byte, const Now& now);
    std::optional<Race> tear(const Now& now) const;
    void remember(const Now& now);
    static void remember_read(ShadowByte& byte, const Now& now);
    void remember_write(ShadowByte& byte, const Now& now) const;

    std::mutex mutex_;
    std::vector<Shadow> shadows_;
    std::unordered_map<std::uint64_t, Block> blocks_;
    std::vector<ShadowByte*> bytes_;  // of the touch that is looked at
    std::uint64_t writes_ = 0;
};

}  // namespace emulator
