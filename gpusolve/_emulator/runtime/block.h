// Runs one block of threads to completion, on one thread of the operating system.
//
// Each CUDA thread is a fiber. It runs until it waits for others, in a barrier or in a warp
// operation, and then switches to the scheduler. Between two such points the threads run one
// after another, in the order of the schedule. A kernel that lacks a barrier therefore reads
// values that are not written yet, or already overwritten.
//
// In forward and reverse order a warp runs as far as it can before the next warp starts. In
// random order the scheduler chooses another warp after every step. worker_scheduler.h
// interleaves the blocks.

#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "device.h"
#include "fiber.h"
#include "memory_check.h"
#include "profile.h"
#include "races.h"
#include "report.h"
#include "schedule.h"
#include "worker_scheduler.h"

namespace emulator {

/// Adjacent stacks, each with an inaccessible page below it.
struct StackMemory {
    unsigned char* start;
    std::size_t stride;
};

/// The state that all blocks of a launch share.
struct Launch {
    dim3 grid, block;
    std::size_t shared_bytes;
    void* const* arguments;
    Schedule schedule;
    StackMemory stacks;
    WorkerScheduler* worker_scheduler;  // null if blocks run concurrently
    RaceDetector* races;                // null if races are not detected
    const ArrayBounds* arrays;          // null if bounds are not checked
    Profile* profile;                   // null if costs are not counted
    unsigned long long sampled;         // how many of the blocks run
    std::atomic<bool> stopped{false};
    std::atomic<bool> reported{false};
    FaultReport* report;
    std::atomic<std::uint64_t> progress{0};  // threads that have ended, and waits that are over
    std::atomic<bool> is_endless{false};     // stopped because there was no progress

    unsigned threads() const { return block.x * block.y * block.z; }
    unsigned long long blocks() const { return 1ull * grid.x * grid.y * grid.z; }
};

/// Thrown to end the launch; through the scheduler only, never through a kernel.
struct LaunchStopped {};

struct Thread {
    void* stack;
    uint3 index;
    int warp;
    int lane;

    // The operation that the thread waits in, if it waits.
    Operation operation;
    unsigned mask;
    int source;
    unsigned long long value;  // the argument, then the result
    Site site;

    std::uintptr_t place;  // of the last call that may wait or copy memory, or 0
};

/// Work that a thread passes to the scheduler.
struct SchedulerTask {
    void (*run)(void* work);
    void* work;
};

/// Two stores to an element. Whether they store the same value is known after the second.
struct Overwrite {
    Race race;
    std::uintptr_t address;
    AccessKind how;
    std::uint64_t instruction;
    std::vector<unsigned char> before;  // what the first has stored
};

/// The lanes of a warp as bit masks. A present lane is in exactly one of the sets below.
struct Warp {
    unsigned present;
    unsigned ready;
    unsigned paused;
    unsigned in_warp_operation;
    unsigned in_barrier;
    unsigned finished;
};

class BlockRunner {
  public:
    /// `number` is the index of the worker that owns this runner.
    BlockRunner(Launch& launch, int number);
    ~BlockRunner();
    BlockRunner(const BlockRunner&) = delete;
    BlockRunner& operator=(const BlockRunner&) = delete;

    void run(unsigned long long block);

    /// Let another block run, if the worker scheduler decides so.
    void maybe_switch_worker();

    // Called by the running thread. A call that waits returns when the thread is resumed.
    int barrier(Operation operation, bool predicate, Site site);
    unsigned long long exchange(Operation operation, unsigned mask, unsigned long long value,
                                int words, int source, Site site, void* caller);
    unsigned active_lanes(Site site);
    void mark_place(void* caller);
    void yield(void* caller);
    void maybe_yield(void* caller);
    void fence(Scope scope, void* caller);
    void check_access(const volatile void* address, std::size_t bytes, AccessKind how,
                      void* caller);
    void count_atomic(const volatile void* address, std::size_t bytes, void* caller);
    void count_code(void* caller);
    [[noreturn]] void exit_thread();
    [[noreturn]] void interrupt_thread(std::uintptr_t instruction);

    bool in_stacks(const void* address) const;
    bool is_watched(const volatile void* address) const;
    bool is_watched_for_races(std::uintptr_t address) const;
    bool is_profiled() const { return profile_.has_value(); }
    const Thread* running() const { return running_; }
    std::uint32_t number_of(const Thread& thread) const {
        return static_cast<std::uint32_t>(&thread - threads_.data());
    }

    /// Run `work` on the scheduler's stack while the running thread waits. There it may lock,
    /// allocate and throw LaunchStopped; on the thread's own stack it could be interrupted.
    template <class Work>
    void run_on_scheduler(Work work) {
        task_ = {[](void* any) { (*static_cast<Work*>(any))(); }, &work};
        suspend();
    }

    /// The report to fill in if this is the first failure of the launch, else null.
    FaultReport* first_report(const Thread* thread);

  private:
    [[noreturn]] static void thread_main();
    void start_race_detection();
    void start_memory_check();
    void start_profile();
    bool run_ready_warps();
    bool run_ready_lanes(int warp);
    void resume(Thread& thread);
    void switch_worker();
    void wait_for_other_blocks();
    void suspend();
    void release_barrier();
    bool release_active_lanes(int warp);
    void complete_exchange(Warp& warp, Thread* lanes, unsigned mask);
    [[noreturn]] void end_launch();
    [[noreturn]] void report_deadlock();
    bool is_one_barrier() const;
    std::string describe_threads() const;
    [[noreturn]] void fail_block(const std::string& text);
    void report_race(const Race& race, std::uintptr_t address, std::size_t bytes, AccessKind how,
                     std::uint64_t instruction);
    void finish_overwrite();
    [[noreturn]] void fail_race(const Race& race, std::size_t bytes, AccessKind how,
                                std::uint64_t instruction);
    void check_bounds(std::uintptr_t address, std::size_t bytes, AccessKind how,
                      std::uint64_t instruction);
    [[noreturn]] void fail_access(Misuse misuse, std::uintptr_t address, std::size_t bytes,
                                  AccessKind how, std::uint64_t instruction);
    void check_shared_memory();

    Launch& launch_;
    const int number_;
    std::optional<BlockRaceState> race_state_;  // empty if races are not detected
    std::optional<SharedMemoryCheck> memory_;   // empty if bounds are not checked
    std::optional<BlockProfile> profile_;       // empty if costs are not counted
    Schedule schedule_;
    unsigned long long block_ = 0;
    StackMemory stacks_;
    std::vector<Thread> threads_;
    std::vector<Warp> warps_;
    std::vector<int> warp_order_;
    void* scheduler_stack_ = nullptr;
    Thread* running_ = nullptr;
    unsigned finished_ = 0;
    unsigned calls_since_yield_ = 0;
    unsigned idle_rounds_ = 0;  // since a thread last ran without waiting in a loop
    SchedulerTask task_{};
    std::optional<Overwrite> overwrite_;  // by the running thread
};

/// The blockIdx of a block, from its linear number.
uint3 block_index(dim3 grid, unsigned long long block);

bool is_same(Site a, Site b);

/// The CUDA function of an operation.
const char* name_of(Operation operation);

/// The runner on this thread of the operating system, or null.
BlockRunner* current_runner();

}  // namespace emulator
