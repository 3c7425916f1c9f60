// No fault: groups of threads; each row of `out` has a value for each thread.

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include <cuda/atomic>
#include <cuda/barrier>

namespace cg = cooperative_groups;

struct Located {
    double value;
    int place;
};

/// One warp; the threads with an odd x form a group.
__global__ void odd_threads(const int* x, int* out) {
    const int i = threadIdx.x;
    if (x[i] % 2 != 0) {
        const cg::coalesced_group group = cg::coalesced_threads();
        out[i] = group.size();
        out[32 + i] = group.thread_rank();
        out[64 + i] = cg::reduce(group, x[i], cg::plus<int>());
        out[96 + i] = group.shfl_down(x[i], 1);
        out[128 + i] = cg::exclusive_scan(group, x[i]);
        out[160 + i] = group.ballot(x[i] > 50);
    }
    const cg::thread_block block = cg::this_thread_block();
    const cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    out[192 + i] = cg::inclusive_scan(tile, x[i], cg::greater<int>());
    out[224 + i] = cg::reduce(cg::labeled_partition(tile, x[i] % 3), x[i], cg::plus<int>());
    const Located located = {0.5 * x[i], i};
    const Located other = tile.shfl_xor(located, 5);
    out[256 + i] = other.value * 2 + 1000 * other.place;
}

/// 128 threads in tiles of 64.
__global__ void large_tiles(const int* x, int* out) {
    __shared__ cg::block_tile_memory<128> memory;
    const auto block = cg::this_thread_block(memory);
    const auto tile = cg::tiled_partition<64>(block);
    const int i = threadIdx.x;
    out[i] = cg::reduce(tile, x[i], cg::plus<int>());
    out[128 + i] = tile.shfl(x[i], 3);
    out[256 + i] = tile.meta_group_rank();
}

/// Threads of two warps exchange values between the phases of a barrier.
__global__ void exchange_by_barrier(const int* x, int* out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int part[64];
    const auto block = cg::this_thread_block();
    if (block.thread_rank() == 0) init(&barrier, block.size());
    block.sync();
    cuda::memcpy_async(block, part, x, sizeof(part), barrier);
    const int i = threadIdx.x;
    barrier.wait(barrier.arrive());
    const int other = part[i ^ 32];
    barrier.arrive_and_wait();
    part[i] = other;
    barrier.arrive_and_wait();
    out[i] = part[i ^ 1];
}

/// A block sends a value to another block; all threads count.
__global__ void send_by_atomics(int* value, int* flag, int* count, int* out) {
    const cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag), counted(*count);
    counted.fetch_add(1, cuda::memory_order_relaxed);
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        *value = 42;
        ready.store(1, cuda::memory_order_release);
    } else {
        while (ready.load(cuda::std::memory_order_acquire) == 0) {
        }
        *out = *value;
    }
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

/// Through shared memory, with a barrier of the cluster, which is the block.
__global__ void reversed_by_cluster(const int* x, int* out) {
    __shared__ int tile[64];
    const auto cluster = cg::this_cluster();
    tile[threadIdx.x] = x[threadIdx.x];
    cluster.sync();
    out[threadIdx.x] = tile[cluster.num_threads() - 1 - cluster.thread_rank()];
}
