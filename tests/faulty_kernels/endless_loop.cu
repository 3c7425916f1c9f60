// Wait for a flag.
// Fault: no thread sets it.

__global__ void wait_for(const volatile int* flag) {
    while (*flag == 0) {
    }
}

__global__ void wait_by_atomics(int* flag) {
    while (atomicAdd(flag, 0) == 0) {
    }
}
