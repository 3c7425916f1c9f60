// CUDA's vector types, with CUDA's alignment.

#pragma once

/// Alignment of a vector of 2 or 4 elements, in bytes: its size, at most 16.
#define EMULATOR_ALIGNED(element, count) \
    alignas(sizeof(element) * count < 16 ? sizeof(element) * count : 16)

#define EMULATOR_VECTORS(element, name)                                            \
    struct name##1 {                                                               \
        element x;                                                                 \
    };                                                                             \
    struct EMULATOR_ALIGNED(element, 2) name##2 {                                  \
        element x, y;                                                              \
    };                                                                             \
    struct name##3 {                                                               \
        element x, y, z;                                                           \
    };                                                                             \
    struct EMULATOR_ALIGNED(element, 4) name##4 {                                  \
        element x, y, z, w;                                                        \
    };                                                                             \
    constexpr name##1 make_##name##1(element x) {                                  \
        return {x};                                                                \
    }                                                                              \
    constexpr name##2 make_##name##2(element x, element y) {                       \
        return {x, y};                                                             \
    }                                                                              \
    constexpr name##3 make_##name##3(element x, element y, element z) {            \
        return {x, y, z};                                                          \
    }                                                                              \
    constexpr name##4 make_##name##4(element x, element y, element z, element w) { \
        return {x, y, z, w};                                                       \
    }

EMULATOR_VECTORS(signed char, char)
EMULATOR_VECTORS(unsigned char, uchar)
EMULATOR_VECTORS(short, short)
EMULATOR_VECTORS(unsigned short, ushort)
EMULATOR_VECTORS(int, int)
EMULATOR_VECTORS(unsigned int, uint)
EMULATOR_VECTORS(long, long)
EMULATOR_VECTORS(unsigned long, ulong)
EMULATOR_VECTORS(long long, longlong)
EMULATOR_VECTORS(unsigned long long, ulonglong)
EMULATOR_VECTORS(float, float)
EMULATOR_VECTORS(double, double)

#undef EMULATOR_VECTORS
#undef EMULATOR_ALIGNED

using uchar = unsigned char;

struct dim3 {
    unsigned int x = 1, y = 1, z = 1;

    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};
