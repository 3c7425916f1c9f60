// How an instruction becomes a function: opcodes, types, and loops over lanes.

#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <tuple>
#include <type_traits>
#include <utility>

#include "machine.h"

namespace machine {

/// An opcode with its modifiers, while it is decoded.
struct Decoder {
    Inst& inst;
    const std::vector<std::string_view>& parts;
    const std::vector<int>& widths;  // of registers; 0: another operand, -1: nothing
    int vector;
    std::string& shape;
    std::vector<std::string_view> types;

    bool has(std::string_view word) const {
        return std::find(parts.begin() + 1, parts.end(), word) != parts.end();
    }
    /// The number of the first word in the opcode, or -1.
    int which(std::initializer_list<std::string_view> words) const {
        int k = 0;
        for (const auto word : words) {
            if (has(word)) return k;
            ++k;
        }
        return -1;
    }
    std::string_view type(std::size_t k = 0) const { return k < types.size() ? types[k] : ""; }
    bool set(Run run, Kind kind, std::string letters) {
        inst.run = run;
        inst.kind = kind;
        shape = std::move(letters);
        return run != nullptr;
    }
};

bool decode_integer(Decoder& d);
bool decode_float(Decoder& d);
bool decode_half(Decoder& d);
bool decode_convert(Decoder& d);
bool decode_memory(Decoder& d);
bool decode_control(Decoder& d);
bool decode_warp(Decoder& d);

/// 16-bit floating-point numbers, computed in float32.
struct Half {
    u16 bits;
    Half() = default;
    Half(float value);
    operator float() const;
};

struct BHalf {
    u16 bits;
    BHalf() = default;
    BHalf(float value) {
        u32 x;
        std::memcpy(&x, &value, 4);
        bits = static_cast<u16>(value != value ? 0x7fff : (x + 0x7fff + (x >> 16 & 1)) >> 16);
    }
    operator float() const {
        const u32 x = static_cast<u32>(bits) << 16;
        float value;
        std::memcpy(&value, &x, 4);
        return value;
    }
};

template <class H>
struct Pair {
    H low, high;
};
using Half2 = Pair<Half>;
using BHalf2 = Pair<BHalf>;

template <class T>
constexpr bool is_pair = false;
template <class H>
constexpr bool is_pair<Pair<H>> = true;

template <class T>
constexpr char letter() {
    return sizeof(T) == 1 ? '1' : sizeof(T) == 2 ? '2' : sizeof(T) == 4 ? '4' : '8';
}

template <class T>
bool names(std::string_view type) {
    if constexpr (std::is_same_v<T, float>) return type == "f32";
    if constexpr (std::is_same_v<T, double>) return type == "f64";
    if constexpr (std::is_same_v<T, Half>) return type == "f16";
    if constexpr (std::is_same_v<T, BHalf>) return type == "bf16";
    if constexpr (std::is_same_v<T, Half2>) return type == "f16x2";
    if constexpr (std::is_same_v<T, BHalf2>) return type == "bf16x2";
    if constexpr (std::is_integral_v<T>) {
        const char kind = std::is_signed_v<T> ? 's' : 'u';
        if (type.empty() || (type[0] != kind && !(type[0] == 'b' && kind == 'u'))) return false;
        return type.substr(1) == (sizeof(T) == 1   ? "8"
                                  : sizeof(T) == 2 ? "16"
                                  : sizeof(T) == 4 ? "32"
                                                   : "64");
    }
    return false;
}

template <class... T>
struct Types {};
using Integers = Types<u16, u32, u64, s16, s32, s64>;
using Words = Types<u32, u64, s32, s64>;
using Floats = Types<float, double>;
using Halves = Types<Half, BHalf, Half2, BHalf2>;
using Memory =
    Types<u8, u16, u32, u64, s8, s16, s32, s64, float, double, Half, BHalf, Half2, BHalf2>;

/// Call `f` with the type of this name; false if it is not among the types.
template <class... T, class F>
bool pick(Types<T...>, std::string_view type, F f) {
    bool found = false;
    const auto attempt = [&]<class One>() {
        if (!found && names<One>(type)) found = f.template operator()<One>();
    };
    (attempt.template operator()<T>(), ...);
    return found;
}

/// d = f(a, b, ...) for all lanes of the mask.
template <class F, class D, class... S>
void map(Warp& w, const Inst& i) {
    const auto loop = [&]<std::size_t... K>(std::index_sequence<K...>) {
        D* d = w.at<D>(i.op[0]);
        const std::tuple<const S*...> s(w.at<S>(i.op[K + 1])...);
        if (w.mask == ALL) {
#pragma omp simd
            for (int l = 0; l < LANES; ++l) d[l] = static_cast<D>(F{}(std::get<K>(s)[l]...));
        } else {
            alignas(64) D t[LANES];
#pragma omp simd
            for (int l = 0; l < LANES; ++l) t[l] = static_cast<D>(F{}(std::get<K>(s)[l]...));
            if constexpr (sizeof(D) == 2)
                blend(reinterpret_cast<u16*>(d), reinterpret_cast<u16*>(t), w.mask);
            else if constexpr (sizeof(D) == 4)
                blend(reinterpret_cast<u32*>(d), reinterpret_cast<u32*>(t), w.mask);
            else
                blend(reinterpret_cast<u64*>(d), reinterpret_cast<u64*>(t), w.mask);
        }
    };
    loop(std::index_sequence_for<S...>());
}

inline float flush(float x) {
    return std::fabs(x) < 1.17549435e-38f ? std::copysign(0.0f, x) : x;
}

/// The nearest float32 with an odd last bit, if x is not a float32: rounding it again to fewer
/// bits gives what rounding x would.
inline float to_odd(double x) {
    float f = static_cast<float>(x);
    if (static_cast<double>(f) == x || x != x) return f;
    u32 r;
    std::memcpy(&r, &f, 4);
    if (std::fabs(static_cast<double>(f)) > std::fabs(x)) --r;
    r |= 1;
    std::memcpy(&f, &r, 4);
    return f;
}

/// f, with operands and result that are flushed to zero.
template <class F>
struct Flushed {
    template <class... S>
    auto operator()(S... s) const {
        const auto result = F{}(flush(s)...);
        if constexpr (std::is_same_v<decltype(result), const float>)
            return flush(result);
        else
            return result;
    }
};

/// f on both halves.
template <class F>
struct Packed {
    template <class P, class... S>
    P operator()(P a, S... s) const {
        using H = decltype(a.low);
        return {static_cast<H>(F{}(a.low, s.low...)), static_cast<H>(F{}(a.high, s.high...))};
    }
};

/// A predicate for each lane, as bits.
template <class F, class... S>
u32 bits_of(const Warp& w, const Inst& i, int first) {
    u32 r = 0;
    const auto loop = [&]<std::size_t... K>(std::index_sequence<K...>) {
        const std::tuple<const S*...> s(w.at<S>(i.op[static_cast<std::size_t>(first) + K])...);
#pragma omp simd reduction(| : r)
        for (int l = 0; l < LANES; ++l) r |= static_cast<u32>(F{}(std::get<K>(s)[l]...)) << l;
    };
    loop(std::index_sequence_for<S...>());
    return r;
}

inline void set_predicate(Warp& w, Place to, u32 bits) {
    u32* d = w.at<u32>(to);
    *d = (*d & ~w.mask) | (bits & w.mask);
}

}  // namespace machine
