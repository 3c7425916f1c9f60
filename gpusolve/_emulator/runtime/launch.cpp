// A launch: each worker thread runs blocks, one at a time, until none is left.

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "block.h"
#include "fault.h"
#include "kernel_entry.h"
#include "shared_memory.h"

namespace emulator {

namespace {

/// The arguments of a launch, filled in by _program.py.
struct Request {
    unsigned grid[3];
    unsigned block[3];
    std::uint64_t shared_bytes;
    std::uint64_t seed;
    int order;
    int workers;
    void* const* arguments;
    unsigned char* stacks;
    std::uint64_t stack_stride;
    const MemorySpan* arrays;  // that the kernel may write
    std::uint64_t array_count;
    const MemorySpan* constants;  // arrays that the kernel only reads
    std::uint64_t constant_count;
    int checks_races;
    int checks_bounds;
    int is_program;         // whose kernels get no other memory than the arrays
    Profile* profile;       // null if costs are not counted
    std::uint64_t sampled;  // how many blocks run; 0 is all
    double limit;           // seconds without progress after which the launch is stopped
};

constexpr std::size_t signal_stack_bytes = 64 * 1024;
constexpr auto poll_interval = std::chrono::milliseconds(50);

/// Set by another thread to end the running launch.
std::atomic<bool> interrupted;

/// Make denormal operands and results of this thread zero, as in a kernel that is compiled with
/// -ftz=true. The processor flushes float64, too; a GPU flushes float32 only.
void flush_denormals() {
#if defined(__x86_64__)
    constexpr unsigned results = 1u << 15, operands = 1u << 6;
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | results | operands);
#else
    constexpr std::uint64_t both = 1u << 24;
    std::uint64_t control;
    asm volatile("mrs %0, fpcr" : "=r"(control));
    asm volatile("msr fpcr, %0" : : "r"(control | both));
#endif
}

class WorkerPool {
  public:
    WorkerPool(Launch& launch, int workers, double limit)
        : launch_(launch), limit_(limit), order_(launch.sampled), working_(workers) {
        for (std::uint64_t i = 0; i < launch.sampled; ++i)
            order_[i] = static_cast<__uint128_t>(i) * launch.blocks() / launch.sampled;
        launch.schedule.derive(launch.blocks()).arrange(order_.begin(), order_.end());
        if (launch.schedule.is_random() || launch.races || launch.profile)
            launch.worker_scheduler =
                &scheduler_.emplace(launch.schedule.derive(launch.blocks() + 1), workers);
        const sigset_t workers_mask = all_but_faults();
        sigset_t mask;
        pthread_sigmask(SIG_SETMASK, &workers_mask, &mask);  // the new threads inherit it
        for (int i = 0; i < workers; ++i) workers_.emplace_back([this, i] { work(i); });
        pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    }

    /// Wait until all workers have ended: all blocks are done, or the launch failed.
    void join() {
        std::unique_lock<std::mutex> lock(mutex_);
        while (!changed_.wait_for(lock, poll_interval, [this] { return working_ == 0; })) {
            if (interrupted) launch_.stopped = true;
            if (!launch_.stopped) stop_without_progress();
            if (scheduler_ && !launch_.stopped) scheduler_->tick();
            if (!launch_.stopped) continue;
            if (scheduler_) scheduler_->stop();
            for (std::thread& worker : workers_) interrupt(worker.native_handle());
        }
        lock.unlock();
        for (std::thread& worker : workers_) worker.join();
    }

  private:
    using Clock = std::chrono::steady_clock;

    void stop_without_progress() {
        const std::uint64_t progress = launch_.progress;
        if (progress != progress_) {
            progress_ = progress;
            since_ = Clock::now();
        } else if (std::chrono::duration<double>(Clock::now() - since_).count() > limit_) {
            launch_.is_endless = true;
            launch_.stopped = true;
        }
    }

    void work(int number) {
        std::vector<unsigned char> signal_stack(signal_stack_bytes);
        stack_t stack{};
        stack.ss_sp = signal_stack.data();
        stack.ss_size = signal_stack.size();
        sigaltstack(&stack, nullptr);
#ifdef EMULATOR_FLUSHES_DENORMALS
        flush_denormals();  // until the thread ends, with the launch
#endif
        if (!scheduler_ || scheduler_->wait(number)) run_blocks(number);
        if (scheduler_) scheduler_->remove(number);
        stack.ss_flags = SS_DISABLE;
        sigaltstack(&stack, nullptr);
        const std::lock_guard<std::mutex> lock(mutex_);
        --working_;
        changed_.notify_one();
    }

    void run_blocks(int number) {
        try {
            BlockRunner runner(launch_, number);
            for (;;) {
                const unsigned long long position = next_++;
                if (position >= order_.size() || launch_.stopped) return;
                runner.run(order_[position]);
                runner.maybe_switch_worker();
            }
        } catch (const LaunchStopped&) {
            // The report is already written.
        } catch (const std::exception& error) {
            launch_.stopped = true;
            if (launch_.reported.exchange(true)) return;
            launch_.report->happened = 1;
            std::snprintf(launch_.report->text, sizeof(launch_.report->text),
                          "the emulator failed: %s", error.what());
        }
    }

    Launch& launch_;
    const double limit_;
    std::uint64_t progress_ = 0;
    Clock::time_point since_ = Clock::now();
    std::vector<unsigned long long> order_;
    std::optional<WorkerScheduler> scheduler_;
    std::atomic<unsigned long long> next_{0};
    std::vector<std::thread> workers_;
    std::mutex mutex_;
    std::condition_variable changed_;
    int working_;
};

dim3 to_dim3(const unsigned (&size)[3]) {
    return {size[0], size[1], size[2]};
}

}  // namespace

/// A process must run one launch at a time, because signal handlers are per process.
EMULATOR_EXPORT void emulator_launch(const Request* request, FaultReport* report) {
    *report = {};
    interrupted = false;
    grid_arrivals = 0;
    gridDim = to_dim3(request->grid);
    blockDim = to_dim3(request->block);
    std::uint64_t sampled = request->sampled;
    if (!sampled) sampled = 1ull * gridDim.x * gridDim.y * gridDim.z;
    const std::vector<MemorySpan> written(request->arrays, request->arrays + request->array_count);
    const std::vector<MemorySpan> constants(request->constants,
                                            request->constants + request->constant_count);
    std::optional<RaceDetector> races;
    if (request->checks_races) races.emplace(written, constants);
    std::optional<ArrayBounds> bounds;
    if (request->checks_bounds) {
        std::vector<MemorySpan> all = written;
        all.insert(all.end(), constants.begin(), constants.end());
        bounds.emplace(std::move(all), request->is_program);
    }
    Launch launch{gridDim,
                  blockDim,
                  request->shared_bytes,
                  request->arguments,
                  Schedule(static_cast<Order>(request->order), request->seed),
                  {request->stacks, request->stack_stride},
                  nullptr,
                  races ? &*races : nullptr,
                  bounds ? &*bounds : nullptr,
                  request->profile,
                  sampled,
                  {false},
                  {false},
                  report};
    const FaultHandlers handlers;
    WorkerPool(launch, request->workers, request->limit).join();
    if (!make_relative(report->instruction)) {
        report->instruction = report->caller;
        make_relative(report->instruction);
    }
    make_relative(report->other_instruction);
    report->variable = report->address;
    make_relative(report->variable);
}

EMULATOR_EXPORT void emulator_interrupt() {
    interrupted = true;
}

EMULATOR_EXPORT std::uint64_t emulator_static_shared_bytes() {
    return static_shared_bytes();
}

}  // namespace emulator
