// Warps: groups of lanes that are at the same instruction, and which of them runs next.

#include <algorithm>
#include <cstdarg>

#include "machine.h"

namespace machine {

namespace {

/// After the last instruction of every function.
const Inst* const NEVER = reinterpret_cast<const Inst*>(~0ull);

bool is_waiting(const Group& group) {
    return group.state != State::ready;
}

/// Whether a group runs before another: the deeper call, then the lower instruction.
bool is_before(const Group& a, const Group& b) {
    if (a.frame->depth != b.frame->depth) return a.frame->depth > b.frame->depth;
    return a.pc < b.pc;
}

}  // namespace

Frame::Frame(Frame* parent, const Function* function, const Inst* call)
    : parent(parent),
      function(function),
      call(call),
      depth(parent ? parent->depth + 1 : 0),
      local_base(parent ? parent->local_base + aligned(parent->function->local_bytes, 16) : 0),
      memory(function->frame_bytes / 8 + 16) {
    u64* base = reinterpret_cast<u64*>(data());
    std::fill(base, base + LANES, local_base);
}

Launch& Warp::launch() const {
    return *block->launch;
}

void Warp::enter(Frame* to) {
    frame = to;
    base[FRAME] = to->data();
}

void Warp::start(Block* of, const Kernel& kernel, u32 number) {
    block = of;
    worker = of->worker;
    const Request& request = launch().request;
    first_thread = number * LANES;
    const u32 lanes = std::min<u32>(LANES, of->threads - first_thread);
    alive = active = lanes == LANES ? ALL : (1u << lanes) - 1;
    groups.clear();
    polls = 0;
    yields = false;
    stop = nullptr;
    if (!root || root->function != kernel.entry)
        root = std::make_unique<Frame>(nullptr, kernel.entry, nullptr);
    enter(root.get());
    pc = kernel.entry->code.data();
    stride = (kernel.stack_bytes + 63) / 16 * 16;
    local.assign(stride * LANES, 0xff);
    base[CONSTANTS] = reinterpret_cast<u8*>(const_cast<u64*>(kernel.constants.data()));
    base[SPECIALS] = reinterpret_cast<u8*>(specials);
    base[NOWHERE] = reinterpret_cast<u8*>(nowhere);
    nowhere[4 * LANES - 1] = 0;
    copies.clear();
    std::fill(committed, committed + LANES, 0);
    for (u32 l = 0; l < LANES; ++l) {
        u64 thread = first_thread + l, place = of->number;
        for (int d = 0; d < 3; ++d) {
            const u32 size = request.block[d], blocks = request.grid[d];
            specials[d][l] = static_cast<u32>(d < 2 ? thread % size : thread);
            specials[3 + d][l] = size;
            specials[6 + d][l] = static_cast<u32>(place % blocks);
            specials[9 + d][l] = blocks;
            thread /= size;
            place /= blocks;
        }
        const u32 below = (1u << l) - 1, up_to = (2u << l) - 1;
        const u32 rest[] = {
            l, number, static_cast<u32>(of->warps.size()), below, up_to, 1u << l, ~below, ~up_to};
        for (int k = 0; k < 8; ++k) specials[12 + k][l] = rest[k];
    }
}

void Warp::run(u64 instructions) {
    struct Issued {  // counts the instructions when the turn ends
        const Warp& warp;
        const u64 &left, asked;
        ~Issued() {
            if (warp.launch().counts) count_issued(warp, asked - left);
        }
    } issued{*this, instructions, instructions};
    u64* const warps = worker->warp_counts.empty() ? nullptr : worker->warp_counts.data();
    for (; instructions; --instructions) {
        if (pc >= stop && !choose()) return;
        const Inst& inst = *pc++;
        u32 m = active;
        if ((inst.guard & 3) == FRAME) m &= *at<u32>(inst.guard) ^ inst.flip;
        if (warps) {
            ++warps[inst.site];
            worker->lane_counts[inst.site] += static_cast<u64>(count(m));
        }
        if (!m) continue;
        mask = m;
        inst.run(*this, inst);
        if (yields) return;
    }
    if (launch().counts && ++short_turns % (LONG_TURN / SHORT_TURN)) return;
    yield();
}

bool Warp::choose() {
    const bool one_lane = launch().has_one_lane;
    for (;;) {
        if (!active) {
            // The best ready group; of the groups that wait in loops, when no other is left.
            Group* best = nullptr;
            bool has_ready = false;
            u32 ready = 0;
            for (Group& group : groups) {
                if (is_waiting(group)) continue;
                has_ready = true;
                if (group.has_yielded) continue;
                ++ready;
                if (one_lane && launch().request.order == 2) {
                    if (worker->random() % ready == 0) best = &group;
                } else if (!best ||
                           (one_lane ? group.mask > best->mask : is_before(group, *best))) {
                    best = &group;
                }
            }
            if (!best) {
                if (!has_ready) return false;
                for (Group& group : groups) group.has_yielded = false;
                yields = true;
                continue;
            }
            active = best->mask;
            pc = best->pc;
            enter(best->frame);
            polls = 0;
            groups.erase(groups.begin() + (best - groups.data()));
            if (yields) return false;
        }
        if (one_lane) {
            // The lanes of a group by themselves; any of them may be the next.
            if (active & (active - 1)) {
                for (const u32 l : Lanes{active}) groups.push_back({1u << l, pc, frame});
                active = 0;
                continue;
            }
            stop = NEVER;
            return true;
        }
        Group own{active, pc, frame};
        Group* best = nullptr;
        for (std::size_t k = 0; k < groups.size();) {
            Group& group = groups[k];
            if (!is_waiting(group) && group.pc == pc && group.frame == frame) {
                active |= group.mask;
                groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(k));
                best = nullptr;
                k = 0;
                continue;
            }
            if (!is_waiting(group) && !group.has_yielded && is_before(group, best ? *best : own))
                best = &group;
            ++k;
        }
        if (!best) {
            update_stop();
            return true;
        }
        own.mask = active;
        std::swap(own, *best);
        active = own.mask;
        pc = own.pc;
        enter(own.frame);
    }
}

void Warp::update_stop() {
    stop = NEVER;
    if (launch().has_one_lane) {
        if (active & (active - 1)) stop = nullptr;
        return;
    }
    for (const Group& group : groups)
        if (!is_waiting(group) && group.frame == frame && group.pc >= pc)
            stop = std::min(stop, group.pc);
}

void Warp::suspend(u32 lanes, const Inst* where, State state, u32 members, u32 barrier) {
    groups.push_back({lanes, where, frame, state, false, members, barrier});
    active &= ~lanes;
    stop = nullptr;
}

void Warp::yield() {
    polls = 0;
    if (active) groups.push_back({active, pc, frame, State::ready, true});
    active = 0;
    stop = nullptr;
    for (const Group& group : groups)
        if (!is_waiting(group) && !group.has_yielded) return;
    for (Group& group : groups) group.has_yielded = false;
    yields = true;
}

void Warp::leave(u32 lanes) {
    alive &= ~lanes;
    active &= ~lanes;
    stop = nullptr;
    block->exited += static_cast<u32>(count(lanes));
    worker->progress += 1;
    if (!alive) --block->live_warps;
    for (u32 number = 0; number <= CLUSTER_BARRIER; ++number)
        if (block->barriers[number].arrived) block->check_barrier(number);
    complete_collectives();
}

void Warp::complete_collectives() {
    for (std::size_t k = 0; k < groups.size(); ++k) {
        if (groups[k].state != State::collective) continue;
        const Group one = groups[k];
        const bool is_barrier = one.pc->kind == WARP_BARRIER;
        const auto is_same = [&](const Group& other) {
            return other.state == State::collective && other.members == one.members &&
                   (is_barrier ? other.pc->kind == WARP_BARRIER
                               : other.pc == one.pc && other.frame == one.frame);
        };
        u32 present = 0;
        for (const Group& group : groups)
            if (is_same(group)) present |= group.mask;
        if (one.members & alive & ~present) continue;
        for (Group& group : groups)
            if (is_same(group)) group.state = State::ready, ++group.pc;
        ++worker->progress;
        // Run the instruction for all lanes of the mask.
        const Group own{active, pc, frame};
        const u32 own_mask = mask;
        enter(one.frame);
        mask = present;
        if (launch().is_watched) watch_warp_sync(*this, *one.pc);
        one.pc->inner(*this, *one.pc);
        enter(own.frame);
        mask = own_mask;
        stop = nullptr;
        k = static_cast<std::size_t>(-1);
    }
}

Frame* Warp::child(const Inst& call, const Function& callee) {
    for (const auto& one : frame->children)
        if (one->call == &call && one->function == &callee) return one.get();
    constexpr int DEEPEST = 2000;
    const u64 base = frame->local_base + aligned(frame->function->local_bytes, 16);
    if (frame->depth == DEEPEST || base + callee.local_bytes > stride)
        fail(call, lowest(mask), "overflows its stack; use smaller local arrays or less recursion");
    frame->children.push_back(std::make_unique<Frame>(frame, &callee, &call));
    return frame->children.back().get();
}

void Warp::fail(const Inst& inst, u32 lane, const char* format, ...) {
    if (Fault* fault = launch().report(this, &inst, lane, block->number)) {
        fault->kind = static_cast<s32>(FaultKind::text);
        std::va_list values;
        va_start(values, format);
        std::vsnprintf(fault->text, sizeof(fault->text), format, values);
        va_end(values);
    }
    throw LaunchStopped();
}

void Warp::fail_access(const Inst& inst, u32 lane, FaultKind kind, u64 where, u32 bytes,
                       bool is_write) {
    if (Fault* fault = launch().report(this, &inst, lane, block->number)) {
        fault->kind = static_cast<s32>(kind);
        fault->address = where;
        fault->bytes = bytes;
        fault->is_write = is_write;
        fault->space = static_cast<s32>(space);
    }
    throw LaunchStopped();
}

}  // namespace machine
