// Integers, bits, moves, selections and predicates.

#include <tuple>

#include "decode.h"

namespace machine {

namespace {

/// An operation on one type: d and all operands have it.
template <class F, std::size_t N, class List>
bool same(Decoder& d, List list, Kind kind = INTEGER) {
    return pick(list, d.type(), [&]<class T>() {
        const auto run = []<std::size_t... K>(std::index_sequence<K...>) -> Run {
            return &map<F, T, std::conditional_t<K + 1 != 0, T, T>...>;
        }(std::make_index_sequence<N>());
        return d.set(run, kind, std::string(1, letter<T>()) + ":" + std::string(N, letter<T>()));
    });
}

#define OPERATION(name, ...) \
    struct name {            \
        template <class T>   \
        __VA_ARGS__          \
    }

OPERATION(Add, T operator()(T a, T b) const { return static_cast<T>(a + b); });
OPERATION(Sub, T operator()(T a, T b) const { return static_cast<T>(a - b); });
OPERATION(Mul, T operator()(T a, T b) const { return static_cast<T>(a * b); });
OPERATION(Mad, T operator()(T a, T b, T c) const { return static_cast<T>(a * b + c); });
OPERATION(Min, T operator()(T a, T b) const { return a < b ? a : b; });
OPERATION(Max, T operator()(T a, T b) const { return a < b ? b : a; });
OPERATION(And, T operator()(T a, T b) const { return a & b; });
OPERATION(Or, T operator()(T a, T b) const { return a | b; });
OPERATION(Xor, T operator()(T a, T b) const { return a ^ b; });
OPERATION(Not, T operator()(T a) const { return static_cast<T>(~a); });
OPERATION(CNot, T operator()(T a) const { return a == 0; });
OPERATION(Neg, T operator()(T a) const { return static_cast<T>(-a); });
OPERATION(Abs, T operator()(T a) const { return static_cast<T>(a < 0 ? -a : a); });
OPERATION(Move, T operator()(T a) const { return a; });

// Division by zero gives all bits, and the remainder the dividend, as on a GPU.
OPERATION(
    Div, T operator()(T a, T b) const {
        if (b == 0) return static_cast<T>(-1);
        if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - a);
        return static_cast<T>(a / b);
    });
OPERATION(
    Rem, T operator()(T a, T b) const {
        if (b == 0) return a;
        if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
        return static_cast<T>(a % b);
    });

template <class T>
T high(T a, T b) {
    if constexpr (sizeof(T) == 8) {
        using W = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
        return static_cast<T>(static_cast<W>(a) * static_cast<W>(b) >> 64);
    } else {
        using W = std::conditional_t<std::is_signed_v<T>, s64, u64>;
        return static_cast<T>(static_cast<W>(a) * static_cast<W>(b) >> (8 * sizeof(T)));
    }
}
OPERATION(MulHigh, T operator()(T a, T b) const { return high(a, b); });
OPERATION(MadHigh, T operator()(T a, T b, T c) const { return static_cast<T>(high(a, b) + c); });
// Of the lower 24 bits, sign-extended for signed types.
template <class T>
s64 bits24(T a) {
    return std::is_signed_v<T> ? static_cast<s32>(static_cast<u32>(a) << 8) >> 8
                               : static_cast<s64>(a & 0xffffff);
}
OPERATION(Mul24, T operator()(T a, T b) const { return static_cast<T>(bits24(a) * bits24(b)); });
OPERATION(
    Mad24, T operator()(T a, T b, T c) const { return static_cast<T>(bits24(a) * bits24(b) + c); });

template <class T>
using Wide = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, s32, u32>,
                                std::conditional_t<std::is_signed_v<T>, s64, u64>>;
OPERATION(
    MulWide, Wide<T> operator()(T a, T b) const {
        return static_cast<Wide<T>>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
    });
OPERATION(
    MadWide, Wide<T> operator()(T a, T b, Wide<T> c) const {
        return static_cast<Wide<T>>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b) + c);
    });

OPERATION(
    Shl, T operator()(T a, u32 n) const {
        constexpr u32 bits = 8 * sizeof(T);
        return n < bits ? static_cast<T>(a << (n & (bits - 1))) : T{0};
    });
OPERATION(
    Shr, T operator()(T a, u32 n) const {
        constexpr u32 bits = 8 * sizeof(T);
        if (std::is_signed_v<T>) return static_cast<T>(a >> (n < bits ? n : bits - 1));
        return n < bits ? static_cast<T>(a >> (n & (bits - 1))) : T{0};
    });
OPERATION(Popc, u32 operator()(T a) const { return static_cast<u32>(__builtin_popcountll(a)); });
OPERATION(
    Clz, u32 operator()(T a) const {
        return a ? static_cast<u32>(__builtin_clzll(a)) - (64 - 8 * sizeof(T)) : 8 * sizeof(T);
    });
OPERATION(
    Brev, T operator()(T a) const {
        T r = 0;
        for (u32 k = 0; k < 8 * sizeof(T); ++k)
            r |= static_cast<T>((a >> k & 1) << (8 * sizeof(T) - 1 - k));
        return r;
    });
template <bool is_shift>
struct Bfind {
    template <class T>
    u32 operator()(T a) const {
        using U = std::make_unsigned_t<T>;
        const U u = static_cast<U>(a < 0 ? ~a : a);
        if (!u) return ALL;
        const u32 top = 63 - static_cast<u32>(__builtin_clzll(u));
        return is_shift ? 8 * static_cast<u32>(sizeof(T)) - 1 - top : top;
    }
};
OPERATION(
    Bfe, T operator()(T a, u32 from, u32 length) const {
        constexpr u32 bits = 8 * sizeof(T);
        using U = std::make_unsigned_t<T>;
        from &= 255;
        length &= 255;
        const u32 last = std::min(from + length, bits) - 1;
        const bool sign =
            std::is_signed_v<T> && length && (static_cast<U>(a) >> std::min(last, bits - 1) & 1);
        const U field = from < bits ? static_cast<U>(a) >> from : U{0};
        const U kept =
            length >= bits ? static_cast<U>(~U{0}) : static_cast<U>((U{1} << length) - 1);
        // Beyond the value the sign is repeated.
        const u32 have = from >= bits ? 0 : std::min(length, bits - from);
        const U known = have >= bits ? static_cast<U>(~U{0}) : static_cast<U>((U{1} << have) - 1);
        (void)kept;
        return static_cast<T>((field & known) | (sign ? static_cast<U>(~known) : U{0}));
    });
OPERATION(
    Bfi, T operator()(T a, T b, u32 from, u32 length) const {
        constexpr u32 bits = 8 * sizeof(T);
        from &= 255;
        length &= 255;
        if (from >= bits || !length) return b;
        const T ones =
            length >= bits ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
        const T field = static_cast<T>(ones << from);
        return static_cast<T>((b & ~field) | (a << from & field));
    });
template <bool is_right, bool wraps>
struct Funnel {
    u32 operator()(u32 a, u32 b, u32 n) const {
        n = wraps ? n & 31 : std::min(n, 32u);
        const u64 both = static_cast<u64>(b) << 32 | a;
        return static_cast<u32>(is_right ? both >> n : both << n >> 32);
    }
};
struct Sad {
    template <class T>
    T operator()(T a, T b, T c) const {
        return static_cast<T>(c + (a < b ? b - a : a - b));
    }
};
struct Prmt {
    u32 operator()(u32 a, u32 b, u32 selector) const {
        const u64 both = static_cast<u64>(b) << 32 | a;
        u32 r = 0;
        for (u32 k = 0; k < 4; ++k) {
            const u32 one = selector >> (4 * k) & 15;
            const u32 byte = static_cast<u32>(both >> (8 * (one & 7))) & 255;
            r |= (one & 8 ? (byte & 128 ? 255 : 0) : byte) << (8 * k);
        }
        return r;
    }
};
template <class A, class B>
void dp4a(Warp& w, const Inst& i) {
    const u32 *a = w.at<u32>(i.op[1]), *b = w.at<u32>(i.op[2]), *c = w.at<u32>(i.op[3]);
    alignas(64) u32 t[LANES];
    for (int l = 0; l < LANES; ++l) {
        s32 sum = static_cast<s32>(c[l]);
        for (int k = 0; k < 32; k += 8)
            sum += static_cast<A>(a[l] >> k) * static_cast<B>(b[l] >> k);
        t[l] = static_cast<u32>(sum);
    }
    blend(w.at<u32>(i.op[0]), t, w.mask);
}
void prmt_mode(Warp& w, const Inst& i) {
    const u32 *a = w.at<u32>(i.op[1]), *b = w.at<u32>(i.op[2]), *c = w.at<u32>(i.op[3]);
    alignas(64) u32 t[LANES];
    for (int l = 0; l < LANES; ++l) {
        const u64 both = static_cast<u64>(b[l]) << 32 | a[l];
        const u32 n = c[l] & 3;
        t[l] = 0;
        for (u32 k = 0; k < 4; ++k) {
            u32 from = 0;
            switch (i.mode) {
                case 0:
                    from = n + k;
                    break;  // f4e
                case 1:
                    from = (n - k) & 7;
                    break;  // b4e
                case 2:
                    from = n;
                    break;  // rc8
                case 3:
                    from = std::max(k, n);
                    break;  // ecl
                case 4:
                    from = std::min(k, n);
                    break;  // ecr
                case 5:
                    from = (n & 1) * 2 + (k & 1);
                    break;  // rc16
            }
            t[l] |= (static_cast<u32>(both >> (8 * from)) & 255) << (8 * k);
        }
    }
    blend(w.at<u32>(i.op[0]), t, w.mask);
}

/// The n-th bit of a mask that is set, from a position up or down.
struct Fns {
    u32 operator()(u32 mask, u32 from, s32 n) const {
        const s32 step = n < 0 ? -1 : 1;
        s32 left = n < 0 ? -n : n;
        for (s32 at = static_cast<s32>(from); at >= 0 && at < 32; at += step) {
            if (mask >> at & 1 && --left <= 0) return static_cast<u32>(at);
            if (n == 0) break;
        }
        return ALL;
    }
};

void lop3(Warp& w, const Inst& i) {
    const u32 *a = w.at<u32>(i.op[1]), *b = w.at<u32>(i.op[2]), *c = w.at<u32>(i.op[3]);
    const u32 table = *w.at<u32>(i.op[4]);
    alignas(64) u32 t[LANES];
    u32 selected[8];
    for (u32 k = 0; k < 8; ++k) selected[k] = table >> k & 1 ? ALL : 0;
#pragma omp simd
    for (int l = 0; l < LANES; ++l) {
        u32 r = 0;
        for (u32 k = 0; k < 8; ++k)
            r |= selected[k] & (k & 4 ? a[l] : ~a[l]) & (k & 2 ? b[l] : ~b[l]) &
                 (k & 1 ? c[l] : ~c[l]);
        t[l] = r;
    }
    blend(w.at<u32>(i.op[0]), t, w.mask);
}

// Extended precision: the carry of each lane is a register of the warp's own.
template <class T, int which>
void carry(Warp& w, const Inst& i) {
    const bool sets = i.mode & 1, takes = i.mode & 2;
    u32& flags = *reinterpret_cast<u32*>(&w.nowhere[4 * LANES - 1]);
    const T *a = w.at<T>(i.op[1]), *b = w.at<T>(i.op[2]), *c = which >= 2 ? w.at<T>(i.op[3]) : a;
    T* d = w.at<T>(i.op[0]);
    u32 out = flags;
    for (u32 rest = w.mask; rest; rest &= rest - 1) {
        const int l = lowest(rest);
        using W = unsigned __int128;
        const W in = takes ? flags >> l & 1 : 0;
        W r;
        if (which == 0) r = static_cast<W>(a[l]) + b[l] + in;
        if (which == 1) r = static_cast<W>(a[l]) - b[l] - in;
        if (which == 2) r = static_cast<W>(static_cast<T>(a[l] * b[l])) + c[l] + in;
        if (which == 3)
            r = static_cast<W>(i.mode & 4 ? static_cast<T>(high<std::make_signed_t<T>>(
                                                static_cast<std::make_signed_t<T>>(a[l]),
                                                static_cast<std::make_signed_t<T>>(b[l])))
                                          : high<T>(a[l], b[l])) +
                c[l] + in;
        d[l] = static_cast<T>(r);
        const u32 bit = (r >> (8 * sizeof(T)) & 1) != 0;
        out = (out & ~(1u << l)) | bit << l;
    }
    if (sets) flags = out;
}

bool decode_carry(Decoder& d, int which) {
    d.inst.mode = static_cast<u8>((d.has("cc") ? 1 : 0) | (d.parts[0].back() == 'c' ? 2 : 0) |
                                  (d.type()[0] == 's' ? 4 : 0));
    return pick(
        Types<u32, u64>(), std::string("u") + std::string(d.type().substr(1)), [&]<class T>() {
            const Run runs[] = {carry<T, 0>, carry<T, 1>, carry<T, 2>, carry<T, 3>};
            return d.set(
                runs[which], INTEGER,
                std::string(1, letter<T>()) + ":" + std::string(which < 2 ? 2 : 3, letter<T>()));
        });
}

// ---- predicates, selections and comparisons ----

template <int which>
void predicates(Warp& w, const Inst& i) {
    const u32 a = w.predicate(i, 1), b = which < 3 ? w.predicate(i, 2) : 0;
    const u32 r = which == 0   ? a & b
                  : which == 1 ? a | b
                  : which == 2 ? a ^ b
                  : which == 3 ? ~a
                               : a;
    set_predicate(w, i.op[0], r);
}

template <class T>
void select(Warp& w, const Inst& i) {
    const u32 p = w.predicate(i, 3);
    const T *a = w.at<T>(i.op[1]), *b = w.at<T>(i.op[2]);
    alignas(64) T t[LANES];
#pragma omp simd
    for (int l = 0; l < LANES; ++l) t[l] = p >> l & 1 ? a[l] : b[l];
    blend(w.at<T>(i.op[0]), t, w.mask);
}

struct Slct {
    template <class T, class C>
    T operator()(T a, T b, C c) const {
        return c >= 0 ? a : b;
    }
};

template <int which>
struct Compare {
    template <class T>
    bool operator()(T x, T y) const {
        if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BHalf>) {
            return Compare<which>{}(static_cast<float>(x), static_cast<float>(y));
        } else {
            switch (which) {
                case 0:
                    return x == y;
                case 1:
                    return x != y && !(std::is_floating_point_v<T> && (x != x || y != y));
                case 2:
                    return x < y;
                case 3:
                    return x <= y;
                case 4:
                    return x > y;
                case 5:
                    return x >= y;
                case 6:
                    return !(x < y || x > y);
                case 7:
                    return !(x == y);
                case 8:
                    return !(x >= y);
                case 9:
                    return !(x > y);
                case 10:
                    return !(x <= y);
                case 11:
                    return !(x < y);
                case 12:
                    return x == x && y == y;
                case 13:
                    return x != x || y != y;
            }
            return false;
        }
    }
};

template <class F, class T>
void setp(Warp& w, const Inst& i) {
    const bool two = i.mode & 8;
    const int first = two ? 2 : 1;
    u32 r = bits_of<F, T, T>(w, i, first), other = ~r;
    if (i.mode & 7) {
        const u32 c = w.predicate(i, first + 2);
        const auto join = [&](u32 x) {
            return (i.mode & 7) == 1 ? x & c : (i.mode & 7) == 2 ? x | c : x ^ c;
        };
        r = join(r);
        other = join(other);
    }
    if (two) set_predicate(w, i.op[1], other);
    set_predicate(w, i.op[0], r);
}

/// set: a mask of all bits, or 1.0, where a comparison holds.
template <class F, class T, class D>
void set_value(Warp& w, const Inst& i) {
    u32 r = bits_of<F, T, T>(w, i, 1);
    if (i.mode & 7) {
        const u32 c = w.predicate(i, 3);
        r = (i.mode & 7) == 1 ? r & c : (i.mode & 7) == 2 ? r | c : r ^ c;
    }
    alignas(64) D t[LANES];
    for (int l = 0; l < LANES; ++l)
        t[l] = static_cast<D>(r >> l & 1 ? (std::is_same_v<D, float> ? D(1) : D(-1)) : D(0));
    blend(reinterpret_cast<u32*>(w.at<D>(i.op[0])), reinterpret_cast<u32*>(t), w.mask);
}

/// set on both halves, and setp with a predicate for each.
template <class F, class P>
void set_pair(Warp& w, const Inst& i) {
    const bool is_setp = i.mode & 16;
    const P *a = w.at<P>(i.op[is_setp ? 2 : 1]), *b = w.at<P>(i.op[is_setp ? 3 : 2]);
    u32 low = 0, high = 0;
    for (int l = 0; l < LANES; ++l) {
        low |= static_cast<u32>(F{}(a[l].low, b[l].low)) << l;
        high |= static_cast<u32>(F{}(a[l].high, b[l].high)) << l;
    }
    if (is_setp) {
        set_predicate(w, i.op[0], low);
        set_predicate(w, i.op[1], high);
        return;
    }
    alignas(64) u32 t[LANES];
    const u32 one = i.mode & 32 ? 0xffff : std::is_same_v<P, Half2> ? 0x3c00 : 0x3f80;
    for (int l = 0; l < LANES; ++l)
        t[l] = (low >> l & 1 ? one : 0) | (high >> l & 1 ? one << 16 : 0);
    blend(w.at<u32>(i.op[0]), t, w.mask);
}

bool decode_compare(Decoder& d) {
    static constexpr std::string_view names[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",
                                                 "equ", "neu", "ltu", "leu", "gtu", "geu",
                                                 "num", "nan", "lo",  "ls",  "hi",  "hs"};
    const auto at = std::find(std::begin(names), std::end(names), d.parts[1]);
    if (at == std::end(names)) return false;
    int which = static_cast<int>(at - std::begin(names));
    if (which >= 14) which -= 12;  // lo, ls, hi, hs are lt, le, gt, ge
    const int join = d.which({"and", "or", "xor"}) + 1;
    const bool is_set = d.parts[0] == "set";
    const std::string_view type = is_set ? d.type(1) : d.type();
    const std::size_t values = d.widths.size() - (join ? 1 : 0) - 2;
    d.inst.mode = static_cast<u8>(join | (values == 2 ? 8 : 0));
    const bool flushes = d.has("ftz");
    bool found = false;
    const auto with = [&]<int W>() {
        using F = Compare<W>;
        if (type == "f16x2" || type == "bf16x2") {
            d.inst.mode = static_cast<u8>((is_set ? 0 : 16) |
                                          (d.type()[0] == 'u' || d.type()[0] == 's' ? 32 : 0));
            const Run run = type == "f16x2" ? set_pair<F, Half2> : set_pair<F, BHalf2>;
            found = d.set(run, COMPARE, is_set ? "4:44" : "pp:44");
            return;
        }
        found = pick(Types<u16, u32, u64, s16, s32, s64, float, double, Half, BHalf>(), type,
                     [&]<class T>() {
                         const std::string sources =
                             std::string(2, letter<T>()) + (join ? "p" : "");
                         if (is_set) {
                             if (d.type() == "f32")
                                 return d.set(set_value<F, T, float>, COMPARE, "4:" + sources);
                             if (d.type().substr(1) != "32") return false;
                             return d.set(set_value<F, T, u32>, COMPARE, "4:" + sources);
                         }
                         Run run = setp<F, T>;
                         if constexpr (std::is_same_v<T, float>)
                             if (flushes) run = setp<Flushed<F>, T>;
                         return d.set(run, COMPARE, (values == 2 ? "pp:" : "p:") + sources);
                     });
    };
    [&]<int... W>(std::integer_sequence<int, W...>) {
        ((W == which ? with.template operator()<W>() : void()), ...);
    }(std::make_integer_sequence<int, 14>());
    return found;
}

// ---- moves ----

/// A value of parts: {a, b} from c, or c from {a, b}.
void pack(Warp& w, const Inst& i) {
    const bool unpacks = i.mode & 1;
    const int parts = i.count - 1, whole = unpacks ? parts : 0;
    const u32 bytes = i.bytes, part = bytes / static_cast<u32>(parts);
    u8 t[LANES * 16];
    if (unpacks) {
        std::memcpy(t, w.at<u8>(i.op[whole]), LANES * bytes);
        for (int k = 0; k < parts; ++k)
            for (u32 rest = w.mask; rest; rest &= rest - 1) {
                const u32 l = static_cast<u32>(lowest(rest));
                u8* to = w.at<u8>(i.op[k]) + l * std::max(part, 2u);
                std::memcpy(to, t + l * bytes + static_cast<u32>(k) * part, part);
                if (part == 1) to[1] = 0;
            }
        return;
    }
    for (int k = 0; k < parts; ++k)
        for (u32 l = 0; l < LANES; ++l)
            std::memcpy(t + l * bytes + static_cast<u32>(k) * part,
                        w.at<u8>(i.op[k + 1]) + l * std::max(part, 2u), part);
    for (u32 rest = w.mask; rest; rest &= rest - 1) {
        const u32 l = static_cast<u32>(lowest(rest));
        std::memcpy(w.at<u8>(i.op[0]) + l * bytes, t + l * bytes, bytes);
    }
}

bool decode_move(Decoder& d) {
    if (d.type() == "pred") return d.set(predicates<4>, MOVE, "p:p");
    if (d.vector > 1) {
        const int parts = d.inst.count - 1;
        const int bytes = std::atoi(std::string(d.type().substr(1)).c_str()) / 8;
        if (bytes > 8) return false;
        d.inst.bytes = static_cast<u8>(bytes);
        const char whole = bytes == 2 ? '2' : bytes == 4 ? '4' : '8';
        const int part = bytes / parts;
        const std::string pieces(static_cast<std::size_t>(parts),
                                 part == 1 || part == 2 ? '2' : '4');
        if (d.inst.mode & 1) return d.set(pack, MOVE, pieces + ":" + whole);
        return d.set(pack, MOVE, std::string(1, whole) + ":" + pieces);
    }
    return same<Move, 1>(
        d, Types<u16, u32, u64, s16, s32, s64, float, double, Half, BHalf, Half2, BHalf2>(), MOVE);
}

/// A division whose divisors are not zero.
template <class T>
void divide(Warp& w, const Inst& i) {
    const T* b = w.at<T>(i.op[2]);
    for (u32 rest = w.mask; rest; rest &= rest - 1)
        if (b[lowest(rest)] == 0)
            w.fail(i, static_cast<u32>(lowest(rest)), "divides an integer by zero");
    i.inner(w, i);
}

template <class F, class List>
bool to_u32(Decoder& d, List list) {
    return pick(list, d.type(), [&]<class T>() {
        return d.set(map<F, u32, T>, INTEGER, std::string("4:") + letter<T>());
    });
}

template <class F, class List>
bool shift(Decoder& d, List list) {
    return pick(list, d.type(), [&]<class T>() {
        return d.set(map<F, T, T, u32>, INTEGER, std::string{letter<T>(), ':', letter<T>(), '4'});
    });
}

}  // namespace

bool decode_integer(Decoder& d) {
    const std::string_view op = d.parts[0];
    const bool is_predicate = d.type() == "pred";
    const bool is_wide = d.has("wide"), is_high = d.has("hi"), has_carry = d.has("cc");
    if (d.has("sat") && d.type() != "s32") return false;
    if (op == "add" && !has_carry) {
        if (d.has("sat")) {
            struct AddSaturated {
                s32 operator()(s32 a, s32 b) const {
                    return static_cast<s32>(std::clamp<s64>(s64{a} + b, INT32_MIN, INT32_MAX));
                }
            };
            return same<AddSaturated, 2>(d, Types<s32>());
        }
        if (d.type() == "u16x2" || d.type() == "s16x2") return false;
        return same<Add, 2>(d, Integers());
    }
    if (op == "sub" && !has_carry) {
        if (d.has("sat")) {
            struct SubSaturated {
                s32 operator()(s32 a, s32 b) const {
                    return static_cast<s32>(std::clamp<s64>(s64{a} - b, INT32_MIN, INT32_MAX));
                }
            };
            return same<SubSaturated, 2>(d, Types<s32>());
        }
        return same<Sub, 2>(d, Integers());
    }
    if (op == "add" || op == "addc") return decode_carry(d, 0);
    if (op == "sub" || op == "subc") return decode_carry(d, 1);
    if ((op == "mad" && has_carry) || op == "madc") return decode_carry(d, is_high ? 3 : 2);
    if (op == "mul" && is_wide)
        return pick(Types<u16, s16, u32, s32>(), d.type(), [&]<class T>() {
            return d.set(map<MulWide, Wide<T>, T, T>, INTEGER,
                         std::string{letter<Wide<T>>(), ':', letter<T>(), letter<T>()});
        });
    if (op == "mad" && is_wide)
        return pick(Types<u16, s16, u32, s32>(), d.type(), [&]<class T>() {
            return d.set(
                map<MadWide, Wide<T>, T, T, Wide<T>>, INTEGER,
                std::string{letter<Wide<T>>(), ':', letter<T>(), letter<T>(), letter<Wide<T>>()});
        });
    if (op == "mul") return is_high ? same<MulHigh, 2>(d, Integers()) : same<Mul, 2>(d, Integers());
    if (op == "mad") return is_high ? same<MadHigh, 3>(d, Integers()) : same<Mad, 3>(d, Integers());
    if (op == "mul24") return !is_high && same<Mul24, 2>(d, Types<u32, s32>());
    if (op == "mad24") return !is_high && same<Mad24, 3>(d, Types<u32, s32>());
    if (op == "sad") return same<Sad, 3>(d, Integers());
    if ((op == "div" || op == "rem") &&
        (op == "div" ? same<Div, 2>(d, Integers()) : same<Rem, 2>(d, Integers()))) {
        d.inst.inner = std::exchange(d.inst.run, d.shape[2] == '2'   ? divide<u16>
                                                 : d.shape[2] == '4' ? divide<u32>
                                                                     : divide<u64>);
        return true;
    }
    if (op == "min") return same<Min, 2>(d, Integers());
    if (op == "max") return same<Max, 2>(d, Integers());
    if (op == "abs") return same<Abs, 1>(d, Types<s16, s32, s64>());
    if (op == "neg") return same<Neg, 1>(d, Types<s16, s32, s64>());
    if (is_predicate && (op == "and" || op == "or" || op == "xor"))
        return d.set(op == "and"  ? predicates<0>
                     : op == "or" ? predicates<1>
                                  : predicates<2>,
                     INTEGER, "p:pp");
    if (is_predicate && op == "not") return d.set(predicates<3>, INTEGER, "p:p");
    if (op == "and") return same<And, 2>(d, Integers());
    if (op == "or") return same<Or, 2>(d, Integers());
    if (op == "xor") return same<Xor, 2>(d, Integers());
    if (op == "not") return same<Not, 1>(d, Integers());
    if (op == "cnot") return same<CNot, 1>(d, Integers());
    if (op == "shl") return shift<Shl>(d, Integers());
    if (op == "shr") return shift<Shr>(d, Integers());
    if (op == "popc") return to_u32<Popc>(d, Types<u32, u64>());
    if (op == "clz") return to_u32<Clz>(d, Types<u32, u64>());
    if (op == "brev") return same<Brev, 1>(d, Types<u32, u64>());
    if (op == "bfind")
        return d.has("shiftamt") ? to_u32<Bfind<true>>(d, Words())
                                 : to_u32<Bfind<false>>(d, Words());
    if (op == "bfe")
        return pick(Words(), d.type(), [&]<class T>() {
            return d.set(map<Bfe, T, T, u32, u32>, INTEGER,
                         std::string{letter<T>(), ':', letter<T>(), '4', '4'});
        });
    if (op == "bfi")
        return pick(Types<u32, u64>(), d.type(), [&]<class T>() {
            return d.set(map<Bfi, T, T, T, u32, u32>, INTEGER,
                         std::string{letter<T>(), ':', letter<T>(), letter<T>(), '4', '4'});
        });
    if (op == "shf") {
        const bool right = d.has("r"), wraps = d.has("wrap");
        const Run run = right ? (wraps ? map<Funnel<true, true>, u32, u32, u32, u32>
                                       : map<Funnel<true, false>, u32, u32, u32, u32>)
                              : (wraps ? map<Funnel<false, true>, u32, u32, u32, u32>
                                       : map<Funnel<false, false>, u32, u32, u32, u32>);
        return d.set(run, INTEGER, "4:444");
    }
    if (op == "prmt") {
        const int mode = d.which({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
        d.inst.mode = static_cast<u8>(std::max(mode, 0));
        return d.set(mode < 0 ? map<Prmt, u32, u32, u32, u32> : prmt_mode, INTEGER, "4:444");
    }
    if (op == "lop3") return !d.has("or") && !d.has("and") && d.set(lop3, INTEGER, "4:4444");
    if (op == "fns") return d.set(map<Fns, u32, u32, u32, s32>, INTEGER, "4:444");
    if (op == "dp4a") {
        const bool a = d.type() == "s32", b = d.type(1) == "s32";
        return d.set(a ? (b ? dp4a<s8, s8> : dp4a<s8, u8>) : (b ? dp4a<u8, s8> : dp4a<u8, u8>),
                     INTEGER, "4:444");
    }
    if (op == "selp") {
        const std::string_view bits = d.type().substr(1);
        if (bits == "16") return d.set(select<u16>, INTEGER, "2:22p");
        if (bits == "32") return d.set(select<u32>, INTEGER, "4:44p");
        return bits == "64" && d.set(select<u64>, INTEGER, "8:88p");
    }
    if (op == "slct")
        return pick(Types<u16, u32, u64, s16, s32, s64, float, double>(), d.type(), [&]<class T>() {
            const std::string letters{letter<T>(), ':', letter<T>(), letter<T>(), '4'};
            return d.set(d.type(1) == "f32" ? map<Slct, T, T, T, float> : map<Slct, T, T, T, s32>,
                         INTEGER, letters);
        });
    if (op == "setp" || op == "set") return decode_compare(d);
    if (op == "mov") return decode_move(d);
    return false;
}

}  // namespace machine
