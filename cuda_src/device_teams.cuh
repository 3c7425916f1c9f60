// The teams of a GPU: some lanes of a warp, one block, or all blocks of a cooperative launch.

#pragma once

#include "grid.cuh"
#include "team.cuh"

/// Some lanes of a warp, a power of two, with `each_` variables each. If the problems are not
/// `general`, the kernel is smaller.
template <int lanes, int each_, bool general_ = true>
struct LaneTeam {
    static constexpr int each = each_, width = lanes * each;
    // Three blocks leave 168 registers to a thread: larger systems would spill.
    static constexpr int threads = 128, blocks = general_ || width > 8 ? 2 : 3;
    static constexpr int memories_of_block = threads / lanes;
    static constexpr bool is_small = true, general = general_, has_near_vectors = true;
    // With more variables of a lane, plain problems have the same matrix: registers.
    static constexpr bool shares_matrix = lanes > 1 && each > 2 && !general;
    static constexpr bool foresees = false;                  // the variable that enters next
    static constexpr int rows_at_once = lanes == 1 ? 1 : 4;  // that share the factors of columns

    using Reals = LaneVector<double, LaneTeam>;

    struct Storage {};
    __device__ LaneTeam(Storage&, unsigned char*) {}

    /// Entries of arrays by variable, for n variables. With one matrix for all teams, there is
    /// memory for variables of all lanes; else lanes ask which of their variables exist.
    static constexpr __device__ int padded(int n) { return shares_matrix ? width : n; }

    static __device__ __forceinline__ int memory_of_block() { return threadIdx.x / lanes; }
    static __device__ __forceinline__ bool places() { return true; }
    static __device__ __forceinline__ long long index() {
        return static_cast<long long>(blockIdx.x) * memories_of_block + memory_of_block();
    }
    static __device__ __forceinline__ long long teams() {
        return static_cast<long long>(gridDim.x) * memories_of_block;
    }
    /// Whether a condition holds for any of the warp's teams.
    static __device__ __forceinline__ bool any(bool holds) { return __any_sync(whole_warp, holds); }

    static constexpr __device__ bool is_stopped() { return false; }

    static __device__ __forceinline__ int rank() { return threadIdx.x % lanes; }
    static constexpr __device__ __forceinline__ int size() { return lanes; }
    static __device__ __forceinline__ void sync() {
        if constexpr (lanes > 1) __syncwarp();
    }
    static __device__ __forceinline__ bool sync_any(bool holds) {
        sync();
        return any(holds);
    }

    template <class T, class Op>
    __device__ __forceinline__ T reduce(T value, Op op) {
        sync();
#pragma unroll
        for (int distance = lanes / 2; distance > 0; distance /= 2)
            value = op(value, shuffle_xor(value, distance));
        return value;
    }

    /// The largest value. Of equal values, the first lane's.
    template <class T>
    __device__ __forceinline__ Located<T> reduce(Located<T> one, Called<ArgMax<T>>) {
        // Mostly, all variables are between their bounds.
        if (lanes == 1 || !any(one.index >= 0)) return one;
        const T least = -Floating<T>::infinity();
        const T value = one.index < 0 ? least : one.value;
        const T largest = reduce(value, [](T a, T b) { return a < b ? b : a; });
        const bool is_largest = one.index >= 0 && one.value == largest;
        const unsigned found = __ballot_sync(whole_warp, is_largest) >> first_lane() & first_lanes;
        const int lane = max(__ffs(static_cast<int>(found)) - 1, 0);
        const int index = each == 1 ? lane : __shfl_sync(whole_warp, one.index, lane, lanes);
        return found == 0 ? ArgMax<T>::identity() : Located<T>{largest, index};
    }

  private:
    static constexpr unsigned first_lanes = whole_warp >> (warp_threads - lanes);

    static __device__ __forceinline__ int first_lane() { return lane_index() / lanes * lanes; }
};

/// The reduction of a value of each warp: the second half of `block_reduce`.
template <class T, class Op>
__device__ __noinline__ T reduce_warps(T value, T* partial, Called<Op>) {
    if (lane_index() == 0) partial[warp_index()] = value;
    __syncthreads();
    const int width = 1 << (32 - __clz(warp_count() - 1)), warp = lane_index() & (width - 1);
    value = warp < warp_count() ? partial[warp] : Op::identity();
    return warp_reduce(value, Called<Op>(), width);
}

/// The most bytes of a value that a block or a grid reduces.
constexpr int bytes_of_partial = 32;

/// One block. Its vectors are in shared memory. Four threads compute a row of the inverse.
class BlockTeam {
  public:
    static constexpr int threads = 256, blocks = 2;
    static constexpr int memories_of_block = 1;
    static constexpr bool is_small = false, general = true, has_near_vectors = true;
    static constexpr bool foresees = true, shares_matrix = false;
    static constexpr int each = 1, lanes_of_row = 4, rows_at_once = 2;

    using Reals = NearVector<double>;

    /// The partial results of the warps, double-buffered.
    struct Storage {
        alignas(16) unsigned char partial[2][threads / warp_threads][bytes_of_partial];
    };

    __device__ explicit BlockTeam(Storage& storage, unsigned char* = nullptr) : storage_(storage) {}

    static __device__ __forceinline__ int memory_of_block() { return 0; }
    static __device__ __forceinline__ bool places() { return threadIdx.x == 0; }
    static __device__ __forceinline__ long long index() { return blockIdx.x; }
    static __device__ __forceinline__ long long teams() { return gridDim.x; }

    static constexpr __device__ bool any(bool holds) { return holds; }

    static constexpr __device__ bool is_stopped() { return false; }

    static __device__ __forceinline__ int rank() { return threadIdx.x; }
    static __device__ __forceinline__ int size() { return blockDim.x; }
    static __device__ __forceinline__ int group() { return warp_index(); }
    static __device__ __forceinline__ int groups() { return warp_count(); }
    static __device__ __forceinline__ int lane() { return lane_index(); }
    static __device__ __forceinline__ int lanes() { return warp_threads; }
    static __device__ __forceinline__ void sync() { __syncthreads(); }
    /// A barrier; whether a condition holds for any thread.
    static __device__ __forceinline__ bool sync_any(bool holds) { return __syncthreads_or(holds); }

    /// The reduction of one value per thread, with the same bits in every thread.
    template <class T, class Op>
    __device__ T reduce(T value, Op op) {
        return block_reduce(value, next<T>(), op);
    }
    template <class T, class Op>
    __device__ T reduce(T value, Called<Op> op) {
        return reduce_groups(reduce_group(value, op), op);
    }
    template <class T, class Op>
    static __device__ __forceinline__ T reduce_group(T value, Op op) {
        return warp_reduce(value, op);
    }
    /// The reduction of one value per group.
    template <class T, class Op>
    __device__ T reduce_groups(T value, Op op) {
        return reduce_warps(value, next<T>(), op);
    }

  private:
    Storage& storage_;
    int turn_ = 0;

    /// Memory for the partial results of the next reduction.
    template <class T>
    __device__ T* next() {
        static_assert(sizeof(T) <= sizeof(storage_.partial[0][0]), "the value is too large");
        turn_ ^= 1;
        return reinterpret_cast<T*>(storage_.partial[turn_]);
    }
};

/// One block whose vectors are in global memory. To foresee variables, or to sum two rows at once,
/// would take registers.
struct FarBlockTeam : BlockTeam {
    static constexpr bool has_near_vectors = false, foresees = false;
    static constexpr int rows_at_once = 1;

    using Reals = Vector<double>;

    using BlockTeam::BlockTeam;
};

/// All blocks of a cooperative launch. Vectors are in global memory.
class GridTeam {
  public:
    static constexpr int threads = 256, blocks = 1;
    static constexpr int memories_of_block = 1;
    static constexpr bool is_small = false, general = true, has_near_vectors = false;
    static constexpr bool foresees = true, shares_matrix = false;
    static constexpr int each = 1, lanes_of_row = 16, rows_at_once = 2;

    using Reals = Vector<double>;
    using Storage = BlockTeam::Storage;

    /// `global` has 16 bytes for the barrier, which are zero before the launch, and then
    /// 2 x gridDim.x times `bytes_of_partial`.
    __device__ GridTeam(Storage& storage, unsigned char* global)
        : block_(storage),
          barrier_(reinterpret_cast<unsigned long long*>(global)),
          partial_(global + alignment_of_arrays) {}

    static __device__ __forceinline__ int memory_of_block() { return 0; }
    static __device__ __forceinline__ bool places() { return threadIdx.x == 0; }
    static __device__ __forceinline__ long long index() { return 0; }
    static __device__ __forceinline__ long long teams() { return 1; }

    static constexpr __device__ bool any(bool holds) { return holds; }

    static constexpr __device__ bool is_stopped() { return false; }

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
        return reduce_groups(reduce_group(value, op), op);
    }
    template <class T, class Op>
    static __device__ __forceinline__ T reduce_group(T value, Op op) {
        return warp_reduce(value, op);
    }
    template <class T, class Op>
    __device__ T reduce_groups(T value, Op op) {
        unsigned char* half = partial_ + turn_ * gridDim.x * bytes_of_partial;
        T* partial = reinterpret_cast<T*>(half);
        turn_ ^= 1;
        value = block_.reduce_groups(value, op);
        if (threadIdx.x == 0) partial[blockIdx.x] = value;
        barrier_.wait();
        value = Op::identity();
        for (int block = threadIdx.x; block < gridDim.x; block += blockDim.x)
            value = op(value, partial[block]);
        return block_.reduce(value, op);
    }

  private:
    BlockTeam block_;
    GridBarrier barrier_;
    unsigned char* partial_;
    int turn_ = 0;
};
