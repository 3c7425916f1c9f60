// The transpose of an n x n matrix in float32, by tiles of 32 x 32. Written to be predicted.

/// Each thread moves an element; the threads of a warp write to different rows.
__global__ void transpose_naive(const float* __restrict__ x, float* __restrict__ y, int n) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    y[column * n + row] = x[row * n + column];
}

/// The threads of a warp read from different rows.
__global__ void transpose_gather(const float* __restrict__ x, float* __restrict__ y, int n) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    y[row * n + column] = x[column * n + row];
}

/// A tile in shared memory is read by columns. With a width of 32 a column is in one bank. Each
/// thread moves 32 / `rows` elements.
template <int width, int rows>
__global__ void transpose_tile(const float* __restrict__ x, float* __restrict__ y, int n) {
    __shared__ float tile[32][width];
    const int column = blockIdx.x * 32, row = blockIdx.y * 32;
    for (int k = 0; k < 32; k += rows)
        tile[threadIdx.y + k][threadIdx.x] = x[(row + threadIdx.y + k) * n + column + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < 32; k += rows)
        y[(column + threadIdx.y + k) * n + row + threadIdx.x] = tile[threadIdx.x][threadIdx.y + k];
}
