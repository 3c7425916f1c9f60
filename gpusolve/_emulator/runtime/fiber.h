// A stack of one's own, and the step from one stack to another.
//
// ucontext's swapcontext makes a system call at every switch, and musl has none, so the
// switch is written out: it saves what the calling convention asks a function to keep.

#pragma once

namespace emulator {

/// Leave the running stack, of which `*saved` remembers where it stands, for `target`.
extern "C" void emulator_switch(void** saved, void* target);

/// Where a stack that ends at `top` stands before its first switch, which calls `entry`.
/// `entry` takes nothing and never returns.
void* new_stack(void* top, void (*entry)());

}  // namespace emulator
