// The sum of each block's part of x, in the steps of M. Harris, "Optimizing Parallel Reduction in
// CUDA". Written after the descriptions, to be predicted. Blocks have 256 threads.

constexpr int threads = 256;

/// Adds the sums of the last warp, which needs no barrier of the block.
static __device__ void add_last_warp(volatile float* sums, int thread) {
    for (int half = 32; half > 0; half /= 2) {
        const float sum = sums[thread] + sums[thread + half];
        __syncwarp();
        sums[thread] = sum;
        __syncwarp();
    }
}

/// Threads whose number is a multiple of the step work.
__global__ void reduce_0(const float* x, float* y, int) {
    __shared__ float sums[threads];
    const unsigned thread = threadIdx.x;
    sums[thread] = x[blockIdx.x * blockDim.x + thread];
    __syncthreads();
    for (unsigned step = 1; step < blockDim.x; step *= 2) {
        if (thread % (2 * step) == 0) sums[thread] += sums[thread + step];
        __syncthreads();
    }
    if (thread == 0) y[blockIdx.x] = sums[0];
}

/// The first threads work, on elements that are steps apart.
__global__ void reduce_1(const float* x, float* y, int) {
    __shared__ float sums[threads];
    const unsigned thread = threadIdx.x;
    sums[thread] = x[blockIdx.x * blockDim.x + thread];
    __syncthreads();
    for (unsigned step = 1; step < blockDim.x; step *= 2) {
        const unsigned index = 2 * step * thread;
        if (index < blockDim.x) sums[index] += sums[index + step];
        __syncthreads();
    }
    if (thread == 0) y[blockIdx.x] = sums[0];
}

/// The first threads work, on neighbouring elements.
__global__ void reduce_2(const float* x, float* y, int) {
    __shared__ float sums[threads];
    const unsigned thread = threadIdx.x;
    sums[thread] = x[blockIdx.x * blockDim.x + thread];
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (thread < half) sums[thread] += sums[thread + half];
        __syncthreads();
    }
    if (thread == 0) y[blockIdx.x] = sums[0];
}

/// Each thread adds two elements while it loads.
__global__ void reduce_3(const float* x, float* y, int) {
    __shared__ float sums[threads];
    const unsigned thread = threadIdx.x;
    const unsigned first = blockIdx.x * (2 * blockDim.x) + thread;
    sums[thread] = x[first] + x[first + blockDim.x];
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (thread < half) sums[thread] += sums[thread + half];
        __syncthreads();
    }
    if (thread == 0) y[blockIdx.x] = sums[0];
}

/// The last warp works without barriers of the block.
__global__ void reduce_4(const float* x, float* y, int) {
    __shared__ float sums[threads];
    const unsigned thread = threadIdx.x;
    const unsigned first = blockIdx.x * (2 * blockDim.x) + thread;
    sums[thread] = x[first] + x[first + blockDim.x];
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 32; half /= 2) {
        if (thread < half) sums[thread] += sums[thread + half];
        __syncthreads();
    }
    if (thread < 32) add_last_warp(sums, thread);
    if (thread == 0) y[blockIdx.x] = sums[0];
}

/// The steps of the block are written out.
static __device__ void add_unrolled(float* sums, int thread) {
    if (thread < 128) sums[thread] += sums[thread + 128];
    __syncthreads();
    if (thread < 64) sums[thread] += sums[thread + 64];
    __syncthreads();
    if (thread < 32) add_last_warp(sums, thread);
}

/// All loops are unrolled.
__global__ void reduce_5(const float* x, float* y, int) {
    __shared__ float sums[threads];
    const unsigned thread = threadIdx.x;
    const unsigned first = blockIdx.x * (2 * threads) + thread;
    sums[thread] = x[first] + x[first + threads];
    __syncthreads();
    add_unrolled(sums, thread);
    if (thread == 0) y[blockIdx.x] = sums[0];
}

/// Each thread adds `count` elements while it loads.
static __device__ float sum_of_thread(const float* x, int count) {
    float sum = 0;
    const float* first = x + (size_t)blockIdx.x * threads * count + threadIdx.x;
    for (int k = 0; k < count; ++k) sum += first[k * threads];
    return sum;
}

__global__ void reduce_6(const float* x, float* y, int count) {
    __shared__ float sums[threads];
    const unsigned thread = threadIdx.x;
    sums[thread] = sum_of_thread(x, count);
    __syncthreads();
    add_unrolled(sums, thread);
    if (thread == 0) y[blockIdx.x] = sums[0];
}

/// Warps add by shuffles.
__global__ void reduce_7(const float* x, float* y, int count) {
    __shared__ float sums[threads / 32];
    const unsigned thread = threadIdx.x;
    float sum = sum_of_thread(x, count);
    for (int half = 16; half > 0; half /= 2) sum += __shfl_down_sync(0xffffffffu, sum, half);
    if (thread % 32 == 0) sums[thread / 32] = sum;
    __syncthreads();
    if (thread >= 32) return;
    sum = thread < threads / 32 ? sums[thread] : 0;
    for (int half = 4; half > 0; half /= 2) sum += __shfl_down_sync(0xffffffffu, sum, half);
    if (thread == 0) y[blockIdx.x] = sum;
}
