// Cooperative groups: grids, blocks, tiles of a block or a warp, and coalesced threads.

#pragma once

#include "atomics.h"
#include "synchronize.h"
#include "warp_functions.h"

namespace cooperative_groups {

/// A group of threads with a `sync`: a block, or lanes of a warp.
class thread_group {
  public:
    void sync(EMULATOR_SITE) const {
        if (mask_ == 0)
            __syncthreads(file, line);
        else
            __syncwarp(mask_, file, line);
    }

    unsigned size() const { return size_; }
    unsigned num_threads() const { return size_; }
    unsigned thread_rank() const {
        return mask_ == 0 ? emulator::linear_thread() : rank_of(emulator::lane());
    }

    /// The lanes of the group; 0 for a block.
    unsigned emulated_mask() const { return mask_; }

  protected:
    thread_group(unsigned size, unsigned mask) : size_(size), mask_(mask) {}

    unsigned rank_of(unsigned lane) const { return __popc(mask_ & ((1u << lane) - 1)); }

  private:
    friend thread_group tiled_partition(const thread_group& parent, unsigned size);

    unsigned size_, mask_;
};

/// The lanes of this thread's tile of a warp.
inline unsigned lanes_of_tile(unsigned size) {
    const unsigned lanes = size == warpSize ? 0xffffffffu : (1u << size) - 1;
    return lanes << emulator::first_lane(static_cast<int>(size));
}

/// Memory with which tiles of more than a warp synchronise, and exchange values.
template <unsigned Threads = 1024>
struct block_tile_memory {
    unsigned arrived[Threads / warpSize];
    unsigned long long values[Threads];
};

class thread_block : public thread_group {
  public:
    thread_block() : thread_group(blockDim.x * blockDim.y * blockDim.z, 0) {}
    template <unsigned Threads>
    explicit thread_block(block_tile_memory<Threads>& memory) : thread_block() {
        arrived = memory.arrived;
        values = memory.values;
        if (thread_rank() < Threads / warpSize) arrived[thread_rank()] = 0;
        sync();
    }

    static dim3 group_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
    static dim3 thread_index() { return {threadIdx.x, threadIdx.y, threadIdx.z}; }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }

    // Of the block_tile_memory.
    unsigned* arrived = nullptr;
    unsigned long long* values = nullptr;
};

inline thread_block this_thread_block() {
    return {};
}
template <unsigned Threads>
thread_block this_thread_block(block_tile_memory<Threads>& memory) {
    return thread_block(memory);
}

/// All threads of a cooperative launch, whose blocks run at the same time.
class grid_group {
  public:
    void sync(EMULATOR_SITE) const {
        __syncthreads(file, line);
        if (emulator::linear_thread() == 0) wait_for_blocks();
        __syncthreads(file, line);
    }

    static dim3 group_dim() { return gridDim; }
    static dim3 dim_blocks() { return gridDim; }
    static dim3 block_index() { return thread_block::group_index(); }
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
template <unsigned Size>
class warp_tile : public thread_group {
  public:
    warp_tile() : thread_group(Size, lanes_of_tile(Size)) {}
    explicit warp_tile(const thread_block&) : warp_tile() {}

    template <class T>
    T shfl(T value, int rank, EMULATOR_SITE) const {
        return __shfl_sync(emulated_mask(), value, rank, Size, file, line);
    }
    template <class T>
    T shfl_up(T value, unsigned delta, EMULATOR_SITE) const {
        return __shfl_up_sync(emulated_mask(), value, delta, Size, file, line);
    }
    template <class T>
    T shfl_down(T value, unsigned delta, EMULATOR_SITE) const {
        return __shfl_down_sync(emulated_mask(), value, delta, Size, file, line);
    }
    template <class T>
    T shfl_xor(T value, unsigned lanes, EMULATOR_SITE) const {
        return __shfl_xor_sync(emulated_mask(), value, static_cast<int>(lanes), Size, file, line);
    }

    int any(int predicate, EMULATOR_SITE) const {
        return __any_sync(emulated_mask(), predicate, file, line);
    }
    int all(int predicate, EMULATOR_SITE) const {
        return __all_sync(emulated_mask(), predicate, file, line);
    }
    /// Bit i is the predicate of the tile's thread i.
    unsigned ballot(int predicate, EMULATOR_SITE) const {
        return __ballot_sync(emulated_mask(), predicate, file, line) >> emulator::first_lane(Size);
    }
    template <class T>
    unsigned match_any(T value, EMULATOR_SITE) const {
        return __match_any_sync(emulated_mask(), value, file, line) >> emulator::first_lane(Size);
    }
};

/// `Size` consecutive threads of a block, in several warps; a power of two. All its operations
/// synchronise by the memory that the block was made with.
template <unsigned Size>
class block_tile : public thread_group {
  public:
    explicit block_tile(const thread_block& block)
        : thread_group(Size, 0),
          arrived_(block.arrived + emulator::linear_thread() / Size),
          values_(block.values + emulator::linear_thread() / Size * Size) {}

    void sync(const char* = nullptr, int = 0) const {
        __threadfence_block();
        const unsigned before = atomicAdd(arrived_, 1u), last = (before / Size + 1) * Size;
        while (*static_cast<volatile unsigned*>(arrived_) < last) __nanosleep(20);
        __threadfence_block();
    }

    static unsigned thread_rank() { return emulator::linear_thread() % Size; }

    /// The value of another thread of the tile.
    template <class T>
    T shfl(T value, unsigned rank) const {
        static_assert(sizeof(T) <= sizeof(*values_), "a value must have at most 8 bytes");
        std::memcpy(&values_[thread_rank()], &value, sizeof(value));
        sync();
        std::memcpy(&value, &values_[rank % Size], sizeof(value));
        sync();
        return value;
    }
    template <class T>
    T shfl_up(T value, unsigned delta) const {
        const unsigned rank = thread_rank();
        return shfl(value, rank < delta ? rank : rank - delta);
    }
    template <class T>
    T shfl_down(T value, unsigned delta) const {
        const unsigned rank = thread_rank();
        return shfl(value, rank + delta < Size ? rank + delta : rank);
    }
    template <class T>
    T shfl_xor(T value, unsigned bits) const {
        return shfl(value, thread_rank() ^ bits);
    }

    int any(int predicate) const {
        for (unsigned bits = Size / 2; bits > 0; bits /= 2) predicate |= shfl_xor(predicate, bits);
        return predicate != 0;
    }
    int all(int predicate) const { return !any(!predicate); }

  private:
    unsigned* arrived_;
    unsigned long long* values_;
};

template <unsigned Size>
using tile_base = std::conditional_t<(Size <= warpSize), warp_tile<Size>, block_tile<Size>>;

template <unsigned Size, class Parent = void>
class thread_block_tile : public tile_base<Size> {
    static_assert(Size <= 1024 && (Size & (Size - 1)) == 0,
                  "Size must be a power of two, at most 1024");

  public:
    using tile_base<Size>::tile_base;
    template <class Other>
    thread_block_tile(const thread_block_tile<Size, Other>& other) : tile_base<Size>(other) {}

    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    unsigned meta_group_rank() const { return emulator::linear_thread() / Size; }
    unsigned meta_group_size() const {
        return (blockDim.x * blockDim.y * blockDim.z + Size - 1) / Size;
    }
};

template <unsigned Size>
thread_block_tile<Size, thread_block> tiled_partition(const thread_block& block) {
    return thread_block_tile<Size, thread_block>(block);
}

/// A tile of a group is a tile of its block, because groups start at multiples of their size.
template <unsigned Size, class Parent>
thread_block_tile<Size, Parent> tiled_partition(const Parent&) {
    return thread_block_tile<Size, Parent>(this_thread_block());
}

/// `size` consecutive lanes of a warp; a power of two.
inline thread_group tiled_partition(const thread_group&, unsigned size) {
    return {size, lanes_of_tile(size)};
}

/// Any lanes of a warp, in their order.
class coalesced_group : public thread_group {
  public:
    explicit coalesced_group(unsigned mask) : thread_group(__popc(mask), mask) {}
    template <unsigned Size>
    coalesced_group(const warp_tile<Size>& tile) : coalesced_group(tile.emulated_mask()) {}

    template <class T>
    T shfl(T value, unsigned rank, EMULATOR_SITE) const {
        return emulator::shuffle(emulator::Operation::shfl, emulated_mask(), value, lane_of(rank),
                                 {file, line});
    }
    template <class T>
    T shfl_up(T value, unsigned delta, EMULATOR_SITE) const {
        const unsigned rank = thread_rank();
        return shfl(value, rank < delta ? rank : rank - delta, file, line);
    }
    template <class T>
    T shfl_down(T value, unsigned delta, EMULATOR_SITE) const {
        const unsigned rank = thread_rank();
        return shfl(value, rank + delta < size() ? rank + delta : rank, file, line);
    }

    int any(int predicate, EMULATOR_SITE) const {
        return __any_sync(emulated_mask(), predicate, file, line);
    }
    int all(int predicate, EMULATOR_SITE) const {
        return __all_sync(emulated_mask(), predicate, file, line);
    }
    /// Bit i is the predicate of the group's thread i.
    unsigned ballot(int predicate, EMULATOR_SITE) const {
        return by_rank(__ballot_sync(emulated_mask(), predicate, file, line));
    }
    template <class T>
    unsigned match_any(T value, EMULATOR_SITE) const {
        return by_rank(__match_any_sync(emulated_mask(), value, file, line));
    }

    static constexpr unsigned meta_group_rank() { return 0; }
    static constexpr unsigned meta_group_size() { return 1; }

  private:
    int lane_of(unsigned rank) const {
        unsigned lanes = emulated_mask();
        for (; rank > 0; --rank) lanes &= lanes - 1;
        return __ffs(static_cast<int>(lanes)) - 1;
    }
    unsigned by_rank(unsigned lanes) const {
        unsigned ranks = 0;
        for (; lanes != 0; lanes &= lanes - 1) ranks |= 1u << rank_of(__builtin_ctz(lanes));
        return ranks;
    }
};

/// The lanes that are active at this call.
inline coalesced_group coalesced_threads(EMULATOR_SITE) {
    return coalesced_group(__activemask(file, line));
}

/// The threads of a group of lanes that have the same label.
template <class Group, class T>
coalesced_group labeled_partition(const Group& group, T label, EMULATOR_SITE) {
    return coalesced_group(__match_any_sync(group.emulated_mask(), label, file, line));
}
template <class Group>
coalesced_group binary_partition(const Group& group, bool predicate, EMULATOR_SITE) {
    return labeled_partition(group, static_cast<int>(predicate), file, line);
}

template <class Group>
void sync(const Group& group, EMULATOR_SITE) {
    group.sync(file, line);
}
template <class Group>
auto thread_rank(const Group& group) {
    return group.thread_rank();
}
template <class Group>
auto group_size(const Group& group) {
    return group.size();
}

}  // namespace cooperative_groups
