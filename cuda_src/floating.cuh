// Floating-point constants and helpers for device code. NVRTC lacks <limits>.

#pragma once

template <class T>
struct Floating;

template <>
struct Floating<float> {
    static constexpr float epsilon = 1.1920928955078125e-7f;
    static constexpr int max_exponent = 126;

    /// 2^exponent, and its inverse function; at most `max_exponent` in magnitude.
    static __device__ __forceinline__ float power_of_two(int exponent) {
        return __int_as_float((exponent + 127) << 23);
    }
    static __device__ __forceinline__ int exponent(float power) {
        return (__float_as_int(power) >> 23) - 127;
    }

    static __device__ __forceinline__ float largest() { return __int_as_float(0x7f7fffff); }
    static __device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }
    static __device__ __forceinline__ float nan() { return __int_as_float(0x7fffffff); }
};

template <>
struct Floating<double> {
    static constexpr double epsilon = 2.220446049250313e-16;
    static constexpr int max_exponent = 1022;

    static __device__ __forceinline__ double power_of_two(int exponent) {
        return __longlong_as_double(static_cast<long long>(exponent + 1023) << 52);
    }
    static __device__ __forceinline__ int exponent(double power) {
        return static_cast<int>(__double_as_longlong(power) >> 52) - 1023;
    }

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

/// |value|, or infinity for NaN: if the maximum of the results is finite, all values are.
template <class T>
__device__ __forceinline__ T magnitude(T value) {
    return value == value ? fabs(value) : Floating<T>::infinity();
}

/// The power of two that scales a finite magnitude to [0.5, 1); 1 for zero.
template <class T>
__device__ __forceinline__ T inverse_power_of_two(T value) {
    constexpr int limit = Floating<T>::max_exponent;
    int exponent;
    frexp(value, &exponent);
    return Floating<T>::power_of_two(-max(-limit, min(limit, exponent)));
}

// ---- called instead of inlined, because with their slow paths they are long -----------

template <class T>
__device__ __noinline__ T square_root(T value) {
    return sqrt(value);
}

/// part / whole, with 0 / 0 = 0.
template <class T>
__device__ __noinline__ T ratio(T part, T whole) {
    return part == 0 ? T(0) : part / whole;
}

/// value * 2^exponent, rounded once.
template <class T>
__device__ __noinline__ T shifted(T value, int exponent) {
    constexpr int limit = Floating<T>::max_exponent;
    if (exponent < -limit || exponent > limit) return ldexp(value, exponent);
    return value * Floating<T>::power_of_two(exponent);
}
