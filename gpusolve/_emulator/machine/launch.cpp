// Launches: blocks on the threads of the CPU, and the C interface.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <cxxabi.h>

#include "checks.h"

namespace machine {

namespace {

s64 now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace

Launch::Launch(const Kernel& kernel, const Request& request, Fault& fault, const Python& python)
    : kernel(kernel),
      request(request),
      fault(fault),
      python(python),
      regions(request.regions, request.regions + request.region_count) {
    std::sort(regions.begin(), regions.end(),
              [](const Region& a, const Region& b) { return a.low < b.low; });
    blocks = request.running;
    has_one_lane = request.order != 0;
    progress_time = now();
}

const Region* Launch::find(u64 address) const {
    auto after = std::upper_bound(regions.begin(), regions.end(), address,
                                  [](u64 a, const Region& region) { return a < region.low; });
    if (after == regions.begin()) return nullptr;
    const Region& region = *--after;
    return address < region.high ? &region : nullptr;
}

Fault* Launch::report(const Warp* warp, const Inst* inst, u32 lane, u64 block) {
    stopped = true;
    if (reported.exchange(true)) return nullptr;
    fault.block = block;
    if (warp) {
        fault.has_thread = 1;
        fault.thread = warp->first_thread + lane;
    }
    if (inst) fault.site = static_cast<s32>(inst->site);
    return &fault;
}

void Launch::poll() {
    python.restore(thread);
    if (python.check_signals()) stopped = true;
    thread = python.save();
}

void Worker::check() {
    if (launch.stopped) throw LaunchStopped();
    const s64 time = now();
    if (progress) {
        progress = 0;
        launch.progress_time = time;
    }
    if (number == 0) launch.poll();
    if (launch.stopped) throw LaunchStopped();
    if (static_cast<double>(time - launch.progress_time) * 1e-9 > launch.request.limit &&
        !resident.empty())
        resident.front()->fail(
            "endless loop: no thread of the launch ended, and no barrier or warp operation was "
            "completed, within the limit of the schedule" +
            resident.front()->describe_threads());
}

/// Fail if a block has written into the gaps after its variables in shared memory.
void check_gaps(const Block& block) {
    const Kernel& kernel = block.launch->kernel;
    for (const SharedVariable& variable : kernel.shared) {
        const u64 end = variable.offset + variable.bytes;
        for (u64 k = end; variable.bytes && k < std::min(end + kernel.gap, block.shared_bytes);
             ++k) {
            if (block.shared[k] == 0xff) continue;
            if (Fault* fault = block.launch->report(nullptr, nullptr, 0, block.number)) {
                fault->kind = static_cast<s32>(FaultKind::access);
                fault->space = static_cast<s32>(Space::shared);
                fault->address = k;
                fault->bytes = 1;
                fault->is_write = 1;
            }
            throw LaunchStopped();
        }
    }
}

/// Start the next block. False if there is none.
bool Worker::admit() {
    const u64 k = launch.next++;
    if (k >= launch.blocks) return false;
    std::unique_ptr<Block> block;
    if (spare.empty()) {
        block = std::make_unique<Block>();
    } else {
        block = std::move(spare.back());
        spare.pop_back();
    }
    block->start(launch, *this, launch.request.first_block + k * launch.request.block_step);
    resident.push_back(std::move(block));
    return true;
}

void Worker::run() {
    const u64 workers = static_cast<u64>(launch.request.workers);
    const u64 share = (launch.request.resident + workers - 1) / workers;
    const bool is_random = launch.request.order == 2;
    bool has_more = true;
    s64 checked = now();
    const auto end_block = [&](std::size_t k) {
        check_gaps(*resident[k]);
        spare.push_back(std::move(resident[k]));
        resident.erase(resident.begin() + static_cast<std::ptrdiff_t>(k));
    };
    while (has_more || !resident.empty()) {
        // Another block starts when all blocks wait or run for long.
        if (has_more && (resident.size() < share || resident.empty())) has_more = admit();
        if (is_random)
            while (has_more && resident.size() < share) has_more = admit();
        bool has_run = false;
        for (std::size_t k = 0; k < resident.size();) {
            if (is_random) k = random() % resident.size();
            Block& block = *resident[k];
            // Passes follow each other while barriers end; a pass that ends by waiting in a loop
            // lets other blocks run.
            bool can_run;
            do {
                const u64 before = progress;
                can_run = block.pass();
                has_run |= can_run;
                if (now() - checked > 20'000'000) {
                    check();
                    checked = now();
                }
                if (is_random || progress == before) break;
            } while (block.live_warps && can_run);
            if (!block.live_warps) {
                end_block(k);
                has_run = true;
                if (is_random || resident.empty()) break;
                continue;
            }
            if (!can_run) {
                bool waits_in_barriers = true;
                for (const auto& warp : block.warps)
                    for (const Group& group : warp->groups)
                        waits_in_barriers &= group.state == State::barrier;
                block.fail((waits_in_barriers
                                ? "divergent barrier: all threads of a block must reach the same "
                                  "barrier, so it must "
                                  "not be in a branch that some skip, nor after an early return"
                                : "deadlock: lanes wait for other lanes of their mask; all lanes "
                                  "of a mask must make "
                                  "the same call with the same mask") +
                           block.describe_threads());
            }
            if (is_random) break;
            ++k;
        }
        (void)has_run;
    }
    if (progress) launch.progress_time = now();
}

void Launch::run() {
    std::vector<std::unique_ptr<Worker>> workers;
    for (int k = 0; k < request.workers; ++k) {
        workers.push_back(std::unique_ptr<Worker>(new Worker{*this, k, {}, {}, {}, {}, 0, {}, {}}));
        workers.back()->cached.assign(kernel.sites, nullptr);
        workers.back()->random.seed(request.seed + static_cast<u64>(k));
        if (counts) {
            workers.back()->warp_counts.assign(kernel.sites, 0);
            workers.back()->lane_counts.assign(kernel.sites, 0);
        }
    }
    std::atomic<int> running{0};
    const auto work = [&](Worker& worker) {
        try {
            worker.run();
        } catch (const LaunchStopped&) {
        } catch (const std::exception& error) {
            if (Fault* found = report(nullptr, nullptr, 0, 0)) {
                found->kind = static_cast<s32>(FaultKind::block_text);
                std::snprintf(found->text, sizeof(found->text), "the machine has failed: %s",
                              error.what());
            }
        }
    };
    std::mutex mutex;
    std::condition_variable ended;
    std::vector<std::thread> threads;
    for (int k = 1; k < request.workers; ++k) {
        ++running;
        threads.emplace_back([&, k] {
            work(*workers[static_cast<std::size_t>(k)]);
            const std::lock_guard guard(mutex);
            --running;
            ended.notify_all();
        });
    }
    work(*workers[0]);
    {
        std::unique_lock guard(mutex);
        while (running) {
            if (ended.wait_for(guard, std::chrono::milliseconds(20), [&] { return running == 0; }))
                break;
            poll();
        }
    }
    for (std::thread& thread : threads) thread.join();
    if (counts) add_sites(*counts, workers[0]->warp_counts, workers[0]->lane_counts);
}

}  // namespace machine

// ---- the C interface ----

using namespace machine;

#define EXPORT extern "C" __attribute__((visibility("default")))

/// Whether this CPU has the instructions of the object.
EXPORT int gpusolve_supports() {
#ifdef __AVX2__
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
#else
    return 1;
#endif
}

EXPORT void machine_demangle(const char* symbol, char* text, int bytes) {
    int status = 0;
    char* found = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
    std::snprintf(text, static_cast<std::size_t>(bytes), "%s", found ? found : symbol);
    std::free(found);
}

EXPORT void* machine_load(const Symbol* symbols, int count, const char* entry, u64 gap,
                          const char* hidden_files, char* error, int error_bytes) {
    std::string text;
    auto kernel = load(symbols, count, entry, gap, hidden_files, text);
    std::snprintf(error, static_cast<std::size_t>(error_bytes), "%s", text.c_str());
    return kernel.release();
}

EXPORT void machine_unload(void* kernel) {
    delete static_cast<Kernel*>(kernel);
}

EXPORT u64 machine_shared_bytes(const void* kernel) {
    return static_cast<const Kernel*>(kernel)->static_bytes;
}
EXPORT u32 machine_sites(const void* kernel) {
    return static_cast<const Kernel*>(kernel)->sites;
}

namespace {

/// Offsets of the parameters from which a value may have come, by the instructions before.
void trace(const Kernel& kernel, const Inst* inst, Place value, int depth,
           std::vector<u64>& offsets) {
    const Inst* const first = inst->function->code.data();
    while ((value & 3) == FRAME && inst-- != first) {
        const int results = inst->kind == MEMORY && !inst->is_write ? inst->vector : 1;
        int k = 0;
        while (k < results && inst->op[k] != value) ++k;
        if (k == results || inst->is_write || inst->call) continue;
        if (inst->kind == MEMORY) {
            const Place from = inst->op[inst->vector];
            if (inst->space == Space::param && (from & 3) == CONSTANTS)
                offsets.push_back(kernel.constants[(from >> 2) / 8] +
                                  static_cast<u64>(inst->offset) + 8 * static_cast<u64>(k));
            return;
        }
        if (inst->kind == INTEGER || inst->kind == MOVE)
            for (int source = 1; source < inst->count && depth < 40; ++source)
                trace(kernel, inst, inst->op[source], depth + 1, offsets);
        return;
    }
}

}  // namespace

/// Offsets of the parameters that may be the pointer of an access.
EXPORT int machine_origins(const void* kernel, u32 site, u64* offsets, int most) {
    const Kernel& all = *static_cast<const Kernel*>(kernel);
    const Inst& inst = *all.by_site[site];
    std::vector<u64> found;
    if (inst.function == all.entry)
        for (int k = 0; k < inst.count && k < 5; ++k) trace(all, &inst, inst.op[k], 0, found);
    const int count = std::min(most, static_cast<int>(found.size()));
    std::copy_n(found.begin(), count, offsets);
    return count;
}

struct SiteRow {
    s32 ptx_line, file, line, kind;
};

EXPORT void machine_site(const void* kernel, u32 site, SiteRow* row) {
    const Inst& inst = *static_cast<const Kernel*>(kernel)->by_site[site];
    *row = {inst.ptx_line, inst.file, inst.line, inst.kind};
}

EXPORT int machine_shared_variable(const void* kernel, int number, char* name, int bytes,
                                   u64* offset, u64* size) {
    const auto& shared = static_cast<const Kernel*>(kernel)->shared;
    if (number >= static_cast<int>(shared.size())) return 0;
    const SharedVariable& variable = shared[static_cast<std::size_t>(number)];
    std::snprintf(name, static_cast<std::size_t>(bytes), "%s", variable.name.c_str());
    *offset = variable.offset;
    *size = variable.bytes;
    return 1;
}

/// Called with Python's lock. Not 0 if the kernel has failed, or Python has an exception.
EXPORT int machine_launch(const void* kernel, const Request* request, Fault* fault,
                          const Python* python, char** output, void** counts) {
    Launch launch(*static_cast<const Kernel*>(kernel), *request, *fault, *python);
    const auto checks = new_checks(request->checks_races, request->checks_memory);
    if (request->checks_races || request->checks_memory) launch.checks = checks.get();
    auto counted = new_counts();
    if (request->counts) launch.counts = counted.get();
    launch.is_watched = launch.checks || launch.counts;
    launch.thread = python->save();
    launch.run();
    python->restore(launch.thread);
    *output = nullptr;
    if (!launch.output.empty()) *output = strdup(launch.output.c_str());
    *counts = launch.counts && !launch.stopped ? counted.release() : nullptr;
    return launch.stopped ? 1 : 0;
}

EXPORT const u64* machine_counts(void* counts, int which, u64* length) {
    return counts_table(*static_cast<Counts*>(counts), which, length);
}

EXPORT void machine_delete_counts(void* counts) {
    delete_counts(static_cast<Counts*>(counts));
}

/// Instructions that may read a register before it has a value.
EXPORT int machine_undefined(const void* kernel, u32* sites, int most) {
    int n = 0;
    for (const Function* function : static_cast<const Kernel*>(kernel)->by_index)
        for (const u32 inst : function->undefined)
            if (n < most) sites[n++] = function->code[inst].site;
    return n;
}

EXPORT void machine_free(void* memory) {
    std::free(memory);
}
