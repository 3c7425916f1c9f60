#include "races.h"

namespace emulator {

namespace {

SharedClock joined_clocks(const SharedClock& first, const SharedClock& other) {
    if (!first || first == other) return other;
    if (!other) return first;
    auto joined = std::make_shared<VectorClock>(*first);
    joined->join(*other);
    return joined;
}

/// The clocks that an atomic update publishes: the clocks of the value that it replaces, joined
/// with the clocks of its own thread.
std::shared_ptr<const PublishedClocks> forwarded(
    const std::shared_ptr<const PublishedClocks>& before,
    const std::shared_ptr<const PublishedClocks>& own) {
    if (!before || before == own) return own;
    if (!own) return before;
    const bool same_block = before->block == own->block;
    return std::make_shared<const PublishedClocks>(PublishedClocks{
        own->block, joined_clocks(own->for_block, same_block ? before->for_block : nullptr),
        joined_clocks(own->for_device, before->for_device)});
}

}  // namespace

// ---- clocks of a block's threads --------------------------------------------------------

BlockRaceState::BlockRaceState(std::uint32_t threads, const MemorySpan& shared_memory)
    : threads_(threads), shared_(shared_memory) {}

void BlockRaceState::begin(std::uint64_t block) {
    block_ = block;
    const auto initial = std::make_shared<const VectorClock>(block);
    for (Thread& thread : threads_) thread = {1, initial, nullptr, nullptr, nullptr};
    shared_.clear();
}

void BlockRaceState::barrier() {
    SharedClock joined;
    std::uint32_t time = 0;
    for (const Thread& thread : threads_) {
        joined = joined_clocks(joined, thread.known);
        time = std::max(time, thread.time);
    }
    auto known = std::make_shared<VectorClock>(*joined);
    known->times_of(block_).advance_all(time);
    for (Thread& thread : threads_) {
        thread.known = known;
        thread.time = time + 1;
    }
}

void BlockRaceState::sync(std::uint32_t warp, std::uint32_t lanes) {
    SharedClock joined;
    for_each_lane(lanes, [&](unsigned lane) {
        joined = joined_clocks(joined, threads_[warp * warpSize + lane].known);
    });
    auto known = std::make_shared<VectorClock>(*joined);
    for_each_lane(lanes, [&](unsigned lane) {
        const std::uint32_t thread = warp * warpSize + lane;
        known->times_of(block_).advance(thread, threads_[thread].time++);
    });
    for_each_lane(lanes, [&](unsigned lane) { threads_[warp * warpSize + lane].known = known; });
}

void BlockRaceState::fence(std::uint32_t number, Scope scope) {
    Thread& thread = threads_[number];
    thread.known = joined_clocks(thread.known, thread.pending_in_block);
    thread.pending_in_block = nullptr;
    if (scope == Scope::device) {
        thread.known = joined_clocks(thread.known, thread.pending_on_device);
        thread.pending_on_device = nullptr;
    }
    auto known = std::make_shared<VectorClock>(*thread.known);
    known->times_of(block_).advance(number, thread.time++);
    const SharedClock before = thread.published ? thread.published->for_device : nullptr;
    thread.published = std::make_shared<const PublishedClocks>(
        PublishedClocks{block_, known, scope == Scope::device ? known : before});
}

// ---- accesses ---------------------------------------------------------------------------

namespace {

/// Memory outside the arrays has a shadow for each region of this size.
constexpr std::size_t region_bytes = 64 * 1024;

}  // namespace

RaceDetector::RaceDetector(std::vector<MemorySpan> arrays, std::vector<MemorySpan> constants)
    : constants_(std::move(constants)), shadows_(arrays.begin(), arrays.end()) {}

bool RaceDetector::is_watched(std::uintptr_t address) const {
    return std::none_of(constants_.begin(), constants_.end(),
                        [&](const MemorySpan& span) { return span.contains(address); });
}

std::optional<Race> RaceDetector::check(BlockRaceState& block, std::uint32_t thread,
                                        std::uintptr_t address, std::size_t bytes, AccessKind kind,
                                        std::uint64_t instruction) {
    const std::lock_guard<std::mutex> lock(mutex_);
    BlockRaceState::Thread& own = block.threads_[thread];
    Event event{block.block_, instruction, thread / warpSize, 1u << thread % warpSize,
                own.time,     kind.writes, kind.is_strong,    kind.is_volatile};
    find_cells(block, address, bytes);
    if (cells_.empty()) return {};
    if (kind.writes) event.updated_after = own_read(event);
    const CurrentAccess current{own, event, kind.reads, block.shared_memory().contains(address)};
    if (auto race = find_race(current)) return race;
    record(current);
    return {};
}

/// Only the cells inside the memory that contains `address`: an access beyond its end faults.
void RaceDetector::find_cells(BlockRaceState& block, std::uintptr_t address, std::size_t bytes) {
    cells_.clear();
    if (block.shared_memory().contains(address)) return block.shared_.find(address, bytes, cells_);
    for (Shadow& shadow : shadows_)
        if (shadow.span().contains(address)) return shadow.find(address, bytes, cells_);
    const std::uintptr_t number = address / region_bytes;
    others_.try_emplace(number, MemorySpan{number * region_bytes, region_bytes})
        .first->second.find(address, bytes, cells_);
}

/// The lanes of an earlier event whose accesses are not ordered before this access.
std::uint32_t RaceDetector::CurrentAccess::unordered(const Event& earlier) const {
    const std::uint32_t own = earlier.is_of_warp(event) ? event.lanes : 0;
    const std::uint32_t others = earlier.lanes & ~own;
    return others ? others & thread.known->unordered(earlier) : 0;
}

bool RaceDetector::CurrentAccess::may_conflict(const Event& earlier) const {
    if (!earlier.writes && !event.writes) return false;
    return !(earlier.is_strong && event.is_strong) || is_in_lockstep(earlier);
}

/// Whether two accesses of a warp are ordered only if its lanes run in lockstep.
bool RaceDetector::CurrentAccess::is_in_lockstep(const Event& earlier) const {
    return is_in_shared_memory && event.is_volatile && earlier.is_volatile &&
           earlier.is_of_warp(event);
}

RaceKind RaceDetector::CurrentAccess::kind_of_conflict(const Event& earlier) const {
    if (is_in_lockstep(earlier)) return RaceKind::lockstep;
    for (const SharedClock& pending : {thread.pending_in_block, thread.pending_on_device})
        if (pending && !pending->unordered(earlier)) return RaceKind::acquire;
    const auto first_read = [](const Event& event) {
        return event.writes ? event.updated_after : event.instruction;
    };
    const std::uint64_t read = first_read(event);
    if (read != 0 && read == first_read(earlier)) return RaceKind::update;
    const bool is_same = event.writes && event.instruction == earlier.instruction;
    return is_same ? RaceKind::overwrite : RaceKind::conflict;
}

// ---- detection --------------------------------------------------------------------------

std::optional<Race> RaceDetector::find_race(const CurrentAccess& current) const {
    for (const CellRef& ref : cells_)
        if (auto race = find_conflict(ref, current)) return race;
    return current.event.is_strong && current.reads ? find_torn_read(current) : std::nullopt;
}

std::optional<Race> RaceDetector::find_conflict(const CellRef& ref, const CurrentAccess& current) {
    const std::vector<Event>& events = ref.cell->events;
    for (const Event& earlier : events) {
        if (!current.may_conflict(earlier)) continue;
        if (const std::uint32_t unordered = current.unordered(earlier)) {
            const Event other = earlier.by(unordered);
            return Race{ref.address, other, current.kind_of_conflict(other)};
        }
    }
    return {};
}

/// A strong read of a value whose parts come from different writes, some of which are not ordered
/// before the read, so the read could have returned a mixture of old and new parts.
std::optional<Race> RaceDetector::find_torn_read(const CurrentAccess& current) const {
    const bool is_whole = std::all_of(cells_.begin(), cells_.end(), [&](const CellRef& ref) {
        return ref.cell->write == cells_.front().cell->write;
    });
    if (is_whole) return {};
    for (const CellRef& ref : cells_)
        for (const Event& earlier : ref.cell->events)
            if (const std::uint32_t unordered = earlier.writes ? current.unordered(earlier) : 0)
                return Race{cells_.front().address, earlier.by(unordered), RaceKind::torn};
    return {};
}

// ---- recording --------------------------------------------------------------------------

/// The instruction by which the thread of a write has read the first cell before, or 0.
std::uint64_t RaceDetector::own_read(const Event& event) const {
    for (const Event& earlier : cells_.front().cell->events)
        if (!earlier.writes && earlier.is_of_warp(event) && earlier.lanes & event.lanes)
            return earlier.instruction;
    return 0;
}

void RaceDetector::record(const CurrentAccess& current) {
    const auto& published = cells_.front().cell->published;
    if (current.event.is_strong && current.reads && published) {
        if (published->block == current.event.block)
            current.thread.pending_in_block =
                joined_clocks(current.thread.pending_in_block, published->for_block);
        current.thread.pending_on_device =
            joined_clocks(current.thread.pending_on_device, published->for_device);
    }
    if (current.event.writes) ++writes_;
    for (const CellRef& ref : cells_) {
        record_event(ref.cell->events, current);
        if (current.event.writes) record_write(*ref.cell, current);
    }
}

/// Add an access to a cell's events. Earlier events that it covers are removed: every later
/// access that conflicts with a removed event conflicts with this access, too.
void RaceDetector::record_event(std::vector<Event>& events, const CurrentAccess& current) {
    Event* same = nullptr;
    std::size_t kept = 0;
    for (Event earlier : events) {
        const bool may_cover = (current.event.writes || !earlier.writes) &&
                               (!current.event.is_strong || earlier.is_strong);
        if (earlier.is_same(current.event)) {
            earlier.lanes |= current.event.lanes;
            same = &events[kept];
        } else if (may_cover) {
            earlier.lanes = current.unordered(earlier);
        }
        if (earlier.lanes) events[kept++] = earlier;
    }
    events.resize(kept);
    if (!same) events.push_back(current.event);
}

void RaceDetector::record_write(Cell& cell, const CurrentAccess& current) const {
    cell.write = writes_;
    const auto own = current.event.is_strong ? current.thread.published : nullptr;
    cell.published = current.reads ? forwarded(cell.published, own) : own;
}

}  // namespace emulator
