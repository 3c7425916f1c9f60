// Kernels that test the counts of kernel_code.py. The comments have the counts.

/// One generic load: of shared memory in some threads, of global memory in other threads. All
/// other accesses are shared or global.
__global__ void generic_load(const float* x, int split, float* y) {
    __shared__ float shared[256];
    shared[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    const float* from = threadIdx.x < split ? shared : x;
    y[threadIdx.x] = from[255 - threadIdx.x];
}

/// One generic store.
__global__ void generic_store(const float* x, int split, float* y) {
    __shared__ float shared[256];
    float* to = threadIdx.x < split ? shared : y;
    to[255 - threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x + 256] = shared[threadIdx.x];
}

/// A division before a loop.
template <class T>
__global__ void division_before(T* x, T a, T b, int count) {
    const T quotient = a / b;
#pragma unroll 1
    for (int i = 0; i < count; ++i) x[i] += quotient;
}

/// A division in a loop, another one after it.
template <class T>
__global__ void division_inside(T* x, T a, int count) {
#pragma unroll 1
    for (int i = 0; i < count; ++i) x[i] = a / x[i];
    x[count] = a / x[count];
}

/// Divisions by constants are multiplications.
__global__ void division_by_constants(unsigned* x, float* y, int count) {
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
        x[i] /= 7;
        y[i] /= 8;
    }
}

/// A square root in a loop.
__global__ void root_inside(float* x, int count) {
#pragma unroll 1
    for (int i = 0; i < count; ++i) x[i] = sqrtf(x[i]);
}

/// Continued fractions: the function has one division, outside a loop.
__device__ __noinline__ float next_fraction(float a, float b) {
    return a + 1 / b;
}

/// A function with a division, called in a loop.
__global__ void called_inside(float* x, int count) {
    float fraction = 1;
#pragma unroll 1
    for (int i = 0; i < count; ++i) fraction = next_fraction(x[i], fraction);
    *x = fraction;
}

/// The same function, called twice outside loops.
__global__ void called_outside(float* x) {
    *x = next_fraction(x[1], next_fraction(x[2], x[3]));
}

/// A division between two loops, in a branch that few threads take: the compiler may place its
/// code elsewhere.
__global__ void division_between(float* x, int count) {
#pragma unroll 1
    for (int i = 0; i < count; ++i) x[i] += 1;
    if (x[count] > 3) x[count] = x[1] / x[count];
#pragma unroll 1
    for (int i = 0; i < count; ++i) x[i] *= x[count];
}
