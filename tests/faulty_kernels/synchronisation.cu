// Faults: lanes that wait for each other in the wrong way; see `Fault`.

enum Fault { none, two_barriers, wrong_mask, outside_mask, two_masks, two_operations, deadlock };

/// Threads from n on return. The others wait for the block, and add values of their warp.
template <Fault fault>
__global__ void wait_and_add(int n, int* x) {
    if (static_cast<int>(threadIdx.x) >= n) return;
    const bool is_odd = threadIdx.x % 2 == 1, is_upper = threadIdx.x % 32 >= 16;
    if (fault == two_barriers && is_upper) {
        __syncthreads();
    } else if (fault != deadlock || is_odd) {
        __syncthreads();
    }
    unsigned mask = fault == wrong_mask || fault == outside_mask ? 0x0000ffffu : 0xffffffffu;
    if (fault == two_masks && is_upper) mask = 0xffff0001u;
    const int distance = fault == outside_mask ? 16 : 1;
    const int other = __shfl_xor_sync(mask, x[threadIdx.x], distance);
    const bool has_any = fault == two_operations && is_upper ? __any_sync(mask, other)
                                                             : __ballot_sync(mask, other) != 0;
    if (fault == deadlock && !is_odd) __syncthreads();
    x[threadIdx.x] = other + has_any;
}

/// One warp shifts 32 values in shared memory by one; the last value stays. Fault: assumes that the
/// lanes of a warp run in lockstep, as they did before Volta.
template <bool faulty>
__global__ void shift(int* x) {
    __shared__ int values[32];
    values[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    const int next = values[min(threadIdx.x + 1, 31)];
    if (!faulty) __syncwarp();
    values[threadIdx.x] = next;
    __syncwarp();
    x[threadIdx.x] = values[threadIdx.x];
}

/// Waits for a flag. Fault: no thread sets it.
template <bool by_atomics>
__global__ void wait_for(int* flag) {
    while (by_atomics ? atomicAdd(flag, 0) == 0 : *static_cast<volatile int*>(flag) == 0) {
    }
}
