// Checks of accesses.

#include "machine.h"

namespace machine {

struct BlockChecks {};

void watch_access(Warp&, const Inst&, u32, bool) {}
void watch_block_start(Block&) {}
void watch_barrier(Block&, u32, bool) {}
void watch_warp_sync(Warp&, const Inst&, u32) {}
void watch_fence(Warp&, const Inst&) {}

}  // namespace machine
