#include "block.h"

#include <sched.h>

#include <cstring>
#include <numeric>

#include "kernel_entry.h"
#include "shared_memory.h"

EMULATOR_OWN uint3 threadIdx;
EMULATOR_OWN uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace emulator {

namespace {

EMULATOR_OWN BlockRunner* runner;

/// A thread that calls so many atomics and fences in one turn may be waiting for another.
constexpr unsigned breaths_per_yield = 64;

// Stacks that all began at the same place of a page would compete for the same few cache
// lines; neighbours begin a little apart.
constexpr std::size_t stagger_bytes = 192;
constexpr std::size_t stagger_period = 16;

/// Whether it is one of the emulator's, among the kernel's thread-local variables.
bool is_own_variable(std::uintptr_t address) {
    const auto is_in = [address](const auto& variable) {
        return address - reinterpret_cast<std::uintptr_t>(&variable) < sizeof(variable);
    };
    return is_in(threadIdx) || is_in(blockIdx);
}

bool is_same(Site a, Site b) {
    return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

}  // namespace

uint3 place_in(dim3 grid, unsigned long long block) {
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
      turns_(warps_.size()) {
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

/// Shared memory is of this thread of the operating system, and its place known only here.
void BlockRunner::watch_block() {
    const Span shared = thread_local_variables();
    if (!witness_)
        witness_.emplace(launch_.threads(),
                         MemorySpan{reinterpret_cast<std::uintptr_t>(shared.start), shared.bytes});
    witness_->begin(block_);
}

// ---- the scheduler ----------------------------------------------------------------------

void BlockRunner::run(unsigned long long block) {
    runner = this;  // also gives this system thread its copy of the thread-local variables
    poison_shared_memory({&runner, sizeof(runner)});
    block_ = block;
    blockIdx = place_in(launch_.grid, block);
    schedule_ = launch_.schedule.part(block);
    if (launch_.races) watch_block();
    for (Warp& warp : warps_) warp = {warp.present, warp.present, 0, 0, 0, 0};
    left_ = 0;
    while (left_ < threads_.size())
        if (!take_turns()) release_barrier();
    check_shared_memory();
}

/// Let every thread that can run do so. False if there was none.
bool BlockRunner::take_turns() {
    if (launch_.stopped) throw Abandoned();
    bool any_ran = false;
    std::iota(turns_.begin(), turns_.end(), 0);
    schedule_.arrange(turns_.begin(), turns_.end());
    for (int warp : turns_) {
        bool ran = run_round(warp);
        any_ran |= ran;
        while (ran && !schedule_.is_random()) ran = run_round(warp);
    }
    bool all_paused = any_ran;
    for (Warp& warp : warps_) {
        if (warp.ready) all_paused = false;
        warp.ready |= warp.paused;
        warp.paused = 0;
    }
    if (all_paused) pass_turn();  // perhaps they wait for another block
    return any_ran;
}

/// Let every lane that is ready now run until it waits. False if there was none.
bool BlockRunner::run_round(int warp) {
    int lanes[warpSize];
    int count = 0;
    for_each_lane(warps_[warp].ready, [&](unsigned lane) { lanes[count++] = lane; });
    schedule_.arrange(lanes, lanes + count);
    for (int i = 0; i < count; ++i) resume(threads_[warp * warpSize + lanes[i]]);
    return count > 0;
}

void BlockRunner::resume(Thread& thread) {
    threadIdx = thread.index;
    running_ = &thread;
    breaths_ = 0;
    for (;;) {
        emulator_switch(&scheduler_, thread.stack);
        if (running_ == nullptr) throw Abandoned();
        if (errand_.run == nullptr) break;
        errand_.run(errand_.work);
        errand_ = {};
    }
    running_ = nullptr;
}

void BlockRunner::suspend() {
    emulator_switch(&running_->stack, scheduler_);
}

/// Back to the scheduler for good, which sees that nobody runs any more.
void BlockRunner::abandon() {
    void* never_resumed;
    running_ = nullptr;
    emulator_switch(&never_resumed, scheduler_);
    __builtin_unreachable();
}

/// A fiber's whole life: it serves one thread of every block that its runner runs.
void BlockRunner::thread_main() {
    BlockRunner& self = *runner;
    for (;;) {
        call_kernel(self.launch_.arguments);
        const Thread& thread = *self.running_;
        Warp& warp = self.warps_[thread.warp];
        warp.ready &= ~(1u << thread.lane);
        warp.left |= 1u << thread.lane;
        ++self.left_;
        self.suspend();
    }
}

void BlockRunner::yield() {
    Warp& warp = warps_[running_->warp];
    warp.ready &= ~(1u << running_->lane);
    warp.paused |= 1u << running_->lane;
    suspend();
}

void BlockRunner::breathe() {
    if (launch_.turns) on_scheduler([this] { give_way(); });
    if (++breaths_ == breaths_per_yield) yield();
}

void BlockRunner::fence(Scope scope) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (witness_) on_scheduler([=] { witness_->fence(number_of(*running_), scope); });
    breathe();
}

bool BlockRunner::watches(const volatile void* address) const {
    if (!witness_) return false;
    const auto place = reinterpret_cast<std::uintptr_t>(address);
    return witness_->shared_memory().contains(place) ? !is_own_variable(place)
                                                     : launch_.races->watches(place);
}

void BlockRunner::touch(const volatile void* address, std::size_t bytes, Touch how, void* caller) {
    on_scheduler([=] {
        const auto place = reinterpret_cast<std::uintptr_t>(address);
        // Where the call is, and not where it returns to.
        const auto instruction = reinterpret_cast<std::uintptr_t>(caller) - 1;
        if (auto race = launch_.races->touch(*witness_, number_of(*running_), place, bytes, how,
                                             instruction))
            fail_race(*race, how, instruction);
    });
}

void BlockRunner::pass_turn() {
    if (!launch_.turns)
        sched_yield();
    else if (!launch_.turns->pass(number_) || launch_.stopped)
        throw Abandoned();
}

void BlockRunner::give_way() {
    if (launch_.turns && launch_.turns->is_over(number_)) pass_turn();
}

// ---- the block's barrier ----------------------------------------------------------------

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

/// Nobody can run: then all must be waiting in the same barrier, which is now complete.
void BlockRunner::release_barrier() {
    const Thread& first = threads_.front();
    unsigned long long count = 0;
    for (const Thread& thread : threads_) {
        const bool waits = warps_[thread.warp].in_barrier >> thread.lane & 1;
        if (!waits || thread.operation != first.operation || !is_same(thread.site, first.site))
            report_stuck();
        count += thread.value;
    }
    if (witness_) witness_->barrier();
    for (Thread& thread : threads_) thread.value = count;
    for (Warp& warp : warps_) {
        warp.ready = warp.present;
        warp.in_barrier = 0;
    }
}

// ---- operations of a warp ---------------------------------------------------------------

unsigned long long BlockRunner::exchange(Operation operation, unsigned mask,
                                         unsigned long long value, int source, Site site) {
    Thread& thread = *running_;
    Warp& warp = warps_[thread.warp];
    if (!(mask >> thread.lane & 1))
        fail(site, "%s with mask 0x%08x, which leaves out lane %d that calls it",
             name_of(operation), mask, thread.lane);
    if (mask & ~warp.present)
        fail(site, "%s with mask 0x%08x, but this warp has %d lanes only", name_of(operation), mask,
             __builtin_popcount(warp.present));
    thread.operation = operation;
    thread.mask = mask;
    thread.source = source;
    thread.value = value;
    thread.site = site;
    warp.ready &= ~(1u << thread.lane);
    warp.in_warp |= 1u << thread.lane;

    Thread* lanes = &thread - thread.lane;
    bool complete = (warp.in_warp & mask) == mask;
    for_each_lane(complete ? mask : 0, [&](unsigned lane) {
        complete &= lanes[lane].operation == operation && lanes[lane].mask == mask;
    });
    if (complete) complete_exchange(warp, lanes, mask);
    if (complete && witness_ && operation == Operation::syncwarp)
        on_scheduler([&] { witness_->sync(thread.warp, mask); });
    suspend();
    return thread.value;
}

/// All lanes of the mask are here. Their values are taken down before any goes on, since it
/// may come back with another before a slower lane has read.
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
            running_ = &thread;  // the one at fault, who need not be the last to come
            fail(thread.site, "%s reads lane %d, which is not in its mask 0x%08x",
                 name_of(thread.operation), thread.source, mask);
        }
    });
    warp.in_warp &= ~mask;
    warp.ready |= mask;
}

// ---- the end of a block ------------------------------------------------------------------

void BlockRunner::check_shared_memory() {
    const unsigned char* overrun = find_overrun(launch_.shared_bytes);
    if (!overrun) return;
    if (Report* report = first_report(nullptr)) {
        report->shared_overrun = 1;
        report->shared_bytes = launch_.shared_bytes;
        report->address = static_cast<std::uint64_t>(
            overrun - static_cast<unsigned char*>(thread_local_variables().start));
    }
    throw Abandoned();
}

// ---- what the language calls ------------------------------------------------------------

int block_barrier(Operation operation, bool predicate, Site site) {
    return runner->barrier(operation, predicate, site);
}

unsigned long long warp_shuffle(Operation operation, unsigned mask, unsigned long long value,
                                int source, Site site) {
    return runner->exchange(operation, mask, value, source, site);
}

unsigned warp_vote(Operation operation, unsigned mask, bool predicate, Site site) {
    return static_cast<unsigned>(runner->exchange(operation, mask, predicate, no_source, site));
}

void yield() {
    runner->yield();
}

void breathe() {
    runner->breathe();
}

void fence(Scope scope) {
    runner->fence(scope);
}

}  // namespace emulator
