// The PTX machine: programs, warps, blocks and launches.
//
// A warp executes an instruction for all lanes that are at it. A register is 32 values in a row;
// a predicate is a mask of 32 bits. An operand is a place in one of four memories: the frame of a
// function, the constants of the kernel, the special registers of the warp, and a place for
// results that nobody reads.

#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace machine {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

constexpr int LANES = 32;
constexpr u32 ALL = ~0u;

// Generic addresses: a window for each space that is not memory of the host.
constexpr int WINDOW_BITS = 48;
enum Window : u64 { HOST, SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, FUNCTION_WINDOW };
constexpr u64 window(u64 number) {
    return number << WINDOW_BITS;
}

enum class Space : u8 { generic, global, constant, shared, local, param };

struct Inst;
struct Warp;
struct Block;
struct Worker;
struct Launch;
struct Frame;
struct Kernel;
struct Program;
using Run = void (*)(Warp&, const Inst&);

/// A place: its offset in a memory, times 4, plus the number of the memory.
using Place = u32;
enum Base : u32 { FRAME, CONSTANTS, SPECIALS, NOWHERE };
constexpr u32 aligned(u32 offset, u32 align) {
    return (offset + align - 1) / align * align;
}
constexpr Place place(u32 offset, Base base) {
    return offset << 2 | base;
}

constexpr int MOST_OPERANDS = 32;

// Instructions of a warp before the next warp runs. With short turns, the warps of a block go
// together as on a GPU, and so do their accesses, for a profile.
constexpr u64 LONG_TURN = 200'000, SHORT_TURN = 50;

constexpr u32 BARRIERS = 16;  // named barriers of a block
constexpr u32 CLUSTER_BARRIER = BARRIERS;

struct Function;
struct Row;

/// Bytes that a call copies: from a variable of one function to a variable of another.
struct Copied {
    u32 caller, callee, bytes;
};

struct Call {
    Function* callee = nullptr;  // null for a call by address, and for the machine's functions
    std::vector<Copied> in, out;
};

/// Classes of instructions, by what they cost.
enum Kind : u8 {
    OTHER,
    MOVE,
    INTEGER,
    FLOAT32,
    FLOAT64,
    DIVISION,
    SPECIAL,
    CONVERT,
    BRANCH,
    MEMORY,
    ATOMIC,
    BARRIER,
    WARP_BARRIER,
    SHUFFLE,
    VOTE,
    FENCE,
    MATRIX,
};

/// How a result is rounded: to a floating-point number, or to an integer.
enum Rounding : u8 { NO_ROUNDING, RN, RZ, RM, RP, RNI, RZI, RMI, RPI };

/// What an instruction does with memory.
enum Effect : u8 { READS = 1, WRITES = 2 };

/// The order of an access or a fence.
enum Order : u8 { WEAK, RELAXED = 1, ACQUIRE = 2, RELEASE = 4 };

/// An address among the operands.
struct Address {
    u8 operand = 0, width = 8;  // bytes of its register
    s64 offset = 0;
};

/// What a barrier of a block gives back, of a predicate of each thread.
enum BarrierMode : u8 { SYNC, ARRIVE, ANY, EVERY, COUNT };

struct Inst {
    Run run = nullptr;
    Run inner = nullptr;  // what `run` wraps
    Place guard = NOWHERE;
    u32 flip = 0;  // all bits, if the guard is negated
    Address address[2];
    u32 negated = 0;    // a bit for each operand that is a negated predicate
    u8 count = 0;       // operands
    u8 vector = 1;      // elements of a vector access
    u8 bytes = 0;       // of an access, all elements together
    u8 widths[2] = {};  // of the registers that may be wider than their types
    Space space = Space::generic;
    u8 mode = 0;  // which of a row's variants
    Kind kind = OTHER;
    u8 effect = 0, order = 0;
    u8 rounding = 0, flushes = 0, saturates = 0, is_relu = 0, is_volatile = 0;
    u8 scope = 0;  // 0: of the system or the device, 1: of the block
    u32 site = 0;  // its number in the kernel
    s32 ptx_line = 0, file = 0, line = 0;
    const Row* row = nullptr;
    const Inst* target = nullptr;
    const std::vector<const Inst*>* targets = nullptr;
    const Call* call = nullptr;
    const Function* function = nullptr;
    Place op[MOST_OPERANDS] = {};  // the last member, because few instructions have many

    bool is_write() const { return effect & WRITES; }
    bool is_atomic() const { return effect == (READS | WRITES); }
};

struct Function {
    std::string name;
    std::vector<Inst> code;
    u32 frame_bytes = 0, local_bytes = 0;
    std::vector<u32> undefined;      // instructions that may read a register without a value
    std::vector<Copied> parameters;  // `callee` has the offset of each
    Copied result{};
    std::unordered_map<std::string, std::vector<const Inst*>> tables;
    std::size_t number = 0;  // in the program
};

struct SharedVariable {
    std::string name;
    u64 offset, bytes;  // 0 bytes: the dynamic memory
};

/// A kernel, with all functions that it reaches.
struct Kernel {
    const Program* program = nullptr;
    std::vector<std::unique_ptr<Function>> functions;  // null if the kernel does not reach it
    std::vector<Function*> by_index;                   // in the order in which they are read
    std::vector<std::unique_ptr<Call>> calls;
    Function* entry = nullptr;
    std::vector<u64> constants;  // 32 values of 64 bits each, some of fewer bits
    std::map<std::pair<u64, u32>, Place> constant_places;  // by value and bytes
    std::vector<SharedVariable> shared;
    std::vector<int> hidden_files;  // whose lines are not named
    u64 gap = 0;                    // bytes after each variable in shared memory
    u64 shared_bytes = 0;           // with the gaps
    u64 static_bytes = 0;           // without
    u32 parameter_bytes = 0;
    u32 stack_bytes = 0;
    std::vector<const Inst*> by_site;

    void set_constant(Place place, u64 value, u32 bytes);
};

/// Memory of the host that a launch may access.
struct Region {
    u64 low, high;
    u64 phase;  // of a GPU's address of the first byte, in 256 bytes
    int number;
    bool is_writeable;
    u8* written;  // a bit for each byte, or null
};

enum class FaultKind : s32 {
    none,
    text,      // a message
    access,    // outside of memory
    readonly,  // a write to memory that is read-only
    misaligned,
    unwritten,
    race,
};

/// Why a launch has failed, as Python reads it.
struct Fault {
    s32 kind = 0;
    s32 has_thread = 0;
    u32 thread = 0, other_thread = 0;
    u64 block = 0, other_block = 0;
    s32 site = -1, other_site = -1;
    s32 space = 0, is_write = 0, other_is_write = 0, race = 0;
    u64 address = 0, bytes = 0;
    char text[4096] = {};
};

struct LaunchStopped {};

struct Frame {
    Frame* parent;
    const Function* function;
    const Inst* call;  // in the parent
    int depth;
    u32 local_base;
    std::vector<u64> memory;
    std::vector<std::unique_ptr<Frame>> children;
    u8* data() {
        return reinterpret_cast<u8*>((reinterpret_cast<u64>(memory.data()) + 63) & ~63ull);
    }
    Frame(Frame* parent, const Function* function, const Inst* call);
};

enum class State : u8 { ready, barrier, collective };

/// Lanes of a warp that are at the same instruction of the same frame.
struct Group {
    u32 mask;
    const Inst* pc;
    Frame* frame;
    State state = State::ready;
    bool has_yielded = false;
    u32 members = 0;  // of a warp operation
    u32 barrier = 0;
};

/// A copy to shared memory that a lane has not waited for.
struct Copy {
    u32 lane, group;
    u64 from, to, address;  // the address in shared memory
    u32 bytes, copied;      // the others are 0
    const Inst* inst;
};

struct Halves {
    u64 first[2];  // addresses of the host
    bool is_same;  // of one element
};

struct alignas(64) Warp {
    u8* base[4];
    u32 mask = 0;    // lanes that execute the present instruction
    u32 active = 0;  // lanes of the present group
    u32 alive = 0;   // lanes that have not ended
    u64 short_turns = 0;
    u32 polls = 0;  // reads of the present group that may be of a loop that waits
    const Inst* pc = nullptr;
    const Inst* stop = nullptr;  // the instruction at which the next group is chosen
    Frame* frame = nullptr;
    Block* block = nullptr;
    Worker* worker = nullptr;
    u32 first_thread = 0;
    bool yields = false;           // other warps and blocks should run
    Space space = Space::generic;  // of the present access
    std::vector<Group> groups;     // the other groups
    std::unique_ptr<Frame> root;
    std::vector<u8> local;
    u64 stride = 0;  // bytes of a lane's local memory
    std::vector<Copy> copies;
    u32 committed[LANES];  // groups of copies
    alignas(64) u64 host[LANES];
    alignas(64) u64 address[LANES];
    alignas(64) u32 specials[20][LANES];
    alignas(64) u64 nowhere[4 * LANES];

    template <class T>
    T* at(Place place) const {
        return reinterpret_cast<T*>(base[place & 3] + (place >> 2));
    }
    u32 predicate(const Inst& inst, int k) const {
        return *at<u32>(inst.op[k]) ^ (inst.negated >> k & 1 ? ALL : 0);
    }

    void start(Block* block, const Kernel& kernel, u32 number);
    /// Run for a number of instructions, or until no group is ready.
    void run(u64 instructions);
    void enter(Frame* frame);
    /// Choose the group that runs next; false if none can.
    bool choose();
    void suspend(u32 lanes, const Inst* at, State state, u32 members, u32 barrier);
    /// Find the next instruction at which groups meet.
    void update_stop();
    /// End lanes.
    void leave(u32 lanes);
    /// Let other groups, warps and blocks run.
    void yield();
    void complete_collectives();
    Frame* child(const Inst& call, const Function& callee);
    /// Find the lanes' memory. False if they are in different spaces: see `split`.
    bool resolve(const Inst& inst, const Address& of, Space space, u32 bytes, bool is_write) {
        locate(inst, of);
        return reach(inst, space, bytes, is_write);
    }
    /// Where lanes 0 and 16 access memory, if all lanes do, and the lanes of each half access the
    /// same element or neighbouring elements: then only the ends are checked.
    bool find_halves(const Inst& inst, Halves& found) const;
    /// The two steps: the addresses, and what is there.
    void locate(const Inst& inst, const Address& of);
    bool reach(const Inst& inst, Space space, u32 bytes, bool is_write);
    bool resolve(const Inst& inst) {
        return resolve(inst, inst.address[0], inst.space, inst.bytes, inst.is_write());
    }
    void split(const Inst& inst);
    /// Make the copies of the lanes, but those of the last groups; ALL: all copies.
    void complete_copies(u32 later_groups);
    [[noreturn]] void fail(const Inst& inst, u32 lane, const char* format, ...);
    [[noreturn]] void fail_access(const Inst& inst, u32 lane, FaultKind kind, u64 address,
                                  u32 bytes, bool is_write);
    Launch& launch() const;
};

struct Barrier {
    u32 arrived = 0, expected = 0;
    const Inst* first = nullptr;
    bool is_same = true;
    u32 count = 0, any = 0, all = 1;
};

struct Block {
    u64 number = 0;
    Worker* worker = nullptr;
    Launch* launch = nullptr;
    std::vector<std::unique_ptr<Warp>> warps;
    std::vector<u64> shared_memory;
    u8* shared = nullptr;
    u64 shared_bytes = 0;
    u32 threads = 0, exited = 0;
    u32 live_warps = 0;
    bool yields = false;             // other blocks should run
    Barrier barriers[BARRIERS + 1];  // the last one: of the cluster, which is the block
    std::shared_ptr<struct BlockChecks> checks;

    void start(Launch& launch, Worker& worker, u64 number);
    /// Run all warps once; whether a warp could run.
    bool pass();
    void arrive(Warp& warp, const Inst& inst, u32 lanes, u32 number, u32 expected, bool waits);
    void check_barrier(u32 number);
    [[noreturn]] void fail(const std::string& text);
    std::string describe_threads() const;
};

/// What Python passes for a launch.
struct Request {
    u32 grid[3], block[3];
    u64 shared_bytes;
    const u8* parameters;
    const Region* regions;
    u64 region_count;
    u64 seed;
    s32 order;  // 0 forward, 1 reverse, 2 random
    s32 workers;
    u64 resident;
    u64 first_block, block_step, running;  // the blocks that run
    double limit;                          // seconds without progress
    s32 checks_races, checks_memory, counts;
    u64 heap, heap_bytes;
};

/// Functions of Python: let other threads run, go on, and run the handlers of signals.
struct Python {
    void* (*save)();
    void (*restore)(void*);
    int (*check_signals)();
};

struct Checks;  // races and unwritten memory
struct Counts;  // of a profile

struct Launch {
    const Kernel& kernel;
    const Request& request;
    Fault& fault;
    const Python& python;
    void* thread = nullptr;  // Python's, while it is saved
    std::vector<Region> regions;
    u64 blocks = 0;
    std::atomic<u64> next{0};
    std::atomic<bool> stopped{false};
    std::atomic<s64> progress_time{0};
    std::atomic<bool> reported{false};
    std::mutex lock;
    std::string output;
    Checks* checks = nullptr;
    Counts* counts = nullptr;
    bool has_one_lane = false;  // lanes run one by one
    bool is_watched = false;    // checks or counts
    std::string counted;        // the counts, if it has not failed

    Launch(const Kernel& kernel, const Request& request, Fault& fault, const Python& python);
    const Region* find(u64 address) const;
    /// Handle signals, such as Ctrl-C, on the thread that has launched.
    void poll();
    Fault* report(const Warp* warp, const Inst* inst, u32 lane, u64 block);
    void run();
};

struct Worker {
    Launch& launch;
    int number;
    std::vector<const Region*> cached;  // by site
    std::vector<std::unique_ptr<Block>> resident;
    std::vector<std::unique_ptr<Block>> spare;
    std::mt19937_64 random;
    u64 progress = 0;                           // ends of threads, barriers and warp operations
    std::vector<u64> warp_counts, lane_counts;  // by site
    void run();
    bool admit();
    /// Look whether the launch must stop.
    void check();
};

/// Hooks of checks and counts at each access; `Warp::host` has its addresses.
void watch_access(Warp& warp, const Inst& inst, u32 bytes, bool is_write);
void watch_block_start(Block& block);
void watch_barrier(Block& block, u32 number);
void watch_warp_sync(Warp& warp, const Inst& inst);
void watch_fence(Warp& warp, const Inst& inst);

/// Registers that an instruction defines and uses.
struct Defined {
    std::vector<u32> defines, uses;
};

/// Give registers places in the frame, the same place where they are never in use together.
/// Returns the bytes of a frame.
u32 allocate_registers(Function& function, const std::vector<Defined>& defined,
                       const std::vector<int>& widths);

/// The function of a name, if the arguments of the call are right; null if there is none.
Run machine_function(const std::string& name, const Call& call);

// ---- checks and counts of a launch ----

std::unique_ptr<Checks, void (*)(Checks*)> new_checks(bool races, bool memory);

void count_access(Warp& warp, const Inst& inst, u32 bytes, bool is_write);
void count_block_start(Block& block);
void count_barrier(Block& block);
void count_operation(Warp& warp, const Inst& inst);

void count_issued(const Warp& warp, u64 instructions);

std::unique_ptr<Counts, void (*)(Counts*)> new_counts();
/// All counts, and how often warps and lanes have executed each instruction.
std::string described(const Counts& counts, const std::vector<u64>& warps,
                      const std::vector<u64>& lanes);

inline u32 lowest(u32 mask) {
    return static_cast<u32>(__builtin_ctz(mask));
}
inline int count(u32 mask) {
    return __builtin_popcount(mask);
}

/// The lanes of a mask, the lowest first.
struct Lanes {
    u32 rest;
    Lanes begin() const { return *this; }
    Lanes end() const { return {0}; }
    u32 operator*() const { return lowest(rest); }
    void operator++() { rest &= rest - 1; }
    bool operator!=(const Lanes& other) const { return rest != other.rest; }
};

/// The lanes whose value equals the value of the lowest lane.
template <class T>
u32 equal_lanes(const T* values, u32 lanes) {
    u32 equal = 0;
    for (const u32 l : Lanes{lanes})
        if (values[l] == values[lowest(lanes)]) equal |= 1u << l;
    return equal;
}

}  // namespace machine
