// The types of a monoid's elements, and functions that operators are written with.
//
// A monoid is a type with
//     using Value = ...;                                   an element
//     static constexpr bool commutative = ...;
//     static Value identity();
//     Value operator()(const Value& a, const Value& b);    a before b
// A map is a type with `Input`, `Value` and `Value operator()(const Input& x)`; if it reads several
// arrays, `Input` is the type of the first array, and the operator has more parameters. The host
// generates both from expressions; see gpusolve/monoid.py and gpusolve/_blocks/operators.py.

#pragma once

#include "half.cuh"

// ---- elements -----------------------------------------------------------------------

/// An element that consists of several numbers.
template <class T, int count>
struct Element {
    T numbers[count];

    __device__ __forceinline__ T& operator[](int k) { return numbers[k]; }
    __device__ __forceinline__ const T& operator[](int k) const { return numbers[k]; }
};

template <class T>
struct alignas(2 * sizeof(T)) Complex {
    T real, imaginary;

    Complex() = default;
    __device__ __forceinline__ Complex(T real, T imaginary = T(0))
        : real(real), imaginary(imaginary) {}
};

template <class T>
__device__ __forceinline__ Complex<T> operator+(Complex<T> a, Complex<T> b) {
    return {a.real + b.real, a.imaginary + b.imaginary};
}

template <class T>
__device__ __forceinline__ Complex<T> operator-(Complex<T> a, Complex<T> b) {
    return {a.real - b.real, a.imaginary - b.imaginary};
}

template <class T>
__device__ __forceinline__ Complex<T> operator*(Complex<T> a, Complex<T> b) {
    return {a.real * b.real - a.imaginary * b.imaginary,
            a.real * b.imaginary + a.imaginary * b.real};
}

template <class T>
__device__ __forceinline__ bool operator==(Complex<T> a, Complex<T> b) {
    return a.real == b.real && a.imaginary == b.imaginary;
}

template <class T>
__device__ __forceinline__ bool operator!=(Complex<T> a, Complex<T> b) {
    return !(a == b);
}

// ---- operators ----------------------------------------------------------------------

// Signed overflow is undefined in C++, also for small integers, whose products are computed in
// `int`. Unsigned arithmetic wraps around, as in NumPy.

template <class T>
struct Wrapping {
    using Type = T;
};
template <>
struct Wrapping<signed char> {
    using Type = unsigned int;
};
template <>
struct Wrapping<unsigned char> {
    using Type = unsigned int;
};
template <>
struct Wrapping<short> {
    using Type = unsigned int;
};
template <>
struct Wrapping<unsigned short> {
    using Type = unsigned int;
};
template <>
struct Wrapping<int> {
    using Type = unsigned int;
};
template <>
struct Wrapping<long long> {
    using Type = unsigned long long;
};

template <class T>
__device__ __forceinline__ T wrapping_add(T a, T b) {
    using U = typename Wrapping<T>::Type;
    return T(U(a) + U(b));
}

template <class T>
__device__ __forceinline__ T wrapping_multiply(T a, T b) {
    using U = typename Wrapping<T>::Type;
    return T(U(a) * U(b));
}

/// NaN if either operand is NaN.
template <class T>
__device__ __forceinline__ T minimum(T a, T b) {
    return a < b || a != a ? a : b;
}

/// NaN if either operand is NaN.
template <class T>
__device__ __forceinline__ T maximum(T a, T b) {
    return a > b || a != a ? a : b;
}

// ---- maps ---------------------------------------------------------------------------

/// The identity map.
template <class T>
struct Keep {
    using Input = T;
    using Value = T;
    __device__ __forceinline__ T operator()(const T& x) const { return x; }
};

// ---- segments -----------------------------------------------------------------------

/// An element, and whether a segment begins at it or at an element combined into it.
template <class T>
struct Flagged {
    T value;
    bool begins;
};

/// The monoid lifted to segments: elements before the beginning of a segment are ignored.
/// Associative if `Monoid` is; never commutative.
template <class Monoid>
struct Segmented {
    using Value = Flagged<typename Monoid::Value>;
    static constexpr bool commutative = false;

    static __device__ __forceinline__ Value identity() { return {Monoid::identity(), false}; }

    __device__ __forceinline__ Value operator()(const Value& a, const Value& b) const {
        return {b.begins ? b.value : Monoid()(a.value, b.value), a.begins || b.begins};
    }
};
