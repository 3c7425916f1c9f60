// Checks and counts that a launch may have.

#pragma once

#include "machine.h"

namespace machine {

std::unique_ptr<Checks, void (*)(Checks*)> new_checks(bool races, bool memory);

void count_access(Warp& warp, const Inst& inst, u32 bytes, bool is_write);
void count_block_start(Block& block);
void count_barrier(Block& block);

}  // namespace machine
