// A kernel that tests `RowBegins` of scan.cu, also near the limits of 32-bit integers.

#include "scan.cu"

__global__ void row_begins(const long long* starts, const int* items, int count, long long length,
                           int tile_size, bool* begins) {
    const int i = threadIdx.x;
    if (i < count) begins[i] = RowBegins(starts[i], length, tile_size)(items[i]);
}
