// Counts what a launch costs: memory requests, barriers, warp operations, executed code.
//
// A request is a memory instruction of a warp. The emulator runs the lanes of a warp one
// after another, so their accesses are combined afterwards: accesses of different lanes belong
// to one request if they are the same execution of the same instruction, counted since the
// lane's last barrier or warp operation. Lanes that reach an instruction in different iterations
// of a loop need more requests on a GPU. Operations of different parts of a warp are combined in
// the same way, and so are accesses that follow them: as if the parts always waited for each other
// to execute an instruction together. A shuffle of 8 bytes counts twice: it is two instructions.
//
// Global memory moves in sectors of 32 bytes; the address of an array's first element counts as
// a multiple of 32. Shared memory has 32 banks of 4 bytes. Lanes that access different words of
// one bank need several wavefronts. Accesses of 8 bytes are processed by half-warps, accesses of
// 16 bytes by quarter-warps.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "device.h"
#include "shadow.h"

namespace emulator {

/// What is counted for each block.
enum class Counter : int {
    barriers,           // __syncthreads(), by the block
    warp_barriers,      // __syncwarp(), by a warp
    shuffles,           // of 4 bytes, by a warp
    votes,              // by a warp
    atomics,            // by a thread
    fences,             // by a thread
    sectors,            // of global memory
    shared_wavefronts,  // of shared memory
    load_intervals,     // between barriers of the block, with a load from global memory
    global_loads,       // by a thread
    global_stores,      // by a thread
    instructions,       // by a thread: accesses to memory, and the executed code's
    count_of_counters,
};

constexpr int counters = static_cast<int>(Counter::count_of_counters);

using BlockCounts = std::array<std::uint64_t, counters>;

enum class AccessType : int { read, write, atomic };

/// The requests of an instruction to an array, or to shared memory. _profile.py reads it.
struct AccessRow {
    std::uint64_t instruction;  // offset in the object's file
    std::int32_t array;         // index of the argument's memory; -1 for shared memory
    std::int32_t type;          // AccessType
    std::uint64_t requests;
    std::uint64_t lanes;
    std::uint64_t bytes;
    std::uint64_t sectors;
    std::uint64_t fewest_sectors;  // for the same bytes, if they were contiguous
    std::uint64_t wavefronts;
};

/// A count of the code after an address: how often it was executed by a thread, which
/// _profile.py reads; or its instructions, which _profile.py writes.
struct CodeRow {
    std::uint64_t address;  // offset in the object's file
    std::uint64_t count;
};

/// All counts of a launch. _profile.py reads it.
struct ProfileSummary {
    std::uint64_t block_rows;
    const BlockCounts* blocks;  // in the order in which they ended
    std::uint64_t access_rows;
    const AccessRow* accesses;
    std::uint64_t code_rows;
    const CodeRow* code;
    const std::uint64_t* distinct_bytes;    // of each array
    const std::uint64_t* distinct_sectors;  // of each array: those with such a byte
};

class Profile {
  public:
    static constexpr int shared_memory = -1;
    static constexpr int uncounted = -2;

    Profile(const MemorySpan* arrays, std::size_t count, const CodeRow* code,
            std::size_t code_count);

    /// The index of the array at an address, or `uncounted`.
    int find_array(std::uintptr_t address) const;
    const MemorySpan& array(int index) const { return arrays_[index]; }

    /// The number of instructions of the code after an address.
    std::uint64_t instructions_after(std::uintptr_t address) const;

    void add_request(const AccessRow& request);
    void add_bytes(int array, std::uint64_t offset, std::size_t bytes);
    void add_block(const BlockCounts& block);
    void add_code(std::uintptr_t address, std::uint64_t executions);

    const ProfileSummary& summarise();

  private:
    std::mutex mutex_;
    std::vector<MemorySpan> arrays_;
    std::vector<std::vector<bool>> touched_;  // bytes of each array
    std::map<std::array<std::uint64_t, 3>, AccessRow> accesses_;
    std::unordered_map<std::uintptr_t, std::uint64_t> code_;
    std::unordered_map<std::uintptr_t, std::uint64_t> instructions_;
    std::vector<BlockCounts> blocks_;
    std::vector<AccessRow> access_rows_;
    std::vector<CodeRow> code_rows_;
    std::vector<std::uint64_t> distinct_bytes_;
    std::vector<std::uint64_t> distinct_sectors_;
    ProfileSummary summary_{};
};

/// The counts of a running block.
class BlockProfile {
  public:
    BlockProfile(Profile& profile, std::uint32_t threads, const MemorySpan& shared_memory);

    /// The array at an address, `shared_memory` or `uncounted`.
    int find_memory(std::uintptr_t address) const;

    void begin();
    void end();
    void count(Counter counter, std::uint64_t times = 1) {
        counts_[static_cast<int>(counter)] += times;
    }
    void count_code(std::uintptr_t address);
    void barrier();
    void warp_operation(Operation operation, std::uint32_t warp, std::uint32_t lanes, int words,
                        std::uint64_t instruction);
    void access(std::uint32_t thread, std::uintptr_t address, std::size_t bytes, AccessType type,
                std::uint64_t instruction);

  private:
    /// How often instructions were executed.
    using Executions = std::unordered_map<std::uint64_t, std::uint64_t>;

    /// What a lane's accesses follow: barriers and operations of its whole warp so far, and since
    /// then the execution of an operation of a part of the warp.
    struct Epoch {
        std::uint64_t barriers = 0, operation = 0, execution = 0;
        bool operator==(const Epoch& other) const {
            return barriers == other.barriers && operation == other.operation &&
                   execution == other.execution;
        }
    };

    struct Lane {
        Epoch epoch;
        Executions accesses;    // since the epoch began
        Executions operations;  // of parts of the warp, since `epoch.barriers`
    };

    struct LaneAccess {
        std::uint32_t lane;
        std::uint64_t offset;
        std::size_t bytes;
    };

    struct Request {
        std::uint64_t instruction;
        int memory;
        AccessType type;
        std::vector<LaneAccess> lanes;
    };

    struct Key {
        std::uint64_t instruction;
        Epoch epoch;
        std::uint64_t execution;
        int memory;
        bool operator==(const Key& other) const {
            return instruction == other.instruction && epoch == other.epoch &&
                   execution == other.execution && memory == other.memory;
        }
    };

    struct HashKey {
        std::size_t operator()(const Key& key) const {
            const Epoch& epoch = key.epoch;
            const std::size_t after =
                (epoch.barriers * 31 + epoch.operation) * 1000003 + epoch.execution;
            return ((key.instruction * 31 + after) * 1000003 + key.execution) * 17 +
                   static_cast<std::size_t>(key.memory);
        }
    };

    struct Warp {
        std::unordered_map<Key, std::size_t, HashKey> positions;
        std::unordered_set<Key, HashKey> operations;  // of a part of the warp
        std::vector<Request> requests;
    };

    /// Code is counted on a thread's own stack, where allocation is not allowed: see
    /// BlockRunner::run_on_scheduler. So the table has a fixed size.
    struct CodeCount {
        std::uintptr_t address;
        std::uint64_t executions;
    };
    static constexpr std::size_t code_slots = 1 << 14;

    void start_epoch(Lane& lane);
    void count_operation(Operation operation, int words);
    void flush(Warp& warp);
    void finish(Request& request);

    Profile& profile_;
    MemorySpan shared_;
    std::vector<Lane> lanes_;
    std::vector<Warp> warps_;
    BlockCounts counts_{};
    bool loaded_ = false;  // from global memory, since the last barrier
    std::vector<CodeCount> code_;
};

}  // namespace emulator
