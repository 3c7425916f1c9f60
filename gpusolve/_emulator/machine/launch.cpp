// Launches: blocks on the threads of the CPU.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <thread>

#include "machine.h"

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
    has_one_lane = request.order != 0 && !request.counts;
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
        for (std::size_t k = 0; k < resident.size();) {
            if (is_random) k = random() % resident.size();
            Block& block = *resident[k];
            // Passes follow each other while barriers end; a pass that ends by waiting in a loop
            // lets other blocks run.
            bool can_run;
            do {
                const u64 before = progress;
                can_run = block.pass();
                if (now() - checked > 20'000'000) {
                    check();
                    checked = now();
                }
                if (is_random || progress == before || block.yields) break;
            } while (block.live_warps && can_run);
            if (!block.live_warps) {
                end_block(k);
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
    }
    if (progress) launch.progress_time = now();
}

void Launch::run() {
    std::vector<std::unique_ptr<Worker>> workers;
    for (int k = 0; k < request.workers; ++k) {
        workers.push_back(std::unique_ptr<Worker>(new Worker{*this, k, {}, {}, {}, {}, 0, {}, {}}));
        workers.back()->cached.assign(kernel.by_site.size(), nullptr);
        workers.back()->random.seed(request.seed + static_cast<u64>(k));
        if (counts) {
            workers.back()->warp_counts.assign(kernel.by_site.size(), 0);
            workers.back()->lane_counts.assign(kernel.by_site.size(), 0);
        }
    }
    std::atomic<int> running{0};
    const auto work = [&](Worker& worker) {
        try {
            worker.run();
        } catch (const LaunchStopped&) {
        } catch (const std::exception& error) {
            if (Fault* found = report(nullptr, nullptr, 0, 0)) {
                found->kind = static_cast<s32>(FaultKind::text);
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
    if (counts && !stopped)
        counted = described(*counts, workers[0]->warp_counts, workers[0]->lane_counts);
}

}  // namespace machine
