// Accesses to memory: addresses, loads, stores, atomic operations and copies.

#include "decode.h"

namespace machine {

namespace {

/// The host addresses of the operand that has the address.
bool resolve(Warp& w, const Inst& i, int operand, u32 bytes, bool is_write) {
    return w.resolve(i, i.op[operand], i.width, i.offset, i.space, bytes, is_write);
}

template <class M, class R>
void load(Warp& w, const Inst& i) {
    const int n = i.vector;
    if (!resolve(w, i, n, i.bytes, false)) return w.split(i);
    if (i.is_volatile) {
        ++w.polls;
        for (u32 rest = w.mask; rest; rest &= rest - 1) {
            const int l = lowest(rest);
            for (int k = 0; k < n; ++k)
                w.at<R>(i.op[k])[l] = static_cast<R>(
                    __atomic_load_n(reinterpret_cast<const M*>(w.host[l]) + k, __ATOMIC_ACQUIRE));
        }
        return;
    }
    for (int k = 0; k < n; ++k) {
        R* d = w.at<R>(i.op[k]);
        const auto value = [&](int l) {
            M m;
            std::memcpy(&m, reinterpret_cast<const M*>(w.host[l]) + k, sizeof(M));
            return static_cast<R>(m);
        };
        if (w.step == 0) {
            const R one = value(0);
            for (int l = 0; l < LANES; ++l) d[l] = w.mask >> l & 1 ? one : d[l];
        } else if (w.mask == ALL && w.step == sizeof(M)) {
            const M* from = reinterpret_cast<const M*>(w.host[0]);
#pragma omp simd
            for (int l = 0; l < LANES; ++l) d[l] = static_cast<R>(from[l]);
        } else if (w.mask == ALL) {
            for (int l = 0; l < LANES; ++l) d[l] = value(l);
        } else {
            for (u32 rest = w.mask; rest; rest &= rest - 1) d[lowest(rest)] = value(lowest(rest));
        }
    }
}

template <class M, class R>
void store(Warp& w, const Inst& i) {
    if (!resolve(w, i, 0, i.bytes, true)) return w.split(i);
    const int n = i.vector;
    if (i.is_volatile) {
        for (u32 rest = w.mask; rest; rest &= rest - 1) {
            const int l = lowest(rest);
            for (int k = 0; k < n; ++k)
                __atomic_store_n(reinterpret_cast<M*>(w.host[l]) + k,
                                 static_cast<M>(w.at<R>(i.op[k + 1])[l]),
                                 i.order == 4 ? __ATOMIC_SEQ_CST : __ATOMIC_RELEASE);
        }
        return;
    }
    for (int k = 0; k < n; ++k) {
        const R* s = w.at<R>(i.op[k + 1]);
        if (w.mask == ALL && w.step == sizeof(M)) {
            M* to = reinterpret_cast<M*>(w.host[0]);
#pragma omp simd
            for (int l = 0; l < LANES; ++l) to[l] = static_cast<M>(s[l]);
        } else {
            for (u32 rest = w.mask; rest; rest &= rest - 1) {
                const int l = lowest(rest);
                const M m = static_cast<M>(s[l]);
                std::memcpy(reinterpret_cast<M*>(w.host[l]) + k, &m, sizeof(M));
            }
        }
    }
}

/// Memory type and register type.
template <bool is_store>
bool decode_access(Decoder& d) {
    Inst& i = d.inst;
    const int n = d.vector;
    i.vector = static_cast<u8>(n);
    i.is_write = is_store;
    int width = 0;
    for (int k = 0; k < n; ++k)
        width = std::max(width, d.widths[static_cast<std::size_t>(k + is_store)]);
    return pick(
        Types<u8, u16, u32, u64, s8, s16, s32, s64, float, double, Half, BHalf, Half2, BHalf2>(),
        d.type(), [&]<class T>() {
            // The bits of floating-point numbers, in registers of the same size.
            using M = std::conditional_t<
                std::is_integral_v<T>, T,
                std::conditional_t<sizeof(T) == 2, u16,
                                   std::conditional_t<sizeof(T) == 4, u32, u64>>>;
            i.bytes = static_cast<u8>(sizeof(M) * static_cast<std::size_t>(n));
            if (width <= 0) width = std::max<int>(sizeof(M), 2);
            const auto with = [&]<class R>() {
                if (sizeof(R) < sizeof(M)) return false;
                const std::string values(static_cast<std::size_t>(n), letter<R>());
                const Run run = is_store ? &store<M, R> : &load<M, R>;
                i.mode = sizeof(R);  // of the registers
                return d.set(run, MEMORY, is_store ? ":a" + values : values + ":a");
            };
            if (width == 2) return with.template operator()<u16>();
            if (width == 4) return with.template operator()<u32>();
            return with.template operator()<u64>();
        });
}

// ---- atomic operations ----

template <class F, class T>
void atomic(Warp& w, const Inst& i) {
    const int at = i.mode;  // the operand of the address: 1, or 0 without a result
    if (!resolve(w, i, at, sizeof(T), true)) return w.split(i);
    ++w.polls;
    w.yields |= w.launch().request.order == 2;  // in random order, another block may be next
    using U = std::conditional_t<sizeof(T) == 2, u16, std::conditional_t<sizeof(T) == 4, u32, u64>>;
    const U *b = w.at<U>(i.op[at + 1]), *c = w.at<U>(i.op[i.count > at + 2 ? at + 2 : at + 1]);
    U* d = at ? w.at<U>(i.op[0]) : nullptr;
    for (u32 rest = w.mask; rest; rest &= rest - 1) {
        const int l = lowest(rest);
        U* to = reinterpret_cast<U*>(w.host[l]);
        U old = __atomic_load_n(to, __ATOMIC_SEQ_CST), made;
        do {
            T x, y, z;
            std::memcpy(&x, &old, sizeof(T));
            std::memcpy(&y, &b[l], sizeof(T));
            std::memcpy(&z, &c[l], sizeof(T));
            const T r = F{}(x, y, z);
            std::memcpy(&made, &r, sizeof(T));
        } while (!__atomic_compare_exchange_n(to, &old, made, false, __ATOMIC_SEQ_CST,
                                              __ATOMIC_SEQ_CST));
        if (d) d[l] = old;
    }
}

#define ATOMIC_OPERATION(name, expression)     \
    struct name {                              \
        template <class T>                     \
        T operator()(T x, T y, T z) const {    \
            (void)x, (void)y, (void)z;         \
            return static_cast<T>(expression); \
        }                                      \
    }
ATOMIC_OPERATION(AtomicAnd, x& y);
ATOMIC_OPERATION(AtomicOr, x | y);
ATOMIC_OPERATION(AtomicXor, x ^ y);
ATOMIC_OPERATION(AtomicMin, x < y ? x : y);
ATOMIC_OPERATION(AtomicMax, x < y ? y : x);
ATOMIC_OPERATION(Exchange, y);
ATOMIC_OPERATION(CompareAndSwap, x == y ? z : x);
ATOMIC_OPERATION(Increment, x >= y ? 0 : x + 1);
ATOMIC_OPERATION(Decrement, x == 0 || x > y ? y : x - 1);
struct AtomicAdd {
    template <class T>
    T operator()(T x, T y, T) const {
        if constexpr (is_pair<T>)
            return {(*this)(x.low, y.low, y.low), (*this)(x.high, y.high, y.high)};
        else if constexpr (sizeof(T) == 2)
            return T(static_cast<float>(x) + static_cast<float>(y));
        else
            return static_cast<T>(x + y);
    }
};

bool decode_atomic(Decoder& d) {
    Inst& i = d.inst;
    const bool has_result = d.parts[0] == "atom";
    i.mode = has_result;
    i.is_atomic = i.is_write = true;
    if (d.vector > 1) return false;
    const int which =
        d.which({"add", "and", "or", "xor", "min", "max", "exch", "cas", "inc", "dec"});
    const auto with = [&]<class F, class List>(F, List list) {
        return pick(list, d.type(), [&]<class T>() {
            i.bytes = sizeof(T);
            const std::string values(which == 7 ? 2 : 1, letter<T>());
            return d.set(&atomic<F, T>, ATOMIC,
                         (has_result ? std::string(1, letter<T>()) : "") + ":a" + values);
        });
    };
    switch (which) {
        case 0:
            return with(AtomicAdd{},
                        Types<u32, u64, s32, s64, float, double, Half, BHalf, Half2, BHalf2>());
        case 1:
            return with(AtomicAnd{}, Types<u32, u64>());
        case 2:
            return with(AtomicOr{}, Types<u32, u64>());
        case 3:
            return with(AtomicXor{}, Types<u32, u64>());
        case 4:
            return with(AtomicMin{}, Words());
        case 5:
            return with(AtomicMax{}, Words());
        case 6:
            return with(Exchange{}, Types<u32, u64>());
        case 7:
            return with(CompareAndSwap{}, Types<u16, u32, u64>());
        case 8:
            return with(Increment{}, Types<u32>());
        case 9:
            return with(Decrement{}, Types<u32>());
    }
    return false;
}

void nothing(Warp&, const Inst&) {}

// ---- mbarrier: an object of 64 bits with a phase, and the arrivals that are expected and missing
// ----

constexpr u64 PHASE = 1ull << 63, ARRIVALS = (1 << 20) - 1;

enum Mbarrier : u8 { INIT, ARRIVE, WAIT, PARITY };

/// Arrivals of a lane: the last one begins the next phase. Returns the state before.
u64 arrive(u64* object, u64 arrivals) {
    const u64 before = *object, expected = before & ARRIVALS,
              missing = (before >> 20 & ARRIVALS) - arrivals;
    *object = missing ? (before & PHASE) | missing << 20 | expected
                      : (~before & PHASE) | expected << 20 | expected;
    return before;
}

void mbarrier(Warp& w, const Inst& i) {
    const int at = i.mode == INIT || i.count == 1 ? 0 : 1;
    if (!resolve(w, i, at, 8, i.mode <= ARRIVE)) return w.split(i);
    ++w.polls;
    for (u32 rest = w.mask; rest; rest &= rest - 1) {
        const int l = lowest(rest);
        u64* object = reinterpret_cast<u64*>(w.host[l]);
        const u32 n = i.count > at + 1 ? w.at<u32>(i.op[at + 1])[l] : 1;
        if (i.mode == INIT) *object = static_cast<u64>(n) << 20 | n;
        if (i.mode == ARRIVE) {
            const u64 before = arrive(object, n);
            if (at) w.at<u64>(i.op[0])[l] = before;
        }
        if (i.mode < WAIT) continue;
        const u64 waits_for = i.mode == WAIT ? w.at<u64>(i.op[2])[l] & PHASE : n & 1 ? PHASE : 0;
        u32* p = w.at<u32>(i.op[0]);
        *p = (*p & ~(1u << l)) | static_cast<u32>((*object & PHASE) != waits_for) << l;
    }
}

bool decode_mbarrier(Decoder& d) {
    Inst& i = d.inst;
    i.is_atomic = true;
    i.order = 6;
    const bool has_result = d.widths.size() > 1 && d.widths[0] != 0;
    if (d.has("init")) return i.mode = INIT, i.is_write = true, d.set(mbarrier, ATOMIC, ":a4");
    if (d.has("inval")) return d.set(nothing, OTHER, ":a");
    if (d.has("arrive") && !d.has("expect_tx")) {
        i.mode = ARRIVE;
        i.is_write = true;
        if (!has_result && d.widths.size() > 1) return false;
        return d.set(mbarrier, ATOMIC,
                     d.widths.size() == 1   ? ":a"
                     : d.widths.size() == 2 ? "8:a"
                                            : "8:a4");
    }
    if (!d.has("test_wait") && !d.has("try_wait")) return false;
    i.mode = d.has("parity") ? PARITY : WAIT;
    i.order = 2;
    return d.set(
        mbarrier, ATOMIC,
        std::string("p:a") + (i.mode == WAIT ? "8" : "4") + (d.widths.size() == 4 ? "4" : ""));
}

// ---- copies to shared memory, which here are complete at once ----

void copy_async(Warp& w, const Inst& i) {
    u64 from[LANES];
    u32 sizes[LANES];
    const u32 bytes = *w.at<u32>(i.op[2]);
    for (int l = 0; l < LANES; ++l)
        sizes[l] = i.count > 3 ? std::min(w.at<u32>(i.op[3])[l], bytes) : bytes;
    if (!w.resolve(i, i.op[1], i.second_width, i.second_offset, Space::global, bytes, false))
        return w.split(i);
    std::memcpy(from, w.host, sizeof(from));
    if (!w.resolve(i, i.op[0], i.width, i.offset, Space::shared, bytes, true)) return w.split(i);
    for (u32 rest = w.mask; rest; rest &= rest - 1) {
        const int l = lowest(rest);
        u8* to = reinterpret_cast<u8*>(w.host[l]);
        std::memset(to, 0, bytes);
        std::memcpy(to, reinterpret_cast<const void*>(from[l]), sizes[l]);
    }
}

}  // namespace

bool Warp::resolve(const Inst& inst, Place from, int width, s64 offset, Space where, u32 bytes,
                   bool is_write) {
    const int first = lowest(mask);
    if (width == 4) {
        const u32* a = at<u32>(from);
#pragma omp simd
        for (int l = 0; l < LANES; ++l)
            address[l] = static_cast<u32>(a[l] + static_cast<u32>(offset));
    } else {
        const u64* a = at<u64>(from);
#pragma omp simd
        for (int l = 0; l < LANES; ++l) address[l] = a[l] + static_cast<u64>(offset);
    }
    if (mask != ALL) {
        const u64 own = address[first];
        const u32 m = mask;
#pragma omp simd
        for (int l = 0; l < LANES; ++l) address[l] = m >> l & 1 ? address[l] : own;
    }
    if (where == Space::generic) {
        u64 differ = 0;
        const u64 own = address[first];
#pragma omp simd reduction(| : differ)
        for (int l = 0; l < LANES; ++l) differ |= address[l] ^ own;
        if (differ >> WINDOW_BITS) return false;
        where = Space::global;
        if (const u64 number = own >> WINDOW_BITS;
            number >= SHARED_WINDOW && number <= PARAM_WINDOW) {
            where = number == SHARED_WINDOW  ? Space::shared
                    : number == LOCAL_WINDOW ? Space::local
                                             : Space::param;
#pragma omp simd
            for (int l = 0; l < LANES; ++l) address[l] -= window(number);
        }
    }
    space = where;
    u64 low = 0, high, delta, lane_stride = 0, phase = 0;
    const Region*& cached = worker->cached[inst.site];
    switch (where) {
        case Space::shared:
            high = block->shared_bytes;
            delta = reinterpret_cast<u64>(block->shared);
            break;
        case Space::local:
            high = frame->local_base + frame->function->local_bytes;
            delta = reinterpret_cast<u64>(local.data());
            lane_stride = stride;
            break;
        case Space::param:
            high = launch().kernel.parameter_bytes;
            delta = reinterpret_cast<u64>(launch().request.parameters);
            break;
        default:
            if (!cached || address[first] - cached->low >= cached->high - cached->low) {
                cached = launch().find(address[first]);
                if (!cached)
                    fail_access(inst, static_cast<u32>(first), FaultKind::access, address[first],
                                bytes, is_write);
            }
            region = cached;
            low = cached->low;
            high = cached->high;
            phase = cached->phase - low;
            delta = 0;
    }
    const u64 limit = high - bytes;
    u64 outside = high - low < bytes ? 1ull << 63 : 0, odd = 0;
#pragma omp simd reduction(| : outside, odd)
    for (int l = 0; l < LANES; ++l) {
        outside |= (address[l] - low) | (limit - address[l]);
        odd |= address[l] + phase;
    }
    if (outside >> 63) {
        // Lanes may be in different arrays. If a lane is in none, the launch fails.
        odd = 0;
        for (u32 rest = mask; rest; rest &= rest - 1) {
            const u32 l = static_cast<u32>(lowest(rest));
            const Region* own = where == Space::global || where == Space::constant
                                    ? launch().find(address[l])
                                    : nullptr;
            if (!own || address[l] + bytes > own->high || (is_write && !own->is_writeable)) {
                if (!own && delta && address[l] + bytes <= high && address[l] < high) continue;
                fail_access(inst, l,
                            own && address[l] + bytes <= own->high ? FaultKind::readonly
                                                                   : FaultKind::access,
                            address[l], bytes, is_write);
            }
            odd |= address[l] - own->low + own->phase;
        }
    } else if (is_write && (where == Space::param || where == Space::constant ||
                            (!delta && !cached->is_writeable))) {
        fail_access(inst, static_cast<u32>(first), FaultKind::readonly, address[first], bytes,
                    is_write);
    }
    if (odd & (bytes - 1))
        for (u32 rest = mask; rest; rest &= rest - 1) {
            const u32 l = static_cast<u32>(lowest(rest));
            if ((address[l] + (delta ? 0 : phase)) & (bytes - 1))
                fail_access(inst, l, FaultKind::misaligned, address[l], bytes, is_write);
        }
    u64 differ = 0, irregular = 0;
    const u64 base_address = address[0] + delta;
#pragma omp simd reduction(| : differ, irregular)
    for (int l = 0; l < LANES; ++l) {
        host[l] = address[l] + delta + lane_stride * static_cast<u64>(l);
        differ |= host[l] - base_address;
        irregular |= host[l] - base_address - bytes * static_cast<u64>(l);
    }
    step = differ == 0 ? 0 : irregular == 0 ? static_cast<int>(bytes) : -1;
    if (launch().is_watched) watch_access(*this, inst, bytes, is_write);
    return true;
}

/// Run an instruction for the lanes of each space by themselves.
void Warp::split(const Inst& inst) {
    const u32 all = mask;
    for (u32 rest = all; rest;) {
        u32 same = 0;
        for (u32 lanes = rest; lanes; lanes &= lanes - 1) {
            const int l = lowest(lanes);
            if (address[l] >> WINDOW_BITS == address[lowest(rest)] >> WINDOW_BITS) same |= 1u << l;
        }
        rest &= ~same;
        u64 saved[LANES];
        std::memcpy(saved, address, sizeof(saved));
        mask = same;
        inst.run(*this, inst);
        std::memcpy(address, saved, sizeof(saved));
    }
    mask = all;
}

bool decode_memory(Decoder& d) {
    const std::string_view op = d.parts[0];
    Inst& i = d.inst;
    static constexpr Space spaces[] = {Space::global, Space::shared, Space::shared,
                                       Space::shared, Space::local,  Space::param,
                                       Space::param,  Space::param,  Space::constant};
    const int space = d.which({"global", "shared", "shared_cta", "shared_cluster", "local", "param",
                               "param_entry", "param_func", "const"});
    i.space = space < 0 ? Space::generic : spaces[space];
    i.order = static_cast<u8>(1 + d.which({"relaxed", "acquire", "release", "acq_rel"}));
    if (i.order > 1) i.order = static_cast<u8>(i.order == 2 ? 2 : i.order == 3 ? 4 : 6);
    i.scope = d.has("cta");
    i.is_volatile = d.has("volatile") || d.has("relaxed") || d.has("acquire") || d.has("release") ||
                    d.has("mmio");
    if (op == "ld" || op == "ldu") return decode_access<false>(d);
    if (op == "st") return decode_access<true>(d);
    if (op == "atom" || op == "red") {
        i.is_volatile = false;
        return decode_atomic(d);
    }
    if (op == "mbarrier") return decode_mbarrier(d);
    if (op == "prefetch" || op == "prefetchu" || op == "discard" || op == "applypriority")
        return d.set(nothing, OTHER, d.widths.size() == 1 ? ":a" : ":a4");
    if (op == "cp" && d.has("async")) {
        // The copies have arrived: an arrival that is expected besides (noinc), or nothing.
        if (d.has("mbarrier")) {
            i.is_atomic = i.is_write = d.has("noinc");
            i.mode = ARRIVE;
            i.order = 6;
            return d.set(d.has("noinc") ? mbarrier : nothing, ATOMIC, ":a");
        }
        if (d.has("bulk")) return false;
        if (d.has("commit_group") || d.has("wait_all")) return d.set(nothing, OTHER, ":");
        if (d.has("wait_group")) return d.set(nothing, OTHER, ":4");
        if (d.widths.size() < 3 || d.inst.count > 4) return false;
        return d.set(copy_async, MEMORY, d.widths.size() == 3 ? ":aa4" : ":aa44");
    }
    return false;
}

}  // namespace machine
