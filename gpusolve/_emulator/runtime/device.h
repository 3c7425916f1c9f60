// The emulated device's interface for the CUDA functions.

#pragma once

#include "vector_types.h"

// Hidden symbols: accesses and calls need no symbol lookup.
#pragma GCC visibility push(hidden)

// `__thread`, not `thread_local`: without dynamic initialisation an access is a plain load.
#define EMULATOR_THREAD_LOCAL __thread __attribute__((aligned(emulator::shared_unit_bytes)))

namespace emulator {

/// Allocation granularity of shared memory, as on a GPU. Each thread-local variable of the
/// emulator takes a unit.
constexpr int shared_unit_bytes = 128;

/// Guard between the `__shared__` variables and the dynamic shared memory.
constexpr int shared_guard_bytes = EMULATOR_SHARED_GUARD_BYTES;

}  // namespace emulator

extern EMULATOR_THREAD_LOCAL uint3 threadIdx;
extern EMULATOR_THREAD_LOCAL uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
constexpr int warpSize = 32;

namespace emulator {

/// How often blocks have reached a barrier of the grid in this launch.
extern unsigned grid_arrivals;

/// A line of the kernel's source.
struct Site {
    const char* file;
    int line;
};

/// Collective operations: of all threads of a block in the first group, of lanes of a warp in
/// the second.
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
    activemask,
};

/// Wait for all threads of the block. Returns how many predicates are true.
int block_barrier(Operation operation, bool predicate, Site site);

/// The source lane of an operation that reads no other lane's value.
constexpr int no_source = -1;

/// Wait for the lanes of `mask`. Returns the value of lane `source`, which has 1 or 2 words.
unsigned long long warp_shuffle(Operation operation, unsigned mask, unsigned long long value,
                                int words, int source, Site site);

/// Wait for the lanes of `mask`. Returns a bit mask of the lanes whose predicate is true.
unsigned warp_vote(Operation operation, unsigned mask, bool predicate, Site site);

/// Wait until no lane of the warp can run. Returns a bit mask of the lanes that wait at this site.
unsigned active_lanes(Site site);

/// Let the other threads run before this thread continues.
void yield();

/// Called by each operation in which a thread may be waiting in a loop. Yields after some calls.
void maybe_yield();

/// The threads for which a fence orders accesses.
enum class Scope { block, device };

/// Order the thread's earlier accesses before its later accesses. May yield.
void fence(Scope scope);

/// End the launch with an error of the running thread.
[[noreturn]] void fail(Site site, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace emulator

#pragma GCC visibility pop
