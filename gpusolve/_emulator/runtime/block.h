// One block of threads, run to its end on one thread of the operating system.
//
// Each CUDA thread is a fiber. It runs until it waits for others, in a barrier or in an
// operation of its warp, and then gives its turn away. So between two such places threads
// run one after another, in the order of the schedule: whoever forgot a barrier reads what
// is not there yet, or is there no longer.
//
// Turns: forward and reverse let a warp run as far as it can before its neighbour starts;
// random order changes the warp after every step. Among the blocks, see turns.h.

#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "device.h"
#include "fiber.h"
#include "races.h"
#include "report.h"
#include "schedule.h"
#include "turns.h"

namespace emulator {

/// Stacks side by side, each with an inaccessible page below it.
struct StackMemory {
    unsigned char* start;
    std::size_t stride;
};

/// What all blocks of a launch share.
struct Launch {
    dim3 grid, block;
    std::size_t shared_bytes;
    void* const* arguments;
    Schedule schedule;
    StackMemory stacks;
    Turns* turns;         // null where blocks run at the same time
    RaceDetector* races;  // null where nobody looks
    std::atomic<bool> stopped{false};
    std::atomic<bool> reported{false};
    Report* report;

    unsigned threads() const { return block.x * block.y * block.z; }
    unsigned long long blocks() const { return 1ull * grid.x * grid.y * grid.z; }
};

/// Thrown through the scheduler, never through a kernel, when the launch is to end.
struct Abandoned {};

struct Thread {
    void* stack;
    uint3 index;
    int warp;
    int lane;

    // What it waits for, if it does.
    Operation operation;
    unsigned mask;
    int source;
    unsigned long long value;  // what it came with, and then what it goes on with
    Site site;
};

/// What the scheduler is asked to do for a thread.
struct Errand {
    void (*run)(void* work);
    void* work;
};

/// The lanes of a warp by what they do; each lane is in one of these sets.
struct Warp {
    unsigned present;
    unsigned ready;
    unsigned paused;
    unsigned in_warp;
    unsigned in_barrier;
    unsigned left;
};

class BlockRunner {
  public:
    /// `number` tells the runners of a launch apart.
    BlockRunner(Launch& launch, int number);
    ~BlockRunner();
    BlockRunner(const BlockRunner&) = delete;
    BlockRunner& operator=(const BlockRunner&) = delete;

    void run(unsigned long long block);

    /// Let another block run, at a place where this one may meet it.
    void give_way();

    // Called by the running thread. Those that wait return when it has its turn again.
    int barrier(Operation operation, bool predicate, Site site);
    unsigned long long exchange(Operation operation, unsigned mask, unsigned long long value,
                                int source, Site site);
    void yield();
    void breathe();
    void fence(Scope scope);
    void touch(const volatile void* address, std::size_t bytes, Touch how, void* caller);
    [[noreturn]] void abandon();

    bool in_stacks(const void* address) const;
    bool watches(const volatile void* address) const;
    const Thread* running() const { return running_; }
    std::uint32_t number_of(const Thread& thread) const {
        return static_cast<std::uint32_t>(&thread - threads_.data());
    }

    /// Do something on the scheduler's stack for the running thread, which waits. There it may
    /// lock, allocate, and throw Abandoned; on the thread's own it might be interrupted.
    template <class Work>
    void on_scheduler(Work work) {
        errand_ = {[](void* any) { (*static_cast<Work*>(any))(); }, &work};
        suspend();
    }

    /// The report to fill in, if this failure is the launch's first; else null.
    Report* first_report(const Thread* thread);

  private:
    [[noreturn]] static void thread_main();
    void watch_block();
    bool take_turns();
    bool run_round(int warp);
    void resume(Thread& thread);
    void pass_turn();
    void suspend();
    void release_barrier();
    void complete_exchange(Warp& warp, Thread* lanes, unsigned mask);
    [[noreturn]] void report_stuck();
    [[noreturn]] void fail_block(const std::string& text);
    [[noreturn]] void fail_race(const Race& race, Touch how, std::uint64_t instruction);
    void check_shared_memory();

    Launch& launch_;
    const int number_;
    std::optional<BlockWitness> witness_;  // where races are watched for
    Schedule schedule_;
    unsigned long long block_ = 0;
    StackMemory stacks_;
    std::vector<Thread> threads_;
    std::vector<Warp> warps_;
    std::vector<int> turns_;
    void* scheduler_ = nullptr;
    Thread* running_ = nullptr;
    unsigned left_ = 0;
    unsigned breaths_ = 0;
    Errand errand_{};
};

/// The index of a block by its number.
uint3 place_in(dim3 grid, unsigned long long block);

/// As the kernel's source has it.
const char* name_of(Operation operation);

/// The one that runs on this thread of the operating system; null elsewhere.
BlockRunner* current_runner();

}  // namespace emulator
