#include "turns.h"

#include <numeric>

namespace emulator {

namespace {

/// A turn ends at one in so many of the places where it may.
constexpr std::uint64_t places_per_turn = 4;

/// So many looks from outside, and a turn is over wherever its worker is.
constexpr int longest_turn = 10;

}  // namespace

Turns::Turns(const Schedule& schedule, int workers)
    : changed_(workers), present_(workers), schedule_(schedule) {
    std::iota(present_.begin(), present_.end(), 0);
    draw_next();
}

bool Turns::wait(int worker) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_[worker].wait(lock, [&] { return stopped_ || holder_ == worker; });
    return !stopped_;
}

bool Turns::is_over(int worker) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (holder_ != worker) return true;
    return present_.size() > 1 && schedule_.below(places_per_turn) == 0;
}

bool Turns::pass(int worker) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (holder_ == worker) draw_next();
    }
    return wait(worker);
}

void Turns::leave(int worker) {
    const std::lock_guard<std::mutex> lock(mutex_);
    present_.erase(std::find(present_.begin(), present_.end(), worker));
    if (holder_ == worker && !present_.empty()) draw_next();
}

void Turns::look_after() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (++looks_ > longest_turn && !present_.empty()) draw_next();
}

void Turns::stop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    for (std::condition_variable& changed : changed_) changed.notify_one();
}

void Turns::draw_next() {
    holder_ = present_[schedule_.below(present_.size())];
    looks_ = 0;
    changed_[holder_].notify_one();
}

}  // namespace emulator
