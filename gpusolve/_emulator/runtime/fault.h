// Faults of a kernel, such as an access outside its arrays, end the launch and not the
// process.

#pragma once

#include <pthread.h>
#include <signal.h>

namespace emulator {

/// While it lives, faults of kernel threads are reported; others go where they went before.
class FaultHandlers {
  public:
    FaultHandlers();
    ~FaultHandlers();
    FaultHandlers(const FaultHandlers&) = delete;
    FaultHandlers& operator=(const FaultHandlers&) = delete;
};

/// What a worker does not take: signals for the process's other threads.
sigset_t all_but_faults();

/// Make a worker leave its kernel, even out of an endless loop.
void interrupt(pthread_t worker);

}  // namespace emulator
