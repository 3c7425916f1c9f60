// What the language asks of the emulated device.

#pragma once

#include "vector_types.h"

// Of this object alone: accesses and calls need no look-up by name.
#pragma GCC visibility push(hidden)

// `__thread` rather than `thread_local`: these need no initialisation, so an access is a load.
#define EMULATOR_OWN __thread __attribute__((aligned(emulator::shared_unit_bytes)))

namespace emulator {

/// Shared memory is counted in these, as on a GPU, with each of the emulator's own few
/// thread-local variables in one.
constexpr int shared_unit_bytes = 128;

/// In front of the dynamic shared memory, behind the `__shared__` variables.
constexpr int shared_guard_bytes = EMULATOR_SHARED_GUARD_BYTES;

}  // namespace emulator

extern EMULATOR_OWN uint3 threadIdx;
extern EMULATOR_OWN uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
constexpr int warpSize = 32;

namespace emulator {

/// Where in the kernel's source a thread waits or fails.
struct Site {
    const char* file;
    int line;
};

/// What threads do together: all of a block in the first group, of a warp in the second.
enum class Operation {
    syncthreads,
    syncthreads_or,
    syncthreads_and,
    syncthreads_count,

    syncwarp,
    shfl,
    shfl_up,
    shfl_down,
    shfl_xor,
    ballot,
    any,
    all,
};

/// Wait for all threads of the block; of how many is the predicate true?
int block_barrier(Operation operation, bool predicate, Site site);

/// In place of a source lane, for an operation that takes nobody's value.
constexpr int no_source = -1;

/// Wait for the lanes of `mask`, then take the value that lane `source` came with.
unsigned long long warp_shuffle(Operation operation, unsigned mask, unsigned long long value,
                                int source, Site site);

/// Wait for the lanes of `mask`; which of them have a true predicate?
unsigned warp_vote(Operation operation, unsigned mask, bool predicate, Site site);

/// Let the other threads run before this one goes on.
void yield();

/// Called wherever a thread may be waiting in a loop: yields now and then.
void breathe();

/// For whom a fence orders the thread's accesses.
enum class Scope { block, device };

/// Order what the thread did before and what it does after; breathes, too.
void fence(Scope scope);

/// End the launch: the running thread did what `format` says.
[[noreturn]] void fail(Site site, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace emulator

#pragma GCC visibility pop
