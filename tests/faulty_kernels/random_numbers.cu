// No fault: random numbers.

#include <curand_kernel.h>

/// The first 8 numbers of a sequence, and its numbers from `offset`.
__global__ void draw(unsigned long long seed, unsigned long long sequence,
                     unsigned long long offset, unsigned* out) {
    curandStatePhilox4_32_10_t first, later;
    curand_init(seed, sequence, 0, &first);
    curand_init(seed, sequence, offset, &later);
    for (int i = 0; i < 8; ++i) out[i] = curand(&first);
    for (int i = 0; i < 4; ++i) out[8 + i] = curand(&later);
}
