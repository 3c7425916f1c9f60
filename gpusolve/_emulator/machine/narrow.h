// Floating-point numbers of 16 bits and less, and how results are rounded to them once.

#pragma once

#include <bit>
#include <cmath>

#include "machine.h"

namespace machine {

/// float16 and bfloat16, computed in float32.
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
        const u32 x = std::bit_cast<u32>(value);
        bits = static_cast<u16>(value != value ? 0x7fff : (x + 0x7fff + (x >> 16 & 1)) >> 16);
    }
    operator float() const { return std::bit_cast<float>(u32{bits} << 16); }
};

/// Two values in a register.
template <class H>
struct Pair {
    H low, high;
};

template <class T>
constexpr bool is_pair = false;
template <class H>
constexpr bool is_pair<Pair<H>> = true;

template <class T>
constexpr bool is_half = std::is_same_v<T, Half> || std::is_same_v<T, BHalf>;
template <class T>
constexpr bool is_float = std::is_floating_point_v<T> || is_half<T>;

/// Types whose results are rounded and may be saturated.
template <class T>
constexpr bool is_rounded = is_float<T>;
template <class H>
constexpr bool is_rounded<Pair<H>> = is_float<H>;

/// Types of which an instruction may take denormal numbers as zero.
template <class T>
constexpr bool is_flushed = std::is_same_v<T, float> || std::is_same_v<T, Half>;
template <class H>
constexpr bool is_flushed<Pair<H>> = is_flushed<H>;

/// Zero for a denormal number.
template <class T>
T flush(T x) {
    if constexpr (std::is_same_v<T, float>)
        return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
    else if constexpr (std::is_same_v<T, Half>)
        x.bits &= x.bits & 0x7c00 ? 0xffff : 0x8000;
    return x;
}

/// A result in float32, of which a GPU has a single NaN, without a sign.
template <class T>
T canonical(T x) {
    if constexpr (std::is_same_v<T, float>) return x == x ? x : std::bit_cast<float>(0x7fffffffu);
    return x;
}

/// The nearest float32 with an odd last bit, if x is not a float32: rounding it again to fewer
/// bits gives what rounding x would.
inline float to_odd(double x) {
    const float f = static_cast<float>(x);
    if (static_cast<double>(f) == x || x != x) return f;
    const bool is_above = std::fabs(static_cast<double>(f)) > std::fabs(x);
    return std::bit_cast<float>((std::bit_cast<u32>(f) - is_above) | 1);
}

}  // namespace machine
