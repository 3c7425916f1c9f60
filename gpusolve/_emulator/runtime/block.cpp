#include "block.h"

#include <sched.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "kernel_entry.h"
#include "shared_memory.h"
#include "written_memory.h"

EMULATOR_THREAD_LOCAL uint3 threadIdx;
EMULATOR_THREAD_LOCAL uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace emulator {

unsigned grid_arrivals;

namespace {

EMULATOR_THREAD_LOCAL BlockRunner* runner;

/// Atomics and fences that a thread may call before it yields: it may be waiting in a loop for
/// another thread.
constexpr unsigned calls_per_yield = 64;

/// A block whose threads all wait polls this often before it sleeps between polls.
constexpr unsigned rounds_before_sleep = 4;
constexpr auto sleep_time = std::chrono::microseconds(20);

// Stacks that start at the same offset in a page compete for the same few cache sets, so
// neighbouring stacks start at different offsets.
constexpr std::size_t stagger_bytes = 192;
constexpr std::size_t stagger_period = 16;

/// Whether an address belongs to a variable of the emulator, not of the kernel.
bool is_emulator_variable(std::uintptr_t address) {
    const auto is_in = [address](const auto& variable) {
        return address - reinterpret_cast<std::uintptr_t>(&variable) < sizeof(variable);
    };
    return is_in(threadIdx) || is_in(blockIdx) || is_in(blockDim) || is_in(gridDim);
}

/// Bytes that an instruction of a GPU accesses of an object, which may be a structure. Its members
/// are assumed to have the largest size, up to 8, that divides the size of the structure.
std::size_t bytes_per_instruction(std::size_t bytes) {
    const std::size_t divisor = bytes & -bytes;
    return bytes == 16 ? 16 : std::min<std::size_t>(divisor, 8);
}

}  // namespace

bool is_same(Site a, Site b) {
    return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

uint3 block_index(dim3 grid, unsigned long long block) {
    return {static_cast<unsigned>(block % grid.x), static_cast<unsigned>(block / grid.x % grid.y),
            static_cast<unsigned>(block / (1ull * grid.x * grid.y))};
}

BlockRunner* current_runner() {
    return runner;
}

BlockRunner::BlockRunner(Launch& launch, int number)
    : launch_(launch),
      number_(number),
      schedule_(launch.schedule),
      stacks_{launch.stacks.start + number * launch.threads() * launch.stacks.stride,
              launch.stacks.stride},
      threads_(launch.threads()),
      warps_((launch.threads() + warpSize - 1) / warpSize),
      warp_order_(warps_.size()) {
    const dim3 block = launch.block;
    for (unsigned i = 0; i < launch.threads(); ++i) {
        Thread& thread = threads_[i];
        unsigned char* end = stacks_.start + (i + 1) * stacks_.stride;
        thread.stack = new_stack(end - i % stagger_period * stagger_bytes, &thread_main);
        thread.index = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
        thread.warp = static_cast<int>(i) / warpSize;
        thread.lane = static_cast<int>(i) % warpSize;
        warps_[thread.warp].present |= 1u << thread.lane;
    }
}

BlockRunner::~BlockRunner() {
    runner = nullptr;
}

bool BlockRunner::in_stacks(const void* address) const {
    const auto* byte = static_cast<const unsigned char*>(address);
    return stacks_.start <= byte && byte < stacks_.start + threads_.size() * stacks_.stride;
}

/// Called for each block. The address of shared memory is known only on this thread of the
/// operating system.
void BlockRunner::start_race_detection() {
    const Span shared = thread_local_variables();
    if (!race_state_)
        race_state_.emplace(
            launch_.threads(),
            MemorySpan{reinterpret_cast<std::uintptr_t>(shared.start), shared.bytes});
    race_state_->begin(block_);
}

void BlockRunner::start_memory_check() {
    const Span shared = thread_local_variables();
    if (!memory_) memory_.emplace();
    memory_->begin({reinterpret_cast<std::uintptr_t>(shared.start), shared.bytes},
                   reinterpret_cast<std::uintptr_t>(dynamic_shared_memory()), launch_.shared_bytes);
}

void BlockRunner::start_profile() {
    const Span shared = thread_local_variables();
    if (!profile_)
        profile_.emplace(*launch_.profile, launch_.threads(),
                         MemorySpan{reinterpret_cast<std::uintptr_t>(shared.start), shared.bytes});
    profile_->begin();
}

// ---- the scheduler ----------------------------------------------------------------------

void BlockRunner::run(unsigned long long block) {
    runner = this;  // the first access also allocates this thread's thread-local variables
    poison_shared_memory({&runner, sizeof(runner)});
    block_ = block;
    blockIdx = block_index(launch_.grid, block);
    schedule_ = launch_.schedule.derive(block);
    if (launch_.races) start_race_detection();
    if (launch_.arrays) start_memory_check();
    if (launch_.profile) start_profile();
    for (Warp& warp : warps_) warp = {warp.present, warp.present, 0, 0, 0, 0};
    for (Thread& thread : threads_) thread.place = 0;
    finished_ = 0;
    while (finished_ < threads_.size())
        if (!run_ready_warps()) release_barrier();
    if (profile_) profile_->end();
    check_shared_memory();
}

/// Run every thread that is ready. False if none was ready.
bool BlockRunner::run_ready_warps() {
    if (launch_.stopped) end_launch();
    bool any_ran = false;
    std::iota(warp_order_.begin(), warp_order_.end(), 0);
    schedule_.arrange(warp_order_.begin(), warp_order_.end());
    for (int warp : warp_order_) {
        bool ran = run_ready_lanes(warp);
        any_ran |= ran;
        while (ran && !schedule_.is_random()) ran = run_ready_lanes(warp);
    }
    bool all_paused = any_ran;
    for (Warp& warp : warps_) {
        if (warp.ready) all_paused = false;
        warp.ready |= warp.paused;
        warp.paused = 0;
    }
    if (all_paused)
        wait_for_other_blocks();
    else
        idle_rounds_ = 0;
    return any_ran;
}

/// Run every lane that is ready now, until it waits. False if none was ready, or becomes ready.
bool BlockRunner::run_ready_lanes(int warp) {
    int lanes[warpSize];
    int count = 0;
    for_each_lane(warps_[warp].ready, [&](unsigned lane) { lanes[count++] = lane; });
    if (count == 0) return release_active_lanes(warp);
    schedule_.arrange(lanes, lanes + count);
    for (int i = 0; i < count; ++i) resume(threads_[warp * warpSize + lanes[i]]);
    return true;
}

void BlockRunner::resume(Thread& thread) {
    threadIdx = thread.index;
    running_ = &thread;
    calls_since_yield_ = 0;
    for (;;) {
        emulator_switch(&scheduler_stack_, thread.stack);
        if (running_ == nullptr) end_launch();
        if (overwrite_) finish_overwrite();
        if (task_.run == nullptr) break;
        task_.run(task_.work);
        task_ = {};
    }
    running_ = nullptr;
}

void BlockRunner::suspend() {
    emulator_switch(&running_->stack, scheduler_stack_);
}

/// Switch to the scheduler and never return. It recognises this by running_ == nullptr.
void BlockRunner::exit_thread() {
    void* never_resumed;
    running_ = nullptr;
    emulator_switch(&never_resumed, scheduler_stack_);
    __builtin_unreachable();
}

/// End the running thread from a signal handler that interrupted it at an instruction.
void BlockRunner::interrupt_thread(std::uintptr_t instruction) {
    running_->place = instruction;
    exit_thread();
}

/// The main function of a fiber. It runs a thread of every block that its runner runs.
void BlockRunner::thread_main() {
    BlockRunner& self = *runner;
    for (;;) {
        call_kernel(self.launch_.arguments);
        const Thread& thread = *self.running_;
        Warp& warp = self.warps_[thread.warp];
        warp.ready &= ~(1u << thread.lane);
        warp.finished |= 1u << thread.lane;
        ++self.finished_;
        ++self.launch_.progress;
        self.suspend();
    }
}

/// Keep the call before the return address `caller`, for reports.
void BlockRunner::mark_place(void* caller) {
    running_->place = reinterpret_cast<std::uintptr_t>(caller) - 1;
}

void BlockRunner::yield(void* caller) {
    mark_place(caller);
    Warp& warp = warps_[running_->warp];
    warp.ready &= ~(1u << running_->lane);
    warp.paused |= 1u << running_->lane;
    suspend();
}

void BlockRunner::maybe_yield(void* caller) {
    mark_place(caller);
    if (launch_.worker_scheduler) run_on_scheduler([this] { maybe_switch_worker(); });
    if (++calls_since_yield_ == calls_per_yield) yield(caller);
}

void BlockRunner::fence(Scope scope, void* caller) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (race_state_) run_on_scheduler([=] { race_state_->fence(number_of(*running_), scope); });
    if (profile_) profile_->count(Counter::fences);
    maybe_yield(caller);
}

bool BlockRunner::is_watched(const volatile void* address) const {
    const auto location = reinterpret_cast<std::uintptr_t>(address);
    if (profile_)
        return profile_->find_memory(location) != Profile::uncounted &&
               !is_emulator_variable(location);
    if (in_stacks(const_cast<const void*>(address)) || is_emulator_variable(location)) return false;
    return memory_ || is_watched_for_races(location);
}

bool BlockRunner::is_watched_for_races(std::uintptr_t address) const {
    if (!race_state_) return false;
    return race_state_->shared_memory().contains(address) || launch_.races->is_watched(address);
}

void BlockRunner::check_access(const volatile void* address, std::size_t bytes, AccessKind how,
                               void* caller) {
    run_on_scheduler([=] {
        const auto location = reinterpret_cast<std::uintptr_t>(address);
        // The address of the call; `caller` is the return address.
        const auto instruction = reinterpret_cast<std::uintptr_t>(caller) - 1;
        if (profile_) {
            const auto type = how.writes ? AccessType::write : AccessType::read;
            const std::size_t step = bytes_per_instruction(bytes);
            for (std::size_t done = 0; done < bytes; done += step)
                profile_->access(number_of(*running_), location + done, step, type, instruction);
            return;
        }
        if (memory_) check_bounds(location, bytes, how, instruction);
        if (!is_watched_for_races(location)) return;
        if (auto race = launch_.races->check(*race_state_, number_of(*running_), location, bytes,
                                             how, instruction))
            report_race(*race, location, bytes, how, instruction);
    });
}

/// End the launch; of two stores not before the second is done.
void BlockRunner::report_race(const Race& race, std::uintptr_t address, std::size_t bytes,
                              AccessKind how, std::uint64_t instruction) {
    const bool only_stores = !how.reads && race.other.writes &&
                             (race.kind == RaceKind::overwrite || race.kind == RaceKind::conflict);
    if (!only_stores) fail_race(race, bytes, how, instruction);
    const auto* memory = reinterpret_cast<const unsigned char*>(address);
    overwrite_ = Overwrite{race, address, how, instruction, {memory, memory + bytes}};
}

void BlockRunner::finish_overwrite() {
    auto& [race, address, how, instruction, before] = *overwrite_;
    const auto* memory = reinterpret_cast<const unsigned char*>(address);
    if (std::equal(before.begin(), before.end(), memory)) race.kind = RaceKind::same_value;
    fail_race(race, before.size(), how, instruction);
}

void BlockRunner::check_bounds(std::uintptr_t address, std::size_t bytes, AccessKind how,
                               std::uint64_t instruction) {
    if (memory_->is_before(address)) {
        fail_access(Misuse::past_shared_memory, address, bytes, how, instruction);
    } else if (memory_->contains(address)) {
        const Misuse misuse = memory_->check(address, bytes, how);
        if (misuse != Misuse::none) fail_access(misuse, address, bytes, how, instruction);
    } else if (const std::uintptr_t outside = launch_.arrays->find_outside(address, bytes)) {
        fail_access(Misuse::outside, outside, bytes, how, instruction);
    } else {
        const auto* memory = reinterpret_cast<const void*>(address);
        if (how.reads && written_memory().is_unwritten(memory, bytes))
            fail_access(Misuse::unwritten, address, bytes, how, instruction);
        if (how.writes) written_memory().write(memory, bytes);
    }
}

void BlockRunner::count_atomic(const volatile void* address, std::size_t bytes, void* caller) {
    if (!is_watched(address)) return;
    run_on_scheduler([=] {
        profile_->access(number_of(*running_), reinterpret_cast<std::uintptr_t>(address), bytes,
                         AccessType::atomic, reinterpret_cast<std::uintptr_t>(caller) - 1);
    });
}

void BlockRunner::count_code(void* caller) {
    if (profile_ && running_)
        profile_->count_code(number_of(*running_), reinterpret_cast<std::uintptr_t>(caller));
}

void BlockRunner::switch_worker() {
    if (!launch_.worker_scheduler->switch_from(number_) || launch_.stopped) end_launch();
}

void BlockRunner::maybe_switch_worker() {
    if (launch_.worker_scheduler && launch_.worker_scheduler->should_switch(number_))
        switch_worker();
}

/// Called when every thread waits in a loop. It sleeps if the other blocks take long, because
/// a yield returns at once while the cores of the machine are busy with other yields.
void BlockRunner::wait_for_other_blocks() {
    if (launch_.worker_scheduler)
        switch_worker();
    else if (++idle_rounds_ <= rounds_before_sleep)
        sched_yield();
    else
        std::this_thread::sleep_for(sleep_time);
}

// ---- barriers of a block ----------------------------------------------------------------

int BlockRunner::barrier(Operation operation, bool predicate, Site site) {
    Thread& thread = *running_;
    thread.operation = operation;
    thread.site = site;
    thread.value = predicate;
    Warp& warp = warps_[thread.warp];
    warp.ready &= ~(1u << thread.lane);
    warp.in_barrier |= 1u << thread.lane;
    suspend();
    return static_cast<int>(thread.value);
}

/// Called when no thread is ready: all threads must wait in the same barrier, which is then
/// complete.
void BlockRunner::release_barrier() {
    const Thread& first = threads_.front();
    unsigned long long count = 0;
    for (const Thread& thread : threads_) {
        const bool waits = warps_[thread.warp].in_barrier >> thread.lane & 1;
        if (!waits || thread.operation != first.operation || !is_same(thread.site, first.site))
            report_deadlock();
        count += thread.value;
    }
    if (race_state_) race_state_->barrier();
    if (profile_) profile_->barrier();
    ++launch_.progress;
    for (Thread& thread : threads_) thread.value = count;
    for (Warp& warp : warps_) {
        warp.ready = warp.present;
        warp.in_barrier = 0;
    }
}

// ---- warp operations --------------------------------------------------------------------

unsigned long long BlockRunner::exchange(Operation operation, unsigned mask,
                                         unsigned long long value, int words, int source, Site site,
                                         void* caller) {
    Thread& thread = *running_;
    Warp& warp = warps_[thread.warp];
    if (!(mask >> thread.lane & 1))
        fail(site,
             "%s was called by lane %d, which is not in its mask 0x%08x; the mask must contain "
             "every lane that makes the call",
             name_of(operation), thread.lane, mask);
    if (mask & ~warp.present)
        fail(site,
             "%s was called with mask 0x%08x, but this warp has only %d lanes; the mask must "
             "contain existing lanes only",
             name_of(operation), mask, __builtin_popcount(warp.present));
    thread.operation = operation;
    thread.mask = mask;
    thread.source = source;
    thread.value = value;
    thread.site = site;
    warp.ready &= ~(1u << thread.lane);
    warp.in_warp_operation |= 1u << thread.lane;

    Thread* lanes = &thread - thread.lane;
    bool complete = (warp.in_warp_operation & mask) == mask;
    for_each_lane(complete ? mask : 0, [&](unsigned lane) {
        complete &= lanes[lane].operation == operation && lanes[lane].mask == mask;
    });
    if (complete) complete_exchange(warp, lanes, mask);
    if (complete && race_state_ && operation == Operation::syncwarp)
        run_on_scheduler([&] { race_state_->sync(thread.warp, mask); });
    if (complete && profile_)
        run_on_scheduler([&] {
            const auto instruction = reinterpret_cast<std::uintptr_t>(caller);
            profile_->warp_operation(operation, thread.warp, mask, words, instruction);
        });
    suspend();
    return thread.value;
}

unsigned BlockRunner::active_lanes(Site site) {
    Thread& thread = *running_;
    thread.operation = Operation::activemask;
    thread.site = site;
    Warp& warp = warps_[thread.warp];
    warp.ready &= ~(1u << thread.lane);
    warp.in_warp_operation |= 1u << thread.lane;
    suspend();
    return static_cast<unsigned>(thread.value);
}

/// Let the lanes that wait in the same __activemask() continue. False if no lane waits there.
bool BlockRunner::release_active_lanes(int number) {
    Warp& warp = warps_[number];
    Thread* lanes = &threads_[number * warpSize];
    const Thread* first = nullptr;
    unsigned active = 0;
    for_each_lane(warp.in_warp_operation, [&](unsigned lane) {
        const Thread& thread = lanes[lane];
        if (thread.operation != Operation::activemask) return;
        if (!first) first = &thread;
        if (is_same(thread.site, first->site)) active |= 1u << lane;
    });
    for_each_lane(active, [&](unsigned lane) { lanes[lane].value = active; });
    warp.in_warp_operation &= ~active;
    warp.ready |= active;
    return active != 0;
}

/// Called when all lanes of the mask have arrived. All their values are copied first: a lane
/// that continues may call again with a new value before a slower lane reads the old value.
void BlockRunner::complete_exchange(Warp& warp, Thread* lanes, unsigned mask) {
    unsigned long long values[warpSize];
    unsigned votes = 0;
    for_each_lane(mask, [&](unsigned lane) {
        values[lane] = lanes[lane].value;
        votes |= (values[lane] != 0) << lane;
    });
    for_each_lane(mask, [&](unsigned lane) {
        Thread& thread = lanes[lane];
        if (thread.source == no_source) {
            thread.value = votes;
        } else if (mask >> thread.source & 1) {
            thread.value = values[thread.source];
        } else {
            running_ = &thread;  // the faulty thread, which may not be the last to arrive
            fail(thread.site,
                 "%s reads lane %d, which is not in its mask 0x%08x; add the lane to the mask, "
                 "or do not read it",
                 name_of(thread.operation), thread.source, mask);
        }
    });
    warp.in_warp_operation &= ~mask;
    warp.ready |= mask;
    ++launch_.progress;
}

// ---- checks at the end of a block -------------------------------------------------------

void BlockRunner::check_shared_memory() {
    const unsigned char* overrun = find_overrun(launch_.shared_bytes);
    if (!overrun) return;
    if (FaultReport* report = first_report(nullptr)) {
        report->shared_overrun = 1;
        report->access = static_cast<int>(Access::write);
        report->shared_bytes = launch_.shared_bytes;
        report->address = static_cast<std::uint64_t>(
            overrun - static_cast<unsigned char*>(thread_local_variables().start));
    }
    throw LaunchStopped();
}

// ---- functions that the CUDA functions call ----------------------------------------------

int block_barrier(Operation operation, bool predicate, Site site) {
    return runner->barrier(operation, predicate, site);
}

unsigned long long warp_shuffle(Operation operation, unsigned mask, unsigned long long value,
                                int words, int source, Site site) {
    return runner->exchange(operation, mask, value, words, source, site,
                            __builtin_return_address(0));
}

unsigned warp_vote(Operation operation, unsigned mask, bool predicate, Site site) {
    return static_cast<unsigned>(runner->exchange(operation, mask, predicate, 1, no_source, site,
                                                  __builtin_return_address(0)));
}

unsigned active_lanes(Site site) {
    return runner->active_lanes(site);
}

void yield() {
    runner->yield(__builtin_return_address(0));
}

void maybe_yield() {
    runner->maybe_yield(__builtin_return_address(0));
}

void fence(Scope scope) {
    runner->fence(scope, __builtin_return_address(0));
}

}  // namespace emulator
