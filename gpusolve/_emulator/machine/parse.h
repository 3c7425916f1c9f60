// What the reader of functions needs from other files.

#pragma once

#include "machine.h"

namespace machine {

/// Registers that an instruction defines and uses.
struct Defined {
    std::vector<u32> defines, uses;
};

/// Give registers places in the frame, the same place where they are never in use together.
/// Returns the bytes of a frame.
u32 allocate_registers(Function& function, const std::vector<Defined>& defined,
                       const std::vector<int>& widths);

}  // namespace machine
