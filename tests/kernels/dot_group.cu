// y = A x as in the listings of Sieminski & Lee, Appendix B: a group of threads has blockDim.x
// rows, and blockDim.y threads for each of them. Every thread has a sum in `work`, an array of
// 16 numbers in their first listing, and of 4 in the second, which is the same otherwise.

__global__ void dot_group(const float* A, const float* x, int columns, float* y) {
    extern __shared__ float work[];
    const int row = threadIdx.x, part = threadIdx.y, width = blockDim.x;
    const int i = blockIdx.x * width + row, rows = gridDim.x * width;
    float sum = 0;
    for (int j = part; j < columns; j += blockDim.y) sum += A[i + rows * j] * x[j];
    work[row + width * part] = sum;
    for (int half = blockDim.y / 2; half > 0; half /= 2) {
        __syncthreads();
        if (part < half) work[row + width * part] += work[row + width * (part + half)];
    }
    if (part == 0) y[i] = work[row];
}
