// Predicates, comparisons and selections.

#include "table.h"

namespace machine {

namespace {

/// How a comparison is joined with another predicate.
constexpr const char* JOINS[] = {"", ".and", ".or", ".xor"};

u32 joined(const Warp& w, const Inst& i, u32 bits) {
    const u32 other = i.mode ? w.predicate(i, i.count - 1) : 0;
    return i.mode == 1 ? bits & other : i.mode == 2 ? bits | other : bits ^ other;
}

template <class F, class T>
u32 compare(const Warp& w, const Inst& i, int first) {
    const T *a = w.at<T>(i.op[first]), *b = w.at<T>(i.op[first + 1]);
    u32 r = 0;
#pragma omp simd reduction(| : r)
    for (int l = 0; l < LANES; ++l) r |= u32{F{}(a[l], b[l])} << l;
    return r;
}

template <class F, class T>
void setp(Warp& w, const Inst& i) {
    const int results = i.count - (i.mode ? 3 : 2);
    const u32 r = compare<F, T>(w, i, results), own = joined(w, i, r), other = joined(w, i, ~r);
    set_predicate(w, i.op[0], own);
    if (results == 2) set_predicate(w, i.op[1], other);
}

/// set: a mask of all bits, or 1.0, where a comparison holds.
template <class F, class T, class D>
void set(Warp& w, const Inst& i) {
    const u32 r = joined(w, i, compare<F, T>(w, i, 1));
    D values[LANES];
    for (int l = 0; l < LANES; ++l)
        values[l] = r >> l & 1 ? std::is_integral_v<D> ? D(-1) : D(1) : D(0);
    assign(w, i.op[0], values);
}

/// Each half by itself: a predicate for each, or a pair of results.
template <class F, class H>
std::pair<u32, u32> compare_halves(const Warp& w, const Inst& i, int first) {
    const auto *a = w.at<Pair<H>>(i.op[first]), *b = w.at<Pair<H>>(i.op[first + 1]);
    u32 low = 0, high = 0;
    for (int l = 0; l < LANES; ++l) {
        low |= u32{F{}(a[l].low, b[l].low)} << l;
        high |= u32{F{}(a[l].high, b[l].high)} << l;
    }
    return {joined(w, i, low), joined(w, i, high)};
}

template <class F, class H>
void setp_halves(Warp& w, const Inst& i) {
    const auto [low, high] = compare_halves<F, H>(w, i, 2);
    set_predicate(w, i.op[0], low);
    set_predicate(w, i.op[1], high);
}

template <class F, class H, u32 one>
void set_halves(Warp& w, const Inst& i) {
    const auto [low, high] = compare_halves<F, H>(w, i, 1);
    u32 values[LANES];
    for (int l = 0; l < LANES; ++l)
        values[l] = (low >> l & 1 ? one : 0) | (high >> l & 1 ? one << 16 : 0);
    assign(w, i.op[0], values);
}

/// Add setp and set for a comparison of two types at most.
template <class... T, class F>
void add_comparison(Table& table, const std::string& name, F) {
    for (u8 join = 0; join < 4; ++join) {
        const std::string words = "." + name + JOINS[join], last = join ? "p" : "";
        for_types<T...>([&]<class One>() {
            const std::string sources = ":" + std::string(2, letter<One>()) + last;
            const auto add = [&](const std::string& opcode, const std::string& results, Run run,
                                 Run flushed) {
                table.add(opcode + "." + name_of<One>(), {run, INTEGER, results, CONVERSION, join})
                    .flushed = flushed;
            };
            using Z = std::conditional_t<is_flushed<One>, Flushed<F>, F>;
            if constexpr (is_pair<One>) {
                using H = decltype(One::low);
                constexpr u32 one = std::is_same_v<H, Half> ? 0x3c00 : 0x3f80;
                add("setp" + words, "pp" + sources, setp_halves<F, H>, setp_halves<Z, H>);
                add("set" + words + "." + name_of<One>(), "4" + sources, set_halves<F, H, one>,
                    set_halves<Z, H, one>);
                for (const char* type : {".u32", ".s32"})
                    add("set" + words + type, "4" + sources, set_halves<F, H, 0xffff>,
                        set_halves<Z, H, 0xffff>);
            } else {
                add("setp" + words, "p" + sources + " pp" + sources, setp<F, One>, setp<Z, One>);
                add("set" + words + ".f32", "4" + sources, set<F, One, float>, set<Z, One, float>);
                for (const char* type : {".u32", ".s32"})
                    add("set" + words + type, "4" + sources, set<F, One, u32>, set<Z, One, u32>);
                if constexpr (is_half<One>) {
                    add("set" + words + "." + name_of<One>(), "2" + sources, set<F, One, One>,
                        set<Z, One, One>);
                    add("set" + words + ".u16", "2" + sources, set<F, One, u16>, set<Z, One, u16>);
                }
            }
        });
    }
}

template <class F, class... P>
void masks(Warp& w, const Inst& i) {
    [&]<std::size_t... K>(std::index_sequence<K...>) {
        set_predicate(w, i.op[0], F{}(P(w.predicate(i, K + 1))...));
    }(std::index_sequence_for<P...>());
}

}  // namespace

void add_comparisons(Table& t) {
#define UNSIGNED u16, u32, u64
#define SIGNED s16, s32, s64
#define REAL float, double, Half, BHalf, Pair<Half>, Pair<BHalf>
    const auto with_all = [&](const char* name, auto function) {
        add_comparison<UNSIGNED, SIGNED, REAL>(t, name, function);
    };
    with_all("eq", []<class T>(T a, T b) { return a == b; });
    with_all("ne", []<class T>(T a, T b) { return a != b && a == a && b == b; });
    with_all("lt", []<class T>(T a, T b) { return a < b; });
    with_all("le", []<class T>(T a, T b) { return a <= b; });
    with_all("gt", []<class T>(T a, T b) { return a > b; });
    with_all("ge", []<class T>(T a, T b) { return a >= b; });
    add_comparison<UNSIGNED>(t, "lo", []<class T>(T a, T b) { return a < b; });
    add_comparison<UNSIGNED>(t, "ls", []<class T>(T a, T b) { return a <= b; });
    add_comparison<UNSIGNED>(t, "hi", []<class T>(T a, T b) { return a > b; });
    add_comparison<UNSIGNED>(t, "hs", []<class T>(T a, T b) { return a >= b; });
    // True if an operand is NaN.
    add_comparison<REAL>(t, "equ", []<class T>(T a, T b) { return !(a < b || a > b); });
    add_comparison<REAL>(t, "neu", []<class T>(T a, T b) { return !(a == b); });
    add_comparison<REAL>(t, "ltu", []<class T>(T a, T b) { return !(a >= b); });
    add_comparison<REAL>(t, "leu", []<class T>(T a, T b) { return !(a > b); });
    add_comparison<REAL>(t, "gtu", []<class T>(T a, T b) { return !(a <= b); });
    add_comparison<REAL>(t, "geu", []<class T>(T a, T b) { return !(a < b); });
    add_comparison<REAL>(t, "num", []<class T>(T a, T b) { return a == a && b == b; });
    add_comparison<REAL>(t, "nan", []<class T>(T a, T b) { return a != a || b != b; });

    const auto add_masks = [&]<class... P>(const char* opcode, auto function, P...) {
        t.add(opcode,
              {masks<decltype(function), P...>, INTEGER, "p:" + std::string(sizeof...(P), 'p')});
    };
    add_masks("and.pred", [](u32 a, u32 b) { return a & b; }, 0u, 0u);
    add_masks("or.pred", [](u32 a, u32 b) { return a | b; }, 0u, 0u);
    add_masks("xor.pred", [](u32 a, u32 b) { return a ^ b; }, 0u, 0u);
    add_masks("not.pred", [](u32 a) { return ~a; }, 0u);
    add_masks("mov.pred", [](u32 a) { return a; }, 0u);
    t.each_bits<UNSIGNED>("selp", []<class T>(T a, T b, bool p) -> T { return p ? a : b; });
    t.each_bits<UNSIGNED>(
        "slct", []<class T>(T a, T b, s32 c) -> T { return c >= 0 ? a : b; }, ".s32");
    t.each_bits<UNSIGNED>(
        "slct", []<class T>(T a, T b, float c) -> T { return c >= 0 ? a : b; }, ".f32");
}

}  // namespace machine
