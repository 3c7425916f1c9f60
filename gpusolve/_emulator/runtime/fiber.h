// Fibers: separate stacks, and the switch between them.
//
// The switch is written in assembly because swapcontext makes a system call at every switch,
// and musl does not have it. It saves the callee-saved registers of the calling convention.

#pragma once

namespace emulator {

/// Save the running stack's pointer in `*saved`, and switch to the stack `target`.
extern "C" void emulator_switch(void** saved, void* target);

/// The initial stack pointer of a new stack that ends at `top`. The first switch to it calls
/// `entry`, which must not return.
void* new_stack(void* top, void (*entry)());

}  // namespace emulator
