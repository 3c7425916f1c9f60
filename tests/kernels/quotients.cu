// The division of indices in gemv.cu, for numbers beyond 32 bits.

#include "gemv.cu"

__global__ void quotients(const long long* a, const long long* b, long long* results) {
    results[threadIdx.x] = quotient(a[threadIdx.x], b[threadIdx.x]);
}
