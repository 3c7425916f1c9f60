// Loads, stores and copies, and how the addresses of a warp's lanes become addresses of the host.

#include "table.h"

namespace machine {

namespace {

/// The memory in which an access must be.
struct Bounds {
    u64 low, high;
    u64 delta = 0, stride = 0;  // what is added for an address of the host, and for each lane
    u64 phase = 0;              // what is added for the alignment
    bool is_writeable = true;
};

Bounds bounds_of(const Region& region) {
    return {region.low, region.high, 0, 0, region.phase - region.low, region.is_writeable};
}

Bounds bounds_of(const Warp& w, Space space) {
    if (space == Space::shared)
        return {0, w.block->shared_bytes, reinterpret_cast<u64>(w.block->shared)};
    if (space == Space::local)
        return {0, w.frame->local_base + w.frame->function->local_bytes,
                reinterpret_cast<u64>(w.local.data()), w.stride};
    const Launch& launch = w.launch();
    return {
        0,    launch.kernel.parameter_bytes, reinterpret_cast<u64>(launch.request.parameters), 0, 0,
        false};
}

/// The memory at an address; an instruction mostly accesses the same array. Null if there is none.
const Region* region_of(const Warp& w, const Inst& i, u64 address) {
    const Region*& cached = w.worker->cached[i.site];
    if (!cached || address - cached->low >= cached->high - cached->low)
        cached = w.launch().find(address);
    return cached;
}

template <class F>
void set_all(u64* values, F value) {
#pragma omp simd
    for (int l = 0; l < LANES; ++l) values[l] = value(l);
}

constexpr int HALF = LANES / 2;

/// Whether the addresses of each half are the same, or those of neighbours.
template <class A>
bool are_regular(const A* address, u32 bytes, bool& is_same) {
    A differ = 0, irregular = 0;
    for (int start = 0; start < LANES; start += HALF) {
        const A first = address[start];
#pragma omp simd reduction(| : differ, irregular)
        for (int l = 0; l < HALF; ++l) {
            const A distance = address[start + l] - first;
            differ |= distance;
            irregular |= distance - static_cast<A>(bytes) * static_cast<A>(l);
        }
    }
    is_same = differ == 0;
    return is_same || irregular == 0;
}

/// Fail if the access of a lane is not valid. Lanes may be in different arrays.
void check_lanes(Warp& w, const Inst& i, const Bounds& common, u32 bytes, bool is_write) {
    for (const u32 lane : Lanes{w.mask}) {
        const u64 address = w.address[lane];
        Bounds own = common;
        if (!common.delta) {
            const Region* region = w.launch().find(address);
            if (!region) w.fail_access(i, lane, FaultKind::access, address, bytes, is_write);
            own = bounds_of(*region);
        }
        FaultKind kind = FaultKind::none;
        if ((address + own.phase) & (bytes - 1)) kind = FaultKind::misaligned;
        if (is_write && !own.is_writeable) kind = FaultKind::readonly;
        if (address < own.low || address + bytes > own.high || address + bytes < address)
            kind = FaultKind::access;
        if (kind != FaultKind::none) w.fail_access(i, lane, kind, address, bytes, is_write);
    }
}

}  // namespace

void Warp::locate(const Inst& inst, const Address& of) {
    if (of.width == 4) {
        const u32 *a = at<u32>(inst.op[of.operand]), offset = static_cast<u32>(of.offset);
        set_all(address, [=](int l) -> u64 { return a[l] + offset; });
    } else {
        const u64 *a = at<u64>(inst.op[of.operand]), offset = static_cast<u64>(of.offset);
        set_all(address, [=](int l) { return a[l] + offset; });
    }
}

bool Warp::reach(const Inst& inst, Space where, u32 bytes, bool is_write) {
    const u64 own = address[lowest(mask)];
    if (mask != ALL)
        set_all(address, [this, own, m = mask](int l) { return m >> l & 1 ? address[l] : own; });
    if (where == Space::generic) {
        u64 differ = 0;
#pragma omp simd reduction(| : differ)
        for (int l = 0; l < LANES; ++l) differ |= address[l] ^ own;
        if (differ >> WINDOW_BITS) return false;
        constexpr Space SPACES[] = {Space::global, Space::shared, Space::local, Space::param};
        const u64 number = own >> WINDOW_BITS;
        where = number <= PARAM_WINDOW ? SPACES[number] : Space::global;
        if (where != Space::global)
            set_all(address, [this, number](int l) { return address[l] - window(number); });
    }
    space = where;
    Bounds bounds;
    if (where == Space::global || where == Space::constant) {
        const Region* region = region_of(*this, inst, own);
        if (!region) fail_access(inst, lowest(mask), FaultKind::access, own, bytes, is_write);
        bounds = bounds_of(*region);
    } else {
        bounds = bounds_of(*this, where);
    }
    const u64 low = bounds.low, limit = bounds.high - bytes, phase = bounds.phase;
    u64 outside = bounds.high - low < bytes ? 1ull << 63 : 0, odd = 0;
#pragma omp simd reduction(| : outside, odd)
    for (int l = 0; l < LANES; ++l) {
        outside |= (address[l] - low) | (limit - address[l]);
        odd |= address[l] + phase;
    }
    if (outside >> 63 || (odd & (bytes - 1)) || (is_write && !bounds.is_writeable))
        check_lanes(*this, inst, bounds, bytes, is_write);
    const u64 delta = bounds.delta, by_lane = bounds.stride;
    set_all(host, [=, this](u64 l) { return address[l] + delta + by_lane * l; });
    if (launch().is_watched) watch_access(*this, inst, bytes, is_write);
    return true;
}

bool Warp::find_halves(const Inst& inst, Halves& found) const {
    const Address& of = inst.address[0];
    const bool is_narrow = of.width == 4;
    const u32* narrow = at<u32>(inst.op[of.operand]);
    const u64* wide = at<u64>(inst.op[of.operand]);
    if (mask != ALL || inst.vector > 1 || inst.is_volatile || launch().is_watched ||
        !(is_narrow ? are_regular(narrow, inst.bytes, found.is_same)
                    : are_regular(wide, inst.bytes, found.is_same)))
        return false;
    for (int half = 0; half < 2; ++half) {
        const int l = HALF * half;
        u64 first = is_narrow ? narrow[l] + static_cast<u32>(of.offset)
                              : wide[l] + static_cast<u64>(of.offset);
        const bool is_in_window =
            inst.space == Space::generic && first >> WINDOW_BITS == SHARED_WINDOW;
        if (is_in_window) first -= window(SHARED_WINDOW);
        if (inst.space == Space::local || inst.space == Space::param) return false;
        Bounds bounds;
        if (is_in_window || inst.space == Space::shared) {
            bounds = bounds_of(*this, Space::shared);
        } else {
            const Region* region = region_of(*this, inst, first);
            if (!region) return false;
            bounds = bounds_of(*region);
        }
        const u64 end = first + (found.is_same ? 1 : HALF) * u64{inst.bytes};
        if (first < bounds.low || end > bounds.high || end < first ||
            ((first + bounds.phase) & (inst.bytes - 1u)) ||
            (inst.is_write() && !bounds.is_writeable))
            return false;
        found.first[half] = first + bounds.delta;
    }
    return true;
}

void Warp::split(const Inst& inst) {
    const u32 all = mask;
    u64 saved[LANES];
    std::memcpy(saved, address, sizeof(saved));
    for (u32 rest = all; rest; rest &= ~mask) {
        mask = 0;
        for (const u32 l : Lanes{rest})
            if (saved[l] >> WINDOW_BITS == saved[lowest(rest)] >> WINDOW_BITS) mask |= 1u << l;
        inst.run(*this, inst);
    }
    mask = all;
}

namespace {

/// Held by strong accesses to vectors. GPUs make an aligned access of 16 bytes as a whole, and CUB
/// passes a flag with its value so.
std::unique_lock<std::mutex> as_a_whole(const Inst& i) {
    static std::mutex vectors;
    return i.is_volatile && i.vector > 1 ? std::unique_lock(vectors)
                                         : std::unique_lock<std::mutex>();
}

/// M: the type in memory, R: the register.
template <class M, class R>
void load_as(Warp& w, const Inst& i) {
    Halves halves;
    if (w.find_halves(i, halves)) {
        R* d = w.at<R>(i.op[0]);
        for (const u64 first : halves.first) {
            const M* from = reinterpret_cast<const M*>(first);
            if (halves.is_same)
                std::fill(d, d + HALF, static_cast<R>(*from));
            else
                for (int l = 0; l < HALF; ++l) d[l] = static_cast<R>(from[l]);
            d += HALF;
        }
        return;
    }
    if (!w.resolve(i)) return w.split(i);
    if (i.is_volatile) ++w.polls;
    const auto whole = as_a_whole(i);
    for (int k = 0; k < i.vector; ++k) {
        R* d = w.at<R>(i.op[k]);
        const auto value = [&](int l) {
            const M* from = reinterpret_cast<const M*>(w.host[l]) + k;
            if (i.is_volatile) return static_cast<R>(__atomic_load_n(from, __ATOMIC_ACQUIRE));
            M m;
            std::memcpy(&m, from, sizeof(M));
            return static_cast<R>(m);
        };
        for (const u32 l : Lanes{w.mask}) d[l] = value(l);
    }
}

template <class M, class R>
void store_as(Warp& w, const Inst& i) {
    Halves halves;
    if (w.find_halves(i, halves)) {
        const R* s = w.at<R>(i.op[1]);
        for (const u64 first : halves.first) {
            M* to = reinterpret_cast<M*>(first);
            if (halves.is_same)
                *to = static_cast<M>(s[HALF - 1]);
            else
                for (int l = 0; l < HALF; ++l) to[l] = static_cast<M>(s[l]);
            s += HALF;
        }
        return;
    }
    if (!w.resolve(i)) return w.split(i);
    const auto whole = as_a_whole(i);
    for (int k = 0; k < i.vector; ++k) {
        const R* s = w.at<R>(i.op[k + 1]);
        for (const u32 l : Lanes{w.mask}) {
            M* to = reinterpret_cast<M*>(w.host[l]) + k;
            const M m = static_cast<M>(s[l]);
            if (i.is_volatile)
                __atomic_store_n(to, m, i.order & RELEASE ? __ATOMIC_SEQ_CST : __ATOMIC_RELEASE);
            else
                std::memcpy(to, &m, sizeof(M));
        }
    }
}

/// With a register of any width.
template <class M, bool is_store>
void with_width(Warp& w, const Inst& i) {
    const auto run = [&]<class R>() {
        if constexpr (sizeof(R) >= sizeof(M))
            if (i.widths[0] == sizeof(R)) is_store ? store_as<M, R>(w, i) : load_as<M, R>(w, i);
    };
    for_types<u16, u32, u64>(run);
}

/// Rows of loads and stores of a type, under all of its names.
template <class M>
void add_access(Table& t, const std::string& kinds) {
    using R = std::conditional_t<sizeof(M) == 1, u16, std::make_unsigned_t<M>>;
    const std::string data{sizeof(M) <= 2 ? 'h' : sizeof(M) == 4 ? 'w' : 'd', '*'};
    Row load{load_as<M, R>, MEMORY, data + ":a " + data + ":a8", ACCESS};
    load.wide = with_width<M, false>;
    load.effect = READS;
    Row store{store_as<M, R>, MEMORY, ":a" + data + " :a" + data + "8", ACCESS};
    store.wide = with_width<M, true>;
    store.effect = WRITES;
    load.bytes = store.bytes = sizeof(M);
    for (const char kind : kinds) {
        const std::string type = std::string(".") + kind + std::to_string(8 * sizeof(M));
        t.add("ld" + type, load);
        t.add("ldu" + type, load);
        t.add("st" + type, store);
    }
}

// ---- copies to shared memory, which are made when the thread waits for them ----

void copy(Warp& w, const Inst& i) {
    const u32 bytes = *w.at<u32>(i.op[2]);
    u64 from[LANES];
    if (!w.resolve(i, i.address[1], Space::global, bytes, false)) return w.split(i);
    std::memcpy(from, w.host, sizeof(from));
    if (!w.resolve(i, i.address[0], Space::shared, bytes, true)) return w.split(i);
    for (const u32 l : Lanes{w.mask}) {
        const u32 copied = i.count == 3 ? bytes : std::min(w.at<u32>(i.op[3])[l], bytes);
        w.copies.push_back(
            {l, w.committed[l], from[l], w.host[l], w.address[l], bytes, copied, &i});
    }
}

void commit(Warp& w, const Inst&) {
    for (const u32 l : Lanes{w.mask}) ++w.committed[l];
}

/// Wait for all groups but the last n; without n, also for copies that are in no group.
void wait(Warp& w, const Inst& i) {
    w.complete_copies(i.count ? *w.at<u32>(i.op[0]) : ALL);
}

}  // namespace

void Warp::complete_copies(u32 later_groups) {
    std::erase_if(copies, [&](const Copy& one) {
        const bool is_due = later_groups == ALL || one.group + later_groups < committed[one.lane];
        if (!(mask >> one.lane & 1) || !is_due) return false;
        std::memset(reinterpret_cast<void*>(one.to), 0, one.bytes);
        std::memcpy(reinterpret_cast<void*>(one.to), reinterpret_cast<void*>(one.from), one.copied);
        return true;
    });
}

void add_accesses(Table& t) {
    add_access<u8>(t, "ub");
    add_access<s8>(t, "s");
    add_access<u16>(t, "ubf");
    add_access<s16>(t, "s");
    add_access<u32>(t, "ubf");
    add_access<s32>(t, "s");
    add_access<u64>(t, "ubsf");
    t.add("cp.async", {copy, MEMORY, ":aa4 :aa44", ACCESS});
    t.add("cp.async.commit_group", {commit, OTHER, ":"});
    t.add("cp.async.wait_group", {wait, OTHER, ":4"});
    t.add("cp.async.wait_all", {wait, OTHER, ":"});
    for (const char* level : {"L1", "L2", "L2_evict_last", "L2_evict_normal"})
        t.add(std::string("prefetch.") + level, {ignore, OTHER, ":a", ACCESS});
    t.add("prefetchu.L1", {ignore, OTHER, ":a", ACCESS});
    t.add("discard.L2", {ignore, OTHER, ":a4", ACCESS});
    t.add("applypriority.L2_evict_normal", {ignore, OTHER, ":a4", ACCESS});
}

}  // namespace machine
