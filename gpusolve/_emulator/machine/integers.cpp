// Integers, bits and moves.

#include <climits>

#include "table.h"

namespace machine {

namespace {

template <class T>
using Wide = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, s32, u32>,
                                std::conditional_t<std::is_signed_v<T>, s64, u64>>;
template <class T>
constexpr u32 BITS = 8 * sizeof(T);

/// The upper half of a product.
template <class T>
T high(T a, T b) {
    using W = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    if constexpr (sizeof(T) == 8)
        return static_cast<T>(static_cast<W>(a) * b >> 64);
    else
        return static_cast<T>(
            static_cast<std::conditional_t<std::is_signed_v<T>, s64, u64>>(a) * b >> BITS<T>);
}

/// The lower 24 bits, with the sign of signed types.
template <class T>
s64 bits24(T a) {
    return std::is_signed_v<T> ? static_cast<s32>(static_cast<u32>(a) << 8) >> 8
                               : s64{a & 0xffffff};
}

/// The lowest bits of a number; all, if it has no more.
template <class T>
std::make_unsigned_t<T> lowest_bits(u32 length) {
    using U = std::make_unsigned_t<T>;
    return static_cast<U>(length >= BITS<T> ? ~U{0} : (U{1} << length) - 1);
}

/// Bits of a number, from a position on. Signed: beyond the number its sign is repeated.
template <class T>
T extract(T a, u32 from, u32 length) {
    using U = std::make_unsigned_t<T>;
    from &= 255;
    length &= 255;
    const U known = lowest_bits<T>(from >= BITS<T> ? 0 : std::min(length, BITS<T> - from));
    const U field = from < BITS<T> ? static_cast<U>(a) >> from : 0;
    const u32 last = std::min(from + length, BITS<T>) - 1;
    const bool sign = std::is_signed_v<T> && length && (a >> std::min(last, BITS<T> - 1) & 1);
    return static_cast<T>((field & known) | (sign ? static_cast<U>(~known) : U{0}));
}

template <class T>
T insert(T a, T b, u32 from, u32 length) {
    from &= 255;
    if (from >= BITS<T>) return b;
    const T field = static_cast<T>(lowest_bits<T>(length & 255) << from);
    return (b & ~field) | (a << from & field);
}

template <class T>
u32 top_bit(T a) {
    const auto u = static_cast<std::make_unsigned_t<T>>(a < 0 ? ~a : a);
    return u ? 63 - static_cast<u32>(__builtin_clzll(u)) : ALL;
}

/// The n-th bit of a mask that is set, from a position up or down.
u32 nth_bit(u32 mask, u32 from, s32 n) {
    if (n == 0) return from < 32 && mask >> from & 1 ? from : ALL;
    const s32 step = n < 0 ? -1 : 1;
    for (s32 at = static_cast<s32>(from), left = n * step; at >= 0 && at < 32; at += step)
        if (mask >> at & 1 && --left == 0) return static_cast<u32>(at);
    return ALL;
}

/// Four bytes of two words. The place of each is a function of its number and the selector.
template <class F>
u32 permuted(u32 a, u32 b, F place) {
    const u64 both = u64{b} << 32 | a;
    u32 r = 0;
    for (u32 k = 0; k < 4; ++k) r |= (both >> 8 * (place(k) & 7) & 255) << 8 * k;
    return r;
}

u32 permuted_with_signs(u32 a, u32 b, u32 selector) {
    const u32 bytes = permuted(a, b, [&](u32 k) { return selector >> 4 * k; });
    u32 signs = 0;
    for (u32 k = 0; k < 4; ++k) signs |= (selector >> (4 * k + 3) & 1 ? 255u : 0) << 8 * k;
    return (bytes & ~signs) | ((bytes >> 7 & 0x01010101) * 255 & signs);
}

/// A sum of products of parts of two words.
template <class A, class B>
s32 dot(u32 a, u32 b, s32 c) {
    for (u32 k = 0; k * BITS<A> < 32; ++k)
        c += s32{static_cast<A>(a >> k * BITS<A>)} * static_cast<B>(b >> k * BITS<B>);
    return c;
}

/// A word of two words, from a bit on.
u32 shifted(u32 low, u32 high, u32 from) {
    return static_cast<u32>((u64{high} << 32 | low) >> from);
}

s32 saturated(s64 value) {
    return static_cast<s32>(std::clamp<s64>(value, INT_MIN, INT_MAX));
}

// ---- sums with carries: the carry of each lane is a register of the warp ----

enum Carries : u8 { SETS = 1, TAKES = 2 };

template <class T, class F>
void carry(Warp& w, const Inst& i) {
    using W = unsigned __int128;
    u32& flags = reinterpret_cast<u32&>(w.nowhere[4 * LANES - 1]);
    const bool is_sum = i.count < 4;
    const T *a = w.at<T>(i.op[1]), *b = w.at<T>(i.op[2]), *c = w.at<T>(i.op[is_sum ? 2 : 3]);
    u32 out = flags;
    for (const u32 l : Lanes{w.mask}) {
        const W r = F{}(a[l], b[l], c[l], W{i.mode & TAKES ? flags >> l & 1 : 0});
        w.at<T>(i.op[0])[l] = static_cast<T>(r);
        out = (out & ~(1u << l)) | static_cast<u32>(r >> BITS<T> & 1) << l;
    }
    if (i.mode & SETS) flags = out;
}

/// A sum or a product and sum, in all forms: its result has a carry, or it takes one.
template <class... T, class F>
void add_carries(Table& table, const std::string& opcode, const std::string& half, F) {
    for_types<T...>([&]<class One>() {
        const std::string type = "." + name_of<One>(), letters(half.empty() ? 2 : 3, letter<One>());
        Row row{carry<One, F>, INTEGER, letter<One>() + (":" + letters)};
        row.mode = SETS;
        table.add(opcode + half + ".cc" + type, row);
        row.mode = TAKES;
        table.add(opcode + "c" + half + type, row);
        row.mode = SETS | TAKES;
        table.add(opcode + "c" + half + ".cc" + type, row);
    });
}

/// A division whose divisors are not zero.
template <class T, class F>
void divide(Warp& w, const Inst& i) {
    const T* b = w.at<T>(i.op[2]);
    for (const u32 l : Lanes{w.mask})
        if (b[l] == 0) w.fail(i, l, "divides an integer by zero");
    map<F, T, T, T>(w, i);
}

template <class... T, class F>
void add_divisions(Table& table, const std::string& opcode, F) {
    for_types<T...>([&]<class One>() {
        const std::string letters{letter<One>(), ':', letter<One>(), letter<One>()};
        table.add(opcode + "." + name_of<One>(), {divide<One, F>, DIVISION, letters});
    });
}

// ---- values of parts: {a, b} from c, and c from {a, b} ----

template <class P>
using RegisterOf = std::conditional_t<sizeof(P) == 1, u16, P>;

template <class W, class P>
void unpack(Warp& w, const Inst& i) {
    const int parts = i.count - 1;
    W whole[LANES];
    std::memcpy(whole, w.at<W>(i.op[parts]), sizeof(whole));
    for (int k = 0; k < parts; ++k) {
        RegisterOf<P> values[LANES];
        for (int l = 0; l < LANES; ++l) values[l] = static_cast<P>(whole[l] >> (BITS<P> * k));
        assign(w, i.op[k], values);
    }
}

template <class W, class P>
void pack(Warp& w, const Inst& i) {
    W values[LANES] = {};
    for (int k = 0; k < i.count - 1; ++k) {
        const RegisterOf<P>* part = w.at<RegisterOf<P>>(i.op[k + 1]);
        for (int l = 0; l < LANES; ++l)
            values[l] |= static_cast<W>(W{static_cast<P>(part[l])} << (BITS<P> * k));
    }
    assign(w, i.op[0], values);
}

template <class W, class P>
void add_parts(Table& table) {
    const std::string count = std::to_string(sizeof(W) / sizeof(P));
    const std::string parts(sizeof(W) / sizeof(P), letter<P>()), whole(1, letter<W>());
    for (const char kind : {'b', 'u', 's', 'f'}) {
        const std::string type = std::string(".") + kind + std::to_string(BITS<W>);
        table.add("unpack" + count + type, {unpack<W, P>, MOVE, parts + ":" + whole});
        table.add("pack" + count + type, {pack<W, P>, MOVE, whole + ":" + parts});
    }
}

}  // namespace

/// Instructions on the bytes or the halves of a word. `.add` adds the results to a third operand.
template <class Part, class F>
void add_videos(Table& t, const std::string& name, F) {
    using T = std::conditional_t<std::is_signed_v<Part>, s32, u32>;
    constexpr u32 count = 4 / sizeof(Part), bits = 8 * sizeof(Part);
    const std::string type = "." + std::string(name_of<T>());
    const std::string opcode = name + std::to_string(count) + type + type + type;
    t.one(opcode, INTEGER, [](u32 a, u32 b, u32) -> u32 {
        u32 r = 0;
        for (u32 k = 0; k < 32; k += bits)
            r |= u32{std::make_unsigned_t<Part>(F()(T{Part(a >> k)}, T{Part(b >> k)}))} << k;
        return r;
    });
    t.one(opcode + ".add", INTEGER, [](u32 a, u32 b, u32 c) -> u32 {
        for (u32 k = 0; k < 32; k += bits) c += F()(T{Part(a >> k)}, T{Part(b >> k)});
        return c;
    });
}

// Instructions without operations of their own have the names of types without a sign.
void add_integers(Table& t) {
#define INTEGERS u16, u32, u64, s16, s32, s64
#define WORDS u32, u64, s32, s64
    t.each<INTEGERS, Pair<u16>, Pair<s16>>("add", INTEGER,
                                           []<class T>(T a, T b) -> T { return a + b; });
    t.each<INTEGERS>("sub", INTEGER, []<class T>(T a, T b) -> T { return a - b; });
    t.each<INTEGERS>("mul.lo", INTEGER, []<class T>(T a, T b) -> T { return a * b; });
    t.each<INTEGERS>("mad.lo", INTEGER, []<class T>(T a, T b, T c) -> T { return a * b + c; });
    t.each<INTEGERS>("mul.hi", INTEGER, []<class T>(T a, T b) -> T { return high(a, b); });
    t.each<INTEGERS>("mad.hi", INTEGER, []<class T>(T a, T b, T c) -> T { return high(a, b) + c; });
    t.each<u16, s16, u32, s32>("mul.wide", INTEGER,
                               []<class T>(T a, T b) -> Wide<T> { return Wide<T>(a) * b; });
    t.each<u16, s16, u32, s32>("mad.wide", INTEGER, []<class T>(T a, T b, Wide<T> c) -> Wide<T> {
        return Wide<T>(a) * b + c;
    });
    t.each<u32, s32>("mul24.lo", INTEGER,
                     []<class T>(T a, T b) -> T { return bits24(a) * bits24(b); });
    t.each<u32, s32>("mul24.hi", INTEGER,
                     []<class T>(T a, T b) -> T { return bits24(a) * bits24(b) >> 16; });
    t.each<u32, s32>("mad24.lo", INTEGER,
                     []<class T>(T a, T b, T c) -> T { return bits24(a) * bits24(b) + c; });
    t.each<u32, s32>("mad24.hi", INTEGER,
                     []<class T>(T a, T b, T c) -> T { return (bits24(a) * bits24(b) >> 16) + c; });
    t.one("add.sat.s32", INTEGER, [](s32 a, s32 b) -> s32 { return saturated(s64{a} + b); });
    t.one("sub.sat.s32", INTEGER, [](s32 a, s32 b) -> s32 { return saturated(s64{a} - b); });
    t.one("mad.hi.sat.s32", INTEGER,
          [](s32 a, s32 b, s32 c) -> s32 { return saturated(s64{high(a, b)} + c); });
    // A GPU's division by zero gives all bits, and the remainder the dividend.
    add_divisions<INTEGERS>(t, "div", []<class T>(T a, T b) -> T {
        return std::is_signed_v<T> && b == T(-1) ? 0 - a : b ? a / b : -1;
    });
    add_divisions<INTEGERS>(t, "rem", []<class T>(T a, T b) -> T {
        return std::is_signed_v<T> && b == T(-1) ? 0 : b ? a % b : a;
    });
    t.each<INTEGERS, Pair<u16>, Pair<s16>>("min", INTEGER,
                                           []<class T>(T a, T b) -> T { return a < b ? a : b; });
    t.each<INTEGERS, Pair<u16>, Pair<s16>>("max", INTEGER,
                                           []<class T>(T a, T b) -> T { return a < b ? b : a; });
    t.one("min.relu.s32", INTEGER, [](s32 a, s32 b) { return std::max(std::min(a, b), 0); });
    t.one("max.relu.s32", INTEGER, [](s32 a, s32 b) { return std::max({a, b, 0}); });
    t.each<INTEGERS>("sad", INTEGER,
                     []<class T>(T a, T b, T c) -> T { return c + (a < b ? b - a : a - b); });
    t.each<s16, s32, s64>("neg", INTEGER, []<class T>(T a) -> T { return -a; });
    t.each<s16, s32, s64>("abs", INTEGER, []<class T>(T a) -> T { return a < 0 ? -a : a; });

    t.each<u16, u32, u64>("and", INTEGER, []<class T>(T a, T b) -> T { return a & b; });
    t.each<u16, u32, u64>("or", INTEGER, []<class T>(T a, T b) -> T { return a | b; });
    t.each<u16, u32, u64>("xor", INTEGER, []<class T>(T a, T b) -> T { return a ^ b; });
    t.each<u16, u32, u64>("not", INTEGER, []<class T>(T a) -> T { return ~a; });
    t.each<u16, u32, u64>("cnot", INTEGER, []<class T>(T a) -> T { return a == 0; });
    t.each<u16, u32, u64>("shl", INTEGER,
                          []<class T>(T a, u32 n) -> T { return n < BITS<T> ? a << n : 0; });
    t.each<INTEGERS>("shr", INTEGER, []<class T>(T a, u32 n) -> T {
        const T beyond = std::is_signed_v<T> && a < 0 ? -1 : 0;
        return n < BITS<T> ? a >> n : beyond;
    });
    t.each<u32, u64>("popc", INTEGER, []<class T>(T a) -> u32 { return std::popcount(a); });
    t.each<u32, u64>("clz", INTEGER, []<class T>(T a) -> u32 { return std::countl_zero(a); });
    t.each<u32, u64>("brev", INTEGER, []<class T>(T a) -> T {
        T r = 0;
        for (u32 k = 0; k < BITS<T>; ++k) r |= (a >> k & 1) << (BITS<T> - 1 - k);
        return r;
    });
    t.each<WORDS>("bfind", INTEGER, []<class T>(T a) -> u32 { return top_bit(a); });
    t.each<WORDS>("bfind.shiftamt", INTEGER, []<class T>(T a) -> u32 {
        return top_bit(a) == ALL ? ALL : BITS<T> - 1 - top_bit(a);
    });
    t.each<WORDS>("bfe", INTEGER,
                  []<class T>(T a, u32 from, u32 length) -> T { return extract(a, from, length); });
    t.each<u32, u64>("bfi", INTEGER, []<class T>(T a, T b, u32 from, u32 length) -> T {
        return insert(a, b, from, length);
    });
    t.one("bmsk.clamp.b32", INTEGER, [](u32 from, u32 length) -> u32 {
        return from < 32 ? lowest_bits<u32>(length) << from : 0;
    });
    t.one("bmsk.wrap.b32", INTEGER,
          [](u32 from, u32 length) -> u32 { return lowest_bits<u32>(length & 31) << (from & 31); });
    t.each<u32, s32>("szext.clamp", INTEGER, []<class T>(T a, u32 length) -> T {
        return extract(a, 0, std::min(length, 32u));
    });
    t.each<u32, s32>("szext.wrap", INTEGER,
                     []<class T>(T a, u32 length) -> T { return extract(a, 0, length & 31); });
    t.one("fns.b32", INTEGER, [](u32 mask, u32 from, s32 n) { return nth_bit(mask, from, n); });
    t.one("lop3.b32", INTEGER, [](u32 a, u32 b, u32 c, u32 table) -> u32 {
        u32 r = 0;
        for (u32 k = 0; k < 8; ++k)
            r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c) & (0 - (table >> k & 1));
        return r;
    });
    t.one("shf.l.wrap.b32", INTEGER,
          [](u32 a, u32 b, u32 n) -> u32 { return shifted(a, b, 32 - (n & 31)); });
    t.one("shf.r.wrap.b32", INTEGER,
          [](u32 a, u32 b, u32 n) -> u32 { return shifted(a, b, n & 31); });
    t.one("shf.l.clamp.b32", INTEGER,
          [](u32 a, u32 b, u32 n) -> u32 { return shifted(a, b, 32 - std::min(n, 32u)); });
    t.one("shf.r.clamp.b32", INTEGER,
          [](u32 a, u32 b, u32 n) -> u32 { return shifted(a, b, std::min(n, 32u)); });
    t.one("prmt.b32", INTEGER, [](u32 a, u32 b, u32 s) { return permuted_with_signs(a, b, s); });
    const auto add_permutation = [&]<class F>(const char* mode, F) {
        t.one(std::string("prmt.b32.") + mode, INTEGER, [](u32 a, u32 b, u32 n) {
            return permuted(a, b, [=](u32 k) { return F{}(n & 3, k); });
        });
    };
    add_permutation("f4e", [](u32 n, u32 k) { return n + k; });
    add_permutation("b4e", [](u32 n, u32 k) { return n - k; });
    add_permutation("rc8", [](u32 n, u32) { return n; });
    add_permutation("ecl", [](u32 n, u32 k) { return std::max(k, n); });
    add_permutation("ecr", [](u32 n, u32 k) { return std::min(k, n); });
    add_permutation("rc16", [](u32 n, u32 k) { return (n & 1) * 2 + (k & 1); });
    for_types<s32, u32>([&]<class A>() {
        for_types<s32, u32>([&]<class B>() {
            using ByteA = std::conditional_t<std::is_signed_v<A>, s8, u8>;
            using ByteB = std::conditional_t<std::is_signed_v<B>, s8, u8>;
            using HalfA = std::conditional_t<std::is_signed_v<A>, s16, u16>;
            const std::string types = "." + name_of<A>() + "." + name_of<B>();
            t.one("dp4a" + types, INTEGER,
                  [](u32 a, u32 b, s32 c) { return dot<ByteA, ByteB>(a, b, c); });
            t.one("dp2a.lo" + types, INTEGER,
                  [](u32 a, u32 b, s32 c) { return dot<HalfA, ByteB>(a, b, c); });
            t.one("dp2a.hi" + types, INTEGER,
                  [](u32 a, u32 b, s32 c) { return dot<HalfA, ByteB>(a, b >> 16, c); });
        });
    });
    for_types<u8, s8, u16, s16>([&]<class Part>() {
        add_videos<Part>(t, "vadd", [](auto a, auto b) { return a + b; });
        add_videos<Part>(t, "vsub", [](auto a, auto b) { return a - b; });
        add_videos<Part>(t, "vmin", [](auto a, auto b) { return std::min(a, b); });
        add_videos<Part>(t, "vmax", [](auto a, auto b) { return std::max(a, b); });
        add_videos<Part>(t, "vabsdiff", [](auto a, auto b) { return a < b ? b - a : a - b; });
    });
    using Sum = unsigned __int128;
    add_carries<WORDS>(t, "add", "", []<class T>(T a, T b, T, Sum in) {
        return Sum{std::make_unsigned_t<T>(a)} + std::make_unsigned_t<T>(b) + in;
    });
    add_carries<WORDS>(t, "sub", "", []<class T>(T a, T b, T, Sum in) {
        return Sum{std::make_unsigned_t<T>(a)} - std::make_unsigned_t<T>(b) - in;
    });
    add_carries<WORDS>(t, "mad", ".lo", []<class T>(T a, T b, T c, Sum in) {
        return Sum{std::make_unsigned_t<T>(a * b)} + std::make_unsigned_t<T>(c) + in;
    });
    add_carries<WORDS>(t, "mad", ".hi", []<class T>(T a, T b, T c, Sum in) {
        return Sum{std::make_unsigned_t<T>(high(a, b))} + std::make_unsigned_t<T>(c) + in;
    });

    t.each_bits<u16, u32, u64>("mov", []<class T>(T a) -> T { return a; });
    add_parts<u64, u32>(t);
    add_parts<u64, u16>(t);
    add_parts<u32, u16>(t);
    add_parts<u32, u8>(t);
    add_parts<u16, u8>(t);
}

}  // namespace machine
