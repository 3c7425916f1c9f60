// Conversions: cvt, cvta and isspacep.

#include <cfenv>
#include <limits>

#include "table.h"

namespace machine {

namespace {

double integral(double x, u8 rounding) {
    return rounding == RNI   ? std::nearbyint(x)
           : rounding == RMI ? std::floor(x)
           : rounding == RPI ? std::ceil(x)
                             : std::trunc(x);
}

/// A floating-point number as an integer, within the limits of its type. NaN is 0 for 32 bits and
/// less, and 2^63 for 64 bits.
template <class D>
D to_integer(double x, u8 rounding) {
    using Limits = std::numeric_limits<D>;
    if (x != x) return sizeof(D) == 8 ? static_cast<D>(1ull << 63) : D{0};
    x = integral(x, rounding);
    if (x <= static_cast<double>(Limits::min())) return Limits::min();
    // The largest number plus 1 is exact, and rounds the largest number of 64 bits.
    return x >= std::ldexp(1.0, Limits::digits) ? Limits::max() : static_cast<D>(x);
}

/// A float of 16 bits. The CPU rounds to the nearest.
template <class D>
D to_narrow(double x, u8 rounding) {
    D r(to_odd(x));
    const double size = std::fabs(static_cast<double>(r)), exact = std::fabs(x);
    const bool is_away = rounding == RM ? std::signbit(x) : rounding == RP && !std::signbit(x);
    if (rounding > RN && rounding <= RP && is_away && size < exact) ++r.bits;
    if (rounding > RN && rounding <= RP && !is_away && size > exact) --r.bits;
    return r;
}

/// An integer as a double with an odd last bit, if it has more bits: rounding it again to fewer
/// bits gives what rounding the integer would.
template <class S>
double odd_double(S s) {
    const u64 size = s < 0 ? 0 - static_cast<u64>(s) : static_cast<u64>(s);
    const u64 kept = size >> 52 ? (size >> 12 | (size & 0xfff ? 1 : 0)) << 12 : size;
    return s < 0 ? -static_cast<double>(kept) : static_cast<double>(kept);
}

/// The value, before it is extended to its register. The CPU has the rounding mode of the
/// instruction.
template <class D, class S>
D converted(S s, const Inst& i) {
    if constexpr (is_float<S>) {
        using W = std::conditional_t<std::is_same_v<S, double>, double, float>;
        W x = s;
        if (i.flushes && !std::is_same_v<S, Half>) x = flush(x);
        if constexpr (std::is_integral_v<D>) {
            return to_integer<D>(x, i.rounding);
        } else {
            if (i.rounding >= RNI) x = static_cast<W>(integral(x, i.rounding));
            if (i.saturates) x = x > 0 ? x < 1 ? x : 1 : 0;
            if (i.is_relu) x = x > 0 || x != x ? x : 0;
            if constexpr (is_half<D>) return to_narrow<D>(x, i.rounding);
            return canonical(i.flushes ? flush(static_cast<D>(x)) : static_cast<D>(x));
        }
    } else if constexpr (is_float<D>) {
        D x;
        if constexpr (is_half<D>)
            x = to_narrow<D>(odd_double(s), i.rounding);
        else
            x = static_cast<D>(s);
        return i.saturates ? x > 0 ? x < 1 ? x : D(1) : D(0) : x;
    } else {
        using Limits = std::numeric_limits<D>;
        const __int128 x = s;
        if (i.saturates && x < Limits::min()) return Limits::min();
        return i.saturates && x > Limits::max() ? Limits::max() : static_cast<D>(s);
    }
}

/// Any conversion; the registers may be wider than the types.
template <class D, class S>
void convert(Warp& w, const Inst& i) {
    constexpr int MODES[] = {FE_TONEAREST, FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    const u8* source = w.at<u8>(i.op[1]);
    alignas(64) D d[LANES];
    const bool has_mode = std::is_floating_point_v<D> && i.rounding > RN && i.rounding <= RP;
    if (has_mode) std::fesetround(MODES[i.rounding]);
    for (int l = 0; l < LANES; ++l) {
        S s;
        std::memcpy(&s, source + l * i.widths[1], sizeof(S));
        d[l] = converted<D, S>(s, i);
    }
    if (has_mode) std::fesetround(FE_TONEAREST);
    const auto extend = [&]<class R>() {
        alignas(64) R values[LANES];
        for (int l = 0; l < LANES; ++l)
            if constexpr (std::is_integral_v<D>)
                values[l] = static_cast<R>(d[l]);
            else
                std::memcpy(&(values[l] = 0), &d[l], std::min(sizeof(R), sizeof(D)));
        assign(w, i.op[0], values);
    };
    if (i.widths[0] == 2) extend.template operator()<u16>();
    if (i.widths[0] == 4) extend.template operator()<u32>();
    if (i.widths[0] == 8) extend.template operator()<u64>();
}

template <class T>
char at_least() {
    return sizeof(T) <= 2 ? 'h' : sizeof(T) == 4 ? 'w' : 'd';
}

/// Rows of conversions from S to D. The CPU's own instruction serves if nothing is special.
template <class D, class S>
void add_conversion(Table& t) {
    Row row{convert<D, S>, CONVERT, {at_least<D>(), ':', at_least<S>()}, CONVERSION};
    row.wide = convert<D, S>;
    constexpr bool extends =
        std::is_integral_v<D> && std::is_integral_v<S> && sizeof(D) > 1 && sizeof(S) > 1;
    if constexpr (extends || (std::is_floating_point_v<D> && sizeof(S) > 2))
        row.run = map<decltype([](S s) { return canonical(static_cast<D>(s)); }), D, S>;
    t.add("cvt." + name_of<D>() + "." + name_of<S>(), row);
}

/// Two float32 as a pair of 16-bit numbers; the first is the upper one.
template <class H>
void convert_pair(Warp& w, const Inst& i) {
    const float *high = w.at<float>(i.op[1]), *low = w.at<float>(i.op[2]);
    Pair<H> values[LANES];
    for (int l = 0; l < LANES; ++l)
        values[l] = {converted<H, float>(low[l], i), converted<H, float>(high[l], i)};
    assign(w, i.op[0], values);
}

// ---- floating-point numbers of 8 bits: a sign, E bits of an exponent, and the fraction ----

template <int E>
float from_8_bits(u8 x) {
    constexpr int M = 7 - E, BIAS = (1 << (E - 1)) - 1;
    const int exponent = x >> M & ((1 << E) - 1), fraction = x & ((1 << M) - 1);
    const float sign = x & 0x80 ? -1.0f : 1.0f;
    if (E == 5 && exponent == 31) return fraction ? NAN : sign * INFINITY;
    if (E == 4 && (x & 0x7f) == 0x7f) return NAN;
    return sign * std::ldexp(static_cast<float>(fraction + (exponent ? 1 << M : 0)),
                             std::max(exponent, 1) - BIAS - M);
}

/// Rounded to the nearest; numbers that are too large become the largest one.
template <int E>
u8 to_8_bits(float x) {
    constexpr int M = 7 - E, BIAS = (1 << (E - 1)) - 1;
    constexpr u8 LARGEST = E == 5 ? 0x7b : 0x7e;
    const u8 sign = std::signbit(x) ? 0x80 : 0;
    if (x != x) return 0x7f;
    int exponent;
    std::frexp(x, &exponent);
    exponent = std::max(exponent - 1, 1 - BIAS);
    // The carry of a fraction that is rounded up goes to the exponent.
    const double units =
        std::nearbyint(std::ldexp(std::fabs(static_cast<double>(x)), M - exponent));
    const double code = units + (exponent + BIAS - 1) * double(1 << M);
    return sign | (std::isinf(x) || code > LARGEST ? LARGEST : static_cast<u8>(x == 0 ? 0 : code));
}

template <int E>
void add_8_bits(Table& t, const std::string& type) {
    t.one("cvt.rn.satfinite." + type + ".f32", CONVERT,
          [](float high, float low) -> u16 { return to_8_bits<E>(high) << 8 | to_8_bits<E>(low); });
    t.one("cvt.rn.satfinite.relu." + type + ".f32", CONVERT, [](float high, float low) -> u16 {
        return to_8_bits<E>(std::max(high, 0.0f)) << 8 | to_8_bits<E>(std::max(low, 0.0f));
    });
    t.add("cvt.rn.satfinite." + type + ".f16x2", row_of<decltype([](Pair<Half> a) -> u16 {
              return to_8_bits<E>(a.high) << 8 | to_8_bits<E>(a.low);
          })>(CONVERT, Signature<u16, Pair<Half>>()));
    t.add("cvt.rn.f16x2." + type, row_of<decltype([](u16 a) -> Pair<Half> {
              return {from_8_bits<E>(a & 255), from_8_bits<E>(a >> 8)};
          })>(CONVERT, Signature<Pair<Half>, u16>()));
}

/// Two integers, saturated, in a word; before them the lower part of a third.
template <class T>
u32 packed(s32 a, s32 b, u32 c) {
    using Limits = std::numeric_limits<T>;
    using U = std::make_unsigned_t<T>;
    const auto part = [](s32 x) -> u32 {
        return static_cast<U>(std::clamp<s64>(x, Limits::min(), Limits::max()));
    };
    return (sizeof(T) == 1 ? c << 16 : 0) | part(a) << (8 * sizeof(T)) | part(b);
}

// ---- generic addresses ----

/// A conversion of an address to a generic one, and back.
template <u64 number>
void add_window(Table& t, const std::string& space) {
    t.one("cvta." + space + ".u64", INTEGER, [](u64 a) -> u64 { return a + window(number); });
    t.one("cvta.to." + space + ".u64", INTEGER, [](u64 a) -> u64 { return a - window(number); });
    t.one("isspacep." + space, INTEGER, [](u64 a) -> bool { return a >> WINDOW_BITS == number; });
}

}  // namespace

void add_conversions(Table& t) {
#define VALUES u8, u16, u32, u64, s8, s16, s32, s64, float, double, Half, BHalf
    for_types<VALUES>(
        [&]<class D>() { for_types<VALUES>([&]<class S>() { add_conversion<D, S>(t); }); });
    t.add("cvt.f16x2.f32", {convert_pair<Half>, CONVERT, "4:44", CONVERSION});
    t.add("cvt.bf16x2.f32", {convert_pair<BHalf>, CONVERT, "4:44", CONVERSION});
    add_8_bits<4>(t, "e4m3x2");
    add_8_bits<5>(t, "e5m2x2");
    // To tf32: float32 with 10 bits of the fraction.
    t.one("cvt.rna.tf32.f32", CONVERT, [](u32 a) { return (a + 0x1000) & ~0x1fffu; });
    t.one("cvt.rn.tf32.f32", CONVERT, [](u32 a) { return (a + 0xfff + (a >> 13 & 1)) & ~0x1fffu; });
    t.one("cvt.rz.tf32.f32", CONVERT, [](u32 a) { return a & ~0x1fffu; });
    t.one("cvt.pack.sat.u16.s32", CONVERT, [](s32 a, s32 b) { return packed<u16>(a, b, 0); });
    t.one("cvt.pack.sat.s16.s32", CONVERT, [](s32 a, s32 b) { return packed<s16>(a, b, 0); });
    t.one("cvt.pack.sat.u8.s32.b32", CONVERT,
          [](s32 a, s32 b, u32 c) { return packed<u8>(a, b, c); });
    t.one("cvt.pack.sat.s8.s32.b32", CONVERT,
          [](s32 a, s32 b, u32 c) { return packed<s8>(a, b, c); });
    for (const char* space : {"shared", "shared_cta", "shared_cluster"})
        add_window<SHARED_WINDOW>(t, space);
    add_window<LOCAL_WINDOW>(t, "local");
    add_window<PARAM_WINDOW>(t, "param");
    add_window<PARAM_WINDOW>(t, "param_entry");
    add_window<HOST>(t, "global");
    add_window<HOST>(t, "const");
    t.one("isspacep.const", INTEGER, [](u64) { return false; });
}

}  // namespace machine
