// A kernel that tests `first_row_of_tile` and `row_begins` of scan.cu, also near the limits of
// 32-bit integers.

#include "scan.cu"

__global__ void row_begins_at(const long long* starts, const int* items, int count,
                              long long length, int tile_size, bool* begins) {
    constexpr int items_of_thread = 15;
    constexpr long long size = 1ll << 62;
    const int i = threadIdx.x;
    if (i >= count) return;
    const int first = first_row_of_tile(starts[i], length, size, tile_size);
    const int step = length < tile_size ? static_cast<int>(length) : tile_size;
    const int own = items[i] / items_of_thread * items_of_thread;
    begins[i] =
        first < tile_size && row_begins<items_of_thread>(own, first, step) >> (items[i] - own) & 1;
}
