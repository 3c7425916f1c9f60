// The keywords and functions of CUDA C++, for a C++ compiler.
//
// NVRTC lacks standard headers, so kernels include none: all they use is declared here.

#pragma once

#include <stdio.h>

#include "arithmetic.h"
#include "atomics.h"
#include "device.h"
#include "intrinsics.h"
#include "synchronize.h"
#include "warp_functions.h"

// The last, because it hides the functions of <cstring>.
#include "copy.h"

// As nvcc 12 defines them. After the includes: some headers of the system look for them, too.
#define __CUDACC__ 1
#define __CUDACC_VER_MAJOR__ 12

// Inline, so that the object contains the launched kernel only: the shared memory of the
// file's other kernels is not allocated.
#define __global__ inline
#define __device__
#define __host__
// Marked as used: the host sets it, so the compiler must not replace it by its first value.
#define __constant__ __attribute__((used))
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))

// Must follow the includes, because the system's headers use this name.
#undef __noinline__
#define __noinline__ __attribute__((noinline))

// A block runs on one thread of the operating system, so its shared memory is thread-local.
// Inside a function, `thread_local` implies `static`, as `__shared__` does. With `extern`, it
// declares the dynamic shared memory, which is defined below. Marked as used: otherwise the
// compiler replaces a variable that the kernel never writes by 0, and the poison is not read.
#define __shared__ __attribute__((used)) thread_local

#ifndef EMULATOR_DYNAMIC_SHARED_BYTES
#error "the compile command must define EMULATOR_DYNAMIC_SHARED_BYTES"
#endif

/// The dynamic shared memory, after a guard that detects writes past the end of a `__shared__`
/// array. _compiler.py makes every name declared as `extern __shared__` an alias of the memory
/// after the guard.
__shared__ __align__(emulator::shared_unit_bytes) unsigned char emulator_dynamic_shared_memory
    [emulator::shared_guard_bytes + EMULATOR_DYNAMIC_SHARED_BYTES];
