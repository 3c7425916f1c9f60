// Memory of a thread of the CPU solver.

#pragma once

#include <cstdlib>

#include "../team.cuh"

/// Memory for all arrays that `place` takes from a TeamMemory; `place` is called twice, to measure
/// and to place.
class Workspace {
  public:
    template <class Place>
    explicit Workspace(Place place) {
        unsigned char* const origin = reinterpret_cast<unsigned char*>(alignment_of_arrays);
        TeamMemory measured{origin};
        place(measured);
        memory_ = static_cast<unsigned char*>(std::malloc(measured.used + 1));
        TeamMemory memory{memory_};
        if (memory_ != nullptr) place(memory);
    }
    ~Workspace() { std::free(memory_); }
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;

    explicit operator bool() const { return memory_ != nullptr; }

  private:
    unsigned char* memory_;
};
