// Floating-point constants and helpers for device code. NVRTC has no <limits>.

#pragma once

template <class T>
struct Floating;

template <>
struct Floating<float> {
    static constexpr float epsilon = 1.1920928955078125e-7f;
    static constexpr int max_scale_exponent = 126;
    static __device__ __forceinline__ float largest() { return __int_as_float(0x7f7fffff); }
    static __device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }
    static __device__ __forceinline__ float nan() { return __int_as_float(0x7fffffff); }
};

template <>
struct Floating<double> {
    static constexpr double epsilon = 2.220446049250313e-16;
    static constexpr int max_scale_exponent = 1022;
    static __device__ __forceinline__ double largest() {
        return __longlong_as_double(0x7fefffffffffffffLL);
    }
    static __device__ __forceinline__ double infinity() {
        return __longlong_as_double(0x7ff0000000000000LL);
    }
    static __device__ __forceinline__ double nan() {
        return __longlong_as_double(0x7fffffffffffffffLL);
    }
};

/// |value|, or infinity for NaN: all values are finite if the maximum of these is.
template <class T>
__device__ __forceinline__ T magnitude(T value) {
    return value == value ? fabs(value) : Floating<T>::infinity();
}

/// The power of two that scales a finite magnitude to [0.5, 1); 1 for zero.
template <class T>
__device__ __forceinline__ T inverse_power_of_two(T value) {
    constexpr int limit = Floating<T>::max_scale_exponent;
    int exponent;
    frexp(value, &exponent);
    return ldexp(T(1), -max(-limit, min(limit, exponent)));
}

/// The exponent e of a power of two, 2^e.
template <class T>
__device__ __forceinline__ int exponent(T power) {
    int result;
    frexp(power, &result);
    return result - 1;
}

/// The square root, called instead of inlined: with its slow path it is long.
template <class T>
__device__ __noinline__ T square_root(T value) {
    return sqrt(value);
}
