// Block 0 sends a value to block 1, in several ways.
// Faults: see each kernel.

using Word = unsigned long long;

/// No fault: value and status in one word, written by one store.
__global__ void packed(volatile Word* word, int* result) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) *word = 42ull << 32 | 1;
    if (blockIdx.x == 1) {
        Word seen = 0;
        while ((seen & 1) == 0) seen = *word;
        *result = static_cast<int>(seen >> 32);
    }
}

/// Fault: value and status are written by two stores, and read as one word.
__global__ void torn(volatile Word* word, int* result) {
    if (threadIdx.x != 0) return;
    volatile int* halves = reinterpret_cast<volatile int*>(word);
    if (blockIdx.x == 0) {
        halves[0] = 1;
        halves[1] = 42;
    } else {
        Word seen = 0;
        while ((seen & 1) == 0) seen = *word;
        *result = static_cast<int>(seen >> 32);
    }
}

/// Faults: no fence between the writes of value and flag, or none between the reads. The flag is
/// accessed by volatile operations or by atomics.
template <bool writer_has_fence, bool reader_has_fence, bool by_atomics>
__global__ void flagged(int* value, int* flag, int* result) {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 1) value[0] = 42;
        __syncthreads();
        if (threadIdx.x != 0) return;
        if (writer_has_fence) __threadfence();
        if (by_atomics)
            atomicExch(flag, 1);
        else
            *static_cast<volatile int*>(flag) = 1;
    } else {
        if (threadIdx.x == 0) {
            if (by_atomics)
                while (atomicAdd(flag, 0) == 0) __nanosleep(20);
            else
                while (*static_cast<volatile int*>(flag) == 0) __nanosleep(20);
            if (reader_has_fence) __threadfence();
        }
        __syncthreads();
        if (threadIdx.x == 1) *result = value[0];
    }
}

/// Fault: the writer's fence orders accesses for threads of its own block only.
__global__ void fenced_for_the_block(int* value, volatile int* flag, int* result) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        *value = 42;
        __threadfence_block();
        *flag = 1;
    } else {
        while (*flag == 0) {
        }
        __threadfence();
        *result = *value;
    }
}

/// Fault: the flag is written by a plain store.
__global__ void plain_flag(int* value, int* flag, int* result) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        *value = 42;
        __threadfence();
        *flag = 1;
    } else {
        while (*static_cast<volatile int*>(flag) == 0) {
        }
        __threadfence();
        *result = *value;
    }
}

/// Fault: the thread that reads the flag calls no fence before it reads the value.
__global__ void without_acquire(int* value, int* flag, int* result) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        *value = 42;
        __threadfence();
        atomicExch(flag, 1);
    } else {
        while (atomicAdd(flag, 0) == 0) __nanosleep(20);
        *result = *value;
    }
}
