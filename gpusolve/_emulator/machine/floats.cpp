// Floating-point arithmetic, with PTX's rounding modes, .ftz and .sat.

#include <cfenv>
#include <limits>

#include "table.h"

namespace machine {

Half::Half(float value) {
    const u32 x = std::bit_cast<u32>(value), sign = x >> 16 & 0x8000, magnitude = x & 0x7fffffff;
    if (magnitude > 0x7f800000) {
        bits = 0x7fff;
    } else if (magnitude >= 0x477ff000) {  // rounds to more than 65504
        bits = static_cast<u16>(sign | 0x7c00);
    } else if (magnitude < 0x38800000) {  // denormal: the sum rounds to units of 2^-24
        const float sum = std::fabs(value) + 0.5f;
        bits = static_cast<u16>(sign | (std::bit_cast<u32>(sum) - 0x3f000000));
    } else {
        bits = static_cast<u16>(sign | (magnitude + 0xc8000fff + (magnitude >> 13 & 1)) >> 13);
    }
}

Half::operator float() const {
    const u32 sign = static_cast<u32>(bits & 0x8000) << 16, magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | magnitude << 13);
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    return std::bit_cast<float>(sign | std::bit_cast<u32>(scaled));
}

namespace {

/// a b + c, rounded once.
template <class T>
T fused(T a, T b, T c) {
    if constexpr (!is_half<T>) {
        return std::fma(a, b, c);
    } else {
        const double product = static_cast<double>(a) * b, x = c, sum = product + x;
        const double part = sum - product, error = (product - (sum - part)) + (x - part);
        u64 r = std::bit_cast<u64>(sum);
        if (error != 0 && error == error && std::isfinite(sum) && !(r & 1)) {
            if ((error > 0) != (sum > 0)) --r;
            r |= 1;
        }
        return to_odd(std::bit_cast<double>(r));
    }
}

/// Exact for types whose sign is a bit.
template <class T>
T negative(T a) {
    if constexpr (is_half<T>) return a.bits ^= 0x8000, a;
    return -a;
}
template <class T>
T absolute(T a) {
    if constexpr (is_half<T>) return a.bits &= 0x7fff, a;
    return std::fabs(a);
}

/// The bit of the sign. GCC 12 cannot vectorise std::signbit.
template <class T>
bool is_negative(T a) {
    if constexpr (is_half<T>) return a.bits >> 15;
    if constexpr (std::is_same_v<T, float>) return std::bit_cast<u32>(a) >> 31;
    if constexpr (std::is_same_v<T, double>) return std::bit_cast<u64>(a) >> 63;
}

template <class T>
T positive(T x) {
    return x > 0 || x != x ? x : T(0.0f);
}

/// The other number for a NaN; -0 is less than 0.
template <class T>
T least(T a, T b) {
    return a != a ? b : b != b ? a : a < b || (a == b && is_negative(a)) ? a : b;
}
template <class T>
T greatest(T a, T b) {
    return a != a ? b : b != b ? a : a > b || (a == b && !is_negative(a)) ? a : b;
}
/// NaN if an operand is NaN, else the value.
template <class T>
T or_nan(T a, T b, T value) {
    return a != a || b != b ? canonical(T(std::numeric_limits<float>::quiet_NaN())) : value;
}
/// A value with the product of the signs.
template <class T>
T with_signs(T a, T b, T value) {
    return is_negative(a) != is_negative(b) ? negative(value) : value;
}

/// The approximations for float64 have 32 bits; denormal numbers are zero.
template <class F>
double upper_half(double a, F function) {
    const auto kept = [](double x) {
        x = std::bit_cast<double>(std::bit_cast<u64>(x) >> 32 << 32);
        return std::fabs(x) < 0x1p-1022 ? std::copysign(0.0, x) : x;
    };
    const double r = function(kept(a));
    return r != r ? r : kept(r);
}

}  // namespace

template <class T>
void adjusted(Warp& w, const Inst& i) {
    constexpr int MODES[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    if (i.rounding) std::fesetround(MODES[i.rounding - RN]);
    i.inner(w, i);
    if (i.rounding) std::fesetround(FE_TONEAREST);
    if (!i.saturates) return;
    const auto inside = [](auto x) {
        return x > 0 ? x < 1 ? x : decltype(x)(1.0f) : decltype(x)(0.0f);
    };
    for (const u32 l : Lanes{w.mask}) {
        T& x = w.at<T>(i.op[0])[l];
        if constexpr (is_pair<T>)
            x = {inside(x.low), inside(x.high)};
        else
            x = inside(x);
    }
}

void add_floats(Table& t) {
#define FLOATS float, double
#define HALVES Half, BHalf, Pair<Half>, Pair<BHalf>
    const auto all = [&](const std::string& opcode, auto function) {
        t.each<float, HALVES>(opcode, FLOAT32, function);
        t.each<double>(opcode, FLOAT64, function);
    };
    all("add", []<class T>(T a, T b) -> T { return canonical<T>(a + b); });
    all("sub", []<class T>(T a, T b) -> T { return canonical<T>(a - b); });
    all("mul", []<class T>(T a, T b) -> T { return canonical<T>(a * b); });
    all("fma", []<class T>(T a, T b, T c) -> T { return canonical(fused(a, b, c)); });
    all("mad", []<class T>(T a, T b, T c) -> T { return canonical(fused(a, b, c)); });
    all("neg", []<class T>(T a) -> T { return negative(a); });
    all("abs", []<class T>(T a) -> T { return absolute(a); });
    all("min", []<class T>(T a, T b) -> T { return canonical(least(a, b)); });
    all("max", []<class T>(T a, T b) -> T { return canonical(greatest(a, b)); });
    t.each<HALVES>("fma.relu", FLOAT32,
                   []<class T>(T a, T b, T c) -> T { return positive(fused(a, b, c)); });
    t.each<float, HALVES>("min.NaN", FLOAT32,
                          []<class T>(T a, T b) -> T { return or_nan(a, b, least(a, b)); });
    t.each<float, HALVES>("max.NaN", FLOAT32,
                          []<class T>(T a, T b) -> T { return or_nan(a, b, greatest(a, b)); });
    t.each<float, HALVES>("min.xorsign.abs", FLOAT32, []<class T>(T a, T b) -> T {
        return with_signs(a, b, least(absolute(a), absolute(b)));
    });
    t.each<float, HALVES>("max.xorsign.abs", FLOAT32, []<class T>(T a, T b) -> T {
        return with_signs(a, b, greatest(absolute(a), absolute(b)));
    });
    t.each<float>("min3", FLOAT32,
                  []<class T>(T a, T b, T c) -> T { return least(least(a, b), c); });
    t.each<float>("max3", FLOAT32,
                  []<class T>(T a, T b, T c) -> T { return greatest(greatest(a, b), c); });
    t.each<FLOATS>("copysign", FLOAT32, []<class T>(T a, T b) -> T { return std::copysign(b, a); });
    t.each<FLOATS>("div", DIVISION, []<class T>(T a, T b) -> T { return canonical(a / b); });
    t.each<FLOATS>("sqrt", DIVISION, []<class T>(T a) -> T { return canonical(std::sqrt(a)); });
    t.each<FLOATS>("rcp", SPECIAL, []<class T>(T a) -> T { return canonical(1 / a); });
    t.each<FLOATS>("rsqrt", SPECIAL, []<class T>(T a) -> T { return canonical(1 / std::sqrt(a)); });
    t.one("rcp.approx.ftz.f64", SPECIAL,
          [](double a) { return upper_half(a, [](double x) { return 1 / x; }); });
    t.one("rsqrt.approx.ftz.f64", SPECIAL,
          [](double a) { return upper_half(a, [](double x) { return 1 / std::sqrt(x); }); });
    t.each<float, HALVES>("ex2", SPECIAL,
                          []<class T>(T a) -> T { return canonical<T>(std::exp2(float(a))); });
    t.each<float, HALVES>("tanh", SPECIAL,
                          []<class T>(T a) -> T { return canonical<T>(std::tanh(float(a))); });
    t.one("lg2.f32", SPECIAL, [](float a) { return canonical(std::log2(a)); });
    t.one("sin.f32", SPECIAL, [](float a) { return canonical(std::sin(a)); });
    t.one("cos.f32", SPECIAL, [](float a) { return canonical(std::cos(a)); });

    t.each<FLOATS>("testp.finite", INTEGER, []<class T>(T a) -> bool { return std::isfinite(a); });
    t.each<FLOATS>("testp.infinite", INTEGER, []<class T>(T a) -> bool { return std::isinf(a); });
    t.each<FLOATS>("testp.number", INTEGER, []<class T>(T a) -> bool { return a == a; });
    t.each<FLOATS>("testp.notanumber", INTEGER, []<class T>(T a) -> bool { return a != a; });
    t.each<FLOATS>("testp.normal", INTEGER, []<class T>(T a) -> bool { return std::isnormal(a); });
    t.each<FLOATS>("testp.subnormal", INTEGER, []<class T>(T a) -> bool {
        return a != 0 && std::fabs(a) < std::numeric_limits<T>::min();
    });
}

}  // namespace machine
