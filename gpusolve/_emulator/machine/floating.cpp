// Floating-point arithmetic, with PTX's rounding modes, .ftz and .sat.

#include <cfenv>
#include <tuple>

#include "decode.h"

namespace machine {

namespace {

u32 bits(float x) {
    u32 r;
    std::memcpy(&r, &x, 4);
    return r;
}

float from_bits(u32 x) {
    float r;
    std::memcpy(&r, &x, 4);
    return r;
}

u64 bits(double x) {
    u64 r;
    std::memcpy(&r, &x, 8);
    return r;
}

double from_bits(u64 x) {
    double r;
    std::memcpy(&r, &x, 8);
    return r;
}

/// a b + c for 16-bit types, to be rounded once more.
float fused(float a, float b, float c) {
    const double product = static_cast<double>(a) * b, x = c, sum = product + x;
    const double part = sum - product, error = (product - (sum - part)) + (x - part);
    u64 r = bits(sum);
    if (error != 0 && error == error && std::isfinite(sum) && !(r & 1)) {
        if ((error > 0) != (sum > 0)) --r;
        r |= 1;
    }
    return to_odd(from_bits(r));
}

struct Add {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(a + b);
    }
};
struct Sub {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(a - b);
    }
};
struct Mul {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(a * b);
    }
};
struct Div {
    template <class T>
    T operator()(T a, T b) const {
        return a / b;
    }
};
struct Fma {
    float operator()(float a, float b, float c) const { return std::fma(a, b, c); }
    double operator()(double a, double b, double c) const { return std::fma(a, b, c); }
    Half operator()(Half a, Half b, Half c) const { return Half(fused(a, b, c)); }
    BHalf operator()(BHalf a, BHalf b, BHalf c) const { return BHalf(fused(a, b, c)); }
};
struct FmaRelu {
    template <class H>
    H operator()(H a, H b, H c) const {
        const float r = Fma{}(a, b, c);
        return H(r > 0 || r != r ? r : 0.0f);
    }
};
template <bool keeps_nan>
struct Min {
    template <class T>
    T operator()(T a, T b) const {
        if constexpr (sizeof(T) == 2) {
            return T((*this)(static_cast<float>(a), static_cast<float>(b)));
        } else {
            if (keeps_nan && (a != a || b != b)) return std::numeric_limits<T>::quiet_NaN();
            return a != a ? b : b != b ? a : a < b || (a == b && std::signbit(a)) ? a : b;
        }
    }
    template <class T>
    T operator()(T a, T b, T c) const {
        return (*this)((*this)(a, b), c);
    }
};
template <bool keeps_nan>
struct Max {
    template <class T>
    T operator()(T a, T b) const {
        if constexpr (sizeof(T) == 2) {
            return T((*this)(static_cast<float>(a), static_cast<float>(b)));
        } else {
            if (keeps_nan && (a != a || b != b)) return std::numeric_limits<T>::quiet_NaN();
            return a != a ? b : b != b ? a : a > b || (a == b && !std::signbit(a)) ? a : b;
        }
    }
    template <class T>
    T operator()(T a, T b, T c) const {
        return (*this)((*this)(a, b), c);
    }
};
struct Neg {
    float operator()(float a) const { return -a; }
    double operator()(double a) const { return -a; }
    template <class H>
    H operator()(H a) const {
        a.bits ^= 0x8000;
        return a;
    }
};
struct Abs {
    float operator()(float a) const { return std::fabs(a); }
    double operator()(double a) const { return std::fabs(a); }
    template <class H>
    H operator()(H a) const {
        a.bits &= 0x7fff;
        return a;
    }
};
struct Rcp {
    template <class T>
    T operator()(T a) const {
        return 1 / a;
    }
};
struct Sqrt {
    template <class T>
    T operator()(T a) const {
        return std::sqrt(a);
    }
};
struct Rsqrt {
    template <class T>
    T operator()(T a) const {
        return 1 / std::sqrt(a);
    }
};
/// The approximations for float64 have 32 bits; denormal numbers are zero.
template <class F>
struct Upper {
    double operator()(double a) const {
        const auto flushed = [](double x) {
            return std::fabs(x) < 0x1p-1022 ? std::copysign(0.0, x) : x;
        };
        const double r = F{}(flushed(from_bits(bits(a) >> 32 << 32)));
        return r != r ? r : flushed(from_bits(bits(r) >> 32 << 32));
    }
};
#define APPROXIMATION(name, expression)               \
    struct name {                                     \
        float operator()(float a) const {             \
            return expression;                        \
        }                                             \
        template <class H>                            \
        H operator()(H h) const {                     \
            return H((*this)(static_cast<float>(h))); \
        }                                             \
    }
APPROXIMATION(Ex2, std::exp2(a));
APPROXIMATION(Lg2, std::log2(a));
APPROXIMATION(Sin, std::sin(a));
APPROXIMATION(Cos, std::cos(a));
APPROXIMATION(Tanh, std::tanh(a));

struct Copysign {
    template <class T>
    T operator()(T a, T b) const {
        return std::copysign(b, a);
    }
};

template <int which>
struct Test {
    template <class T>
    bool operator()(T a) const {
        const int c = std::fpclassify(a);
        switch (which) {
            case 0:
                return c != FP_NAN && c != FP_INFINITE;
            case 1:
                return c == FP_INFINITE;
            case 2:
                return c != FP_NAN;
            case 3:
                return c == FP_NAN;
            case 4:
                return c == FP_NORMAL;
            default:
                return c == FP_SUBNORMAL;
        }
    }
};
template <class F, class T>
void testp(Warp& w, const Inst& i) {
    set_predicate(w, i.op[0], bits_of<F, T>(w, i, 1));
}

constexpr int SATURATES = 4;
constexpr int MODES[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

/// An operation in another rounding mode; its result in [0, 1].
template <class T>
void adjusted(Warp& w, const Inst& i) {
    const int mode = i.mode & 3;
    if (mode) std::fesetround(MODES[mode]);
    i.inner(w, i);
    if (mode) std::fesetround(FE_TONEAREST);
    if (!(i.mode & SATURATES)) return;
    T* d = w.at<T>(i.op[0]);
    for (u32 rest = w.mask; rest; rest &= rest - 1) {
        T& x = d[lowest(rest)];
        if constexpr (is_pair<T>) {
            const auto clamp = [](auto h) {
                return static_cast<float>(h) > 0 ? std::min(static_cast<float>(h), 1.0f) : 0.0f;
            };
            x = {clamp(x.low), clamp(x.high)};
        } else {
            x = static_cast<T>(x) > 0 ? (static_cast<T>(x) < 1 ? x : T(1)) : T(0);
        }
    }
}

template <class T>
void adjust(Decoder& d) {
    const int mode =
        std::max(0, d.which({"rn", "rz", "rm", "rp"})) | (d.has("sat") ? SATURATES : 0);
    if (!mode || !d.inst.run) return;
    d.inst.mode = static_cast<u8>(mode);
    d.inst.inner = std::exchange(d.inst.run, &adjusted<T>);
}

template <class F, std::size_t N, class T>
bool same(Decoder& d, Kind kind) {
    const auto make = []<class G, std::size_t... K>(G, std::index_sequence<K...>) -> Run {
        return &map<G, T, std::conditional_t<K + 1 != 0, T, T>...>;
    };
    Run run = make(F{}, std::make_index_sequence<N>());
    if constexpr (std::is_same_v<T, float>)
        if (d.has("ftz")) run = make(Flushed<F>{}, std::make_index_sequence<N>());
    d.set(run, kind, std::string(1, letter<T>()) + ":" + std::string(N, letter<T>()));
    adjust<T>(d);
    return true;
}

template <class F, std::size_t N>
bool both(Decoder& d, bool is_special = false) {
    if (d.type() == "f32") return same<F, N, float>(d, is_special ? SPECIAL : FLOAT32);
    if (d.type() == "f64") return same<F, N, double>(d, FLOAT64);
    return false;
}

/// An operation on 16-bit types and pairs of them.
template <class F, std::size_t N>
bool halves(Decoder& d) {
    return pick(Halves(), d.type(), [&]<class T>() {
        if constexpr (is_pair<T>)
            return same<Packed<F>, N, T>(d, FLOAT32);
        else
            return same<F, N, T>(d, FLOAT32);
    });
}

}  // namespace

Half::Half(float value) {
    const u32 x = machine::bits(value), sign = x >> 16 & 0x8000, magnitude = x & 0x7fffffff;
    if (magnitude > 0x7f800000) {
        bits = 0x7fff;
    } else if (magnitude >= 0x477ff000) {  // rounds to more than 65504
        bits = static_cast<u16>(sign | 0x7c00);
    } else if (magnitude < 0x38800000) {  // denormal: the sum rounds to units of 2^-24
        const float sum = std::fabs(value) + 0.5f;
        bits = static_cast<u16>(sign | (machine::bits(sum) - 0x3f000000));
    } else {
        bits = static_cast<u16>(sign | (magnitude + 0xc8000fff + (magnitude >> 13 & 1)) >> 13);
    }
}

Half::operator float() const {
    const u32 sign = static_cast<u32>(bits & 0x8000) << 16, magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00) return from_bits(sign | 0x7f800000 | magnitude << 13);
    const float scaled = from_bits(magnitude << 13) * 0x1p112f;
    return from_bits(sign | machine::bits(scaled));
}

bool decode_half(Decoder& d) {
    const std::string_view op = d.parts[0];
    if (op == "add") return halves<Add, 2>(d);
    if (op == "sub") return halves<Sub, 2>(d);
    if (op == "mul") return halves<Mul, 2>(d);
    if (op == "fma") return d.has("relu") ? halves<FmaRelu, 3>(d) : halves<Fma, 3>(d);
    if (op == "neg") return halves<Neg, 1>(d);
    if (op == "abs") return halves<Abs, 1>(d);
    if (d.has("xorsign")) return false;
    if (op == "min") return d.has("NaN") ? halves<Min<true>, 2>(d) : halves<Min<false>, 2>(d);
    if (op == "max") return d.has("NaN") ? halves<Max<true>, 2>(d) : halves<Max<false>, 2>(d);
    if (op == "ex2") return halves<Ex2, 1>(d);
    if (op == "tanh") return halves<Tanh, 1>(d);
    return false;
}

bool decode_float(Decoder& d) {
    const std::string_view op = d.parts[0];
    const bool is_approximate = d.has("approx");
    if (op == "add") return both<Add, 2>(d);
    if (op == "sub") return both<Sub, 2>(d);
    if (op == "mul") return both<Mul, 2>(d);
    if (op == "fma" || op == "mad") return both<Fma, 3>(d);
    if (op == "div") return both<Div, 2>(d, true);
    if (op == "neg") return both<Neg, 1>(d);
    if (op == "abs") return both<Abs, 1>(d);
    if (op == "copysign") return both<Copysign, 2>(d);
    if ((op == "min" || op == "max") && !d.has("xorsign")) {
        const bool nan = d.has("NaN"), three = d.widths.size() == 4;
        if (op == "min" && three) return nan ? both<Min<true>, 3>(d) : both<Min<false>, 3>(d);
        if (three) return nan ? both<Max<true>, 3>(d) : both<Max<false>, 3>(d);
        if (op == "min") return nan ? both<Min<true>, 2>(d) : both<Min<false>, 2>(d);
        return nan ? both<Max<true>, 2>(d) : both<Max<false>, 2>(d);
    }
    if (d.type() == "f64" && is_approximate) {
        if (op == "rcp") return same<Upper<Rcp>, 1, double>(d, SPECIAL);
        return op == "rsqrt" && same<Upper<Rsqrt>, 1, double>(d, SPECIAL);
    }
    if (op == "rcp") return both<Rcp, 1>(d, true);
    if (op == "sqrt") return both<Sqrt, 1>(d, true);
    if (op == "rsqrt") return both<Rsqrt, 1>(d, true);
    if (d.type() == "f32") {
        if (op == "ex2") return same<Ex2, 1, float>(d, SPECIAL);
        if (op == "lg2") return same<Lg2, 1, float>(d, SPECIAL);
        if (op == "sin") return same<Sin, 1, float>(d, SPECIAL);
        if (op == "cos") return same<Cos, 1, float>(d, SPECIAL);
        if (op == "tanh") return same<Tanh, 1, float>(d, SPECIAL);
    }
    if (op == "testp") {
        const int which =
            d.which({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
        return pick(Floats(), d.type(), [&]<class T>() {
            const Run runs[] = {testp<Test<0>, T>, testp<Test<1>, T>, testp<Test<2>, T>,
                                testp<Test<3>, T>, testp<Test<4>, T>, testp<Test<5>, T>};
            return which >= 0 && d.set(runs[which], COMPARE, std::string("p:") + letter<T>());
        });
    }
    return false;
}

}  // namespace machine
