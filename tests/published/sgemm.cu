// C = A B for n x n matrices in float32, in the ten steps of S. Boehm, "How to Optimize a CUDA
// Matmul Kernel for cuBLAS-like Performance". Written after the descriptions, to be predicted.

/// Each thread computes an element; neighbouring threads are in different rows.
__global__ void sgemm_1(const float* A, const float* B, float* C, int n) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    const int column = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += A[row * n + k] * B[k * n + column];
    C[row * n + column] = sum;
}

/// Neighbouring threads are in the same row.
__global__ void sgemm_2(const float* A, const float* B, float* C, int n) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += A[row * n + k] * B[k * n + column];
    C[row * n + column] = sum;
}

/// Tiles of 32 x 32 elements are in shared memory.
__global__ void sgemm_3(const float* A, const float* B, float* C, int n) {
    __shared__ float a[32][32], b[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * 32 + y, column = blockIdx.x * 32 + x;
    float sum = 0;
    for (int start = 0; start < n; start += 32) {
        a[y][x] = A[row * n + start + x];
        b[y][x] = B[(start + y) * n + column];
        __syncthreads();
        for (int k = 0; k < 32; ++k) sum += a[y][k] * b[k][x];
        __syncthreads();
    }
    C[row * n + column] = sum;
}

/// Each of 512 threads computes 8 rows of a column of a tile of 64 x 64.
__global__ void sgemm_4(const float* A, const float* B, float* C, int n) {
    __shared__ float a[64][8], b[8][64];
    const int thread = threadIdx.x;
    const int row = blockIdx.y * 64, column = blockIdx.x * 64;
    const int x = thread % 64, y = thread / 64 * 8;
    float sums[8] = {};
    for (int start = 0; start < n; start += 8) {
        a[thread / 8][thread % 8] = A[(row + thread / 8) * n + start + thread % 8];
        b[thread / 64][thread % 64] = B[(start + thread / 64) * n + column + thread % 64];
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            const float factor = b[k][x];
            for (int i = 0; i < 8; ++i) sums[i] += a[y + i][k] * factor;
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i) C[(row + y + i) * n + column + x] = sums[i];
}

/// Each of 256 threads computes 8 x 8 elements of a tile of 128 x 128.
__global__ void sgemm_5(const float* A, const float* B, float* C, int n) {
    __shared__ float a[128][8], b[8][128];
    const int thread = threadIdx.x;
    const int row = blockIdx.y * 128, column = blockIdx.x * 128;
    const int x = thread % 16 * 8, y = thread / 16 * 8;
    float sums[8][8] = {};
    for (int start = 0; start < n; start += 8) {
        for (int i = 0; i < 4; ++i) {
            const int r = thread / 8 + 32 * i;
            a[r][thread % 8] = A[(row + r) * n + start + thread % 8];
        }
        for (int i = 0; i < 4; ++i) {
            const int r = thread / 128 + 2 * i;
            b[r][thread % 128] = B[(start + r) * n + column + thread % 128];
        }
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            float left[8], right[8];
            for (int i = 0; i < 8; ++i) left[i] = a[y + i][k];
            for (int j = 0; j < 8; ++j) right[j] = b[k][x + j];
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j) sums[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j) C[(row + y + i) * n + column + x + j] = sums[i][j];
}

/// Where an element of a row of B is in shared memory.
struct InOrder {
    static constexpr int columns(int width) { return width; }
    static __device__ int place(int column) { return column; }
};

/// The 8 columns of a thread are 16 apart, so that the threads of a warp read neighbours.
struct Rearranged {
    static constexpr int columns(int width) { return width; }
    static __device__ int place(int column) { return column % 8 * 16 + column / 8; }
};

/// Rows are longer than the tile.
struct Padded {
    static constexpr int columns(int width) { return width + 5; }
    static __device__ int place(int column) { return column; }
};

/// As `sgemm_5`, with loads of four elements, A transposed in shared memory, and a layout of B.
template <class Layout, int depth>
__global__ void sgemm_vector(const float* A, const float* B, float* C, int n) {
    constexpr int width = Layout::columns(128);
    __shared__ __align__(16) float a[depth][128];
    __shared__ __align__(16) float b[depth][width];
    const int thread = threadIdx.x;
    const int row = blockIdx.y * 128, column = blockIdx.x * 128;
    const int x = thread % 16 * 8, y = thread / 16 * 8;
    float sums[8][8] = {};
    for (int start = 0; start < n; start += depth) {
        for (int i = 0; i < depth / 8; ++i) {
            const int quad = thread + 256 * i;
            const int r = quad / (depth / 4), k = quad % (depth / 4) * 4;
            const float4 found = *(const float4*)&A[(row + r) * n + start + k];
            a[k][r] = found.x;
            a[k + 1][r] = found.y;
            a[k + 2][r] = found.z;
            a[k + 3][r] = found.w;
        }
        for (int i = 0; i < depth / 8; ++i) {
            const int quad = thread + 256 * i;
            const int k = quad / 32, c = quad % 32 * 4;
            const float4 found = *(const float4*)&B[(start + k) * n + column + c];
            b[k][Layout::place(c)] = found.x;
            b[k][Layout::place(c + 1)] = found.y;
            b[k][Layout::place(c + 2)] = found.z;
            b[k][Layout::place(c + 3)] = found.w;
        }
        __syncthreads();
        for (int k = 0; k < depth; ++k) {
            float left[8], right[8];
            for (int i = 0; i < 8; ++i) left[i] = a[k][y + i];
            for (int j = 0; j < 8; ++j) right[j] = b[k][Layout::place(x + j)];
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j) sums[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; j += 4)
            *(float4*)&C[(row + y + i) * n + column + x + j] =
                make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
}

/// Each of 4 warps computes a tile of 64 x 64 of a tile of 128 x 128, in 4 steps of 64 x 16.
__global__ void sgemm_10(const float* A, const float* B, float* C, int n) {
    constexpr int depth = 16, threads = 128;
    __shared__ __align__(16) float a[depth][128];
    __shared__ __align__(16) float b[depth][128];
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    const int row = blockIdx.y * 128, column = blockIdx.x * 128;
    const int y = warp / 2 * 64 + lane / 4 * 8, x = warp % 2 * 64 + lane % 4 * 4;
    float sums[4][8][4] = {};
    for (int start = 0; start < n; start += depth) {
        for (int i = 0; i < 4; ++i) {
            const int quad = thread + threads * i;
            const int r = quad / 4, k = quad % 4 * 4;
            const float4 found = *(const float4*)&A[(row + r) * n + start + k];
            a[k][r] = found.x;
            a[k + 1][r] = found.y;
            a[k + 2][r] = found.z;
            a[k + 3][r] = found.w;
        }
        for (int i = 0; i < 4; ++i) {
            const int quad = thread + threads * i;
            const int k = quad / 32, c = quad % 32 * 4;
            *(float4*)&b[k][c] = *(const float4*)&B[(start + k) * n + column + c];
        }
        __syncthreads();
        for (int k = 0; k < depth; ++k) {
            float left[8], right[4][4];
            for (int i = 0; i < 8; ++i) left[i] = a[k][y + i];
            for (int s = 0; s < 4; ++s)
                for (int j = 0; j < 4; ++j) right[s][j] = b[k][x + 16 * s + j];
            for (int s = 0; s < 4; ++s)
                for (int i = 0; i < 8; ++i)
                    for (int j = 0; j < 4; ++j) sums[s][i][j] += left[i] * right[s][j];
        }
        __syncthreads();
    }
    for (int s = 0; s < 4; ++s)
        for (int i = 0; i < 8; ++i)
            *(float4*)&C[(row + y + i) * n + column + x + 16 * s] =
                make_float4(sums[s][i][0], sums[s][i][1], sums[s][i][2], sums[s][i][3]);
}
