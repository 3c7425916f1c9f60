// The order in which threads, warps and blocks run.

#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace emulator {

enum class Order : int { forward, reverse, random };

class Schedule {
  public:
    Schedule(Order order, std::uint64_t seed) : order_(order), state_(seed) {}

    bool is_random() const { return order_ == Order::random; }

    /// An independent schedule, which depends only on the seed and on `number`.
    Schedule derive(std::uint64_t number) const {
        Schedule result = *this;
        result.state_ += number * 0xd1342543de82ef95u;
        result.draw();
        return result;
    }

    /// Put a list that is in forward order into the order of the schedule.
    template <class Iterator>
    void arrange(Iterator begin, Iterator end) {
        if (order_ == Order::reverse) std::reverse(begin, end);
        if (order_ == Order::random)
            for (auto count = std::distance(begin, end); count > 1; --count)
                std::swap(begin[count - 1], begin[random_below(static_cast<std::uint64_t>(count))]);
    }

    /// A random number from 0 to count - 1, in every order.
    std::uint64_t random_below(std::uint64_t count) { return draw() % count; }

  private:
    /// SplitMix64 (Steele, Lea and Flood, 2014).
    std::uint64_t draw() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }

    Order order_;
    std::uint64_t state_;
};

}  // namespace emulator
