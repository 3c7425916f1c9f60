// Conversions: cvt, cvta and isspacep.

#include <cfenv>
#include <limits>
#include <tuple>

#include "decode.h"

namespace machine {

namespace {

enum Rounding { NONE, RNI, RZI, RMI, RPI, RN, RZ, RM, RP, RNA };
constexpr u8 FLUSHES = 16, SATURATES = 32, RELU = 64;

double integral(double x, int mode) {
    switch (mode) {
        case RNI:
            return std::nearbyint(x);
        case RMI:
            return std::floor(x);
        case RPI:
            return std::ceil(x);
        default:
            return std::trunc(x);
    }
}

/// A floating-point number as an integer, within the limits of its type. NaN is 0 for 32 bits and
/// less, and 2^63 for 64 bits.
template <class D>
D to_integer(double x, int mode) {
    if (x != x) return sizeof(D) == 8 ? static_cast<D>(1ull << 63) : D{0};
    x = integral(x, mode);
    if (x <= static_cast<double>(std::numeric_limits<D>::min()))
        return std::numeric_limits<D>::min();
    // The largest number plus 1 is exact, and rounds the largest number of 64 bits.
    if (x >= std::ldexp(1.0, std::numeric_limits<D>::digits)) return std::numeric_limits<D>::max();
    return static_cast<D>(x);
}

template <class T>
constexpr bool is_number =
    std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BHalf>;

template <class D, class S>
D converted(S s, u8 mode) {
    const int rounding = mode & 15;
    if constexpr (is_number<S>) {
        using W = std::conditional_t<std::is_same_v<S, double>, double, float>;
        W x = static_cast<W>(s);
        if constexpr (std::is_same_v<W, float>)
            if (mode & FLUSHES && !std::is_same_v<S, Half>) x = flush(x);
        if constexpr (std::is_integral_v<D>) {
            return to_integer<D>(static_cast<double>(x), rounding);
        } else {
            if (rounding >= RNI && rounding <= RPI)
                x = static_cast<W>(integral(static_cast<double>(x), rounding));
            if (mode & SATURATES) x = x > 0 ? (x < 1 ? x : W(1)) : W(0);
            if (mode & RELU) x = x > 0 || x != x ? x : W(0);
            if constexpr (std::is_same_v<D, float>) {
                const float r = static_cast<float>(x);
                return mode & FLUSHES ? flush(r) : r;
            } else if constexpr (std::is_same_v<D, double>) {
                return static_cast<double>(x);
            } else {
                if (rounding == RZ) {  // towards zero: drop the bits that do not fit
                    D r(static_cast<float>(x));
                    const float back = static_cast<float>(r);
                    if (std::fabs(static_cast<double>(back)) > std::fabs(static_cast<double>(x)))
                        --r.bits;
                    return r;
                }
                return D(to_odd(static_cast<double>(x)));
            }
        }
    } else if constexpr (is_number<D>) {
        if constexpr (sizeof(D) == 2)
            return D(to_odd(static_cast<double>(s)));
        else
            return static_cast<D>(s);
    } else {
        if (!(mode & SATURATES)) return static_cast<D>(s);
        using Limits = std::numeric_limits<D>;
        const __int128 x = s;
        return x < Limits::min()   ? Limits::min()
               : x > Limits::max() ? Limits::max()
                                   : static_cast<D>(s);
    }
}

template <class T>
using Natural = std::conditional_t<sizeof(T) == 1, u16, T>;

/// The value of a register, which may be wider than the type.
template <class T>
void read(const Warp& w, Place from, u32 width, T* to) {
    const u8* data = w.at<u8>(from);
    if (width <= sizeof(T)) {
        std::memcpy(to, data, LANES * sizeof(T));
        return;
    }
    for (u32 l = 0; l < LANES; ++l) std::memcpy(to + l, data + l * width, sizeof(T));
}

template <class R, class D>
void widen(Warp& w, Place to, const D* values) {
    alignas(64) R t[LANES];
    for (int l = 0; l < LANES; ++l) t[l] = static_cast<R>(values[l]);
    blend(w.at<R>(to), t, w.mask);
}

/// `bytes` and `vector` have the widths of the two registers.
template <class D, class S>
void convert(Warp& w, const Inst& i) {
    alignas(64) S s[LANES];
    alignas(64) D d[LANES];
    read(w, i.op[1], i.vector, s);
    const int rounding = i.mode & 15;
    if (rounding > RN && !std::is_integral_v<D>)
        std::fesetround(rounding == RZ ? FE_TOWARDZERO : rounding == RM ? FE_DOWNWARD : FE_UPWARD);
    if (std::is_integral_v<D> && std::is_integral_v<S> && !(i.mode & SATURATES)) {
#pragma omp simd
        for (int l = 0; l < LANES; ++l) d[l] = converted<D, S>(s[l], 0);
    } else {
        for (int l = 0; l < LANES; ++l) d[l] = converted<D, S>(s[l], i.mode);
    }
    if (rounding > RN && !std::is_integral_v<D>) std::fesetround(FE_TONEAREST);
    if (i.mode & SATURATES && std::is_integral_v<S> && std::is_same_v<D, float>)
        for (int l = 0; l < LANES; ++l)
            d[l] = d[l] > D(0.0f) ? std::min<float>(static_cast<float>(d[l]), 1.0f) : 0.0f;
    if constexpr (std::is_integral_v<D>) {
        if (i.bytes == 2) widen<u16>(w, i.op[0], d);
        if (i.bytes == 4) widen<u32>(w, i.op[0], d);
        if (i.bytes == 8) widen<u64>(w, i.op[0], d);
    } else {
        blend(w.at<D>(i.op[0]), d, w.mask);
    }
}

template <class D, class S>
struct Static {
    D operator()(S s) const { return static_cast<D>(s); }
};

/// Two float32 as a pair of 16-bit numbers.
template <class H>
void convert_pair(Warp& w, const Inst& i) {
    const float *high = w.at<float>(i.op[1]), *low = w.at<float>(i.op[2]);
    alignas(64) u32 t[LANES];
    for (int l = 0; l < LANES; ++l)
        t[l] = static_cast<u32>(converted<H, float>(high[l], i.mode).bits) << 16 |
               converted<H, float>(low[l], i.mode).bits;
    blend(w.at<u32>(i.op[0]), t, w.mask);
}

char of_width(int width) {
    return width == 2 ? '2' : width == 4 ? '4' : '8';
}

bool decode_cvt(Decoder& d) {
    Inst& i = d.inst;
    i.mode =
        static_cast<u8>(1 + d.which({"rni", "rzi", "rmi", "rpi", "rn", "rz", "rm", "rp", "rna"}));
    if (i.mode == RNA) return false;
    if (d.has("ftz")) i.mode |= FLUSHES;
    if (d.has("sat")) i.mode |= SATURATES;
    if (d.has("relu")) i.mode |= RELU;
    if (d.type() == "f16x2" && d.type(1) == "f32")
        return d.set(convert_pair<Half>, CONVERT, "4:44");
    if (d.type() == "bf16x2" && d.type(1) == "f32")
        return d.set(convert_pair<BHalf>, CONVERT, "4:44");
    if (d.has("pack") || d.widths.size() != 2) return false;
    using Values = Types<u8, u16, u32, u64, s8, s16, s32, s64, float, double, Half, BHalf>;
    return pick(Values(), d.type(), [&]<class D>() {
        return pick(Values(), d.type(1), [&]<class S>() {
            const int natural_d = std::max<int>(sizeof(D), 2),
                      natural_s = std::max<int>(sizeof(S), 2);
            const int to = d.widths[0] > 0 ? d.widths[0] : natural_d,
                      from = d.widths[1] > 0 ? d.widths[1] : natural_s;
            if (to < static_cast<int>(sizeof(D)) || from < static_cast<int>(sizeof(S)))
                return false;
            if (!std::is_integral_v<D> && to != natural_d) return false;
            i.bytes = static_cast<u8>(to);
            i.vector = static_cast<u8>(from);
            const std::string letters{of_width(to), ':', of_width(from)};
            if constexpr (std::is_integral_v<D> && std::is_integral_v<S> && sizeof(D) > 1 &&
                          sizeof(S) > 1)
                if (!(i.mode & SATURATES) && to == natural_d && from == natural_s)
                    return d.set(map<Static<D, S>, D, S>, CONVERT, letters);
            if constexpr (std::is_floating_point_v<D> &&
                          (std::is_floating_point_v<S> || (std::is_integral_v<S> && sizeof(S) > 2)))
                if ((i.mode == NONE || i.mode == RN) && from == natural_s)
                    return d.set(map<Static<D, S>, D, S>, CONVERT, letters);
            return d.set(convert<D, S>, CONVERT, letters);
        });
    });
}

template <u64 number, bool subtracts>
struct MoveWindow {
    u64 operator()(u64 a) const { return subtracts ? a - window(number) : a + window(number); }
};

template <u64 number>
void is_in_space(Warp& w, const Inst& i) {
    const u64* a = w.at<u64>(i.op[1]);
    u32 r = 0;
    for (int l = 0; l < LANES; ++l) r |= static_cast<u32>(a[l] >> WINDOW_BITS == number) << l;
    set_predicate(w, i.op[0], r);
}

struct Same {
    u64 operator()(u64 a) const { return a; }
};

}  // namespace

bool decode_convert(Decoder& d) {
    if (d.parts[0] == "cvt") return decode_cvt(d);
    const int space =
        d.which({"shared", "shared_cta", "shared_cluster", "local", "param", "global", "const"});
    if (d.parts[0] == "isspacep") {
        const Run runs[] = {is_in_space<SHARED_WINDOW>, is_in_space<SHARED_WINDOW>,
                            is_in_space<SHARED_WINDOW>, is_in_space<LOCAL_WINDOW>,
                            is_in_space<PARAM_WINDOW>,  is_in_space<HOST>,
                            is_in_space<HOST + 99>};
        return space >= 0 && d.set(runs[space], COMPARE, "p:8");
    }
    if (d.type() != "u64" || space < 0) return false;
    const bool back = d.has("to");
    Run run = map<Same, u64, u64>;
    if (space <= 2)
        run = back ? map<MoveWindow<SHARED_WINDOW, true>, u64, u64>
                   : map<MoveWindow<SHARED_WINDOW, false>, u64, u64>;
    if (space == 3)
        run = back ? map<MoveWindow<LOCAL_WINDOW, true>, u64, u64>
                   : map<MoveWindow<LOCAL_WINDOW, false>, u64, u64>;
    if (space == 4)
        run = back ? map<MoveWindow<PARAM_WINDOW, true>, u64, u64>
                   : map<MoveWindow<PARAM_WINDOW, false>, u64, u64>;
    return d.set(run, INTEGER, "8:8");
}

}  // namespace machine
