#include "profile.h"

#include <dlfcn.h>

#include <algorithm>
#include <set>

#include "kernel_entry.h"

namespace emulator {

namespace {

constexpr std::uint64_t sector_bytes = 32;
constexpr std::uint64_t line_bytes = 128;
constexpr std::uint64_t pack_bytes = 16;

/// Sectors of requests that a block keeps, to put them in the order of a GPU.
constexpr std::uint64_t most_pending = 1 << 22;
constexpr std::uint64_t bank_bytes = 4;
constexpr std::uint64_t banks = 32;

/// Where the object with an address is loaded; 0 if there is none.
std::uintptr_t start_of_object(std::uintptr_t address) {
    Dl_info object{};
    if (!dladdr(reinterpret_cast<void*>(address), &object)) return 0;
    return reinterpret_cast<std::uintptr_t>(object.dli_fbase);
}

/// The offset of an address in its object's file.
std::uint64_t file_offset(std::uintptr_t address) {
    return address - start_of_object(address);
}

/// Lanes that the hardware processes together, for an access of this size.
std::uint32_t lanes_per_pass(std::size_t bytes) {
    if (bytes <= 4) return 32;
    return bytes <= 8 ? 16 : 8;
}

}  // namespace

// ---- a launch ---------------------------------------------------------------------------

Profile::Profile(const MemorySpan* arrays, std::size_t count, const BasicBlock* code,
                 std::size_t code_count)
    : arrays_(arrays, arrays + count), code_(code, code + code_count) {
    for (const MemorySpan& span : arrays_) {
        loaded_.emplace_back(span.bytes);
        written_.emplace_back(span.bytes);
    }
    const std::uintptr_t start = start_of_object(reinterpret_cast<std::uintptr_t>(&file_offset));
    for (std::size_t i = 0; i < code_count; ++i) code_indices_[start + code[i].address] = i;
    for (const BasicBlock& block : code_) code_rows_.push_back({block.address, 0, 0});
}

std::size_t Profile::find_code(std::uintptr_t address) const {
    const auto found = code_indices_.find(address);
    return found == code_indices_.end() ? no_code : found->second;
}

int Profile::find_array(std::uintptr_t address) const {
    for (std::size_t i = 0; i < arrays_.size(); ++i)
        if (arrays_[i].contains(address)) return static_cast<int>(i);
    return uncounted;
}

void Profile::add_request(const AccessRow& request) {
    const std::lock_guard<std::mutex> lock(mutex_);
    AccessRow& row = accesses_[{request.instruction, static_cast<std::uint64_t>(request.array),
                                static_cast<std::uint64_t>(request.type)}];
    row.instruction = request.instruction;
    row.array = request.array;
    row.type = request.type;
    row.requests += request.requests;
    row.lanes += request.lanes;
    row.bytes += request.bytes;
    row.sectors += request.sectors;
    row.fewest_sectors += request.fewest_sectors;
    row.wavefronts += request.wavefronts;
    row.fewest_wavefronts += request.fewest_wavefronts;
    row.lines += request.lines;
}

void Profile::add_bytes(int array, std::uint64_t offset, std::size_t bytes, AccessType type) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto mark = [=](std::vector<bool>& marked) {
        const std::uint64_t end = std::min<std::uint64_t>(offset + bytes, marked.size());
        for (std::uint64_t i = offset; i < end; ++i) marked[i] = true;
    };
    if (type != AccessType::write) mark(loaded_[array]);
    if (type != AccessType::read) mark(written_[array]);
}

void Profile::add_atomic(int array, std::uint64_t offset, std::uint64_t lanes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& [requests, all_lanes] = atomics_[{static_cast<std::uint64_t>(array), offset}];
    ++requests;
    all_lanes += lanes;
}

void Profile::add_block(const BlockCounts& block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    blocks_.push_back(block);
}

void Profile::add_code(std::size_t index, std::uint64_t threads, std::uint64_t warps) {
    const std::lock_guard<std::mutex> lock(mutex_);
    code_rows_[index].threads += threads;
    code_rows_[index].warps += warps;
}

void Profile::add_loads(const std::array<std::uint64_t, distance_bins>& distances,
                        std::uint64_t first) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (int bin = 0; bin < distance_bins; ++bin) distances_[bin] += distances[bin];
    first_loads_ += first;
}

const ProfileSummary& Profile::summarise() {
    for (auto& [key, row] : accesses_) {
        access_rows_.push_back(row);
        access_rows_.back().instruction = file_offset(row.instruction);
    }
    for (std::size_t array = 0; array < loaded_.size(); ++array) {
        const std::vector<bool>&loaded = loaded_[array], &written = written_[array];
        std::uint64_t bytes = 0, sectors = 0, loaded_sectors = 0, written_sectors = 0;
        for (std::size_t start = 0; start < loaded.size(); start += sector_bytes) {
            const std::size_t end = std::min<std::size_t>(start + sector_bytes, loaded.size());
            std::uint64_t touched = 0;
            bool is_loaded = false, is_written = false;
            for (std::size_t i = start; i < end; ++i) {
                touched += loaded[i] || written[i];
                is_loaded |= loaded[i];
                is_written |= written[i];
            }
            bytes += touched;
            sectors += touched > 0;
            loaded_sectors += is_loaded;
            written_sectors += is_written;
        }
        distinct_bytes_.push_back(bytes);
        distinct_sectors_.push_back(sectors);
        loaded_sectors_.push_back(loaded_sectors);
        written_sectors_.push_back(written_sectors);
    }
    for (const auto& [address, counts] : atomics_) {
        summary_.atomic_requests = std::max(summary_.atomic_requests, counts[0]);
        summary_.atomic_lanes = std::max(summary_.atomic_lanes, counts[1]);
    }
    summary_.block_rows = blocks_.size();
    summary_.blocks = blocks_.data();
    summary_.access_rows = access_rows_.size();
    summary_.accesses = access_rows_.data();
    summary_.code_rows = code_rows_.size();
    summary_.code = code_rows_.data();
    summary_.distinct_bytes = distinct_bytes_.data();
    summary_.distinct_sectors = distinct_sectors_.data();
    summary_.loaded_sectors = loaded_sectors_.data();
    summary_.written_sectors = written_sectors_.data();
    summary_.distances = distances_.data();
    summary_.first_loads = first_loads_;
    return summary_;
}

// ---- a block ----------------------------------------------------------------------------

BlockProfile::BlockProfile(Profile& profile, std::uint32_t threads, const MemorySpan& shared_memory)
    : profile_(profile),
      shared_(shared_memory),
      lanes_(threads),
      warps_((threads + warpSize - 1) / warpSize),
      code_(profile.code().size() * warps_.size()) {}

int BlockProfile::find_memory(std::uintptr_t address) const {
    return shared_.contains(address) ? Profile::shared_memory : profile_.find_array(address);
}

void BlockProfile::begin() {
    counts_ = {};
    loaded_ = false;
    for (Lane& lane : lanes_) lane = {};
    for (Warp& warp : warps_) warp = {};
    std::fill(code_.begin(), code_.end(), CodeCount{});
    pending_ = accessed_ = first_loads_ = 0;
    last_access_.clear();
    distances_ = {};
}

void BlockProfile::end() {
    for (Warp& warp : warps_) flush(warp);
    load_from_caches();
    for (std::size_t index = 0; index < code_.size(); ++index) {
        const CodeCount& code = code_[index];
        if (!code.threads) continue;
        const BasicBlock& block = profile_.code()[index / warps_.size()];
        profile_.add_code(index / warps_.size(), code.threads, code.warps);
        count(Counter::instructions, code.threads * block.instructions);
        Warp& warp = warps_[index % warps_.size()];
        warp.issued += code.warps * block.issued;
        warp.waits += code.warps * block.waits;
    }
    add_chains();
    profile_.add_loads(distances_, first_loads_);
    profile_.add_block(counts_);
}

void BlockProfile::add_chains() {
    const auto raise = [&](Counter counter, std::uint64_t value) {
        std::uint64_t& most = counts_[static_cast<int>(counter)];
        most = std::max(most, value);
    };
    for (const Warp& warp : warps_) {
        raise(Counter::chain_issued, warp.issued);
        raise(Counter::chain_waits, warp.waits);
        raise(Counter::chain_shuffles, warp.shuffles);
        raise(Counter::chain_votes, warp.votes);
    }
    for (const Lane& lane : lanes_) {
        raise(Counter::chain_global_trips, lane.global.trips);
        raise(Counter::chain_global_intervals, lane.global.intervals);
        raise(Counter::chain_shared_trips, lane.shared.trips);
        raise(Counter::chain_shared_intervals, lane.shared.intervals);
    }
}

void BlockProfile::count_code(std::uint32_t thread, std::uintptr_t address) {
    Lane& lane = lanes_[thread];
    ++lane.blocks;
    const std::size_t index = profile_.find_code(address);
    if (index == Profile::no_code) return;
    lane.trips = profile_.code()[index].trips;
    CodeCount& code = code_[index * warps_.size() + thread / warpSize];
    ++code.threads;
    const bool is_new_epoch = code.threads == 1 || !(code.epoch == lane.epoch);
    if (is_new_epoch || code.lane != thread) code.executions = 0;
    if (is_new_epoch) code.most = 0;
    code.epoch = lane.epoch;
    code.lane = thread;
    if (++code.executions <= code.most) return;
    code.most = code.executions;
    ++code.warps;
}

void BlockProfile::LoadChain::add(const Lane& lane) {
    if (last_block != lane.blocks) trips += lane.trips;
    if (intervals == 0 || last_interval != lane.intervals) ++intervals;
    last_block = lane.blocks;
    last_interval = lane.intervals;
}

/// A barrier or an operation of the whole warp.
void BlockProfile::start_epoch(Lane& lane) {
    lane.epoch = {lane.epoch.barriers + 1, 0, 0};
    lane.accesses.clear();
    lane.operations.clear();
    ++lane.intervals;
}

void BlockProfile::barrier() {
    count(Counter::barriers);
    loaded_ = false;
    for (Lane& lane : lanes_) start_epoch(lane);
    for (Warp& warp : warps_) flush(warp);
    load_from_caches();
}

void BlockProfile::warp_operation(Operation operation, std::uint32_t warp, std::uint32_t lanes,
                                  int words, std::uint64_t instruction) {
    const std::uint32_t first = warp * warpSize;
    std::vector<Lane*> callers;
    bool is_whole = true;
    for (std::uint32_t lane = 0; lane < warpSize && first + lane < lanes_.size(); ++lane)
        if (lanes >> lane & 1)
            callers.push_back(&lanes_[first + lane]);
        else
            is_whole = false;
    Lane& first_caller = *callers[0];
    const std::uint64_t execution = first_caller.operations[instruction];
    const Key key{instruction, {first_caller.epoch.barriers, 0, 0}, execution, 0};
    const bool is_new = is_whole || warps_[warp].operations.insert(key).second;
    if (is_new) count_operation(operation, warps_[warp], words);
    for (Lane* lane : callers) {
        if (is_whole) {
            start_epoch(*lane);
            continue;
        }
        ++lane->operations[instruction];
        lane->epoch = {lane->epoch.barriers, instruction, execution};
        lane->accesses.clear();
        ++lane->intervals;
    }
    if (is_whole) flush(warps_[warp]);
}

void BlockProfile::count_operation(Operation operation, Warp& warp, int words) {
    switch (operation) {
        case Operation::syncwarp:
            return count(Counter::warp_barriers);
        case Operation::ballot:
        case Operation::any:
        case Operation::all:
            ++warp.votes;
            return count(Counter::votes);
        default:
            warp.shuffles += words;
            count(Counter::shuffles, words);
    }
}

void BlockProfile::access(std::uint32_t thread, std::uintptr_t address, std::size_t bytes,
                          AccessType type, std::uint64_t instruction) {
    const int memory = find_memory(address);
    if (memory == Profile::uncounted) return;
    const std::uintptr_t start =
        memory == Profile::shared_memory ? shared_.start : profile_.array(memory).start;
    Lane& lane = lanes_[thread];
    Warp& warp = warps_[thread / warpSize];
    const Key key{instruction, lane.epoch, lane.accesses[instruction]++, memory};
    const auto [position, is_new] = warp.positions.try_emplace(key, warp.requests.size());
    if (is_new) warp.requests.push_back({instruction, memory, type, lane.trips == 0, {}});
    warp.requests[position->second].lanes.push_back({thread % warpSize, address - start, bytes});
    count(Counter::instructions);
    if (type == AccessType::atomic) count(Counter::atomics);
    if (type != AccessType::write)
        (memory == Profile::shared_memory ? lane.shared : lane.global).add(lane);
    if (memory == Profile::shared_memory) return;
    if (type == AccessType::write) count(Counter::global_stores);
    if (type == AccessType::read) {
        count(Counter::global_loads);
        if (!loaded_) count(Counter::load_intervals);
        loaded_ = true;
    }
}

void BlockProfile::flush(Warp& warp) {
    std::set<std::vector<std::uint64_t>> loaded;
    for (Request& request : warp.requests) {
        const std::uint64_t wavefronts = finish(request, warp);
        if (request.memory != Profile::shared_memory || request.type != AccessType::read ||
            !request.is_unrolled || request.lanes[0].bytes == pack_bytes)
            continue;
        std::vector<std::uint64_t> packs{request.instruction};
        for (const LaneAccess& lane : request.lanes) packs.push_back(lane.offset / pack_bytes);
        if (loaded.insert(packs).second) continue;
        count(Counter::merged_requests);
        count(Counter::merged_wavefronts, wavefronts);
    }
    warp.requests.clear();
    warp.positions.clear();
    warp.operations.clear();
}

/// Returns the wavefronts.
std::uint64_t BlockProfile::finish(Request& request, Warp& warp) {
    AccessRow row{request.instruction, request.memory, static_cast<int>(request.type), 1};
    row.lanes = request.lanes.size();
    for (const LaneAccess& lane : request.lanes) row.bytes += lane.bytes;
    if (request.memory == Profile::shared_memory) {
        std::sort(request.lanes.begin(), request.lanes.end(),
                  [](const LaneAccess& a, const LaneAccess& b) { return a.lane < b.lane; });
        std::map<std::uint32_t, std::array<std::set<std::uint64_t>, banks>> passes;
        for (const LaneAccess& access : request.lanes) {
            auto& words = passes[access.lane / lanes_per_pass(access.bytes)];
            const std::uint64_t last = (access.offset + access.bytes - 1) / bank_bytes;
            for (std::uint64_t word = access.offset / bank_bytes; word <= last; ++word)
                words[word % banks].insert(word);
        }
        row.fewest_wavefronts = passes.size();
        for (const auto& [pass, words] : passes) {
            std::size_t most = 0;
            for (const auto& bank : words) most = std::max(most, bank.size());
            row.wavefronts += most;
        }
        count(Counter::shared_wavefronts, row.wavefronts);
    } else {
        std::set<std::uint64_t> sectors;
        std::sort(request.lanes.begin(), request.lanes.end(),
                  [](const LaneAccess& a, const LaneAccess& b) { return a.offset < b.offset; });
        std::uint64_t distinct = 0, end = 0;
        for (const LaneAccess& access : request.lanes) {
            const std::uint64_t last = access.offset + access.bytes;
            for (std::uint64_t s = access.offset / sector_bytes; s <= (last - 1) / sector_bytes;
                 ++s)
                sectors.insert(s);
            if (last > end) distinct += last - std::max(end, access.offset);
            end = std::max(end, last);
            profile_.add_bytes(request.memory, access.offset, access.bytes, request.type);
        }
        if (request.type == AccessType::atomic) add_atomics(request);
        row.sectors = sectors.size();
        row.fewest_sectors = (distinct + sector_bytes - 1) / sector_bytes;
        count(Counter::sectors, row.sectors);
        std::vector<SectorAccess>& accesses = warp.global.emplace_back();
        const std::uint64_t array = static_cast<std::uint64_t>(request.memory) << 48;
        std::uint64_t line = ~std::uint64_t{0};
        for (const std::uint64_t sector : sectors) {
            const std::uint64_t next = sector * sector_bytes / line_bytes;
            row.lines += next != line;
            line = next;
            accesses.push_back({array | sector, request.type == AccessType::read});
        }
        pending_ += accesses.size();
    }
    profile_.add_request(row);
    if (pending_ > most_pending) load_from_caches();
    return row.wavefronts;
}

/// The lanes of an atomic operation, sorted by their offset.
void BlockProfile::add_atomics(const Request& request) {
    std::uint64_t lanes = 0;
    for (std::size_t i = 0; i < request.lanes.size(); ++i) {
        ++lanes;
        const std::uint64_t offset = request.lanes[i].offset;
        if (i + 1 < request.lanes.size() && request.lanes[i + 1].offset == offset) continue;
        profile_.add_atomic(request.memory, offset, lanes);
        lanes = 0;
    }
}

/// The first request of each warp, then the second of each, and so on.
void BlockProfile::load_from_caches() {
    const auto access = [&](SectorAccess one) {
        const std::uint64_t now = ++accessed_;
        std::uint64_t& last = last_access_[one.sector];
        if (one.is_load) {
            if (last)
                ++distances_[64 - __builtin_clzll(now - last)];
            else
                ++first_loads_;
        }
        last = now;
    };
    bool any = true;
    for (std::size_t position = 0; any; ++position) {
        any = false;
        for (const Warp& warp : warps_) {
            if (position >= warp.global.size()) continue;
            any = true;
            for (const SectorAccess& one : warp.global[position]) access(one);
        }
    }
    for (Warp& warp : warps_) warp.global.clear();
    pending_ = 0;
}

// ---- the interface for Python -----------------------------------------------------------

EMULATOR_EXPORT Profile* emulator_new_profile(const MemorySpan* arrays, std::uint64_t count,
                                              const BasicBlock* code, std::uint64_t code_count) {
    return new Profile(arrays, count, code, code_count);
}

EMULATOR_EXPORT const ProfileSummary* emulator_summarise_profile(Profile* profile) {
    return &profile->summarise();
}

EMULATOR_EXPORT void emulator_delete_profile(Profile* profile) {
    delete profile;
}

}  // namespace emulator
