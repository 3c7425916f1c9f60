// CUDA C++ for a C++ compiler: the words that a kernel is written in.
//
// NVRTC knows no standard headers, so a kernel includes none and finds everything here.

#pragma once

#include <stdio.h>

#include "arithmetic.h"
#include "atomics.h"
#include "device.h"
#include "synchronize.h"

// Inline: of a file's kernels only the one that is launched takes room in shared memory.
#define __global__ inline
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))

// Last, because the system's own headers use this word.
#undef __noinline__
#define __noinline__ __attribute__((noinline))

// One block runs on one thread of the operating system, so what a block shares is local to
// that thread. Inside a function `thread_local` implies `static`, as `__shared__` does, and
// next to `extern` it declares the dynamic shared memory that is defined here. Marked as used,
// lest the compiler take what the kernel never writes for zero, where it is to find poison.
#define __shared__ __attribute__((used)) thread_local

#ifndef EMULATOR_DYNAMIC_SHARED_BYTES
#error "the compile command says how much dynamic shared memory the device has"
#endif

/// What kernels declare as `extern __shared__`: _compiler.py makes each such name stand for
/// the memory behind the guard, where who writes past the end of a `__shared__` array is seen.
__shared__ __align__(emulator::shared_unit_bytes) unsigned char emulator_dynamic_shared_memory
    [emulator::shared_guard_bytes + EMULATOR_DYNAMIC_SHARED_BYTES];
