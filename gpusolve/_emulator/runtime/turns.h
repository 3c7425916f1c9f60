// Whose turn it is among the workers of a launch, where they run one at a time.
//
// A worker passes its turn only where its block may meet another one in global memory. So the
// generator alone decides how blocks interleave, and a seed replays a launch exactly.
//
// One meeting place nobody sees: a plain loop on a volatile variable. Who stays in one too long
// keeps running, while the turn goes on without it; then the launch ends, but does not replay.

#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "schedule.h"

namespace emulator {

class Turns {
  public:
    Turns(const Schedule& schedule, int workers);

    /// Wait for the worker's turn. False if the launch is to end instead.
    bool wait(int worker);

    /// Whether the worker, at a place where it may meet others, is to pass its turn.
    bool is_over(int worker);

    /// Draw who is next, which may be the same worker, and wait for the next turn of one's own.
    bool pass(int worker);

    /// Take no more turns.
    void leave(int worker);

    /// Called now and then from outside: takes the turn from a worker that keeps it too long.
    void look_after();

    /// Wake all who wait, since the launch is to end.
    void stop();

  private:
    void draw_next();

    std::mutex mutex_;
    std::vector<std::condition_variable> changed_;
    std::vector<int> present_;
    Schedule schedule_;
    int holder_ = 0;
    int looks_ = 0;  // in this turn
    bool stopped_ = false;
};

}  // namespace emulator
