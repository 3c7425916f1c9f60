// Thread 5 writes one value.
// Faults: all ways in which a thread can end its process, chosen by a number.

enum Crash { none, division, recursion, assertion, trap, wild_pointer };

__device__ __noinline__ int recurse(volatile int* depth) {
    volatile int here[4096];
    here[*depth % 4096] = *depth;
    *depth = *depth + 1;
    return recurse(depth) + here[*depth % 4096];
}

__global__ void crash(volatile int* x, int which) {
    __shared__ int* volatile uninitialised;  // without volatile the compiler makes it a trap
    volatile int zero = 0;
    if (threadIdx.x != 5) return;
    if (which == division) x[0] = x[1] / zero;
    if (which == recursion) x[0] = recurse(x);
    assert(which != assertion);
    if (which == trap) __trap();
    if (which == wild_pointer) *uninitialised = 1;
    x[0] = 1;
}
