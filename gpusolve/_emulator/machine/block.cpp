// Blocks: the turns of their warps, barriers, and what a message says about their threads.

#include <algorithm>

#include "table.h"

namespace machine {

void Block::start(Launch& of, Worker& by, u64 which) {
    launch = &of;
    worker = &by;
    number = which;
    const Request& request = of.request;
    threads = request.block[0] * request.block[1] * request.block[2];
    exited = 0;
    const u32 count = (threads + LANES - 1) / LANES;
    live_warps = count;
    const u64 fixed = (of.kernel.shared_bytes + 15) / 16 * 16;
    bool is_dynamic = request.shared_bytes > 0;
    for (const SharedVariable& variable : of.kernel.shared) is_dynamic |= variable.bytes == 0;
    shared_bytes = is_dynamic
                       ? fixed + request.shared_bytes
                       : of.kernel.shared_bytes - (of.kernel.shared_bytes ? of.kernel.gap : 0);
    shared_memory.assign(shared_bytes / 8 + 32, ~0ull);
    shared = reinterpret_cast<u8*>((reinterpret_cast<u64>(shared_memory.data()) + 127) & ~127ull);
    std::fill(std::begin(barriers), std::end(barriers), Barrier());
    while (warps.size() < count) warps.push_back(std::make_unique<Warp>());
    warps.resize(count);
    for (u32 k = 0; k < count; ++k) warps[k]->start(this, of.kernel, k);
    if (of.is_watched) watch_block_start(*this);
}

bool Block::pass() {
    const Request& request = launch->request;
    const std::size_t n = warps.size();
    bool has_run = yields = false;
    const bool is_random = request.order == 2;
    const std::size_t first = is_random ? worker->random() % n : 0;
    for (std::size_t k = 0; k < n && live_warps && !(is_random && has_run); ++k) {
        Warp& warp = *warps[request.order == 1 ? n - 1 - k : (first + k) % n];
        if (!warp.alive) continue;
        bool can_run = warp.active != 0;
        for (const Group& group : warp.groups) can_run |= group.state == State::ready;
        if (!can_run) continue;
        has_run = true;
        warp.yields = false;
        const u64 turn = launch->counts ? SHORT_TURN : LONG_TURN;
        warp.run(is_random ? 1 + worker->random() % (worker->random() % 8 ? 8 : 200) : turn);
    }
    return has_run;
}

void Block::arrive(Warp& warp, const Inst& inst, u32 lanes, u32 which, u32 expected, bool waits) {
    Barrier& barrier = barriers[which];
    if (!barrier.arrived) barrier.first = &inst;
    barrier.is_same &= barrier.first == &inst;
    barrier.arrived += static_cast<u32>(count(lanes));
    barrier.expected = expected;
    if (inst.mode >= ANY) {
        const u32 yes = warp.predicate(inst, inst.count - 1) & lanes;
        barrier.any |= yes != 0;
        barrier.all &= yes == lanes;
        barrier.count += static_cast<u32>(machine::count(yes));
    }
    if (waits) warp.suspend(lanes, &inst, State::barrier, 0, which);
    check_barrier(which);
}

void Block::check_barrier(u32 which) {
    Barrier& barrier = barriers[which];
    const u32 expected = barrier.expected ? barrier.expected : threads - exited;
    if (!barrier.arrived || barrier.arrived < expected) return;
    if (!barrier.expected && !barrier.is_same)
        fail(
            "divergent barrier: all threads of a block must reach the same barrier, so it must "
            "not be in a branch that some skip, nor after an early return" +
            describe_threads());
    if (!barrier.expected && exited && launch->checks)
        fail(
            "divergent barrier: some threads have returned before a barrier in which the others "
            "wait; Volta and later GPUs wait for the others only, earlier GPUs may hang; let all "
            "threads reach the barrier, and guard the work instead" +
            describe_threads());
    if (launch->is_watched) watch_barrier(*this, which);
    ++worker->progress;
    const Barrier done = barrier;
    barrier = Barrier();
    for (const auto& warp : warps)
        for (Group& group : warp->groups) {
            if (group.state != State::barrier || group.barrier != which) continue;
            const Inst& inst = *group.pc;
            if (inst.mode >= ANY) {
                Frame* const own = warp->frame;
                const u32 own_mask = std::exchange(warp->mask, group.mask);
                warp->enter(group.frame);
                if (inst.mode == COUNT)
                    assign_all(*warp, inst.op[0], done.count);
                else
                    set_predicate(*warp, inst.op[0],
                                  (inst.mode == ANY ? done.any : done.all) ? ALL : 0);
                warp->enter(own);
                warp->mask = own_mask;
            }
            group.state = State::ready;
            ++group.pc;
            // All threads go on in the order of the schedule.
            warp->stop = nullptr;
            warp->yields = true;
        }
}

void Block::fail(const std::string& text) {
    if (Fault* fault = launch->report(nullptr, nullptr, 0, number)) {
        fault->kind = static_cast<s32>(FaultKind::text);
        std::snprintf(fault->text, sizeof(fault->text), "%s", text.c_str());
    }
    throw LaunchStopped();
}

std::string Block::describe_threads() const {
    struct Same {
        std::string state;
        u32 first, count;
    };
    std::vector<Same> found;
    const auto add = [&](const std::string& state, u32 first_thread, u32 lanes) {
        for (const u32 l : Lanes{lanes}) {
            const u32 thread = first_thread + l;
            auto same = std::find_if(found.begin(), found.end(),
                                     [&](const Same& one) { return one.state == state; });
            if (same == found.end()) same = found.insert(found.end(), {state, thread, 0});
            same->first = std::min(same->first, thread);
            ++same->count;
        }
    };
    const auto at = [](const Inst& inst) { return " at {" + std::to_string(inst.site) + "}"; };
    for (const auto& warp : warps) {
        const u32 lanes = std::min<u32>(LANES, threads - warp->first_thread);
        const u32 all = lanes == LANES ? ALL : (1u << lanes) - 1;
        const auto running = [&](const Group& group) {
            const bool is_first =
                group.pc == group.frame->function->code.data() && !group.frame->depth;
            add(is_first ? "not started" : "running" + at(group.pc[-1]), warp->first_thread,
                group.mask);
        };
        add("returned from the kernel", warp->first_thread, all & ~warp->alive);
        if (warp->active) running({warp->active, warp->pc, warp->frame});
        for (const Group& group : warp->groups) {
            if (group.state == State::ready) {
                running(group);
                continue;
            }
            char mask[32] = "";
            if (group.state == State::collective)
                std::snprintf(mask, sizeof(mask), " with mask 0x%08x", group.members);
            add(std::string("waiting in ") + group.pc->row->name + mask + at(*group.pc),
                warp->first_thread, group.mask);
        }
    }
    std::sort(found.begin(), found.end(),
              [](const Same& a, const Same& b) { return a.first < b.first; });
    const auto index = [&](u32 thread) {
        const u32* size = launch->request.block;
        return "(" + std::to_string(thread % size[0]) + ", " +
               std::to_string(thread / size[0] % size[1]) + ", " +
               std::to_string(thread / size[0] / size[1]) + ")";
    };
    std::string text;
    for (const Same& same : found)
        text += "\n  " + std::to_string(same.count) + " of " + std::to_string(threads) +
                " threads: " + same.state + ", first thread " + index(same.first);
    return text;
}

}  // namespace machine
