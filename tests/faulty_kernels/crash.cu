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

__device__ __noinline__ int one_more(int x) {
    return x + 1;
}

struct Large {
    int values[256];
};

/// Faults that must not damage the emulator itself: texels by an address without a handle, formats
/// that C's printf() reads memory for, writes around an allocation of the heap, and a function that
/// is called with larger arguments than its own.
__global__ void damage(long long* x, int which) {
    if (which == 0) x[0] = tex2D<float>(reinterpret_cast<cudaTextureObject_t>(x), 0, 0);
    if (which == 1) printf("%nd %2$s %d %s %hhx %hd\n", 7, "text", -2, 65535);
    if (which == 2) {
        long long* const part = static_cast<long long*>(malloc(16));
        for (int k = -8; k < 8; ++k)
            if (k < 0 || k >= 2) part[k] = -4096 - 17 * k;
        long long* const other = static_cast<long long*>(malloc(64));
        x[0] = other != nullptr && malloc(~0ull) == nullptr;
        free(part);
        free(other);
    }
    if (which == 3) {
        int (*const own)(int) = x[1] ? nullptr : one_more;
        const auto wrong = reinterpret_cast<Large (*)(Large)>(own);
        Large large;
        for (int k = 0; k < 256; ++k) large.values[k] = k;
        x[0] = wrong(large).values[0];
    }
}
