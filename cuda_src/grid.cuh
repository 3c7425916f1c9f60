// A barrier for all blocks of a launch.
//
// All blocks must be resident at the same time. What any thread writes before the barrier is
// visible to all threads after it.

#pragma once

/// `arrived` counts arrivals. It is zero before the launch, and is never reset.
class GridBarrier {
  public:
    __device__ explicit GridBarrier(unsigned long long* arrived) : arrived_(arrived) {}

    __device__ void wait() {
        awaited_ += gridDim.x;
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(arrived_, 1ull);
            const volatile unsigned long long* arrived = arrived_;
            while (*arrived < awaited_) __nanosleep(nanoseconds_between_polls);
            __threadfence();
        }
        __syncthreads();
    }

  private:
    static constexpr unsigned nanoseconds_between_polls = 32;

    unsigned long long* arrived_;
    unsigned long long awaited_ = 0;
};
