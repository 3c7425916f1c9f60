// All blocks access one element.
// Faults: by plain writes; by a plain read and a plain write; by updates that are not atomic.

__global__ void write_all(int* x) {
    if (threadIdx.x == 0) *x = static_cast<int>(blockIdx.x);
}

__global__ void read_and_write(int* x, int* y) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0)
        *x = 1;
    else
        y[blockIdx.x] = *x;
}

__global__ void increment(int* x = nullptr) {
    *x += 1;
}

/// Every thread adds its right neighbour.
__global__ void add_neighbours(int* x) {
    x[threadIdx.x] += x[threadIdx.x + 1];
}

/// No fault: neighbouring elements, down to single bytes.
template <class T>
__global__ void write_own(T* x) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = static_cast<T>(i % 100);
}

__global__ void write_the_same(int* x) {
    *x = 5;
}

/// No fault: a swap fails if the value that was read before is not the present one.
__global__ void add_by_swaps(int* x) {
    int present = *x, expected;
    do {
        expected = present;
        present = atomicCAS(x, expected, expected + 1);
    } while (present != expected);
}
