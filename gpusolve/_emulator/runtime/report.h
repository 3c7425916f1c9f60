// What went wrong in a launch, as Python reads it.

#pragma once

#include <cstdint>

namespace emulator {

enum class Access : int { unknown, read, write };

struct Report {
    int happened;
    int signal;  // of a fault; 0 where `text` says it all
    int access;
    int stack_overflow;
    int has_thread;
    unsigned thread[3];
    unsigned block[3];
    int line;
    std::uint64_t address;      // what a faulting instruction accessed
    std::uint64_t instruction;  // where that instruction lies in the object's file
    char file[512];
    char text[4096];
};

}  // namespace emulator
