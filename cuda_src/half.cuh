// IEEE half precision as a storage type. Arithmetic is done in float and rounded once, as in
// NumPy. The conversions use integers, because NVRTC lacks a built-in header for half.

#pragma once

struct Half {
    unsigned short bits;

    Half() = default;

    /// Rounds to nearest, ties to even.
    __device__ Half(float x) {
        constexpr unsigned infinity = 0x7f800000u, too_large = 0x47800000u;  // 65536
        constexpr unsigned smallest_normal = 0x38800000u;                    // 2^-14
        constexpr unsigned half = 0x3f000000u;  // 0.5, whose last bit weighs 2^-24
        const unsigned all = __float_as_uint(x);
        const unsigned magnitude = all & 0x7fffffffu;
        unsigned result;
        if (magnitude >= too_large)
            result = magnitude > infinity ? 0x7e00u : 0x7c00u;
        else if (magnitude < smallest_normal)
            result = __float_as_uint(__uint_as_float(magnitude) + 0.5f) - half;
        else
            result = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1)) >> 13;
        bits = static_cast<unsigned short>((all >> 16 & 0x8000u) | result);
    }

    __device__ operator float() const {
        constexpr float last_bit = 1.0f / (1 << 24);
        const unsigned exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ffu;
        unsigned magnitude = (bits & 0x7fffu) << 13;
        if (exponent == 0)
            magnitude = __float_as_uint(static_cast<float>(fraction) * last_bit);
        else
            magnitude += (exponent == 0x1f ? 224u : 112u) << 23;
        return __uint_as_float(magnitude | (bits & 0x8000u) << 16);
    }
};
