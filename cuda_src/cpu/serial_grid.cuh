// The barrier of grid.cuh for a CPU: a block of the grid is a thread of the process.

#pragma once

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>
#include <vector>

/// Threads that meet in barriers. A thread that waits for long sleeps.
class Workers {
  public:
    /// Their number; before any thread waits.
    void begin(int count) { count_ = count; }

    void wait() {
        const long long round = round_.load(std::memory_order_relaxed);
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
            arrived_.store(0, std::memory_order_relaxed);
            {
                const std::lock_guard<std::mutex> lock(mutex_);
                round_.store(round + 1, std::memory_order_release);
            }
            all_arrived_.notify_all();
            return;
        }
        for (int poll = 0; poll < polls; ++poll)
            if (round_.load(std::memory_order_acquire) != round) return;
        std::unique_lock<std::mutex> lock(mutex_);
        all_arrived_.wait(lock, [&] { return round_.load(std::memory_order_acquire) != round; });
    }

  private:
    static constexpr int polls = 10000;  // some microseconds

    int count_ = 1;
    std::atomic<int> arrived_{0};
    std::atomic<long long> round_{0};
    std::mutex mutex_;
    std::condition_variable all_arrived_;
};

/// The workers of this thread's grid.
inline thread_local Workers* workers_of_grid = nullptr;

class GridBarrier {
  public:
    explicit GridBarrier(unsigned long long*) {}
    void wait() const {
        if (gridDim.x > 1) workers_of_grid->wait();
    }
};

/// Calls work() in each thread of a grid; the calling thread is its first. There are fewer threads
/// if the system refuses more.
template <class Work>
void for_each_worker(int most, Work work) {
    Workers workers;
    std::promise<int> counted;
    const std::shared_future<int> count(counted.get_future());
    const auto run = [&](int index) {
        blockIdx = {index, 0, 0};
        gridDim = {count.get(), 1, 1};
        workers_of_grid = &workers;
        work();
    };
    std::vector<std::thread> others;
    try {
        for (int index = 1; index < most; ++index) others.emplace_back(run, index);
    } catch (const std::system_error&) {
    }
    workers.begin(static_cast<int>(others.size()) + 1);
    counted.set_value(static_cast<int>(others.size()) + 1);
    run(0);
    for (std::thread& other : others) other.join();
    blockIdx = {0, 0, 0};
    gridDim = {1, 1, 1};
}
