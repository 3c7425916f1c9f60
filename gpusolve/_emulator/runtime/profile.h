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
//
// A warp executes a basic block of the code as often as the lane that executes it most often, in
// each interval between barriers and warp operations. So lanes that take both sides of a branch
// count both.
//
// In a loop that is unrolled, a GPU's compiler loads up to four neighbouring words of shared memory
// by one request. Such requests are counted as they are, and their number is counted apart.
//
// For caches, the requests of a block are put in the order in which its warps would make them if
// all of them advanced together. The distance of an access is the number of sectors that the block
// accessed since it last accessed this sector.

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
    merged_requests,    // to shared memory, by a warp: a GPU merges them with another request
    merged_wavefronts,
    chain_issued,    // in 16ths, by the warp that executes most
    chain_waits,     // clocks in 16ths, of the warp that waits longest
    chain_shuffles,  // by the warp that has the most
    chain_votes,
    chain_global_trips,      // by the lane that waits most often for such loads, in 16ths
    chain_global_intervals,  // and intervals between its barriers and warp operations
    chain_shared_trips,
    chain_shared_intervals,
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
    std::uint64_t fewest_wavefronts;  // without bank conflicts
    std::uint64_t lines;              // of 128 bytes
};

/// A basic block of the code. _program.py writes it.
struct BasicBlock {
    std::uint64_t address;  // offset in the object's file
    std::uint64_t instructions;
    std::uint64_t issued;  // instructions of a GPU, in 16ths
    std::uint64_t waits;   // clocks that a warp waits for its results, in 16ths
    std::uint64_t trips;   // how often it waits for its loads, in 16ths
};

/// How often a basic block was executed. _profile.py reads it.
struct CodeRow {
    std::uint64_t address;
    std::uint64_t threads;
    std::uint64_t warps;
};

/// Bins of distances: bin k has the distances below 2^k that are not in a lower bin.
constexpr int distance_bins = 40;

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
    const std::uint64_t* loaded_sectors;    // of each array: those with a byte that was loaded
    const std::uint64_t* written_sectors;   // of each array: those with a byte that was written
    const std::uint64_t* distances;         // sectors that a block loads again, by bin
    std::uint64_t first_loads;              // sectors that a block loads first
    std::uint64_t atomic_requests;          // to the address that has the most, by warps
    std::uint64_t atomic_lanes;             // to the address that has the most, by threads
};

class Profile {
  public:
    static constexpr int shared_memory = -1;
    static constexpr int uncounted = -2;

    static constexpr std::size_t no_code = -1;

    Profile(const MemorySpan* arrays, std::size_t count, const BasicBlock* code,
            std::size_t code_count);

    /// The index of the array at an address, or `uncounted`.
    int find_array(std::uintptr_t address) const;
    const MemorySpan& array(int index) const { return arrays_[index]; }

    /// The index of the basic block at an address, or `no_code`.
    std::size_t find_code(std::uintptr_t address) const;
    const std::vector<BasicBlock>& code() const { return code_; }

    void add_request(const AccessRow& request);
    void add_bytes(int array, std::uint64_t offset, std::size_t bytes, AccessType type);
    void add_atomic(int array, std::uint64_t offset, std::uint64_t lanes);
    void add_block(const BlockCounts& block);
    void add_code(std::size_t index, std::uint64_t threads, std::uint64_t warps);
    void add_loads(const std::array<std::uint64_t, distance_bins>& distances, std::uint64_t first);

    const ProfileSummary& summarise();

  private:
    std::mutex mutex_;
    std::vector<MemorySpan> arrays_;
    std::vector<std::vector<bool>> loaded_;  // bytes of each array
    std::vector<std::vector<bool>> written_;
    std::map<std::array<std::uint64_t, 3>, AccessRow> accesses_;
    std::map<std::array<std::uint64_t, 2>, std::array<std::uint64_t, 2>> atomics_;
    std::vector<BasicBlock> code_;
    std::unordered_map<std::uintptr_t, std::size_t> code_indices_;
    std::array<std::uint64_t, distance_bins> distances_{};
    std::uint64_t first_loads_ = 0;
    std::vector<BlockCounts> blocks_;
    std::vector<AccessRow> access_rows_;
    std::vector<CodeRow> code_rows_;
    std::vector<std::uint64_t> distinct_bytes_;
    std::vector<std::uint64_t> distinct_sectors_;
    std::vector<std::uint64_t> loaded_sectors_;
    std::vector<std::uint64_t> written_sectors_;
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
    void count_code(std::uint32_t thread, std::uintptr_t address);
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

    struct Lane;

    /// Loads that may wait for each other: those of one basic block do not.
    struct LoadChain {
        std::uint64_t trips = 0, intervals = 0;
        std::uint64_t last_block = 0, last_interval = 0;
        void add(const Lane& lane);
    };

    struct Lane {
        Epoch epoch;
        Executions accesses;          // since the epoch began
        Executions operations;        // of parts of the warp, since `epoch.barriers`
        std::uint64_t blocks = 0;     // basic blocks that were executed
        std::uint64_t trips = 0;      // of the last basic block, in 16ths
        std::uint64_t intervals = 0;  // between barriers and warp operations
        LoadChain global, shared;
    };

    struct LaneAccess {
        std::uint32_t lane;
        std::uint64_t offset;
        std::size_t bytes;
    };

    struct SectorAccess {
        std::uint64_t sector;  // with the array's index in the upper bits
        bool is_load;
    };

    struct Request {
        std::uint64_t instruction;
        int memory;
        AccessType type;
        bool is_unrolled;  // in a loop that a GPU's compiler unrolls completely
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
        std::vector<std::vector<SectorAccess>> global;  // finished requests, for the caches
        std::uint64_t issued = 0, waits = 0, shuffles = 0, votes = 0;
    };

    /// How often a warp executed a basic block. The lanes of a warp run in sequence: `most` is the
    /// count of the lane that executed it most often since the epoch began. Code is counted on a
    /// thread's own stack, where allocation is not allowed: see BlockRunner::run_on_scheduler.
    struct CodeCount {
        std::uint64_t threads, warps;
        Epoch epoch;
        std::uint32_t lane, executions, most;
    };

    void start_epoch(Lane& lane);
    void count_operation(Operation operation, Warp& warp, int words);
    void flush(Warp& warp);
    std::uint64_t finish(Request& request, Warp& warp);
    void add_atomics(const Request& request);
    void load_from_caches();
    void add_chains();

    Profile& profile_;
    MemorySpan shared_;
    std::vector<Lane> lanes_;
    std::vector<Warp> warps_;
    BlockCounts counts_{};
    bool loaded_ = false;          // from global memory, since the last barrier
    std::vector<CodeCount> code_;  // of each warp and basic block
    std::uint64_t pending_ = 0;    // sectors of finished requests
    std::uint64_t accessed_ = 0;   // sectors so far
    std::unordered_map<std::uint64_t, std::uint64_t> last_access_;  // of each sector
    std::array<std::uint64_t, distance_bins> distances_{};
    std::uint64_t first_loads_ = 0;
};

}  // namespace emulator
