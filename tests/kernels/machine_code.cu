// Kernels that test the counts of kernel_resources.py. The comments have the counts.

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
