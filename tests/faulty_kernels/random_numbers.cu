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

/// Each thread has a sequence of its own.
__global__ void fill(float* uniform, float* normal, double* more, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandState state;
    curand_init(1234, i, 0, &state);
    for (int k = 0; k < n; ++k) {
        uniform[i * n + k] = curand_uniform(&state);
        normal[i * n + k] = curand_normal(&state);
        more[i * n + k] = curand_uniform_double(&state);
    }
}
