// Places of registers in a frame. PTX has a register for each value; two registers share a place
// if no thread uses both at the same time. So a frame stays in the CPU's cache.

#include <algorithm>
#include <climits>
#include <queue>

#include "machine.h"

namespace machine {

namespace {

struct BasicBlock {
    int begin, end;
    std::vector<int> before;  // blocks from which a thread may come
};

/// Instructions from the first to the last at which a register has a value that is needed.
struct Interval {
    int first = INT_MAX, last = -1;
    void include(int position) {
        first = std::min(first, position);
        last = std::max(last, position);
    }
};

/// The blocks that define a register, and the blocks that use it before they define it.
struct Occurrences {
    Interval interval;
    std::vector<int> defining, using_first;
};

/// Instructions at which a thread may go on after an instruction.
std::vector<const Inst*> successors(const Function& function, const Inst& inst) {
    std::vector<const Inst*> found;
    if (inst.target) found.push_back(inst.target);
    if (inst.targets) found = *inst.targets;
    const bool falls_through = inst.kind != BRANCH || (inst.guard & 3) == FRAME;
    if (falls_through && &inst != &function.code.back()) found.push_back(&inst + 1);
    return found;
}

std::vector<BasicBlock> basic_blocks(const Function& function) {
    const auto& code = function.code;
    std::vector<bool> leads(code.size() + 1, false);
    leads[0] = true;
    for (const Inst& inst : code)
        if (inst.kind == BRANCH) {
            leads[static_cast<std::size_t>(&inst - code.data()) + 1] = true;
            for (const Inst* next : successors(function, inst))
                leads[static_cast<std::size_t>(next - code.data())] = true;
        }
    std::vector<BasicBlock> blocks;
    std::vector<int> block_of;
    for (std::size_t k = 0; k < code.size(); ++k) {
        if (leads[k]) blocks.push_back({static_cast<int>(k), 0, {}});
        blocks.back().end = static_cast<int>(k) + 1;
        block_of.push_back(static_cast<int>(blocks.size()) - 1);
    }
    for (std::size_t b = 0; b < blocks.size(); ++b)
        for (const Inst* next :
             successors(function, code[static_cast<std::size_t>(blocks[b].end) - 1]))
            blocks[static_cast<std::size_t>(block_of[static_cast<std::size_t>(next - code.data())])]
                .before.push_back(static_cast<int>(b));
    return blocks;
}

std::vector<Occurrences> occurrences(const std::vector<BasicBlock>& blocks,
                                     const std::vector<Defined>& defined, std::size_t registers) {
    std::vector<Occurrences> found(registers);
    for (int b = 0; b < static_cast<int>(blocks.size()); ++b) {
        const BasicBlock& block = blocks[static_cast<std::size_t>(b)];
        for (int k = block.begin; k < block.end; ++k) {
            for (const u32 reg : defined[static_cast<std::size_t>(k)].uses) {
                Occurrences& own = found[reg];
                own.interval.include(k);
                const bool is_defined = !own.defining.empty() && own.defining.back() == b;
                if (!is_defined) own.using_first.push_back(b);
            }
            for (const u32 reg : defined[static_cast<std::size_t>(k)].defines) {
                found[reg].interval.include(k);
                found[reg].defining.push_back(b);
            }
        }
    }
    return found;
}

/// Include the ways from the definitions of a register to its uses. Returns whether a way begins
/// at the start of the function, so the register may have no value.
bool include_ways(const std::vector<BasicBlock>& blocks, Occurrences& of,
                  std::vector<char>& state) {
    enum : char { UNSEEN, DEFINES, SEEN };
    std::fill(state.begin(), state.end(), UNSEEN);
    for (const int b : of.defining) state[static_cast<std::size_t>(b)] = DEFINES;
    bool is_undefined = false;
    std::vector<int> left = of.using_first;  // blocks at whose start the value is needed
    while (!left.empty()) {
        const int b = left.back();
        left.pop_back();
        const BasicBlock& block = blocks[static_cast<std::size_t>(b)];
        of.interval.include(block.begin);
        is_undefined |= b == 0;
        for (const int before : block.before) {
            char& seen = state[static_cast<std::size_t>(before)];
            of.interval.include(blocks[static_cast<std::size_t>(before)].end - 1);
            if (seen == UNSEEN) left.push_back(before);
            if (seen == UNSEEN) seen = SEEN;
        }
    }
    return is_undefined;
}

/// A place for each register, in the order in which they are needed: one that is free, or a new
/// one. Returns the bytes of all places.
u32 share_places(const std::vector<Occurrences>& found, const std::vector<int>& widths,
                 std::vector<u32>& places) {
    std::vector<u32> order;
    for (u32 reg = 0; reg < widths.size(); ++reg)
        if (found[reg].interval.last >= 0) order.push_back(reg);
    std::stable_sort(order.begin(), order.end(), [&](u32 a, u32 b) {
        return found[a].interval.first < found[b].interval.first;
    });
    u32 frame = 0;
    for (const int size : {8, 4, 2, 1}) {
        using Used = std::pair<int, u32>;  // its last instruction, the place
        std::priority_queue<Used, std::vector<Used>, std::greater<>> used;
        for (const u32 reg : order) {
            if (widths[reg] != size) continue;
            if (!used.empty() && used.top().first < found[reg].interval.first) {
                places[reg] = used.top().second;
                used.pop();
            } else {
                places[reg] = frame;
                frame += size == 1 ? 4 : static_cast<u32>(size) * LANES;
            }
            used.push({found[reg].interval.last, places[reg]});
        }
    }
    return frame;
}

}  // namespace

u32 allocate_registers(Function& function, const std::vector<Defined>& defined,
                       const std::vector<int>& widths) {
    const std::vector<BasicBlock> blocks = basic_blocks(function);
    std::vector<Occurrences> found = occurrences(blocks, defined, widths.size());
    std::vector<char> state(blocks.size());
    for (u32 reg = 1; reg < widths.size(); ++reg) {
        if (found[reg].using_first.empty() || !include_ways(blocks, found[reg], state)) continue;
        const auto uses = [&](const Defined& one) {
            return std::count(one.uses.begin(), one.uses.end(), reg) > 0;
        };
        const auto first = std::find_if(defined.begin(), defined.end(), uses);
        function.undefined.push_back(static_cast<u32>(first - defined.begin()));
    }
    found[0].interval = {-1, INT_MAX};
    std::vector<u32> places(widths.size(), 0);
    const u32 frame = share_places(found, widths, places);
    for (Inst& inst : function.code) {
        const auto move = [&](Place& to) {
            if ((to & 3) == FRAME) to = place(places[to >> 2], FRAME);
        };
        move(inst.guard);
        std::for_each(inst.op, inst.op + inst.count, move);
    }
    return frame;
}

}  // namespace machine
