// What the reader of functions needs from other files.

#pragma once

#include "machine.h"

namespace machine {

/// Registers that an instruction defines and uses.
struct Defined {
    std::vector<u32> defines, uses;
};

/// Stands for the offset of the dynamic shared memory, until it is known.
constexpr u64 DYNAMIC_MARK = 0x7d00'0000'0000'0000, DYNAMIC_MARK_BYTES = 1 << 20;

/// Give registers places in the frame, the same place where they are never in use together.
/// Returns the bytes of a frame.
u32 allocate_registers(Function& function, const std::vector<Defined>& defined,
                       const std::vector<int>& widths);

bool decode_call(Inst& inst, const Call& call);

}  // namespace machine
