// Threads of one block that tell each other something. Faults: what should stand between a
// write and a read of another thread, or between a read and a write, is missing or too weak.

/// What stands there.
enum Between { nothing, block_barrier, block_vote, warp_barrier, half_barriers, warp_shuffle };

template <Between between>
__device__ void meet() {
    if (between == block_barrier) __syncthreads();
    if (between == block_vote) __syncthreads_or(threadIdx.x == 0);
    if (between == warp_barrier) __syncwarp();
    if (between == half_barriers) __syncwarp(threadIdx.x % 32 < 16 ? 0xffff : 0xffff0000);
    if (between == warp_shuffle) __shfl_sync(0xffffffff, 1, 0);
}

/// y[t] = x[t ^ distance], through shared memory.
template <Between between, class T>
__global__ void exchange(const T* x, int distance, T* y) {
    __shared__ T part[256];
    part[threadIdx.x] = x[threadIdx.x];
    meet<between>();
    y[threadIdx.x] = part[threadIdx.x ^ distance];
}

/// The same, in place, through global memory.
template <Between between, class T>
__global__ void exchange_in_place(T* x, int distance) {
    const T other = x[threadIdx.x ^ distance];
    meet<between>();
    x[threadIdx.x] = other;
}

/// Not in place, but called with one array for both.
__global__ void exchange_arrays(const int* x, int distance, int* y) {
    y[threadIdx.x] = x[threadIdx.x ^ distance];
}

/// The same through dynamic shared memory, twice: the second time is to wait for the first.
template <Between between, class T>
__global__ void exchange_twice(T* x, int distance) {
    extern __shared__ __align__(16) unsigned char shared_memory[];
    T* part = reinterpret_cast<T*>(shared_memory);
    for (int turn = 0; turn < 2; ++turn) {
        part[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = part[threadIdx.x ^ distance];
        meet<between>();
    }
}

/// How many threads there are; one of them reads it.
template <Between between>
__global__ void count(int* total) {
    __shared__ int counted;
    if (threadIdx.x == 0) counted = 0;
    __syncthreads();
    atomicAdd(&counted, 1);
    meet<between>();
    if (threadIdx.x == 0) *total = counted;
}

/// Warp 1 waits in a loop for what warp 0 has for it.
template <bool writer_has_fence, bool reader_has_fence>
__global__ void flag(int* result) {
    __shared__ int value, ready;
    if (threadIdx.x == 0) ready = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        value = 42;
        if (writer_has_fence) __threadfence_block();
        atomicExch(&ready, 1);
    }
    if (threadIdx.x == 32) {
        while (atomicAdd(&ready, 0) == 0) __nanosleep(20);
        if (reader_has_fence) __threadfence_block();
        *result = value;
    }
}
