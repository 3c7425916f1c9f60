// No fault: integer functions, conversions and functions of a warp, for one warp; and a barrier of
// the grid.

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__global__ void integers(const int* a, const int* b, long long* out) {
    const int i = threadIdx.x, x = a[i], y = b[i];
    const unsigned u = x, v = y;
    const long long found[] = {__mul24(x, y),
                               __umul24(u, v),
                               __mulhi(x, y),
                               __umulhi(u, v),
                               __sad(x, y, 3),
                               __usad(u, v, 3),
                               umin(u, v),
                               umax(u, v),
                               __byte_perm(u, v, 0x6420),
                               __funnelshift_l(u, v, 5),
                               __funnelshift_r(u, v, 37),
                               __double2hiint(__hiloint2double(x, y)),
                               __double2loint(__hiloint2double(x, y)),
                               INT_MIN};
    for (int k = 0; k < 14; ++k) out[32 * k + i] = found[k];
}

__global__ void conversions(const double* x, long long* out) {
    const int i = threadIdx.x;
    const float f = static_cast<float>(x[i]);
    const long long found[] = {__double2int_rn(x[i]), __double2int_rz(x[i]), __double2int_rd(x[i]),
                               __double2int_ru(x[i]), __float2int_rn(f),     __float2uint_rz(f)};
    for (int k = 0; k < 6; ++k) out[32 * k + i] = found[k];
}

/// By the lanes of `mask`; the other lanes have 0.
__global__ void lanes(const int* x, unsigned mask, unsigned* out) {
    const int lane = threadIdx.x;
    if (!(mask >> lane & 1)) return;
    const unsigned u = x[lane];
    int equal;
    const unsigned all = __match_all_sync(mask, x[lane], &equal);
    const unsigned found[] = {static_cast<unsigned>(__reduce_add_sync(mask, x[lane])),
                              static_cast<unsigned>(__reduce_min_sync(mask, x[lane])),
                              __reduce_max_sync(mask, u),
                              __reduce_and_sync(mask, u),
                              __reduce_or_sync(mask, u),
                              __reduce_xor_sync(mask, u),
                              __match_any_sync(mask, x[lane]),
                              all,
                              static_cast<unsigned>(equal)};
    for (int k = 0; k < 9; ++k) out[32 * k + lane] = found[k];
}

__global__ void tiles(const int* x, int* out) {
    const cg::thread_block block = cg::this_thread_block();
    const cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    const int i = threadIdx.x;
    out[i] = cg::reduce(tile, x[i], cg::plus<int>());
    out[32 + i] = cg::reduce(tile, x[i], cg::less<int>());
    out[64 + i] = cg::reduce(tile, x[i], cg::greater<int>());
}

/// x[i] becomes the sum of the first elements of all blocks, `rounds` times. `total` is zero.
__global__ void sum_of_blocks(int* x, int* total, int rounds) {
    const cg::grid_group grid = cg::this_grid();
    for (int round = 0; round < rounds; ++round) {
        if (threadIdx.x == 0) atomicAdd(&total[round], x[grid.thread_rank()]);
        grid.sync();
        x[grid.thread_rank()] = total[round];
        cg::sync(grid);
    }
}
