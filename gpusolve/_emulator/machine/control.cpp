// Branches, calls, barriers of a block, fences and special registers.

#include <chrono>

#include "table.h"

namespace machine {

namespace {

constexpr u32 MOST_POLLS = 16;

void branch(Warp& w, const Inst& i) {
    const u32 lanes = w.mask;
    const bool is_back = i.target <= &i;
    if (lanes == w.active) {
        w.pc = i.target;
    } else {
        const Group taken{lanes, i.target, w.frame}, other{w.active & ~lanes, w.pc, w.frame};
        const bool takes = is_back;  // the lower instruction runs first
        w.groups.push_back(takes ? other : taken);
        w.active = takes ? taken.mask : other.mask;
        w.pc = takes ? taken.pc : other.pc;
        w.update_stop();
    }
    if (!is_back) return;
    if (w.polls >= MOST_POLLS)
        w.yield();
    else if (!w.groups.empty())
        w.update_stop();
}

/// A branch to one of several labels.
void branch_table(Warp& w, const Inst& i) {
    const u32* index = w.at<u32>(i.op[0]);
    for (u32 rest = w.mask; rest;) {
        const u32 number = index[lowest(rest)];
        if (number >= i.targets->size()) w.fail(i, lowest(rest), "jumps outside of a table");
        const u32 same = equal_lanes(index, rest);
        rest &= ~same;
        w.active &= ~same;
        w.groups.push_back({same, (*i.targets)[number], w.frame});
    }
    if (w.active) w.groups.push_back({w.active, w.pc, w.frame});
    w.active = 0;
    w.stop = nullptr;
}

void copy_local(Warp& w, u32 lanes, u32 from, u32 to, u32 bytes) {
    for (const u32 l : Lanes{lanes}) {
        u8* local = w.local.data() + w.stride * l;
        std::memcpy(local + to, local + from, bytes);
    }
}

void call_function(Warp& w, const Inst& i, const Function& callee, u32 lanes) {
    Frame* frame = w.child(i, callee);
    for (std::size_t k = 0; k < i.call->in.size() && k < callee.parameters.size(); ++k) {
        const Copied& copied = i.call->in[k];
        copy_local(w, lanes, w.frame->local_base + copied.caller,
                   frame->local_base + callee.parameters[k].callee,
                   std::min(copied.bytes, callee.parameters[k].bytes));
    }
    if (const u32 others = w.active & ~lanes) w.groups.push_back({others, w.pc, w.frame});
    w.active = lanes;
    w.enter(frame);
    w.pc = callee.code.data();
    w.stop = nullptr;
}

void call(Warp& w, const Inst& i) {
    call_function(w, i, *i.call->callee, w.mask);
}

/// A call by address. Lanes that call other functions do so when the instruction is run again.
void call_address(Warp& w, const Inst& i) {
    const u64* address = w.at<u64>(i.op[0]);
    const u64 own = address[lowest(w.mask)], number = own - window(FUNCTION_WINDOW);
    const auto& functions = w.launch().kernel.functions;
    if (number >= functions.size() || !functions[number])
        w.fail(i, lowest(w.mask), "calls address 0x%llx, which is not a function",
               static_cast<unsigned long long>(own));
    const u32 same = equal_lanes(address, w.mask);
    if (const u32 later = w.mask & ~same) {
        w.groups.push_back({later, &i, w.frame});
        w.active &= ~later;
    }
    call_function(w, i, *functions[number], same);
}

void finish(Warp& w, const Inst& i) {
    const u32 lanes = w.mask;
    Frame* parent = w.frame->parent;
    if (!parent) return w.leave(lanes);
    const Call& call = *w.frame->call->call;
    for (const Copied& copied : call.out)
        copy_local(w, lanes, w.frame->local_base + i.function->result.callee,
                   parent->local_base + copied.caller,
                   std::min(copied.bytes, i.function->result.bytes));
    w.active &= ~lanes;
    w.groups.push_back({lanes, w.frame->call + 1, parent});
    w.stop = nullptr;
}

void leave(Warp& w, const Inst&) {
    w.leave(w.mask);
}

void trap(Warp& w, const Inst& i) {
    w.fail(i, lowest(w.mask), "__trap() was called");
}

void sleep(Warp& w, const Inst&) {
    w.polls += MOST_POLLS;
    w.yield();
}

void fence(Warp& w, const Inst& i) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    ++w.polls;
    if (w.launch().is_watched) watch_fence(w, i);
}

// ---- barriers of a block ----

/// The barrier's number, and how many threads it has, are after the result.
template <BarrierMode mode>
void barrier(Warp& w, const Inst& i) {
    constexpr bool reduces = mode >= ANY;
    const u32 l = lowest(w.mask);
    const u32 number = w.at<u32>(i.op[reduces])[l];
    const bool has_count = i.count - (reduces ? 2 : 0) == 2;
    const u32 expected = has_count ? w.at<u32>(i.op[reduces + 1])[l] : 0;
    if (number >= BARRIERS) w.fail(i, l, "a block has 16 barriers, got barrier %u", number);
    w.block->arrive(w, i, w.mask, number, expected, mode != ARRIVE);
}

/// Each block is a cluster. Threads do not wait where they arrive, but all wait after it.
void wait_for_cluster(Warp& w, const Inst& i) {
    w.block->arrive(w, i, w.mask, CLUSTER_BARRIER, 0, true);
}

void add_cluster_barriers(Table& t) {
    for (const std::string end : {"", ".aligned"}) {
        for (const std::string order : {"", ".release", ".relaxed"})
            t.add("barrier.cluster.arrive" + order + end, {ignore, BARRIER, ":"});
        for (const std::string order : {"", ".acquire"})
            t.add("barrier.cluster.wait" + order + end, {wait_for_cluster, BARRIER, ":"}).name =
                "a barrier of the cluster";
    }
}

template <BarrierMode mode>
void add_barrier(Table& t, const std::string& words, const std::string& shape, const char* name) {
    for (const char* opcode : {"bar.", "barrier."}) {
        Row& row = t.add(opcode + words, {barrier<mode>, BARRIER, shape, CONTROL, mode});
        row.name = name;
    }
}

// ---- special registers whose values a warp does not keep ----

u64 nanoseconds() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<u64>(std::chrono::nanoseconds(now).count());
}

template <class F>
void special(Warp& w, const Inst& i) {
    const u64 value = F{}(w);
    i.widths[0] == 8 ? assign_all<u64>(w, i.op[0], value)
                     : assign_all<u32>(w, i.op[0], static_cast<u32>(value));
}

constexpr u64 GRID_BYTES = 64;  // the driver's memory for barriers of the grid, before the heap

u64 grid_memory(const Warp& w) {
    return w.launch().request.heap - GRID_BYTES;
}

void add_special_registers(Table& t) {
    const auto add = [&]<class F>(const std::string& names, F) {
        for (std::size_t from = 0, to; from < names.size(); from = to + 1) {
            to = std::min(names.find(' ', from), names.size());
            t.add("special." + names.substr(from, to - from), {special<F>, MOVE, "w:"});
        }
    };
    add("clock clock64 globaltimer globaltimer_lo", [](const Warp&) { return nanoseconds(); });
    add("clock_hi globaltimer_hi", [](const Warp&) { return nanoseconds() >> 32; });
    add("smid", [](const Warp& w) { return static_cast<u64>(w.worker->number); });
    add("nsmid", [](const Warp& w) { return static_cast<u64>(w.launch().request.workers); });
    add("dynamic_smem_size", [](const Warp& w) { return w.launch().request.shared_bytes; });
    add("total_smem_size", [](const Warp& w) { return w.block->shared_bytes; });
    add("envreg1", [](const Warp& w) { return grid_memory(w) >> 32; });
    add("envreg2", [](const Warp& w) { return grid_memory(w) & 0xffffffff; });
    // Each block is a cluster.
    add("gridid cluster_ctarank cluster_ctaid.x cluster_ctaid.y cluster_ctaid.z",
        [](const Warp&) { return u64{0}; });
    add("cluster_nctarank cluster_nctaid.x cluster_nctaid.y cluster_nctaid.z",
        [](const Warp&) { return u64{1}; });
    t.add("special.is_explicit_cluster",
          {[](Warp& w, const Inst& i) { set_predicate(w, i.op[0], 0); }, MOVE, "p:"});
}

}  // namespace

void add_control(Table& t) {
    t.add("bra", {branch, BRANCH, ":l", CONTROL});
    t.add("brx.idx", {branch_table, BRANCH, ":4t", CONTROL});
    t.add("ret", {finish, BRANCH, ":", CONTROL});
    t.add("exit", {leave, BRANCH, ":"});
    t.add("trap", {trap, BRANCH, ":"});
    t.add("call", {call, OTHER, ":"});
    t.add("call_address", {call_address, OTHER, ":8"});
    for (const char* opcode : {"brkpt", "griddepcontrol.launch_dependents", "griddepcontrol.wait"})
        t.add(opcode, {ignore, OTHER, ":"});
    t.add("setmaxnreg.inc.sync.u32", {ignore, OTHER, ":4", CONTROL});
    t.add("setmaxnreg.dec.sync.u32", {ignore, OTHER, ":4", CONTROL});
    t.add("nanosleep.u32", {sleep, OTHER, ":4"});
    for (const char* opcode : {"membar", "fence"}) t.add(opcode, {fence, FENCE, ":", CONTROL});
    for (const char* proxy : {"alias", "async", "async.global", "async.shared_cta"})
        t.add(std::string("fence.proxy.") + proxy, {ignore, FENCE, ":"});
    t.add("fence.mbarrier_init.release.cluster", {ignore, FENCE, ":"});
    add_barrier<SYNC>(t, "sync", ":4 :44", "__syncthreads");
    add_barrier<ARRIVE>(t, "arrive", ":44", "a barrier");
    add_barrier<ANY>(t, "red.or.pred", "p:4p p:44p", "__syncthreads_or");
    add_barrier<EVERY>(t, "red.and.pred", "p:4p p:44p", "__syncthreads_and");
    add_barrier<COUNT>(t, "red.popc.u32", "4:4p 4:44p", "__syncthreads_count");
    add_cluster_barriers(t);
    add_special_registers(t);
}

}  // namespace machine
