// The systems of a batch: where their arrays begin, and their counters.

#pragma once

/// The offset of each system in elements: offset[k], or k * stride if `offset` is null.
struct BatchOffsets {
    const long long* offset;
    long long stride;

    __device__ __forceinline__ long long operator[](long long k) const {
        return offset == nullptr ? k * stride : offset[k];
    }
};

/// Whether the host has stopped a launch. Only a CPU can be stopped: see cpu/cuda.h.
#ifndef IS_STOPPED
#define IS_STOPPED(taken) false
#endif

/// Counters of a launch, zero before the launch: the systems that blocks have taken, and the
/// systems that are listed for another method.
struct BatchCounters {
    unsigned long long taken, listed;

    __device__ __forceinline__ bool is_stopped() const { return IS_STOPPED(taken); }
};

/// A system that is listed for another method, and how good its x is: the root of twice the
/// objective, minus a little if x is certified. NaN: any other x is better.
struct ListedSystem {
    long long system;
    double misfit;
};
