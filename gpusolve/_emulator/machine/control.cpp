// Branches, calls, barriers and warp operations.

#include <chrono>
#include <cstdarg>

#include "checks.h"
#include "decode.h"
#include "parse.h"

namespace machine {

namespace {

constexpr u32 MOST_POLLS = 16;
constexpr int MOST_CALLS = 1000;

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
        if (number >= i.targets->size())
            w.fail(i, static_cast<u32>(lowest(rest)), "jumps outside of a table");
        u32 same = 0;
        for (u32 lanes = rest; lanes; lanes &= lanes - 1)
            if (index[lowest(lanes)] == number) same |= 1u << lowest(lanes);
        rest &= ~same;
        w.active &= ~same;
        w.groups.push_back({same, (*i.targets)[number], w.frame});
    }
    if (w.active) w.groups.push_back({w.active, w.pc, w.frame});
    w.active = 0;
    w.stop = nullptr;
}

void copy_local(Warp& w, u32 lanes, u32 from, u32 to, u32 bytes) {
    for (; lanes; lanes &= lanes - 1) {
        u8* local = w.local.data() + w.stride * static_cast<u64>(lowest(lanes));
        std::memcpy(local + to, local + from, bytes);
    }
}

void call_function(Warp& w, const Inst& i, const Function& callee, u32 lanes) {
    Frame* frame = w.child(i, callee);
    for (std::size_t k = 0; k < i.call->in.size() && k < callee.parameters.size(); ++k) {
        const Copied& copied = i.call->in[k];
        copy_local(w, lanes, w.frame->local_base + copied.caller,
                   frame->local_base + callee.parameters[k].callee, copied.bytes);
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
    const auto& functions = w.launch().kernel.by_number;
    if (number >= functions.size() || !functions[number])
        w.fail(i, static_cast<u32>(lowest(w.mask)), "calls address 0x%llx, which is not a function",
               static_cast<unsigned long long>(own));
    u32 same = 0;
    for (u32 lanes = w.mask; lanes; lanes &= lanes - 1)
        if (address[lowest(lanes)] == own) same |= 1u << lowest(lanes);
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
                   parent->local_base + copied.caller, copied.bytes);
    w.active &= ~lanes;
    w.groups.push_back({lanes, w.frame->call + 1, parent});
    w.stop = nullptr;
}

void leave(Warp& w, const Inst&) {
    w.leave(w.mask);
}

void trap(Warp& w, const Inst& i) {
    w.fail(i, static_cast<u32>(lowest(w.mask)), "__trap() was called");
}
void ignore(Warp&, const Inst&) {}

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

enum BarrierMode : u8 { SYNC, ARRIVE, ANY, EVERY, COUNT };

void barrier(Warp& w, const Inst& i) {
    const u32 l = static_cast<u32>(lowest(w.mask));
    const int first = i.mode >= ANY ? 1 : 0;  // after the result
    const bool has_count = i.vector == 2;
    const u32 number = w.at<u32>(i.op[first])[l];
    const u32 expected = has_count ? w.at<u32>(i.op[first + 1])[l] : 0;
    if (number >= LONGEST_WAIT) w.fail(i, l, "a block has 16 barriers, got barrier %u", number);
    w.block->arrive(w, i, w.mask, number, expected, i.mode != ARRIVE);
}

// ---- operations of a warp ----

/// Wait until all lanes of the mask are here, then run `inner`.
void collective(Warp& w, const Inst& i) {
    const u32* members = w.at<u32>(i.op[i.vector]);
    const u32 first = members[lowest(w.mask)];
    u32 differ = 0;
    for (int l = 0; l < LANES; ++l) differ |= w.mask >> l & 1 ? members[l] ^ first : 0;
    if (!differ && (w.mask & ~first) == 0 && (first & w.alive & ~w.mask) == 0) {
        ++w.worker->progress;
        if (w.launch().counts) count_operation(w, i);
        if (w.launch().is_watched) watch_warp_sync(w, i, first);
        return i.inner(w, i);
    }
    const u64 before = w.worker->progress;
    for (u32 rest = w.mask; rest;) {
        const u32 own = members[lowest(rest)];
        u32 same = 0;
        for (u32 lanes = rest; lanes; lanes &= lanes - 1)
            if (members[lowest(lanes)] == own) same |= 1u << lowest(lanes);
        if (same & ~own) {
            static const char* const names[] = {
                "__syncwarp",      "__shfl_sync",      "__shfl_up_sync",   "__shfl_down_sync",
                "__shfl_xor_sync", "__ballot_sync",    "__any_sync",       "__all_sync",
                "__uni_sync",      "__match_any_sync", "__match_all_sync", "__reduce_sync"};
            const u32 lane = static_cast<u32>(lowest(same & ~own));
            w.fail(i, lane, "%s was called by lane %u, which is not in its mask 0x%08x",
                   names[i.bytes], lane, own);
        }
        rest &= ~same;
        w.suspend(same, &i, State::collective, own, 0);
    }
    w.complete_collectives();
    // The parts of a warp that have their own masks are one instruction.
    if (w.launch().counts && w.worker->progress != before) count_operation(w, i);
}

/// A read of a lane that is not there, or is not in the mask.
void check_source(Warp& w, const Inst& i, int lane, u32 from) {
    static const char* const names[] = {"", "__shfl_sync", "__shfl_up_sync", "__shfl_down_sync",
                                        "__shfl_xor_sync"};
    const u32 members = w.at<u32>(i.op[i.vector])[lane];
    if (!(members >> from & 1))
        w.fail(i, static_cast<u32>(lane), "%s reads lane %u, which is not in its mask 0x%08x",
               names[i.bytes], from, members);
    if (w.launch().checks && !(w.alive >> from & 1))
        w.fail(i, static_cast<u32>(lane), "%s reads lane %u, which has ended or does not exist",
               names[i.bytes], from);
}

template <int mode>
void shuffle(Warp& w, const Inst& i) {
    const int first = i.vector - 3;  // 1, or 2 with a predicate
    const u32 *a = w.at<u32>(i.op[first]), *b = w.at<u32>(i.op[first + 1]),
              *c = w.at<u32>(i.op[first + 2]);
    alignas(64) u32 value[LANES];
    u32 valid = 0, outside = 0;
    for (u32 l = 0; l < LANES; ++l) {
        const u32 segment = c[l] >> 8 & 31, clamp = c[l] & 31, n = b[l] & 31;
        const u32 highest = (l & segment) | (clamp & ~segment), least = l & segment;
        u32 from;
        bool is_valid;
        if (mode == 0)
            from = least | (n & ~segment),
            is_valid = static_cast<s32>(from) <= static_cast<s32>(highest);
        if (mode == 1) from = l - n, is_valid = static_cast<s32>(from) >= static_cast<s32>(highest);
        if (mode == 2) from = l + n, is_valid = static_cast<s32>(from) <= static_cast<s32>(highest);
        if (mode == 3) from = l ^ n, is_valid = static_cast<s32>(from) <= static_cast<s32>(highest);
        if (!is_valid) from = l;
        value[l] = a[from & 31];
        valid |= static_cast<u32>(is_valid) << l;
        outside |= static_cast<u32>(!(w.mask >> (from & 31) & 1)) << l;
        w.address[l] = from & 31;
    }
    for (u32 rest = w.mask & outside; rest; rest &= rest - 1)
        check_source(w, i, lowest(rest), static_cast<u32>(w.address[lowest(rest)]));
    blend(w.at<u32>(i.op[0]), value, w.mask);
    if (first == 2) set_predicate(w, i.op[1], valid);
}

template <int mode>
void vote(Warp& w, const Inst& i) {
    const u32 members = w.mask, yes = w.predicate(i, 1) & members;
    // Lanes with other masks have been sent here by themselves.
    if (mode == 0) {
        u32 value[LANES];
        std::fill(value, value + LANES, yes);
        return blend(w.at<u32>(i.op[0]), value, w.mask);
    }
    const bool r = mode == 1 ? yes != 0 : mode == 2 ? yes == members : yes == 0 || yes == members;
    set_predicate(w, i.op[0], r ? ALL : 0);
}

template <class T>
void match_any(Warp& w, const Inst& i) {
    const T* a = w.at<T>(i.op[1]);
    u32 value[LANES] = {};
    for (u32 rest = w.mask; rest; rest &= rest - 1)
        for (u32 other = w.mask; other; other &= other - 1)
            value[lowest(rest)] |= static_cast<u32>(a[lowest(rest)] == a[lowest(other)])
                                   << lowest(other);
    blend(w.at<u32>(i.op[0]), value, w.mask);
}

template <class T>
void match_all(Warp& w, const Inst& i) {
    const bool two = i.vector == 3;
    const T* a = w.at<T>(i.op[two ? 2 : 1]);
    bool same = true;
    for (u32 rest = w.mask; rest; rest &= rest - 1) same &= a[lowest(rest)] == a[lowest(w.mask)];
    u32 value[LANES];
    std::fill(value, value + LANES, same ? w.mask : 0);
    blend(w.at<u32>(i.op[0]), value, w.mask);
    if (two) set_predicate(w, i.op[1], same ? ALL : 0);
}

template <int which, class T>
void reduce(Warp& w, const Inst& i) {
    const T* a = w.at<T>(i.op[1]);
    T r = a[lowest(w.mask)];
    for (u32 rest = w.mask & (w.mask - 1); rest; rest &= rest - 1) {
        const T x = a[lowest(rest)];
        r = which == 0   ? static_cast<T>(r + x)
            : which == 1 ? std::min(r, x)
            : which == 2 ? std::max(r, x)
            : which == 3 ? (r & x)
            : which == 4 ? (r | x)
                         : (r ^ x);
    }
    T value[LANES];
    std::fill(value, value + LANES, r);
    blend(w.at<T>(i.op[0]), value, w.mask);
}

void elect(Warp& w, const Inst& i) {
    u32 value[LANES];
    std::fill(value, value + LANES, static_cast<u32>(lowest(w.mask)));
    blend(w.at<u32>(i.op[0]), value, w.mask);
    set_predicate(w, i.op[1], w.mask & (0 - w.mask));
}

void active_mask(Warp& w, const Inst& i) {
    u32 value[LANES];
    std::fill(value, value + LANES, w.mask);
    blend(w.at<u32>(i.op[0]), value, w.mask);
}

// ---- special registers that are not the same in a launch ----

constexpr std::string_view SPECIAL_REGISTERS[] = {"clock",
                                                  "clock64",
                                                  "clock_hi",
                                                  "globaltimer",
                                                  "globaltimer_lo",
                                                  "globaltimer_hi",
                                                  "smid",
                                                  "nsmid",
                                                  "gridid",
                                                  "dynamic_smem_size",
                                                  "total_smem_size",
                                                  "cluster_ctarank",
                                                  "cluster_nctarank",
                                                  "is_explicit_cluster",
                                                  "envreg1",
                                                  "envreg2"};

constexpr u64 GRID_BYTES = 64;

u64 special_value(const Warp& w, int which) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const u64 time = static_cast<u64>(std::chrono::nanoseconds(now).count());
    switch (which) {
        case 2:
        case 5:
            return time >> 32;
        case 6:
            return static_cast<u64>(w.worker->number);
        case 7:
            return static_cast<u64>(w.launch().request.workers);
        case 9:
            return w.launch().request.shared_bytes;
        case 10:
            return w.block->shared_bytes;
        case 12:
            return 1;
        // The driver's memory for barriers of the grid, which is before the heap.
        case 14:
            return (w.launch().request.heap - GRID_BYTES) >> 32;
        case 15:
            return (w.launch().request.heap - GRID_BYTES) & 0xffffffff;
        case 8:
        case 11:
        case 13:
            return 0;
    }
    return time;
}

template <class T>
void special(Warp& w, const Inst& i) {
    T value[LANES];
    std::fill(value, value + LANES, static_cast<T>(special_value(w, i.mode)));
    blend(w.at<T>(i.op[0]), value, w.mask);
}

// ---- functions of the machine ----

/// Bytes at a generic address of a lane.
const u8* bytes_at(const Warp& w, const Inst&, u32 lane, u64 address, u64 bytes) {
    if (address >> WINDOW_BITS == LOCAL_WINDOW) {
        address -= window(LOCAL_WINDOW);
        return address + bytes <= w.stride ? w.local.data() + w.stride * lane + address : nullptr;
    }
    if (address >> WINDOW_BITS == SHARED_WINDOW) {
        address -= window(SHARED_WINDOW);
        return address + bytes <= w.block->shared_bytes ? w.block->shared + address : nullptr;
    }
    const Region* region = w.launch().find(address);
    return region && address + bytes <= region->high ? reinterpret_cast<const u8*>(address)
                                                     : nullptr;
}

std::string text_at(Warp& w, const Inst& i, u32 lane, u64 address) {
    std::string text;
    for (;; ++address) {
        const u8* byte = bytes_at(w, i, lane, address, 1);
        if (!byte)
            w.fail(i, lane, "reads a text at address 0x%llx",
                   static_cast<unsigned long long>(address));
        if (!*byte) return text;
        text += static_cast<char>(*byte);
    }
}

template <class T>
T argument(const Warp& w, const Inst& i, u32 lane, std::size_t k) {
    T value;
    std::memcpy(&value,
                w.local.data() + w.stride * lane + w.frame->local_base + i.call->argument[k],
                sizeof(T));
    return value;
}

template <class T>
void give_back(Warp& w, const Inst& i, u32 lane, T value) {
    if (!i.call->out.empty())
        std::memcpy(w.local.data() + w.stride * lane + w.frame->local_base + i.call->out[0].caller,
                    &value, sizeof(T));
}

/// printf: its arguments are in local memory, each at a multiple of its size.
void print(Warp& w, const Inst& i) {
    for (u32 rest = w.mask; rest; rest &= rest - 1) {
        const u32 lane = static_cast<u32>(lowest(rest));
        const std::string format = text_at(w, i, lane, argument<u64>(w, i, lane, 0));
        u64 from = argument<u64>(w, i, lane, 1);
        const auto next = [&](u64 bytes) {
            from = (from + bytes - 1) / bytes * bytes;
            u64 value = 0;
            const u8* data = bytes_at(w, i, lane, from, bytes);
            if (data) std::memcpy(&value, data, bytes);
            from += bytes;
            return value;
        };
        std::string text;
        for (std::size_t k = 0; k < format.size(); ++k) {
            if (format[k] != '%') {
                text += format[k];
                continue;
            }
            std::string one = "%";
            int longs = 0;
            char letter = 0;
            while (++k < format.size() && !letter) {
                const char c = format[k];
                if (c == 'l' || c == 'z' || c == 'j' || c == 't')
                    longs += c == 'l' ? 1 : 2;
                else if (c == 'h')
                    continue;
                else if (c == '*')
                    one += std::to_string(static_cast<s32>(next(4)));
                else if (std::strchr("-+ #0123456789.", c))
                    one += c;
                else
                    letter = c;
                if (letter) break;
            }
            char buffer[512];
            int n = 0;
            if (letter == '%') {
                text += '%';
                continue;
            }
            if (std::strchr("diuxXoc", letter) && letter) {
                const u64 value = next(longs && letter != 'c' ? 8 : 4);
                if (letter == 'c')
                    n = std::snprintf(buffer, sizeof(buffer), (one + "c").c_str(),
                                      static_cast<int>(value));
                else if (letter == 'd' || letter == 'i')
                    n = std::snprintf(buffer, sizeof(buffer), (one + "lld").c_str(),
                                      longs ? static_cast<long long>(value)
                                            : static_cast<long long>(static_cast<s32>(value)));
                else
                    n = std::snprintf(buffer, sizeof(buffer), (one + "ll" + letter).c_str(),
                                      static_cast<unsigned long long>(value));
            } else if (std::strchr("fFeEgGaA", letter) && letter) {
                const u64 value = next(8);
                double x;
                std::memcpy(&x, &value, 8);
                n = std::snprintf(buffer, sizeof(buffer), (one + letter).c_str(), x);
            } else if (letter == 's') {
                n = std::snprintf(buffer, sizeof(buffer), (one + "s").c_str(),
                                  text_at(w, i, lane, next(8)).c_str());
            } else if (letter == 'p') {
                n = std::snprintf(buffer, sizeof(buffer), "0x%llx",
                                  static_cast<unsigned long long>(next(8)));
            } else {
                text += one;
                if (letter) text += letter;
            }
            text.append(buffer, static_cast<std::size_t>(std::min<int>(n, sizeof(buffer) - 1)));
        }
        const std::lock_guard guard(w.launch().lock);
        w.launch().output += text;
        give_back<s32>(w, i, lane, 0);
    }
}

void fail_assertion(Warp& w, const Inst& i) {
    const u32 lane = static_cast<u32>(lowest(w.mask));
    w.fail(i, lane, "assertion failed: %s",
           text_at(w, i, lane, argument<u64>(w, i, lane, 0)).c_str());
}

// The heap of device code: each part has its size and whether it is used before it.
struct Part {
    u64 bytes, used;
};

void allocate(Warp& w, const Inst& i) {
    const Request& request = w.launch().request;
    const std::lock_guard guard(w.launch().lock);
    for (u32 rest = w.mask; rest; rest &= rest - 1) {
        const u32 lane = static_cast<u32>(lowest(rest));
        const u64 bytes = (argument<u64>(w, i, lane, 0) + 15) / 16 * 16;
        u64 found = 0;
        for (u64 at = request.heap; at + sizeof(Part) < request.heap + request.heap_bytes &&
                                    bytes <= request.heap_bytes;) {
            Part& part = *reinterpret_cast<Part*>(at);
            const u64 left = request.heap + request.heap_bytes - at - sizeof(Part);
            const u64 have = part.bytes ? part.bytes : left;  // 0: the rest of the heap
            if (!part.used && have >= bytes) {
                if (!part.bytes && left > bytes + sizeof(Part))
                    *reinterpret_cast<Part*>(at + sizeof(Part) + bytes) = {0, 0};
                part = {part.bytes ? part.bytes : std::max<u64>(bytes, 16), 1};
                found = at + sizeof(Part);
                break;
            }
            if (!part.bytes) break;
            at += sizeof(Part) + part.bytes;
        }
        give_back<u64>(w, i, lane, found);
    }
}

void release(Warp& w, const Inst& i) {
    const Request& request = w.launch().request;
    const std::lock_guard guard(w.launch().lock);
    for (u32 rest = w.mask; rest; rest &= rest - 1) {
        const u32 lane = static_cast<u32>(lowest(rest));
        const u64 address = argument<u64>(w, i, lane, 0);
        if (!address) continue;
        Part* part = reinterpret_cast<Part*>(address - sizeof(Part));
        if (address < request.heap + sizeof(Part) || address >= request.heap + request.heap_bytes ||
            !part->used)
            w.fail(i, lane, "frees address 0x%llx, which malloc() has not returned",
                   static_cast<unsigned long long>(address));
        part->used = 0;
    }
}

}  // namespace

bool decode_call(Inst& inst, const Call& made) {
    inst.kind = OTHER;
    if (made.callee)
        inst.run = call;
    else if (made.name.empty())
        inst.run = call_address;
    else if (made.name == "vprintf")
        inst.run = print;
    else if (made.name == "__assertfail")
        inst.run = fail_assertion;
    else if (made.name == "malloc")
        inst.run = allocate;
    else if (made.name == "free")
        inst.run = release;
    else
        return false;
    return true;
}

bool decode_control(Decoder& d) {
    const std::string_view op = d.parts[0];
    Inst& i = d.inst;
    if (op == "bra") return d.set(branch, BRANCH, ":l");
    if (op == "brx") return d.set(branch_table, BRANCH, ":4t");
    if (op == "ret") return d.set(finish, BRANCH, "");
    if (op == "exit") return d.set(leave, BRANCH, "");
    if (op == "trap") return d.set(trap, BRANCH, "");
    if (op == "brkpt" || op == "setmaxnreg" || op == "griddepcontrol")
        return d.set(ignore, OTHER, d.widths.empty() ? "" : ":4");
    if (op == "nanosleep") return d.set(sleep, OTHER, ":4");
    if (op == "membar" || op == "fence") {
        i.scope = d.has("cta");
        i.order = 8;
        return d.set(d.has("proxy") ? ignore : fence, FENCE, "");
    }
    if (op == "special") {
        const auto at =
            std::find(std::begin(SPECIAL_REGISTERS), std::end(SPECIAL_REGISTERS), d.parts[1]);
        if (at == std::end(SPECIAL_REGISTERS)) return false;
        i.mode = static_cast<u8>(at - std::begin(SPECIAL_REGISTERS));
        return d.widths[0] == 8 ? d.set(special<u64>, MOVE, "8:") : d.set(special<u32>, MOVE, "4:");
    }
    if ((op == "bar" || op == "barrier") && !d.has("warp")) {
        if (d.has("cluster")) return d.set(ignore, OTHER, "");
        const int mode = d.has("arrive") ? ARRIVE
                         : d.has("red")  ? ANY + d.which({"or", "and", "popc"})
                                         : SYNC;
        i.mode = static_cast<u8>(mode);
        i.vector = d.widths.size() - (mode >= ANY ? 2 : 0) == 2 ? 2 : 1;
        const std::string barrier_letters(i.vector, '4');
        if (mode >= ANY)
            return d.set(barrier, BARRIER, (mode == COUNT ? "4:" : "p:") + barrier_letters + "p");
        return d.set(barrier, BARRIER, ":" + barrier_letters);
    }
    return false;
}

bool decode_warp(Decoder& d) {
    const std::string_view op = d.parts[0];
    Inst& i = d.inst;
    // `vector` is the operand that has the mask, `bytes` the name in a message.
    const auto waits = [&](int members, int name) {
        i.vector = static_cast<u8>(members);
        i.bytes = static_cast<u8>(name);
        i.inner = std::exchange(i.run, &collective);
        return true;
    };
    if (op == "bar" || op == "barrier") return d.set(ignore, WARP_BARRIER, ":4") && waits(0, 0);
    if (op == "activemask") return d.set(active_mask, VOTE, "4:");
    if (!d.has("sync")) return false;
    if (op == "shfl") {
        const bool two = d.widths.size() == 6;
        const int mode = d.which({"idx", "up", "down", "bfly"});
        const Run runs[] = {shuffle<0>, shuffle<1>, shuffle<2>, shuffle<3>};
        return mode >= 0 && d.set(runs[mode], SHUFFLE, two ? "4p:4444" : "4:4444") &&
               waits(two ? 5 : 4, 1 + mode);
    }
    if (op == "vote") {
        const int mode = d.which({"ballot", "any", "all", "uni"});
        const Run runs[] = {vote<0>, vote<1>, vote<2>, vote<3>};
        return mode >= 0 && d.set(runs[mode], VOTE, mode == 0 ? "4:p4" : "p:p4") &&
               waits(2, 5 + mode);
    }
    if (op == "match") {
        const bool wide = d.type() == "b64", all = d.has("all"), two = d.widths.size() == 4;
        const Run run = all ? (wide ? match_all<u64> : match_all<u32>)
                            : (wide ? match_any<u64> : match_any<u32>);
        return d.set(run, VOTE, std::string(two ? "4p:" : "4:") + (wide ? "84" : "44")) &&
               waits(two ? 3 : 2, all ? 10 : 9);
    }
    if (op == "redux") {
        const int which = d.which({"add", "min", "max", "and", "or", "xor"});
        const bool is_signed = d.type() == "s32";
        const Run runs[] = {reduce<0, u32>,
                            is_signed ? reduce<1, s32> : reduce<1, u32>,
                            is_signed ? reduce<2, s32> : reduce<2, u32>,
                            reduce<3, u32>,
                            reduce<4, u32>,
                            reduce<5, u32>};
        return which >= 0 && d.type() != "f32" && d.set(runs[which], VOTE, "4:44") && waits(2, 11);
    }
    if (op == "elect") return d.set(elect, VOTE, "4p:4") && waits(2, 0);
    return false;
}

bool decode(Inst& inst, const std::vector<std::string_view>& parts, const std::vector<int>& widths,
            int vector, std::string& shape) {
    Decoder d{inst, parts, widths, vector, shape, {}};
    for (std::size_t k = 1; k < parts.size(); ++k) {
        const std::string_view word = parts[k];
        if (word == "pred" || word == "bf16" || word == "bf16x2" ||
            (word.size() >= 2 && std::strchr("bsuf", word[0]) &&
             std::isdigit(static_cast<u8>(word[1]))))
            d.types.push_back(word);
    }
    if (decode_control(d) || decode_warp(d) || decode_memory(d)) return true;
    if (parts[0] == "cvt" || parts[0] == "cvta" || parts[0] == "isspacep") return decode_convert(d);
    const std::string_view type = d.type();
    const bool is_choice = parts[0] == "setp" || parts[0] == "set" || parts[0] == "selp" ||
                           parts[0] == "slct" || parts[0] == "mov";
    if (is_choice) return decode_integer(d);
    if (type == "f32" || type == "f64") return decode_float(d);
    if (!type.empty() && (type[0] == 'f' || type.substr(0, 2) == "bf")) return decode_half(d);
    return decode_integer(d);
}

}  // namespace machine
