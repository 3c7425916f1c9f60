// Counts of a profile: what each request of a warp moves, by instruction and array.

#include <array>
#include <set>
#include <tuple>

#include "program.h"

namespace machine {

namespace {

constexpr u64 SECTOR = 32, LINE = 128, BANKS = 32, WORD = 4;
constexpr s64 SHARED_MEMORY = -1;

/// Counters of a block, in the order of ``PER_BLOCK`` in _counts.py.
enum Counter {
    BLOCK_BARRIERS,
    WARP_BARRIERS,
    SHUFFLES,
    VOTES,
    ATOMICS,
    FENCES,
    SECTORS,
    WAVEFRONTS,
    INTERVALS,
    LOADS,
    STORES,
    COUNTERS
};

/// Requests of an instruction to an array, in the order of ``ACCESS`` in _counts.py.
struct Requests {
    u64 requests = 0, lanes = 0, bytes = 0, sectors = 0, fewest_sectors = 0, wavefronts = 0,
        fewest_wavefronts = 0, lines = 0;
};

/// What was accessed of an array.
struct Touched {
    std::vector<bool> loaded, written;  // by byte
};

}  // namespace

struct Counts {
    std::vector<std::array<u64, COUNTERS>> blocks;
    std::unordered_map<u64, std::size_t> places;   // of blocks in `blocks`
    std::unordered_map<u64, bool> has_loaded;      // since the last barrier, by block
    std::map<std::pair<u32, s64>, Requests> rows;  // by instruction and array
    std::map<s64, Touched> arrays;
    std::unordered_map<u64, std::pair<u64, u64>> atomics;  // requests and lanes, by address
    // The sectors of each block: how many accesses before, and the last of each sector.
    std::unordered_map<u64, std::pair<u64, std::unordered_map<u64, u64>>> sectors;
    std::map<u64, u64> reuse;  // loads by the power of two that is above their distance
    u64 first_loads = 0;
    std::map<std::pair<u64, u32>, u64> issued;  // instructions of each warp of a block

    u64& counter(const Block& block, Counter which) { return blocks[places[block.number]][which]; }
};

std::unique_ptr<Counts, void (*)(Counts*)> new_counts() {
    return {new Counts, [](Counts* counts) { delete counts; }};
}

namespace {

/// A bank of shared memory serves a word in each wavefront, to all lanes that ask for it.
void count_shared(Counts& counts, const Warp& w, Requests& row, u32 bytes) {
    const u64 together = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
    std::array<std::set<u64>, BANKS> banks;
    std::set<u64> parts;
    for (const u32 l : Lanes{w.mask}) {
        const u64 lane = l, address = w.address[lane];
        parts.insert(lane / together);
        for (u64 word = address / WORD; word <= (address + bytes - 1) / WORD; ++word)
            banks[word % BANKS].insert(word);
    }
    u64 wavefronts = 0;
    for (const auto& bank : banks) wavefronts = std::max<u64>(wavefronts, bank.size());
    row.wavefronts += wavefronts;
    row.fewest_wavefronts += std::min<u64>(wavefronts, parts.size());
    counts.counter(*w.block, WAVEFRONTS) += wavefronts;
}

void count_global(Counts& counts, const Warp& w, const Inst& i, Requests& row, u32 bytes,
                  bool is_write, const Region& region) {
    std::set<u64> sectors, lines;
    std::set<u64> distinct;
    Touched& touched = counts.arrays[region.number];
    if (touched.loaded.empty()) {
        touched.loaded.resize(region.high - region.low + region.phase % SECTOR);
        touched.written.resize(touched.loaded.size());
    }
    for (const u32 l : Lanes{w.mask}) {
        const u64 offset = w.address[l] - region.low + region.phase % SECTOR;
        for (u64 k = offset; k < offset + bytes && k < touched.loaded.size(); ++k) {
            if (i.is_atomic() || !is_write) touched.loaded[k] = true;
            if (is_write) touched.written[k] = true;
            distinct.insert(k);
        }
        for (u64 sector = offset / SECTOR; sector <= (offset + bytes - 1) / SECTOR; ++sector)
            sectors.insert(sector);
        lines.insert(offset / LINE);
    }
    auto& [accesses, last] = counts.sectors[w.block->number];
    for (const u64 sector : sectors) {
        const u64 key = static_cast<u64>(region.number) << 48 | sector;
        const auto found = last.find(key);
        if (!is_write && found == last.end()) ++counts.first_loads;
        if (!is_write && found != last.end()) {
            const u64 distance = accesses - found->second;
            ++counts.reuse[64 - static_cast<u64>(__builtin_clzll(distance | 1))];
        }
        last[key] = accesses++;
    }
    row.sectors += sectors.size();
    row.fewest_sectors += (distinct.size() + SECTOR - 1) / SECTOR;
    row.lines += lines.size();
    counts.counter(*w.block, SECTORS) += sectors.size();
    if (i.is_atomic()) {
        std::map<u64, u64> lanes;
        for (const u32 l : Lanes{w.mask}) ++lanes[w.address[l]];
        for (const auto& [address, n] : lanes) {
            ++counts.atomics[address].first;
            counts.atomics[address].second += n;
        }
    }
}

}  // namespace

void count_access(Warp& w, const Inst& i, u32 bytes, bool is_write) {
    Counts& counts = *w.launch().counts;
    const bool is_shared = w.space == Space::shared;
    if (w.space == Space::local || w.space == Space::param || w.space == Space::constant) return;
    const Region* region = is_shared ? nullptr : w.launch().find(w.address[lowest(w.mask)]);
    if (region && !region->is_writeable && is_write) return;
    const u64 lanes = static_cast<u64>(count(w.mask));
    Requests& row = counts.rows[{i.site, is_shared ? SHARED_MEMORY : region->number}];
    ++row.requests;
    row.lanes += lanes;
    row.bytes += lanes * bytes;
    if (is_shared)
        count_shared(counts, w, row, bytes);
    else
        count_global(counts, w, i, row, bytes, is_write, *region);
    if (i.is_atomic()) counts.counter(*w.block, ATOMICS) += lanes;
    if (is_shared) return;
    if (is_write && !i.is_atomic()) counts.counter(*w.block, STORES) += lanes;
    if (is_write) return;
    counts.counter(*w.block, LOADS) += lanes;
    bool& has_loaded = counts.has_loaded[w.block->number];
    if (!has_loaded) ++counts.counter(*w.block, INTERVALS);
    has_loaded = true;
}

void count_block_start(Block& block) {
    Counts& counts = *block.launch->counts;
    counts.places[block.number] = counts.blocks.size();
    counts.blocks.push_back({});
}

void count_barrier(Block& block) {
    ++block.launch->counts->counter(block, BLOCK_BARRIERS);
    block.launch->counts->has_loaded[block.number] = false;
}

void count_operation(Warp& w, const Inst& i) {
    Counts& counts = *w.launch().counts;
    if (i.kind == WARP_BARRIER) ++counts.counter(*w.block, WARP_BARRIERS);
    if (i.kind == SHUFFLE) ++counts.counter(*w.block, SHUFFLES);
    if (i.kind == VOTE) ++counts.counter(*w.block, VOTES);
    if (i.kind == FENCE) counts.counter(*w.block, FENCES) += static_cast<u64>(count(w.mask));
}

void count_issued(const Warp& w, u64 instructions) {
    w.launch().counts->issued[{w.block->number, w.first_thread}] += instructions;
}

std::string described(const Counts& counts, const std::vector<u64>& warps,
                      const std::vector<u64>& lanes) {
    std::ostringstream out;
    for (std::size_t k = 0; k < warps.size(); ++k) write_row(out, "site", warps[k], lanes[k]);
    for (const auto& block : counts.blocks)
        std::apply([&](auto... counters) { write_row(out, "block", counters...); }, block);
    for (const auto& [key, row] : counts.rows)
        write_row(out, "access", key.first, static_cast<u64>(key.second), row.requests, row.lanes,
                  row.bytes, row.sectors, row.fewest_sectors, row.wavefronts, row.fewest_wavefronts,
                  row.lines);
    for (const auto& [number, touched] : counts.arrays) {
        u64 bytes = 0, sectors = 0, loaded_sectors = 0, written_sectors = 0;
        for (u64 start = 0; start < touched.loaded.size(); start += SECTOR) {
            u64 own = 0;
            bool is_loaded = false, is_written = false;
            for (u64 k = start; k < std::min<u64>(start + SECTOR, touched.loaded.size()); ++k) {
                own += touched.loaded[k] || touched.written[k];
                is_loaded |= touched.loaded[k];
                is_written |= touched.written[k];
            }
            bytes += own;
            sectors += own > 0;
            loaded_sectors += is_loaded;
            written_sectors += is_written;
        }
        write_row(out, "array", number, bytes, sectors, loaded_sectors, written_sectors);
    }
    u64 requests = 0, most_lanes = 0;
    for (const auto& [address, found] : counts.atomics) {
        requests = std::max(requests, found.first);
        most_lanes = std::max(most_lanes, found.second);
    }
    write_row(out, "launch", requests, most_lanes, counts.first_loads);
    for (const auto& [bin, n] : counts.reuse) write_row(out, "reuse", bin, n);
    std::map<u64, std::pair<u64, u64>> issued;  // of all warps of a block, and the most of a warp
    for (const auto& [warp, n] : counts.issued) {
        auto& [all, most] = issued[warp.first];
        all += n;
        most = std::max(most, n);
    }
    for (const auto& [number, block] : issued) write_row(out, "issued", block.first, block.second);
    return out.str();
}

}  // namespace machine
