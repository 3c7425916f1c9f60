#include "profile.h"

#include <dlfcn.h>

#include <algorithm>
#include <set>

#include "kernel_entry.h"

namespace emulator {

namespace {

constexpr std::uint64_t sector_bytes = 32;
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

Profile::Profile(const MemorySpan* arrays, std::size_t count, const CodeRow* code,
                 std::size_t code_count)
    : arrays_(arrays, arrays + count) {
    for (const MemorySpan& span : arrays_) touched_.emplace_back(span.bytes);
    const std::uintptr_t start = start_of_object(reinterpret_cast<std::uintptr_t>(&file_offset));
    for (std::size_t i = 0; i < code_count; ++i)
        instructions_[start + code[i].address] = code[i].count;
}

std::uint64_t Profile::instructions_after(std::uintptr_t address) const {
    const auto found = instructions_.find(address);
    return found == instructions_.end() ? 0 : found->second;
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
}

void Profile::add_bytes(int array, std::uint64_t offset, std::size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<bool>& touched = touched_[array];
    const std::uint64_t end = std::min<std::uint64_t>(offset + bytes, touched.size());
    for (std::uint64_t i = offset; i < end; ++i) touched[i] = true;
}

void Profile::add_block(const BlockCounts& block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    blocks_.push_back(block);
}

void Profile::add_code(std::uintptr_t address, std::uint64_t executions) {
    const std::lock_guard<std::mutex> lock(mutex_);
    code_[address] += executions;
}

const ProfileSummary& Profile::summarise() {
    for (auto& [key, row] : accesses_) {
        access_rows_.push_back(row);
        access_rows_.back().instruction = file_offset(row.instruction);
    }
    for (const auto& [address, executions] : code_)
        code_rows_.push_back({file_offset(address), executions});
    for (const std::vector<bool>& touched : touched_) {
        std::uint64_t bytes = 0, sectors = 0;
        for (std::size_t i = 0; i < touched.size(); i += sector_bytes) {
            const std::size_t end = std::min<std::size_t>(i + sector_bytes, touched.size());
            const auto count = std::count(touched.begin() + i, touched.begin() + end, true);
            bytes += static_cast<std::uint64_t>(count);
            sectors += count > 0;
        }
        distinct_bytes_.push_back(bytes);
        distinct_sectors_.push_back(sectors);
    }
    summary_.block_rows = blocks_.size();
    summary_.blocks = blocks_.data();
    summary_.access_rows = access_rows_.size();
    summary_.accesses = access_rows_.data();
    summary_.code_rows = code_rows_.size();
    summary_.code = code_rows_.data();
    summary_.distinct_bytes = distinct_bytes_.data();
    summary_.distinct_sectors = distinct_sectors_.data();
    return summary_;
}

// ---- a block ----------------------------------------------------------------------------

BlockProfile::BlockProfile(Profile& profile, std::uint32_t threads, const MemorySpan& shared_memory)
    : profile_(profile),
      shared_(shared_memory),
      lanes_(threads),
      warps_((threads + warpSize - 1) / warpSize),
      code_(code_slots) {}

int BlockProfile::find_memory(std::uintptr_t address) const {
    return shared_.contains(address) ? Profile::shared_memory : profile_.find_array(address);
}

void BlockProfile::begin() {
    counts_ = {};
    loaded_ = false;
    for (Lane& lane : lanes_) lane = {};
    std::fill(code_.begin(), code_.end(), CodeCount{});
}

void BlockProfile::end() {
    for (Warp& warp : warps_) flush(warp);
    for (const CodeCount& code : code_) {
        if (!code.executions) continue;
        profile_.add_code(code.address, code.executions);
        count(Counter::instructions, code.executions * profile_.instructions_after(code.address));
    }
    profile_.add_block(counts_);
}

/// Linear probing. Code beyond the table's size is not counted.
void BlockProfile::count_code(std::uintptr_t address) {
    for (std::size_t i = 0; i < code_slots; ++i) {
        CodeCount& slot = code_[(address * 0x9e3779b97f4a7c15u + i) % code_slots];
        if (slot.executions && slot.address != address) continue;
        slot.address = address;
        ++slot.executions;
        return;
    }
}

void BlockProfile::start_epoch(Lane& lane) {
    lane = {{lane.epoch.barriers + 1, 0, 0}, {}, {}};
}

void BlockProfile::barrier() {
    count(Counter::barriers);
    loaded_ = false;
    for (Lane& lane : lanes_) start_epoch(lane);
    for (Warp& warp : warps_) flush(warp);
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
    if (is_new) count_operation(operation, words);
    for (Lane* lane : callers) {
        if (is_whole) {
            start_epoch(*lane);
            continue;
        }
        ++lane->operations[instruction];
        lane->epoch = {lane->epoch.barriers, instruction, execution};
        lane->accesses.clear();
    }
    if (is_whole) flush(warps_[warp]);
}

void BlockProfile::count_operation(Operation operation, int words) {
    switch (operation) {
        case Operation::syncwarp:
            return count(Counter::warp_barriers);
        case Operation::ballot:
        case Operation::any:
        case Operation::all:
            return count(Counter::votes);
        default:
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
    if (is_new) warp.requests.push_back({instruction, memory, type, {}});
    warp.requests[position->second].lanes.push_back({thread % warpSize, address - start, bytes});
    count(Counter::instructions);
    if (type == AccessType::atomic) count(Counter::atomics);
    if (memory == Profile::shared_memory) return;
    if (type == AccessType::write) count(Counter::global_stores);
    if (type == AccessType::read) {
        count(Counter::global_loads);
        if (!loaded_) count(Counter::load_intervals);
        loaded_ = true;
    }
}

void BlockProfile::flush(Warp& warp) {
    for (Request& request : warp.requests) finish(request);
    warp.requests.clear();
    warp.positions.clear();
    warp.operations.clear();
}

void BlockProfile::finish(Request& request) {
    AccessRow row{
        request.instruction, request.memory, static_cast<int>(request.type), 1, 0, 0, 0, 0, 0};
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
            profile_.add_bytes(request.memory, access.offset, access.bytes);
        }
        row.sectors = sectors.size();
        row.fewest_sectors = (distinct + sector_bytes - 1) / sector_bytes;
        count(Counter::sectors, row.sectors);
    }
    profile_.add_request(row);
}

// ---- the interface for Python -----------------------------------------------------------

EMULATOR_EXPORT Profile* emulator_new_profile(const MemorySpan* arrays, std::uint64_t count,
                                              const CodeRow* code, std::uint64_t code_count) {
    return new Profile(arrays, count, code, code_count);
}

EMULATOR_EXPORT const ProfileSummary* emulator_summarise_profile(Profile* profile) {
    return &profile->summarise();
}

EMULATOR_EXPORT void emulator_delete_profile(Profile* profile) {
    delete profile;
}

}  // namespace emulator
