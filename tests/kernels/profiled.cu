// Kernels whose costs are known by hand.

__global__ void copy(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}

__global__ void copy_strided(const float* x, float* y, int n, int stride) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i * stride];
}

struct alignas(16) Four {
    float values[4];
};

struct Record {
    float values[9];
};

template <class Item>
__global__ void copy_items(const Item* x, Item* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const Item item = x[i];
    y[i] = item;
}

template <int width>
__global__ void transpose(const float* x, float* y, int n) {
    __shared__ float tile[32][width];
    const int row = threadIdx.y, column = threadIdx.x;
    tile[row][column] = x[row * n + column];
    __syncthreads();
    y[row * n + column] = tile[column][row];
}

__global__ void sum(const float* x, float* y) {
    __shared__ float values[256];
    values[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = values[0];
}

__global__ void read_again(const float* x, float* y, int times) {
    float total = 0;
    for (int k = 0; k < times; ++k) total += x[(threadIdx.x + k) % 32];
    y[threadIdx.x] = total;
}

__global__ void shared_doubles(double* y) {
    __shared__ double values[64];
    values[threadIdx.x] = threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = values[threadIdx.x];
}

__global__ void operations(int* counts, int* result) {
    const int lane = threadIdx.x % 32;
    int value = __shfl_down_sync(0xffffffffu, lane, 1);
    value += __shfl_xor_sync(0xffffffffu, value, 2);
    const unsigned votes = __ballot_sync(0xffffffffu, lane > 3);
    __syncwarp();
    atomicAdd(&counts[0], 1);
    atomicCAS(&counts[1], 0, 1);
    __threadfence();
    result[threadIdx.x] = value + votes;
}

/// Each half of the warp in a loop of its own length.
__global__ void halves(const int* steps, double* y) {
    __shared__ double row[32];
    const int lane = threadIdx.x;
    const unsigned half = lane < 16 ? 0xffffu : 0xffff0000u;
    double value = lane;
    row[lane] = lane;
    __syncwarp();
    for (int k = 0; k < steps[lane / 16]; ++k) {
        value += __shfl_xor_sync(half, value, 1);
        value += row[lane];
    }
    y[lane] = value;
}

__global__ void unequal_blocks(const float* x, float* y) {
    float total = 0;
    for (int k = 0; k <= blockIdx.x; ++k) total += x[k * 32 + threadIdx.x];
    y[blockIdx.x * 32 + threadIdx.x] = total;
}

template <class T>
__global__ void arithmetic(const T* x, T* y) {
    const T a = x[0], b = x[1], c = x[2];
    y[0] = a + b;
    y[1] = a - b;
    y[2] = a * b;
    y[3] = a / b;
    y[4] = sqrt(c);
    y[5] = fma(a, b, c);
}

__global__ void follow(const int* next, int* last, int steps) {
    __shared__ int place;
    if (threadIdx.x == 0) place = blockIdx.x;
    __syncthreads();
    for (int k = 0; k < steps; ++k) {
        const int found = next[place];
        __syncthreads();
        if (threadIdx.x == 0) place = found;
        __syncthreads();
    }
    if (threadIdx.x == 0) last[blockIdx.x] = place;
}

__global__ void branch_in_iteration(const float* x, float* y) {
    for (int k = 0; k < 32; ++k)
        if (threadIdx.x == k) y[k] = x[k];
}

/// Every thread of a block adds its part of n elements, `turns` times.
template <int turns>
__global__ void loop(const float* x, float* y, int n) {
    float total = 0;
    for (int turn = 0; turn < turns; ++turn)
        for (int k = threadIdx.x; k < n; k += blockDim.x) total += x[k];
    y[threadIdx.x] = total;
}

__device__ float table[40];
__constant__ float factor;
__global__ void through_a_variable(float* x) {
    table[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = factor * table[threadIdx.x + 1];
}

__global__ void increment(float* x) {
    x[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}

__global__ void count(int* total) {
    atomicAdd(total, 1);
}

/// Lanes below `split` add, the others multiply.
__global__ void branch(float* x, int split) {
    float value = x[threadIdx.x];
    if (threadIdx.x < split)
        for (int k = 0; k < 100; ++k) value += k;
    else
        for (int k = 0; k < 100; ++k) value *= k;
    x[threadIdx.x] = value;
}

__global__ void remainders(unsigned* x, unsigned n) {
    x[threadIdx.x] = x[threadIdx.x] % n;
}

__global__ void add_row(const float* x, float* y, int which) {
    __shared__ float row[64];
    row[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    float total = 0;
    for (int k = 0; k < 32; ++k) total += row[32 * which + k];
    y[threadIdx.x] = total;
}

__global__ void add_neighbours(const float* x, float* y) {
    __shared__ float row[32];
    row[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x < 4) row[28 + threadIdx.x] = x[28 + threadIdx.x];
    __syncthreads();
    float total = 0;
    for (int k = 0; k < 4; ++k) total += row[threadIdx.x + k];
    y[threadIdx.x] = total;
}
