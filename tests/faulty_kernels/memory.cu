// Accesses outside of memory, or to memory that nothing has written; each kernel is called by one
// block of 32 threads. Faults: `memcheck` finds them, in the order of test_memcheck.py.

struct Row {
    int count;
    float values[4];
};

__constant__ float weights[4] = {1, 2, 3, 4};
__device__ float table[4] = {1, 2, 3, 4};

/// x[i] = y[i + first]: reads next to y.
__global__ void read_from(float* x, const float* y, int first) {
    x[threadIdx.x] = y[static_cast<int>(threadIdx.x) + first];
}

/// Reads all bytes of y, and `more`.
__global__ void read_bytes(int* x, const unsigned char* y, int bytes, int more) {
    for (int i = 0; i < bytes + more; ++i) *x += y[i];
}

/// Reads dynamic shared memory from element `first`.
__global__ void read_dynamic(float* x, int first) {
    extern __shared__ float tile[];
    tile[threadIdx.x] = 1;
    __syncthreads();
    x[threadIdx.x] = tile[static_cast<int>(threadIdx.x) + first];
}

/// Reads a row of a matrix in shared memory, of `columns` elements: there are 8.
__global__ void read_row(float* x, int columns) {
    __shared__ float tile[4][8];
    tile[threadIdx.x / 8][threadIdx.x % 8] = 1;
    __syncthreads();
    if (threadIdx.x < columns) x[threadIdx.x] = tile[1][threadIdx.x];
}

/// Reads a local array, a constant array, and an array in a structure, of 4 elements each.
__global__ void read_declared(float* x, int place, int index) {
    float local[4] = {1, 2, 3, 4};
    local[threadIdx.x % 4] = 5;
    Row row = {4, {1, 2, 3, 4}};
    row.values[threadIdx.x % 4] = 5;
    x[threadIdx.x] = place == 0 ? local[index] : place == 1 ? weights[index] : row.values[index];
}

/// Reads an element of shared memory that no thread has written if `written` is less than 33.
__global__ void read_shared(float* x, int written) {
    __shared__ float tile[33];
    for (int i = threadIdx.x; i < written; i += blockDim.x) tile[i] = 1;
    __syncthreads();
    x[threadIdx.x] = tile[threadIdx.x + 1];
}

/// Reads a structure in shared memory whose padding nothing writes.
__global__ void copy_padded(double* x) {
    struct Located {
        double value;
        int index;
    };
    __shared__ Located best;
    if (threadIdx.x == 0) {
        best.value = 3;
        best.index = 2;
    }
    __syncthreads();
    const Located found = best;
    x[threadIdx.x] = found.value;
}

/// Reads 4 floats at once, from element `first`.
__global__ void read_vector(float* x, const float* y, int first) {
    const float4 four = *reinterpret_cast<const float4*>(y + first);
    x[threadIdx.x] = four.x + four.w;
}

/// Reads an element of shared, local or global memory by a pointer: there are 32, 4 and 4.
__global__ void read_by_pointer(float* x, int place, int index) {
    __shared__ float tile[32];
    tile[threadIdx.x] = 1;
    __syncthreads();
    float local[4] = {1, 2, 3, 4};
    const float* shared = tile;
    const float* first = local;
    const float* global = table;
    x[threadIdx.x] = place == 0 ? shared[index] : place == 1 ? first[index] : global[index];
}

/// Adds n elements to a sum that has no first value.
__global__ void sum_without_start(float* x, int n) {
    float sum;
    for (int i = 0; i < n; ++i) sum += x[i];
    x[threadIdx.x] = sum;
}

/// Two threads of a block read and write an element, without a barrier.
__global__ void race(float* x) {
    x[threadIdx.x] = x[(threadIdx.x + 1) % 32];
}

/// Takes a megabyte of the heap, which has eight, and gives it back; then asks for too much.
__global__ void use_heap(int* count, int times_freed) {
    if (threadIdx.x != 0) return;
    for (int k = 0; k < 20; ++k) {
        int* const part = static_cast<int*>(malloc(1 << 20));
        if (part == nullptr) continue;
        *part = k;
        count[0] += *part == k;
        for (int n = 0; n < times_freed; ++n) free(part);
    }
    count[1] = malloc(16 << 20) == nullptr;
}
