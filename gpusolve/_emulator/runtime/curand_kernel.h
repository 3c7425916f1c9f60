// Random numbers of cuRAND's device functions, by the generator Philox4x32-10 (Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//
// curandStatePhilox4_32_10_t gives cuRAND's numbers. The other generators of cuRAND, also
// curandState, are played by Philox: their numbers are others than on a GPU.

#pragma once

#include <math.h>

#include <cstdint>

#include "vector_types.h"

struct curandStatePhilox4_32_10 {
    uint4 counter, output;
    uint2 key;
    unsigned used;       // of the output
    int boxmuller_flag;  // whether the second of two normal numbers is kept
    float boxmuller_extra;
};

using curandStatePhilox4_32_10_t = curandStatePhilox4_32_10;
using curandState = curandStatePhilox4_32_10;
using curandState_t = curandStatePhilox4_32_10;
using curandStateXORWOW_t = curandStatePhilox4_32_10;
using curandStateMRG32k3a_t = curandStatePhilox4_32_10;

namespace emulator {

/// The random numbers of a counter and a key.
inline uint4 philox(uint4 counter, uint2 key) {
    constexpr std::uint64_t multipliers[2] = {0xd2511f53, 0xcd9e8d57};
    constexpr unsigned increments[2] = {0x9e3779b9, 0xbb67ae85};
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t first = multipliers[0] * counter.x, second = multipliers[1] * counter.z;
        counter = {
            static_cast<unsigned>(second >> 32) ^ counter.y ^ key.x, static_cast<unsigned>(second),
            static_cast<unsigned>(first >> 32) ^ counter.w ^ key.y, static_cast<unsigned>(first)};
        key = {key.x + increments[0], key.y + increments[1]};
    }
    return counter;
}

/// Add to the counter's low 64 bits, with carry into the high 64 bits.
inline void advance(uint4& counter, std::uint64_t steps) {
    const std::uint64_t low = static_cast<std::uint64_t>(counter.y) << 32 | counter.x;
    const std::uint64_t sum = low + steps;
    counter.x = static_cast<unsigned>(sum);
    counter.y = static_cast<unsigned>(sum >> 32);
    if (sum < low && ++counter.z == 0) ++counter.w;
}

/// Between 0 and 1: 0 excluded, 1 included.
inline float uniform(unsigned x) {
    constexpr float scale = 1.0f / 4294967296.0f;
    return static_cast<float>(x) * scale + scale / 2;
}

/// 53 bits of two numbers.
inline double uniform(unsigned x, unsigned y) {
    constexpr double scale = 1.0 / 9007199254740992.0;
    const std::uint64_t bits = x ^ static_cast<std::uint64_t>(y) << 21;
    return static_cast<double>(bits) * scale + scale / 2;
}

/// Two normal numbers by the method of Box and Muller.
inline float2 normal(unsigned x, unsigned y) {
    constexpr float two_pi = 6.2831855f;
    const float radius = sqrtf(-2 * logf(uniform(x))), angle = two_pi * uniform(y);
    return {radius * sinf(angle), radius * cosf(angle)};
}

}  // namespace emulator

/// Skip numbers of the sequence.
inline void skipahead(unsigned long long count, curandStatePhilox4_32_10* state) {
    const unsigned long long used = state->used + count;
    emulator::advance(state->counter, used / 4);
    state->used = static_cast<unsigned>(used % 4);
    state->output = emulator::philox(state->counter, state->key);
}

inline void curand_init(unsigned long long seed, unsigned long long sequence,
                        unsigned long long offset, curandStatePhilox4_32_10* state) {
    *state = {};
    state->key = {static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32)};
    state->counter.z = static_cast<unsigned>(sequence);
    state->counter.w = static_cast<unsigned>(sequence >> 32);
    skipahead(offset, state);
}

/// 32 random bits.
inline unsigned curand(curandStatePhilox4_32_10* state) {
    const unsigned values[] = {state->output.x, state->output.y, state->output.z, state->output.w};
    const unsigned result = values[state->used];
    skipahead(1, state);
    return result;
}

/// Four numbers at once.
inline uint4 curand4(curandStatePhilox4_32_10* state) {
    return {curand(state), curand(state), curand(state), curand(state)};
}

inline float curand_uniform(curandStatePhilox4_32_10* state) {
    return emulator::uniform(curand(state));
}
inline float4 curand_uniform4(curandStatePhilox4_32_10* state) {
    return {curand_uniform(state), curand_uniform(state), curand_uniform(state),
            curand_uniform(state)};
}
inline double curand_uniform_double(curandStatePhilox4_32_10* state) {
    const unsigned x = curand(state);
    return emulator::uniform(x, curand(state));
}

inline float2 curand_normal2(curandStatePhilox4_32_10* state) {
    const unsigned x = curand(state);
    return emulator::normal(x, curand(state));
}
inline float4 curand_normal4(curandStatePhilox4_32_10* state) {
    const float2 first = curand_normal2(state), second = curand_normal2(state);
    return {first.x, first.y, second.x, second.y};
}
/// Every second call returns the second of two numbers.
inline float curand_normal(curandStatePhilox4_32_10* state) {
    state->boxmuller_flag = !state->boxmuller_flag;
    if (!state->boxmuller_flag) return state->boxmuller_extra;
    const float2 both = curand_normal2(state);
    state->boxmuller_extra = both.y;
    return both.x;
}
inline double curand_normal_double(curandStatePhilox4_32_10* state) {
    const double radius = sqrt(-2 * log(curand_uniform_double(state)));
    return radius * sin(6.283185307179586 * curand_uniform_double(state));
}
inline float curand_log_normal(curandStatePhilox4_32_10* state, float mean, float deviation) {
    return expf(mean + deviation * curand_normal(state));
}
