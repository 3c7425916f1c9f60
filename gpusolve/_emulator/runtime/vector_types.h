// CUDA's vector types.
//
// float4 and similar types have the alignment of their elements only: the emulator places an
// array so that it ends at an inaccessible page, so it may not start at a multiple of 16 bytes.

#pragma once

#define EMULATOR_VECTORS(element, name)                                            \
    struct name##2 {                                                               \
        element x, y;                                                              \
    };                                                                             \
    struct name##3 {                                                               \
        element x, y, z;                                                           \
    };                                                                             \
    struct name##4 {                                                               \
        element x, y, z, w;                                                        \
    };                                                                             \
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
EMULATOR_VECTORS(long long, longlong)
EMULATOR_VECTORS(unsigned long long, ulonglong)
EMULATOR_VECTORS(float, float)
EMULATOR_VECTORS(double, double)

#undef EMULATOR_VECTORS

struct dim3 {
    unsigned int x = 1, y = 1, z = 1;

    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};
