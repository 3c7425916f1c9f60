// The report of a failed launch, as _report.py reads it.

#pragma once

#include <cstdint>

namespace emulator {

enum class Access : int { unknown, read, write };

/// Conflict: with the other thread's access. Torn: a value is read as a whole, and the other
/// thread wrote a part of it. Update: both threads read and write the value by the same statement.
/// Overwrite: both only write it by the same statement. Same value: both write what it already is.
/// Acquire: this thread has read a flag of the other thread, but called no fence since. Lockstep:
/// both are volatile accesses to shared memory, by lanes of a warp.
enum class RaceKind : int {
    none,
    conflict,
    torn,
    update,
    overwrite,
    same_value,
    acquire,
    lockstep
};

struct FaultReport {
    int happened;
    int signal;  // of a fault, else 0
    int access;
    int access_bytes;
    int stack_overflow;
    int has_thread;
    int race;
    int other_access;
    int in_shared_memory;
    int shared_overrun;
    int unwritten;
    unsigned thread[3];
    unsigned block[3];
    unsigned other_block[3];
    unsigned other_thread[3];
    int line;
    std::uint64_t address;       // of the access; in shared memory, its offset
    std::uint64_t shared_bytes;  // size of the dynamic shared memory
    std::uint64_t instruction;   // offset in the object's file
    std::uint64_t other_instruction;
    std::uint64_t variable;  // offset of the address in the object's file, if it is there, else 0
    std::uint64_t caller;    // the last call of the thread that may wait or copy memory
    char file[512];
    char text[4096];
};

/// Convert an address in memory to an offset in this object's file; 0 and false if it is elsewhere.
bool make_relative(std::uint64_t& instruction);

}  // namespace emulator
