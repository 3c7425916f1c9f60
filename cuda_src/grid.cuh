// A barrier for all blocks of a launch.
//
// All blocks must be resident at the same time. What any thread writes before the barrier is
// visible to all threads after it.
//
// Memory order. A block's barrier orders what its threads wrote before the arrival of its first
// thread, which releases all of this. An arrival is an atomic addition, so later arrivals continue
// its release sequence: the load that sees the last arrival acquires from all of them. The second
// barrier of the block orders this load before what its threads read. No fence is needed, and so
// none has to be sequentially consistent. tests/device/test_memory_model.py proves it.

#pragma once

/// `arrived` counts arrivals. It is zero before the launch, and is never reset.
class GridBarrier {
  public:
    __device__ explicit GridBarrier(unsigned long long* arrived)
        : arrived_(__cvta_generic_to_global(arrived)) {}

    __device__ void wait() {
        awaited_ += gridDim.x;
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("red.release.gpu.global.add.u64 [%0], 1;" ::"l"(arrived_) : "memory");
            while (arrived() < awaited_) __nanosleep(nanoseconds_between_polls);
        }
        __syncthreads();
    }

  private:
    static constexpr unsigned nanoseconds_between_polls = 32;

    __device__ unsigned long long arrived() const {
        unsigned long long count;
        asm volatile("ld.acquire.gpu.global.u64 %0, [%1];"
                     : "=l"(count)
                     : "l"(arrived_)
                     : "memory");
        return count;
    }

    size_t arrived_;  // an address of global memory
    unsigned long long awaited_ = 0;
};
