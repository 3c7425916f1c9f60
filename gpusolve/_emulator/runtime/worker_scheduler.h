// Chooses the worker that runs, in launches where one worker runs at a time.
//
// Workers switch only at operations by which blocks can communicate. So the random generator
// alone determines how blocks interleave, and the same seed repeats a launch exactly.
//
// The emulator does not see one kind of communication: a plain loop on a volatile variable. If
// a worker runs too long without a switch, another is started and runs concurrently. Then
// the launch ends, but the seed does not repeat it.

#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "schedule.h"

namespace emulator {

class WorkerScheduler {
  public:
    WorkerScheduler(const Schedule& schedule, int workers);

    /// Wait until the worker is chosen. False if the launch must end instead.
    bool wait(int worker);

    /// Whether the worker must call `switch_from`. Called at operations that communicate.
    bool should_switch(int worker);

    /// Choose the next worker, possibly the same, and wait until this worker is chosen again.
    /// False if the launch must end instead.
    bool switch_from(int worker);

    /// The worker has ended.
    void remove(int worker);

    /// Called at regular intervals: chooses another worker if the current one runs too long.
    void tick();

    /// Wake all waiting workers, because the launch must end.
    void stop();

  private:
    void pick_next();

    std::mutex mutex_;
    std::vector<std::condition_variable> changed_;
    std::vector<int> remaining_;
    Schedule schedule_;
    int active_ = 0;
    int ticks_ = 0;  // since the last choice
    bool stopped_ = false;
};

}  // namespace emulator
