// A barrier of all blocks of a launch.
//
// Every block must be resident: launch no more than the device holds at once. What was
// written before the barrier, by any thread, is read after it by any other.

#pragma once

/// `arrived`: zero before the launch; counts arrivals and is never set back.
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
            while (*arrived < awaited_) __nanosleep(nanoseconds_between_looks);
            __threadfence();
        }
        __syncthreads();
    }

  private:
    static constexpr unsigned nanoseconds_between_looks = 32;

    unsigned long long* arrived_;
    unsigned long long awaited_ = 0;
};
