// Cooperative groups: grids, blocks and tiles of a warp. Not supported: coalesced threads.

#pragma once

#include "atomics.h"
#include "synchronize.h"

namespace cooperative_groups {

/// A group of threads with a `sync`: a block, or an aligned tile of a warp.
class thread_group {
  public:
    void sync(EMULATOR_SITE) const {
        if (is_block_)
            __syncthreads(file, line);
        else
            __syncwarp(mask(), file, line);
    }

    unsigned size() const { return size_; }
    unsigned num_threads() const { return size_; }
    unsigned thread_rank() const { return emulator::linear_thread() % size_; }

  protected:
    thread_group(unsigned size, bool is_block) : size_(size), is_block_(is_block) {}

    unsigned mask() const {
        const unsigned lanes = size_ == warpSize ? 0xffffffffu : (1u << size_) - 1;
        return lanes << emulator::first_lane(static_cast<int>(size_));
    }

  private:
    friend thread_group tiled_partition(const thread_group& parent, unsigned size);

    unsigned size_;
    bool is_block_;
};

class thread_block : public thread_group {
  public:
    thread_block() : thread_group(blockDim.x * blockDim.y * blockDim.z, true) {}

    static dim3 group_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
    static dim3 thread_index() { return {threadIdx.x, threadIdx.y, threadIdx.z}; }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
};

inline thread_block this_thread_block() {
    return {};
}

/// All threads of a cooperative launch, whose blocks run at the same time.
class grid_group {
  public:
    void sync(EMULATOR_SITE) const {
        __syncthreads(file, line);
        if (emulator::linear_thread() == 0) wait_for_blocks();
        __syncthreads(file, line);
    }

    static unsigned num_blocks() { return gridDim.x * gridDim.y * gridDim.z; }
    static unsigned block_rank() {
        return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    }
    static unsigned long long num_threads() {
        return 1ull * num_blocks() * blockDim.x * blockDim.y * blockDim.z;
    }
    static unsigned long long size() { return num_threads(); }
    static unsigned long long thread_rank() {
        const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
        return 1ull * block_rank() * threads + emulator::linear_thread();
    }
    static constexpr bool is_valid() { return true; }

  private:
    /// Blocks arrive; the last arrival of a barrier is a multiple of their number.
    static void wait_for_blocks() {
        __threadfence();
        const unsigned before = atomicAdd(&emulator::grid_arrivals, 1u);
        const unsigned last = (before / num_blocks() + 1) * num_blocks();
        while (*static_cast<volatile unsigned*>(&emulator::grid_arrivals) < last) __nanosleep(20);
        __threadfence();
    }
};

inline grid_group this_grid() {
    return {};
}

/// `Size` consecutive lanes of a warp; a power of two.
template <unsigned Size, class Parent = void>
class thread_block_tile : public thread_group {
    static_assert(Size <= warpSize && (Size & (Size - 1)) == 0,
                  "Size must be a power of two, at most 32");

  public:
    thread_block_tile() : thread_group(Size, false) {}
    template <class Other>
    thread_block_tile(const thread_block_tile<Size, Other>&) : thread_block_tile() {}

    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    unsigned meta_group_rank() const { return emulator::linear_thread() / Size; }
    unsigned meta_group_size() const {
        return (blockDim.x * blockDim.y * blockDim.z + Size - 1) / Size;
    }

    template <class T>
    T shfl(T value, int rank, EMULATOR_SITE) const {
        return __shfl_sync(mask(), value, rank, Size, file, line);
    }
    template <class T>
    T shfl_up(T value, unsigned delta, EMULATOR_SITE) const {
        return __shfl_up_sync(mask(), value, delta, Size, file, line);
    }
    template <class T>
    T shfl_down(T value, unsigned delta, EMULATOR_SITE) const {
        return __shfl_down_sync(mask(), value, delta, Size, file, line);
    }
    template <class T>
    T shfl_xor(T value, unsigned lanes, EMULATOR_SITE) const {
        return __shfl_xor_sync(mask(), value, static_cast<int>(lanes), Size, file, line);
    }

    int any(int predicate, EMULATOR_SITE) const {
        return __any_sync(mask(), predicate, file, line);
    }
    int all(int predicate, EMULATOR_SITE) const {
        return __all_sync(mask(), predicate, file, line);
    }
    /// Bit i is the predicate of the tile's thread i.
    unsigned ballot(int predicate, EMULATOR_SITE) const {
        return __ballot_sync(mask(), predicate, file, line) >> emulator::first_lane(Size);
    }
};

template <unsigned Size, class Parent>
thread_block_tile<Size, Parent> tiled_partition(const Parent&) {
    return {};
}

/// `size` consecutive lanes of a warp; a power of two.
inline thread_group tiled_partition(const thread_group&, unsigned size) {
    return {size, false};
}

template <class Group>
void sync(const Group& group, EMULATOR_SITE) {
    group.sync(file, line);
}

}  // namespace cooperative_groups
