// Places of registers in a frame. PTX has a register for each value; two registers share a place
// if no thread uses both at the same time. So a frame stays in the CPU's cache.

#include <algorithm>
#include <climits>
#include <queue>

#include "machine.h"
#include "parse.h"

namespace machine {

namespace {

using Bits = std::vector<u64>;

struct BasicBlock {
    int begin, end;
    std::vector<int> next;
    Bits used, defined, live_in, live_out;
};

struct Interval {
    int first = INT_MAX, last = -1;
    void include(int position) {
        first = std::min(first, position);
        last = std::max(last, position);
    }
};

std::vector<BasicBlock> basic_blocks(const Function& function) {
    const auto& code = function.code;
    const int n = static_cast<int>(code.size());
    std::vector<char> leads(code.size() + 1, 0);
    const auto position = [&](const Inst* inst) { return static_cast<int>(inst - code.data()); };
    leads[0] = 1;
    for (int k = 0; k < n; ++k) {
        const Inst& inst = code[static_cast<std::size_t>(k)];
        if (inst.target) leads[static_cast<std::size_t>(position(inst.target))] = 1;
        if (inst.targets)
            for (const Inst* target : *inst.targets)
                leads[static_cast<std::size_t>(position(target))] = 1;
        if (inst.target || inst.targets || inst.kind == BRANCH)
            leads[static_cast<std::size_t>(k) + 1] = 1;
    }
    std::vector<BasicBlock> blocks;
    std::vector<int> block_of(code.size(), 0);
    for (int k = 0; k < n; ++k) {
        if (leads[static_cast<std::size_t>(k)]) blocks.push_back({k, k, {}, {}, {}, {}, {}});
        blocks.back().end = k + 1;
        block_of[static_cast<std::size_t>(k)] = static_cast<int>(blocks.size()) - 1;
    }
    for (BasicBlock& block : blocks) {
        const Inst& last = code[static_cast<std::size_t>(block.end) - 1];
        const auto add = [&](const Inst* target) {
            block.next.push_back(block_of[static_cast<std::size_t>(position(target))]);
        };
        if (last.target) add(last.target);
        if (last.targets)
            for (const Inst* target : *last.targets) add(target);
        const bool falls_through = last.kind != BRANCH || (last.guard & 3) == FRAME;
        if (falls_through && block.end < n) add(&last + 1);
    }
    return blocks;
}

}  // namespace

u32 allocate_registers(Function& function, const std::vector<Defined>& defined,
                       const std::vector<int>& widths) {
    std::vector<BasicBlock> blocks = basic_blocks(function);
    // Registers that a block uses before it defines them; all others live in one block.
    std::vector<int> global(widths.size(), -1);
    int globals = 0;
    std::vector<Interval> intervals(widths.size());
    std::vector<int> seen(widths.size(), -1);
    for (std::size_t b = 0; b < blocks.size(); ++b)
        for (int k = blocks[b].begin; k < blocks[b].end; ++k) {
            const Defined& found = defined[static_cast<std::size_t>(k)];
            for (const u32 reg : found.uses) {
                intervals[reg].include(k);
                if (seen[reg] != static_cast<int>(b) && global[reg] < 0) global[reg] = globals++;
            }
            for (const u32 reg : found.defines) {
                intervals[reg].include(k);
                seen[reg] = static_cast<int>(b);
            }
        }
    const std::size_t words = static_cast<std::size_t>(globals + 63) / 64;
    std::vector<u32> names(static_cast<std::size_t>(globals));
    for (u32 reg = 0; reg < widths.size(); ++reg)
        if (global[reg] >= 0) names[static_cast<std::size_t>(global[reg])] = reg;
    const auto has = [](const Bits& bits, int k) {
        return bits[static_cast<std::size_t>(k) / 64] >> (k % 64) & 1;
    };
    const auto set = [](Bits& bits, int k) {
        bits[static_cast<std::size_t>(k) / 64] |= 1ull << (k % 64);
    };
    for (BasicBlock& block : blocks) {
        for (Bits* bits : {&block.used, &block.defined, &block.live_in, &block.live_out})
            bits->assign(words, 0);
        for (int k = block.begin; k < block.end; ++k) {
            const Defined& found = defined[static_cast<std::size_t>(k)];
            for (const u32 reg : found.uses)
                if (const int g = global[reg]; g >= 0 && !has(block.defined, g)) set(block.used, g);
            for (const u32 reg : found.defines)
                if (const int g = global[reg]; g >= 0) set(block.defined, g);
        }
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (std::size_t b = blocks.size(); b-- > 0;) {
            BasicBlock& block = blocks[b];
            for (const int next : block.next)
                for (std::size_t w = 0; w < words; ++w)
                    block.live_out[w] |= blocks[static_cast<std::size_t>(next)].live_in[w];
            for (std::size_t w = 0; w < words; ++w) {
                const u64 in = block.used[w] | (block.live_out[w] & ~block.defined[w]);
                changed |= in != block.live_in[w];
                block.live_in[w] = in;
            }
        }
    }
    for (const BasicBlock& block : blocks)
        for (std::size_t w = 0; w < words; ++w) {
            for (u64 bits = block.live_in[w]; bits; bits &= bits - 1)
                intervals[names[w * 64 + static_cast<std::size_t>(__builtin_ctzll(bits))]].include(
                    block.begin);
            for (u64 bits = block.live_out[w]; bits; bits &= bits - 1)
                intervals[names[w * 64 + static_cast<std::size_t>(__builtin_ctzll(bits))]].include(
                    block.end - 1);
        }
    for (std::size_t w = 0; w < words && !blocks.empty(); ++w)
        for (u64 bits = blocks[0].live_in[w]; bits; bits &= bits - 1) {
            const u32 reg = names[w * 64 + static_cast<std::size_t>(__builtin_ctzll(bits))];
            for (u32 k = 0; k < defined.size() && reg; ++k) {
                const auto& used = defined[k].uses;
                if (std::find(used.begin(), used.end(), reg) == used.end()) continue;
                function.undefined.push_back(k);
                break;
            }
        }
    intervals[0] = {-1, INT_MAX};

    // By the beginning of the intervals, each takes a place that is free, or a new one.
    std::vector<u32> order;
    for (u32 reg = 0; reg < widths.size(); ++reg)
        if (intervals[reg].last >= 0) order.push_back(reg);
    std::stable_sort(order.begin(), order.end(),
                     [&](u32 a, u32 b) { return intervals[a].first < intervals[b].first; });
    constexpr int SIZES[] = {8, 4, 2, 1};
    u32 frame = 0;
    std::vector<u32> places(widths.size(), 0);
    for (const int size : SIZES) {
        const u32 bytes = size == 1 ? 4 : static_cast<u32>(size) * LANES;
        using Used = std::pair<int, u32>;  // its last instruction, the place
        std::priority_queue<Used, std::vector<Used>, std::greater<>> used;
        std::vector<u32> spare;
        for (const u32 reg : order) {
            if (widths[reg] != size) continue;
            while (!used.empty() && used.top().first < intervals[reg].first) {
                spare.push_back(used.top().second);
                used.pop();
            }
            if (spare.empty()) {
                spare.push_back(frame);
                frame += bytes;
            }
            places[reg] = spare.back();
            spare.pop_back();
            used.push({intervals[reg].last, places[reg]});
        }
    }
    for (Inst& inst : function.code) {
        const auto move = [&](Place& to) {
            if ((to & 3) == FRAME) to = place(places[to >> 2], FRAME);
        };
        move(inst.guard);
        for (int k = 0; k < inst.count; ++k) move(inst.op[k]);
    }
    return frame;
}

}  // namespace machine
