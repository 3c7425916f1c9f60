// Operations of a warp: shuffles, votes, matches and reductions. Their last operand is the mask
// of the lanes that take part.

#include "table.h"

namespace machine {

namespace {

const u32* members_of(const Warp& w, const Inst& i) {
    static const std::vector<u32> all(LANES, ALL);
    return i.kind == MATRIX ? all.data() : w.at<u32>(i.op[i.count - 1]);
}

}  // namespace

void collective(Warp& w, const Inst& i) {
    const u32* members = members_of(w, i);
    const u32 first = members[lowest(w.mask)];
    u32 differ = 0;
    for (int l = 0; l < LANES; ++l) differ |= w.mask >> l & 1 ? members[l] ^ first : 0;
    if (!differ && (w.mask & ~first) == 0 && (first & w.alive & ~w.mask) == 0) {
        ++w.worker->progress;
        if (w.launch().counts) count_operation(w, i);
        if (w.launch().is_watched) watch_warp_sync(w, i);
        return i.inner(w, i);
    }
    const u64 before = w.worker->progress;
    for (u32 rest = w.mask; rest;) {
        const u32 own = members[lowest(rest)], same = equal_lanes(members, rest);
        if (same & ~own) {
            const u32 lane = lowest(same & ~own);
            w.fail(i, lane, "%s was called by lane %u, which is not in its mask 0x%08x",
                   i.row->name, lane, own);
        }
        rest &= ~same;
        w.suspend(same, &i, State::collective, own, 0);
    }
    w.complete_collectives();
    // The parts of a warp that have their own masks are one instruction.
    if (w.launch().counts && w.worker->progress != before) count_operation(w, i);
}

namespace {

/// A read of a lane that is not there, or is not in the mask.
void check_source(Warp& w, const Inst& i, u32 lane, u32 from) {
    const u32 members = members_of(w, i)[lane];
    if (!(members >> from & 1))
        w.fail(i, lane, "%s reads lane %u, which is not in its mask 0x%08x", i.row->name, from,
               members);
    if (w.launch().checks && !(w.alive >> from & 1))
        w.fail(i, lane, "%s reads lane %u, which has ended or does not exist", i.row->name, from);
}

/// The function gives the lane that is read, from the lane, the least one of its segment, and a
/// number. Lanes beyond the highest, or with UP below it, read themselves.
template <bool is_up, class F>
void shuffle(Warp& w, const Inst& i) {
    const int first = i.count - 4;  // 1, or 2 with a predicate
    const u32 *a = w.at<u32>(i.op[first]), *b = w.at<u32>(i.op[first + 1]),
              *c = w.at<u32>(i.op[first + 2]);
    alignas(64) u32 value[LANES], sources[LANES];
    u32 valid = 0, outside = 0;
    for (u32 l = 0; l < LANES; ++l) {
        const u32 segment = c[l] >> 8 & 31, clamp = c[l] & 31;
        const s32 highest = static_cast<s32>((l & segment) | (clamp & ~segment));
        const s32 source = static_cast<s32>(F{}(l, b[l] & 31, segment));
        const bool is_valid = is_up ? source >= highest : source <= highest;
        const u32 from = is_valid ? static_cast<u32>(source) & 31 : l;
        sources[l] = from;
        value[l] = a[from];
        valid |= u32{is_valid} << l;
        outside |= u32{!(w.mask >> from & 1)} << l;
    }
    for (const u32 l : Lanes{w.mask & outside}) check_source(w, i, l, sources[l]);
    assign(w, i.op[0], value);
    if (first == 2) set_predicate(w, i.op[1], valid);
}

void ballot(Warp& w, const Inst& i) {
    assign_all<u32>(w, i.op[0], w.predicate(i, 1) & w.mask);
}

/// A function of the lanes of the mask, and of those whose predicate is true.
template <class F>
void vote(Warp& w, const Inst& i) {
    set_predicate(w, i.op[0], F{}(w.mask, w.predicate(i, 1) & w.mask) ? ALL : 0);
}

template <class T>
void match_any(Warp& w, const Inst& i) {
    const T* a = w.at<T>(i.op[1]);
    u32 value[LANES] = {};
    for (u32 rest = w.mask, same; rest; rest &= ~same) {
        same = equal_lanes(a, rest);
        for (const u32 l : Lanes{same}) value[l] = same;
    }
    assign(w, i.op[0], value);
}

template <class T>
void match_all(Warp& w, const Inst& i) {
    const bool is_same = equal_lanes(w.at<T>(i.op[i.count - 2]), w.mask) == w.mask;
    assign_all<u32>(w, i.op[0], is_same ? w.mask : 0);
    if (i.count == 4) set_predicate(w, i.op[1], is_same ? ALL : 0);
}

template <class T, class F>
void reduce(Warp& w, const Inst& i) {
    const T* a = w.at<T>(i.op[1]);
    T r = a[lowest(w.mask)];
    for (const u32 l : Lanes{w.mask & (w.mask - 1)}) r = F{}(r, a[l]);
    assign_all(w, i.op[0], r);
}

void elect(Warp& w, const Inst& i) {
    assign_all<u32>(w, i.op[0], lowest(w.mask));
    set_predicate(w, i.op[1], w.mask & (0 - w.mask));
}

void active_mask(Warp& w, const Inst& i) {
    assign_all(w, i.op[0], w.mask);
}

}  // namespace

void add_warp_operations(Table& t) {
    const auto add = [&](const std::string& opcode, Kind kind, const char* shape, Run run,
                         const char* name) {
        Row& row = t.add(opcode, {collective, kind, shape});
        row.inner = run;
        row.name = name;
    };
    add("bar.warp.sync", WARP_BARRIER, ":4", ignore, "__syncwarp");
    add("barrier.warp.sync", WARP_BARRIER, ":4", ignore, "__syncwarp");
    const auto add_shuffle = [&]<class F>(const char* mode, const char* name, F) {
        constexpr bool is_up = false;
        add(std::string("shfl.sync.") + mode + ".b32", SHUFFLE, "4:4444 4p:4444", shuffle<is_up, F>,
            name);
    };
    add_shuffle("idx", "__shfl_sync",
                [](u32 l, u32 n, u32 segment) { return (l & segment) | (n & ~segment); });
    add_shuffle("down", "__shfl_down_sync", [](u32 l, u32 n, u32) { return l + n; });
    add_shuffle("bfly", "__shfl_xor_sync", [](u32 l, u32 n, u32) { return l ^ n; });
    add("shfl.sync.up.b32", SHUFFLE, "4:4444 4p:4444",
        shuffle<true, decltype([](u32 l, u32 n, u32) { return l - n; })>, "__shfl_up_sync");
    add("vote.sync.ballot.b32", VOTE, "4:p4", ballot, "__ballot_sync");
    const auto add_vote = [&]<class F>(const char* mode, const char* name, F) {
        add(std::string("vote.sync.") + mode + ".pred", VOTE, "p:p4", vote<F>, name);
    };
    add_vote("any", "__any_sync", [](u32, u32 yes) { return yes != 0; });
    add_vote("all", "__all_sync", [](u32 all, u32 yes) { return yes == all; });
    add_vote("uni", "__uni_sync", [](u32 all, u32 yes) { return yes == 0 || yes == all; });
    add("match.any.sync.b32", VOTE, "4:44", match_any<u32>, "__match_any_sync");
    add("match.any.sync.b64", VOTE, "4:84", match_any<u64>, "__match_any_sync");
    add("match.all.sync.b32", VOTE, "4:44 4p:44", match_all<u32>, "__match_all_sync");
    add("match.all.sync.b64", VOTE, "4:84 4p:84", match_all<u64>, "__match_all_sync");
    const auto add_reduction = [&]<class F>(const std::string& mode, F) {
        for_types<u32, s32>([&]<class T>() {
            add("redux.sync." + mode + "." + name_of<T>(), VOTE, "4:44", reduce<T, F>,
                "__reduce_sync");
        });
    };
    add_reduction("add", []<class T>(T a, T b) -> T { return a + b; });
    add_reduction("min", []<class T>(T a, T b) -> T { return std::min(a, b); });
    add_reduction("max", []<class T>(T a, T b) -> T { return std::max(a, b); });
    add_reduction("and", []<class T>(T a, T b) -> T { return a & b; });
    add_reduction("or", []<class T>(T a, T b) -> T { return a | b; });
    add_reduction("xor", []<class T>(T a, T b) -> T { return a ^ b; });
    add("elect.sync", VOTE, "4p:4", elect, "elect.sync");
    t.add("activemask.b32", {active_mask, VOTE, "4:"});
}

}  // namespace machine
