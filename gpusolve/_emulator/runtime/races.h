// A race detector: finds conflicting memory accesses of two threads that nothing orders.
//
// It implements the happens-before order of CUDA's memory model with vector clocks (Flanagan &
// Freund, "FastTrack", PLDI 2009). Each thread has a clock. Two accesses of different threads
// conflict if they share a byte, at least one writes, at least one is weak, and the earlier
// is not ordered before the later. An access is ordered before
//
// - the accesses of its block that follow the next __syncthreads();
// - the accesses of the mask's lanes that follow the next __syncwarp(mask);
// - all accesses of a launch, if it was made before the launch.
//
// This order is transitive. Plain accesses are weak. Volatile accesses and atomics are strong,
// and order nothing by themselves. A strong write publishes the clock that its thread had at
// its last __threadfence(); an atomic update also keeps the clock published with the value that
// it replaces. A thread that reads the value by a strong access joins the published clock at
// its own next __threadfence(). Within a block, __threadfence_block() is sufficient.
//
// Shuffles and votes order nothing, as the programming guide says ("do not imply a memory
// barrier"), although on today's devices their lanes run in lockstep. Volatile accesses of a warp's
// lanes to the same shared memory conflict, too: code before Volta relied on that lockstep.
//
// Not detected: writes to another thread's local array, and writes that cast away the const of a
// pointer; nor races that only occur with other data or another interleaving of blocks. Within a
// block the result does not depend on the order of the threads, unless their path through the
// kernel does.

#pragma once

#include <mutex>
#include <optional>
#include <unordered_map>

#include "device.h"
#include "report.h"
#include "shadow.h"

namespace emulator {

/// The kind of a memory access.
struct AccessKind {
    bool reads, writes, is_strong;
    bool is_volatile = false;  // and not atomic
};

/// A race of the current access with an earlier access.
struct Race {
    std::uintptr_t address;
    Event other;
    RaceKind kind;

    std::uint32_t other_thread() const {
        return other.warp * warpSize + static_cast<std::uint32_t>(__builtin_ctz(other.lanes));
    }
};

/// The clocks of a running block's threads, and the accesses to its shared memory.
class BlockRaceState {
  public:
    BlockRaceState(std::uint32_t threads, const MemorySpan& shared_memory);

    const MemorySpan& shared_memory() const { return shared_.span(); }

    /// Start a new block.
    void begin(std::uint64_t block);

    /// All threads have reached a barrier.
    void barrier();

    /// The lanes of a warp have reached a __syncwarp().
    void sync(std::uint32_t warp, std::uint32_t lanes);

    /// A thread calls a fence.
    void fence(std::uint32_t thread, Scope scope);

  private:
    friend class RaceDetector;

    struct Thread {
        std::uint32_t time;
        SharedClock known;                                 // accesses ordered before the next
        SharedClock pending_in_block, pending_on_device;   // joined at a fence of that scope
        std::shared_ptr<const PublishedClocks> published;  // for the next strong write
    };

    std::uint64_t block_ = 0;
    std::vector<Thread> threads_;
    Shadow shared_;
};

class RaceDetector {
  public:
    /// `arrays` may be written; `constants` are not watched. All other memory is watched, too:
    /// `__device__` variables, and what pointers in structures point to.
    RaceDetector(std::vector<MemorySpan> arrays, std::vector<MemorySpan> constants);

    /// Whether accesses to this address of global memory are checked.
    bool is_watched(std::uintptr_t address) const;

    /// Check and record an access to shared memory, or to global memory that is_watched.
    std::optional<Race> check(BlockRaceState& block, std::uint32_t thread, std::uintptr_t address,
                              std::size_t bytes, AccessKind kind, std::uint64_t instruction);

  private:
    /// The access that is being checked.
    struct CurrentAccess {
        BlockRaceState::Thread& thread;
        Event event;
        bool reads;
        bool is_in_shared_memory;

        bool may_be_in_lockstep() const;
        std::uint32_t conflicting(const Event& earlier) const;
        bool is_in_lockstep(const Event& earlier) const;
        std::uint32_t unordered(const Event& earlier) const;
        RaceKind kind_of_conflict(const Event& earlier) const;
    };

    void find_cells(BlockRaceState& block, std::uintptr_t address, std::size_t bytes);
    std::optional<Race> find_race(const CurrentAccess& current) const;
    static std::optional<Race> find_conflict(const CellRef& ref, const CurrentAccess& current);
    std::optional<Race> find_torn_read(const CurrentAccess& current) const;
    std::uint64_t own_read(const Event& event) const;
    void record(const CurrentAccess& current);
    static void record_event(Cell& cell, const CurrentAccess& current);
    void record_write(Cell& cell, const CurrentAccess& current) const;

    std::mutex mutex_;
    std::vector<MemorySpan> constants_;
    std::vector<Shadow> shadows_;                        // of the arrays
    std::unordered_map<std::uintptr_t, Shadow> others_;  // of regions, by their number
    std::vector<CellRef> cells_;                         // of the current access
    std::uint64_t writes_ = 0;
};

}  // namespace emulator
