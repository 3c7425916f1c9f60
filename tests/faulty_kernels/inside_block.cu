// Communication between threads of one block. Faults: the synchronisation between the accesses
// of two threads (write and read, or read and write) is missing or too weak.

/// The synchronisation.
enum Between { nothing, block_barrier, block_vote, warp_barrier, half_barriers, warp_shuffle };

template <Between between>
__device__ void synchronise() {
    if (between == block_barrier) __syncthreads();
    if (between == block_vote) __syncthreads_or(threadIdx.x == 0);
    if (between == warp_barrier) __syncwarp();
    if (between == half_barriers) __syncwarp(threadIdx.x % 32 < 16 ? 0xffff : 0xffff0000);
    if (between == warp_shuffle) __shfl_sync(0xffffffff, 1, 0);
}

/// y[t] = x[t ^ distance], through shared memory.
template <Between between, class T>
__global__ void exchange(int distance, const T* x, T* y) {
    __shared__ T part[256];
    part[threadIdx.x] = x[threadIdx.x];
    synchronise<between>();
    y[threadIdx.x] = part[threadIdx.x ^ distance];
}

/// The same, in place, through global memory.
template <Between between>
__global__ void exchange_in_place(int distance, int* x) {
    const int other = x[threadIdx.x ^ distance];
    synchronise<between>();
    x[threadIdx.x] = other;
}

/// From x to y. Fault: called with the same array for both.
__global__ void exchange_arrays(const int* x, int distance, int* y) {
    y[threadIdx.x] = x[threadIdx.x ^ distance];
}

/// Twice, through dynamic shared memory: the second write must wait for the first read.
template <Between between>
__global__ void exchange_twice(int distance, int* x) {
    extern __shared__ int shared_memory[];
    for (int round = 0; round < 2; ++round) {
        shared_memory[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = shared_memory[threadIdx.x ^ distance];
        synchronise<between>();
    }
}

/// The number of threads, counted by all and read by one.
template <Between between>
__global__ void count(int* total) {
    __shared__ int counted;
    if (threadIdx.x == 0) counted = 0;
    __syncthreads();
    atomicAdd(&counted, 1);
    synchronise<between>();
    if (threadIdx.x == 0) *total = counted;
}

/// Warp 1 waits in a loop for a value from warp 0.
template <bool writer_has_fence, bool reader_has_fence>
__global__ void flag(int* result) {
    __shared__ int value, ready;
    if (threadIdx.x == 0) ready = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        value = static_cast<int>(blockDim.x) - 22;  // the compiler would pass a constant on
        if (writer_has_fence) __threadfence_block();
        atomicExch(&ready, 1);
    }
    if (threadIdx.x == 32) {
        while (atomicAdd(&ready, 0) == 0) __nanosleep(20);
        if (reader_has_fence) __threadfence_block();
        *result = value;
    }
}

/// A sum by the lanes of a warp, in volatile memory. Fault: without barriers it needs lockstep.
template <bool has_barriers>
__global__ void sum_of_a_warp(int* x) {
    __shared__ volatile int part[32 + 16];
    const int lane = threadIdx.x;
    part[lane] = x[lane];
    if (lane < 16) part[32 + lane] = 0;
    for (int step = 16; step > 0; step /= 2) {
        if (has_barriers) __syncwarp();
        const int other = part[lane + step];
        if (has_barriers) __syncwarp();
        part[lane] = part[lane] + other;
    }
    x[lane] = part[lane];
}
