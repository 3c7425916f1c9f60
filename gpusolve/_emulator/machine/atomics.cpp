// Atomic operations, and barriers in shared memory (mbarrier).

#include "table.h"

namespace machine {

namespace {

/// The mode of a row is the operand of the address: 1, or 0 without a result.
template <class F, class T, class... S>
void atomic(Warp& w, const Inst& i) {
    using U = std::conditional_t<sizeof(T) == 2, u16, std::conditional_t<sizeof(T) == 4, u32, u64>>;
    if (!w.resolve(i)) return w.split(i);
    ++w.polls;
    w.yields |= w.launch().request.order == 2;  // in random order, another block may be next
    // In global memory GPUs take denormal numbers as zero.
    const auto flushed = [&](auto x) {
        constexpr bool is_float32 = std::is_same_v<decltype(x), float>;
        return is_float32 && w.space == Space::global ? flush(x) : x;
    };
    const auto update = [&]<std::size_t... K>(std::index_sequence<K...>) {
        const std::tuple<Source<S>...> s{Source<S>(w, i, i.mode + 1 + K)...};
        for (const u32 l : Lanes{w.mask}) {
            U* to = reinterpret_cast<U*>(w.host[l]);
            U old = __atomic_load_n(to, __ATOMIC_SEQ_CST), made;
            do {
                made = std::bit_cast<U>(flushed(static_cast<T>(
                    F{}(flushed(std::bit_cast<T>(old)), flushed(std::get<K>(s)[l])...))));
            } while (!__atomic_compare_exchange_n(to, &old, made, false, __ATOMIC_SEQ_CST,
                                                  __ATOMIC_SEQ_CST));
            if (i.mode) w.at<U>(i.op[0])[l] = old;
        }
    };
    update(std::index_sequence_for<S...>());
}

template <class F, class R, class T, class... S>
Run run_of(Signature<R, T, S...>) {
    return &atomic<F, T, S...>;
}

/// Add atom and red for each of the types. The function has the value in memory, and the operands.
template <class... T, class F>
void add_atomic(Table& table, const std::string& name, F) {
    for_types<T...>([&]<class One>() {
        const auto add = [&](Run run, std::size_t operands) {
            const std::string type = "." + name + "." + name_of<One>();
            const std::string result(1, letter<One>()), values(operands, letter<One>());
            Row row{run, ATOMIC, result + ":a" + values, ACCESS, 1, sizeof(One), READS | WRITES};
            table.add("atom" + type, row);
            row.shape = ":a" + values;
            row.mode = 0;
            table.add("red" + type, row);
            row.name = "an atomic operation";
        };
        if constexpr (is_pair<One>) {
            add(&atomic<Packed<F>, One, One>, 1);
        } else {
            using Signed = decltype(signature_of(&F::template operator()<One>));
            add(run_of<F>(Signed()), Signed::shape().size() - 3);
        }
    });
}

// ---- mbarrier: an object of 64 bits with a phase, and the arrivals that are expected and missing

constexpr u64 PHASE = 1ull << 63, ARRIVALS = (1 << 20) - 1;

enum Mbarrier : u8 { INIT, ARRIVE, WAIT, PARITY };

/// Arrivals of a lane: the last one begins the next phase.
void arrive(u64& object, u64 arrivals) {
    const u64 expected = object & ARRIVALS, missing = (object >> 20 & ARRIVALS) - arrivals;
    object = missing ? (object & PHASE) | missing << 20 | expected
                     : (~object & PHASE) | expected << 20 | expected;
}

void mbarrier(Warp& w, const Inst& i) {
    const bool has_result = i.mode >= WAIT || (i.mode == ARRIVE && i.count > 1);
    if (!w.resolve(i)) return w.split(i);
    ++w.polls;
    const int value = has_result ? 2 : 1;  // the operand after the address
    for (const u32 l : Lanes{w.mask}) {
        u64& object = *reinterpret_cast<u64*>(w.host[l]);
        const u32 n = i.count > value && i.mode != WAIT ? w.at<u32>(i.op[value])[l] : 1;
        if (i.mode == INIT) object = u64{n} << 20 | n;
        if (i.mode == ARRIVE) {
            if (has_result) w.at<u64>(i.op[0])[l] = object;
            arrive(object, n);
        }
        if (i.mode < WAIT) continue;
        const u64 waits_for = i.mode == WAIT ? w.at<u64>(i.op[2])[l] & PHASE : n & 1 ? PHASE : 0;
        u32& p = *w.at<u32>(i.op[0]);
        p = (p & ~(1u << l)) | static_cast<u32>((object & PHASE) != waits_for) << l;
    }
}

/// The copies of a thread before are complete, and arrive; `noinc`: the arrival is expected.
void copies_arrive(Warp& w, const Inst& i) {
    w.complete_copies(ALL);
    if (i.mode == ARRIVE) mbarrier(w, i);
}

void add_mbarriers(Table& t) {
    const auto add = [&](const std::string& opcode, std::string shape, Mbarrier mode, u8 effect,
                         Order order) {
        Row& row = t.add("mbarrier." + opcode + ".b64",
                         {mbarrier, ATOMIC, shape, ACCESS, mode, 8, effect});
        row.order = order;
        row.name = "an mbarrier";
    };
    const Effect both = static_cast<Effect>(READS | WRITES);
    add("init", ":a4", INIT, WRITES, WEAK);
    add("arrive", ":a 8:a 8:a4", ARRIVE, both, RELEASE);
    for (const char* kind : {"test_wait", "try_wait"}) {
        add(kind, "p:a8 p:a84", WAIT, READS, ACQUIRE);
        add(std::string(kind) + ".parity", "p:a4 p:a44", PARITY, READS, ACQUIRE);
    }
    t.add("mbarrier.inval.b64", {ignore, OTHER, ":a", ACCESS});
    t.add("cp.async.mbarrier.arrive.b64", {copies_arrive, ATOMIC, ":a", ACCESS, INIT, 8});
    t.add("cp.async.mbarrier.arrive.noinc.b64",
          {copies_arrive, ATOMIC, ":a", ACCESS, ARRIVE, 8, both})
        .order = RELEASE;
}

}  // namespace

void add_atomics(Table& t) {
    add_atomic<u32, u64, s32, s64, float, double, Half, BHalf, Pair<Half>, Pair<BHalf>>(
        t, "add", []<class T>(T x, T y) -> T { return x + y; });
    add_atomic<u32, u64>(t, "and", []<class T>(T x, T y) -> T { return x & y; });
    add_atomic<u32, u64>(t, "or", []<class T>(T x, T y) -> T { return x | y; });
    add_atomic<u32, u64>(t, "xor", []<class T>(T x, T y) -> T { return x ^ y; });
    add_atomic<u32, u64, s32, s64>(t, "min", []<class T>(T x, T y) -> T { return x < y ? x : y; });
    add_atomic<u32, u64, s32, s64>(t, "max", []<class T>(T x, T y) -> T { return x < y ? y : x; });
    add_atomic<u32, u64>(t, "exch", []<class T>(T, T y) -> T { return y; });
    add_atomic<u16, u32, u64>(t, "cas", []<class T>(T x, T y, T z) -> T { return x == y ? z : x; });
    add_atomic<u32>(t, "inc", []<class T>(T x, T y) -> T { return x >= y ? 0 : x + 1; });
    add_atomic<u32>(t, "dec", []<class T>(T x, T y) -> T { return x == 0 || x > y ? y : x - 1; });
    add_mbarriers(t);
}

}  // namespace machine
