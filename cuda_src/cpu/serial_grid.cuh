// The barrier of grid.cuh for a CPU: a block of the grid is a thread of the process.

#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

/// Threads that meet in barriers. A thread that waits for long sleeps.
class Workers {
  public:
    explicit Workers(int count) : count_(count) {}

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

    const int count_;
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

/// Calls work() in each thread of a grid; the calling thread is its first.
template <class Work>
void for_each_worker(int count, Work work) {
    Workers workers(count);
    const auto run = [&](int index) {
        blockIdx = {index, 0, 0};
        gridDim = {count, 1, 1};
        workers_of_grid = &workers;
        work();
    };
    std::vector<std::thread> others;
    for (int index = 1; index < count; ++index) others.emplace_back(run, index);
    run(0);
    for (std::thread& other : others) other.join();
    blockIdx = {0, 0, 0};
    gridDim = {1, 1, 1};
}
