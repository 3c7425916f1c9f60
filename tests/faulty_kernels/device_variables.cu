// Variables of the device, and a pointer in a structure.
// Faults: all threads update the same element without an atomic.

__device__ int counts[4];
__constant__ int steps[2] = {1, 2};

struct Counters {
    int* values;
};

__global__ void increment_variable(int* out) {
    counts[3] += steps[1];
    out[threadIdx.x] = counts[3];
}

__global__ void increment_through_structure(Counters counters) {
    counters.values[1] += 1;
}

/// No fault.
__global__ void increment_by_atomics(int* out) {
    out[threadIdx.x] = atomicAdd(&counts[1], steps[0]);
}
