// Checks and counts that a launch may have.

#pragma once

#include "machine.h"

namespace machine {

std::unique_ptr<Checks, void (*)(Checks*)> new_checks(bool races, bool memory);

void count_access(Warp& warp, const Inst& inst, u32 bytes, bool is_write);
void count_block_start(Block& block);
void count_barrier(Block& block);
void count_operation(Warp& warp, const Inst& inst);

void count_issued(const Warp& warp, u64 instructions);

std::unique_ptr<Counts, void (*)(Counts*)> new_counts();
void delete_counts(Counts* counts);
/// The counts of instructions: warps and lanes.
void add_sites(Counts& counts, const std::vector<u64>& warps, const std::vector<u64>& lanes);
/// Numbers for Python, which are valid until the next call.
const u64* counts_table(Counts& counts, int which, u64* length);

}  // namespace machine
