// Signal handlers: a kernel's fault, such as an invalid access, ends the launch, not the process.

#pragma once

#include <pthread.h>
#include <signal.h>

namespace emulator {

/// While an object of this class exists, faults of kernel threads are reported. Other faults
/// go to the previous handlers.
class FaultHandlers {
  public:
    FaultHandlers();
    ~FaultHandlers();
    FaultHandlers(const FaultHandlers&) = delete;
    FaultHandlers& operator=(const FaultHandlers&) = delete;
};

/// The signals that a worker blocks; the process's other threads handle them.
sigset_t all_but_faults();

/// Make a worker leave its kernel, even from an endless loop.
void interrupt(pthread_t worker);

}  // namespace emulator
