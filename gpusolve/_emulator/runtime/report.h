// What went wrong in a launch, as Python reads it.

#pragma once

#include <cstdint>

namespace emulator {

enum class Access : int { unknown, read, write };

/// Conflict: with the other thread's access. Torn: it reads as one what that wrote in part.
enum class RaceKind : int { none, conflict, torn };

struct Report {
    int happened;
    int signal;  // of a fault; 0 where `text` says it all
    int access;
    int stack_overflow;
    int has_thread;
    int race;
    int other_access;
    int in_shared_memory;
    int shared_overrun;
    unsigned thread[3];
    unsigned block[3];
    unsigned other_block[3];
    unsigned other_thread[3];
    int line;
    std::uint64_t address;       // what was accessed; in shared memory its offset
    std::uint64_t shared_bytes;  // of the dynamic shared memory, as launched
    std::uint64_t instruction;   // where that instruction lies in the object's file
    std::uint64_t other_instruction;
    char file[512];
    char text[4096];
};

}  // namespace emulator
