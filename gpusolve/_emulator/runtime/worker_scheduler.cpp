#include "worker_scheduler.h"

#include <numeric>

namespace emulator {

namespace {

/// One in this many calls of `should_switch` returns true, on average.
constexpr std::uint64_t calls_per_switch = 4;

/// Ticks after which another worker may run as well.
constexpr int max_ticks = 10;

}  // namespace

WorkerScheduler::WorkerScheduler(const Schedule& schedule, int workers)
    : changed_(workers), remaining_(workers), schedule_(schedule) {
    std::iota(remaining_.begin(), remaining_.end(), 0);
    pick_next();
}

bool WorkerScheduler::wait(int worker) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_[worker].wait(lock, [&] { return stopped_ || active_ == worker; });
    return !stopped_;
}

bool WorkerScheduler::should_switch(int worker) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (active_ != worker) return true;
    return remaining_.size() > 1 && schedule_.random_below(calls_per_switch) == 0;
}

bool WorkerScheduler::switch_from(int worker) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (active_ == worker) pick_next();
    }
    return wait(worker);
}

void WorkerScheduler::remove(int worker) {
    const std::lock_guard<std::mutex> lock(mutex_);
    remaining_.erase(std::find(remaining_.begin(), remaining_.end(), worker));
    if (active_ == worker && !remaining_.empty()) pick_next();
}

void WorkerScheduler::tick() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (++ticks_ > max_ticks && !remaining_.empty()) pick_next();
}

void WorkerScheduler::stop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    for (std::condition_variable& changed : changed_) changed.notify_one();
}

void WorkerScheduler::pick_next() {
    active_ = remaining_[schedule_.random_below(remaining_.size())];
    ticks_ = 0;
    changed_[active_].notify_one();
}

}  // namespace emulator
