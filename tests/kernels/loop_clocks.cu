// Loops whose clocks have bounds that are known by hand, for kernel_clocks.py.

/// Each trip waits for one shared load, whose result is the next address.
__global__ void chase_shared(int* x, int count) {
    __shared__ int next[256];
    next[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    int i = threadIdx.x;
#pragma unroll 1
    for (int trip = 0; trip < count; ++trip) i = next[i & 255];
    x[threadIdx.x] = i;
}

/// The same in global memory.
__global__ void chase_global(int* x, int count) {
    int i = threadIdx.x;
#pragma unroll 1
    for (int trip = 0; trip < count; ++trip) i = x[i];
    x[threadIdx.x] = i;
}

/// Each trip waits for two global loads that do not depend on each other.
__global__ void chase_two(int* x, int count) {
    int i = threadIdx.x, k = i + 1;
#pragma unroll 1
    for (int trip = 0; trip < count; ++trip) {
        i = x[i];
        k = x[k];
    }
    x[threadIdx.x] = i + k;
}

/// Each trip has a chain of `steps` products and sums.
template <int steps>
__global__ void chain(double* x, double a, int count) {
    double y = *x;
#pragma unroll 1
    for (int trip = 0; trip < count; ++trip) {
#pragma unroll
        for (int step = 0; step < steps; ++step) y = y * a + a;
    }
    *x = y;
}

/// body(i) for each trip.
template <class Body>
__device__ __forceinline__ void repeat(int count, Body body) {
#pragma unroll 1
    for (int i = 0; i < count; ++i) body(i);
}

/// The loop is in another function.
__global__ void lend_body(int* x, int count) {
    int i = threadIdx.x;
    repeat(count, [&](int) { i = x[i]; });
    x[threadIdx.x] = i;
}
