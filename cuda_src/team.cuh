// Teams: the threads that solve one problem together.
//
// A kernel that is a template over the team is written once for problems of every size: a team is
// one thread, one warp, one block, or all blocks of a cooperative launch. A team consists of
// groups, which reduce without a barrier: the warps of a block, or the team itself if it is not
// larger than a warp.
//
// All members call the functions of a team in uniform control flow. What a member wrote before
// `sync` or `reduce` is visible to all members after it.
//
// Memory. An array of a team is a `Vector`. Arrays of thread teams are interleaved: neighbouring
// threads access neighbouring addresses.

#pragma once

#include "block.cuh"
#include "grid.cuh"

constexpr int alignment_of_arrays = 16;

/// An array of a team.
template <class T, class Team>
struct Vector {
    T* first;

    template <class Index>
    __device__ __forceinline__ T& operator[](Index i) const {
        return first[i * Team::stride + Team::offset()];
    }
    __device__ __forceinline__ Vector from(long long i) const { return {first + i * Team::stride}; }
};

__device__ __forceinline__ long long aligned_bytes(long long bytes) {
    return (bytes + alignment_of_arrays - 1) / alignment_of_arrays * alignment_of_arrays;
}

/// Memory of a team, from which arrays are allocated one after the other.
template <class Team>
struct TeamMemory {
    unsigned char* next;

    template <class T>
    __device__ Vector<T, Team> take(long long count) {
        T* first = reinterpret_cast<T*>(next);
        next += aligned_bytes(count * Team::stride * static_cast<long long>(sizeof(T)));
        return {first};
    }
};

/// One thread.
struct ThreadTeam {
    static constexpr int teams_of_block = 128, threads = 128, blocks = 4, stride = teams_of_block;
    static constexpr int memories_of_block = 1;
    static constexpr bool is_small = true;

    struct Storage {};
    __device__ ThreadTeam(Storage&, unsigned char*) {}

    static __device__ __forceinline__ int offset() { return threadIdx.x; }
    static __device__ __forceinline__ int memory_of_block() { return 0; }
    static __device__ __forceinline__ bool places() { return threadIdx.x == 0; }
    static __device__ __forceinline__ long long index() { return thread_of_grid(); }
    static __device__ __forceinline__ long long teams() {
        return static_cast<long long>(gridDim.x) * blockDim.x;
    }

    static __device__ __forceinline__ int rank() { return 0; }
    static __device__ __forceinline__ int size() { return 1; }
    static __device__ __forceinline__ int group() { return 0; }
    static __device__ __forceinline__ int groups() { return 1; }
    static __device__ __forceinline__ int lane() { return 0; }
    static __device__ __forceinline__ int lanes() { return 1; }
    static __device__ __forceinline__ void sync() {}

    template <class T, class Op>
    __device__ __forceinline__ T reduce(T value, Op) {
        return value;
    }
    template <class T, class Op>
    static __device__ __forceinline__ T reduce_group(T value, Op) {
        return value;
    }
};

/// One warp.
struct WarpTeam {
    static constexpr int teams_of_block = 4, threads = 4 * warp_threads, blocks = 3, stride = 1;
    static constexpr int memories_of_block = 4;
    static constexpr bool is_small = true;

    struct Storage {};
    __device__ WarpTeam(Storage&, unsigned char*) {}

    static __device__ __forceinline__ int offset() { return 0; }
    static __device__ __forceinline__ int memory_of_block() { return warp_index(); }
    static __device__ __forceinline__ bool places() { return lane_index() == 0; }
    static __device__ __forceinline__ long long index() { return warp_of_grid(); }
    static __device__ __forceinline__ long long teams() {
        return static_cast<long long>(gridDim.x) * warp_count();
    }

    static __device__ __forceinline__ int rank() { return lane_index(); }
    static __device__ __forceinline__ int size() { return warp_threads; }
    static __device__ __forceinline__ int group() { return 0; }
    static __device__ __forceinline__ int groups() { return 1; }
    static __device__ __forceinline__ int lane() { return lane_index(); }
    static __device__ __forceinline__ int lanes() { return warp_threads; }
    static __device__ __forceinline__ void sync() { __syncwarp(); }

    template <class T, class Op>
    __device__ __forceinline__ T reduce(T value, Op op) {
        __syncwarp();
        return warp_reduce(value, op);
    }
    template <class T, class Op>
    static __device__ __forceinline__ T reduce_group(T value, Op op) {
        return warp_reduce(value, op);
    }
};

/// One block.
class BlockTeam {
  public:
    static constexpr int teams_of_block = 1, threads = 384, blocks = 1, stride = 1;
    static constexpr int memories_of_block = 1;
    static constexpr bool is_small = false;

    /// The partial results of the warps, double-buffered.
    struct Storage {
        alignas(16) unsigned char partial[2][max_warps][16];
    };

    __device__ explicit BlockTeam(Storage& storage, unsigned char* = nullptr) : storage_(storage) {}

    static __device__ __forceinline__ int offset() { return 0; }
    static __device__ __forceinline__ int memory_of_block() { return 0; }
    static __device__ __forceinline__ bool places() { return threadIdx.x == 0; }
    static __device__ __forceinline__ long long index() { return blockIdx.x; }
    static __device__ __forceinline__ long long teams() { return gridDim.x; }

    static __device__ __forceinline__ int rank() { return threadIdx.x; }
    static __device__ __forceinline__ int size() { return blockDim.x; }
    static __device__ __forceinline__ int group() { return warp_index(); }
    static __device__ __forceinline__ int groups() { return warp_count(); }
    static __device__ __forceinline__ int lane() { return lane_index(); }
    static __device__ __forceinline__ int lanes() { return warp_threads; }
    static __device__ __forceinline__ void sync() { __syncthreads(); }

    /// The reduction of one value per thread, with the same bits in every thread.
    template <class T, class Op>
    __device__ T reduce(T value, Op op) {
        static_assert(sizeof(T) <= sizeof(storage_.partial[0][0]), "the value is too large");
        turn_ ^= 1;
        return block_reduce(value, reinterpret_cast<T*>(storage_.partial[turn_]), op);
    }
    template <class T, class Op>
    static __device__ __forceinline__ T reduce_group(T value, Op op) {
        return warp_reduce(value, op);
    }

  private:
    Storage& storage_;
    int turn_ = 0;
};

/// All blocks of a cooperative launch.
class GridTeam {
  public:
    static constexpr int teams_of_block = 1, threads = 256, blocks = 1, stride = 1;
    static constexpr int memories_of_block = 1;
    static constexpr bool is_small = false;

    using Storage = BlockTeam::Storage;

    /// `global` has 16 bytes for the barrier, which are zero before the launch, and then
    /// 2 x gridDim.x times 16 bytes.
    __device__ GridTeam(Storage& storage, unsigned char* global)
        : block_(storage),
          barrier_(reinterpret_cast<unsigned long long*>(global)),
          partial_(global + alignment_of_arrays) {}

    static __device__ __forceinline__ int offset() { return 0; }
    static __device__ __forceinline__ int memory_of_block() { return 0; }
    static __device__ __forceinline__ bool places() { return threadIdx.x == 0; }
    static __device__ __forceinline__ long long index() { return 0; }
    static __device__ __forceinline__ long long teams() { return 1; }

    static __device__ __forceinline__ int rank() { return static_cast<int>(thread_of_grid()); }
    static __device__ __forceinline__ int size() { return gridDim.x * blockDim.x; }
    static __device__ __forceinline__ int group() { return static_cast<int>(warp_of_grid()); }
    static __device__ __forceinline__ int groups() { return gridDim.x * warp_count(); }
    static __device__ __forceinline__ int lane() { return lane_index(); }
    static __device__ __forceinline__ int lanes() { return warp_threads; }
    __device__ __forceinline__ void sync() { barrier_.wait(); }

    /// The reduction of one value per thread, with the same bits in every thread. The partial
    /// results of the blocks are double-buffered; values of successive reductions may differ in
    /// size.
    template <class T, class Op>
    __device__ T reduce(T value, Op op) {
        unsigned char* half = partial_ + turn_ * gridDim.x * alignment_of_arrays;
        T* partial = reinterpret_cast<T*>(half);
        turn_ ^= 1;
        value = block_.reduce(value, op);
        if (threadIdx.x == 0) partial[blockIdx.x] = value;
        barrier_.wait();
        value = Op::identity();
        for (int block = threadIdx.x; block < gridDim.x; block += blockDim.x)
            value = op(value, partial[block]);
        return block_.reduce(value, op);
    }
    template <class T, class Op>
    static __device__ __forceinline__ T reduce_group(T value, Op op) {
        return warp_reduce(value, op);
    }

  private:
    BlockTeam block_;
    GridBarrier barrier_;
    unsigned char* partial_;
    int turn_ = 0;
};

/// body(i) for every i < count; a member has every i that is its rank modulo the team's size. Not
/// unrolled: kernels of many such loops would have much code.
template <class Team, class Body>
__device__ __forceinline__ void for_each(int count, Body body) {
#pragma unroll 1
    for (int i = Team::rank(); i < count; i += Team::size()) body(i);
}
