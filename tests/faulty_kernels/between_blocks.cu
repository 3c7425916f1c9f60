// Blocks that access the same memory. Faults: accesses that nothing orders, because a fence, an
// atomic or a wait is missing.

#include <string.h>

enum Fence { no_fence, block_fence, device_fence };
enum Flag { plain_store, volatile_accesses, atomics };

template <Fence fence>
__device__ void call_fence() {
    if (fence == block_fence) __threadfence_block();
    if (fence == device_fence) __threadfence();
}

__device__ void wait_for(volatile int* count, int awaited) {
    while (*count < awaited) __nanosleep(20);
}

/// Block 0 sends a value to block 1. Thread 0 of each block accesses the flag, and thread `other`
/// the value.
template <Fence of_writer, Fence of_reader, Flag kind>
__global__ void send(int* value, int* flag, int other, int* result) {
    if (blockIdx.x == 0) {
        if (threadIdx.x == other) *value = 42;
        if (other != 0) __syncthreads();
        if (threadIdx.x != 0) return;
        call_fence<of_writer>();
        if (kind == plain_store) *flag = 1;
        if (kind == volatile_accesses) *static_cast<volatile int*>(flag) = 1;
        if (kind == atomics) atomicExch(flag, 1);
    } else {
        if (threadIdx.x == 0) {
            if (kind == atomics)
                while (atomicAdd(flag, 0) == 0) __nanosleep(20);
            else
                wait_for(flag, 1);
            call_fence<of_reader>();
        }
        if (other != 0) __syncthreads();
        if (threadIdx.x == other) *result = *value;
    }
}

using Word = unsigned long long;

/// Value and status in one word. Fault: they are written by two stores, and read as one word.
template <bool torn>
__global__ void pack(volatile Word* word, int* result) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0 && torn) {
        volatile int* halves = reinterpret_cast<volatile int*>(word);
        halves[0] = 1;
        halves[1] = 42;
    } else if (blockIdx.x == 0) {
        *word = 42ull << 32 | 1;
    } else {
        Word seen = 0;
        while ((seen & 1) == 0) seen = *word;
        *result = static_cast<int>(seen >> 32);
    }
}

/// Each block waits for the flag of the block before it; the last block reads the value of the
/// first block. Fault: the blocks between set their flags without a fence.
template <bool faulty>
__global__ void chain(int* value, int* flag, int* result) {
    if (threadIdx.x != 0) return;
    const int block = static_cast<int>(blockIdx.x), last = static_cast<int>(gridDim.x) - 1;
    if (block == 0)
        *value = 42;
    else
        wait_for(flag + block - 1, 1);
    if (!faulty || block == 0 || block == last) __threadfence();
    static_cast<volatile int*>(flag)[block] = 1;
    if (block == last) *result = *value;
}

/// The block that finishes last sums the results of all blocks.
template <bool faulty>
__global__ void sum_by_last(const int* x, int* partial, unsigned* done, int* total) {
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = 2 * x[blockIdx.x];
        if (!faulty) __threadfence();
        is_last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;
        if (!faulty) __threadfence();
    }
    __syncthreads();
    if (!is_last || threadIdx.x != 1) return;
    int result = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) result += partial[i];
    *total = result;
}

__device__ void wait_for_all(int* arrived, int& awaited) {
    awaited += static_cast<int>(gridDim.x);
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        wait_for(arrived, awaited);
        __threadfence();
    }
    __syncthreads();
}

/// Steps of a grid: each thread writes an element, and reads an element of the next block. Faults:
/// no wait for all blocks between the write and the read, or between the read and the next write.
/// A block that waits for an earlier step may see a later count of arrivals.
template <bool waits_before_read, bool waits_after_read>
__global__ void pass_on(int* arrived, int steps, int* x) {
    const unsigned own = blockIdx.x * blockDim.x + threadIdx.x, count = gridDim.x * blockDim.x;
    int awaited = 0;
    wait_for_all(arrived, awaited);
    for (int step = 0; step < steps; ++step) {
        x[own] += 1;
        if (waits_before_read) wait_for_all(arrived, awaited);
        const int next = x[(own + blockDim.x + 1) % count];
        if (waits_after_read) wait_for_all(arrived, awaited);
        x[own] += next;
        wait_for_all(arrived, awaited);
    }
}

// ---- one element for many threads -------------------------------------------------------

__device__ int counts[4];
__constant__ int steps[2] = {1, 2};

enum Access { write_block, write_the_same, read_and_write, increment, add_neighbour, count_up };

template <Access access>
__global__ void access_element(int* x) {
    if (access == write_block && threadIdx.x == 0) *x = static_cast<int>(blockIdx.x);
    if (access == write_the_same) *x = 5;
    if (access == read_and_write && threadIdx.x == 0) {
        if (blockIdx.x == 0)
            *x = 1;
        else
            x[blockIdx.x] = *x;
    }
    if (access == increment) *x += 1;
    if (access == add_neighbour) x[threadIdx.x] += x[threadIdx.x + 1];
    if (access == count_up) {  // a variable
        counts[3] += steps[1];
        x[threadIdx.x] = counts[3];
    }
}

/// No fault: a swap fails if the value that was read before is not the present one.
__global__ void add_by_swaps(int* x) {
    int present = *x, expected;
    do {
        expected = present;
        present = atomicCAS(x, expected, expected + 1);
    } while (present != expected);
}

/// No fault.
__global__ void increment_by_atomics(int* out) {
    out[threadIdx.x] = atomicAdd(&counts[1], steps[0]);
}

/// No fault: neighbouring elements, down to single bytes.
template <class T>
__global__ void write_own(T* x) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = static_cast<T>(i % 100);
}

struct Counters {
    int* values;
};

__global__ void increment_through_structure(Counters counters) {
    counters.values[1] += 1;
}

struct Record {
    float values[9];
};

enum Function { copying, moving, clearing };

/// Copies by C's functions. Fault: all threads write the same record.
template <Function function, bool faulty>
__global__ void copy_record(const Record* y, Record* x) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    Record* const to = x + (faulty ? 0 : i);
    if (function == copying) std::memcpy(to, y + i, sizeof(Record));
    if (function == moving) memmove(to, y + i, sizeof(Record));
    if (function == clearing) memset(to, 0, sizeof(Record));
}
