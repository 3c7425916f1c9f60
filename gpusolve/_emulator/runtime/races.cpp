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

/// Last events of a kind among which the same access is searched: lanes of a warp make it one
/// after another.
constexpr std::size_t recent_events = 8;

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
    if (kind.writes && !kind.is_strong) event.updated_after = own_read(event);
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

/// Whether an earlier access of the warp may be ordered only if its lanes run in lockstep.
bool RaceDetector::CurrentAccess::may_be_in_lockstep() const {
    return is_in_shared_memory && event.is_volatile;
}
bool RaceDetector::CurrentAccess::is_in_lockstep(const Event& earlier) const {
    return may_be_in_lockstep() && earlier.is_volatile && earlier.is_of_warp(event);
}

/// The lanes of an earlier event, at least one of the two writes, that this access conflicts with.
std::uint32_t RaceDetector::CurrentAccess::conflicting(const Event& earlier) const {
    const bool are_strong = earlier.is_strong && event.is_strong;
    return are_strong && !is_in_lockstep(earlier) ? 0 : unordered(earlier);
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
    const bool reads_only = !current.event.writes;
    const bool weak_only = current.event.is_strong && !current.may_be_in_lockstep();
    for (int writes = reads_only; writes < 2; ++writes)
        for (int strong = 0; strong < (weak_only ? 1 : 2); ++strong)
            for (const Event& earlier : ref.cell->events[writes][strong])
                if (const std::uint32_t unordered = current.conflicting(earlier)) {
                    const Event other = earlier.by(unordered);
                    return Race{ref.address, other, current.kind_of_conflict(other)};
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
        for (const Cell::Events& writes : ref.cell->events[1])
            for (const Event& earlier : writes)
                if (const std::uint32_t unordered = current.unordered(earlier))
                    return Race{cells_.front().address, earlier.by(unordered), RaceKind::torn};
    return {};
}

// ---- recording --------------------------------------------------------------------------

/// The instruction by which the thread of a write has read the first cell before, or 0.
std::uint64_t RaceDetector::own_read(const Event& event) const {
    for (const Cell::Events& reads : cells_.front().cell->events[0])
        for (const Event& earlier : reads)
            if (earlier.is_of_warp(event) && earlier.lanes & event.lanes)
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
        record_event(*ref.cell, current);
        if (current.event.writes) record_write(*ref.cell, current);
    }
}

/// Add an access to a cell's events. Events that it covers are removed: every later access that
/// conflicts with a removed event conflicts with this access, too. A weak write, which has no
/// conflict, covers all; other accesses remove events when the memory of their kind is full, so
/// that an access takes constant time on average.
void RaceDetector::record_event(Cell& cell, const CurrentAccess& current) {
    const Event& event = current.event;
    Cell::Events& events = cell.events[event.writes][event.is_strong];
    if (event.writes && !event.is_strong)
        for (auto& kinds : cell.events)
            for (Cell::Events& covered : kinds) covered.clear();
    const std::size_t searched = std::min<std::size_t>(events.size(), recent_events);
    const auto same = std::find_if(events.rbegin(), events.rbegin() + searched,
                                   [&](const Event& earlier) { return earlier.is_same(event); });
    if (same != events.rbegin() + searched) {
        same->lanes |= event.lanes;
        return;
    }
    if (events.size() == events.capacity()) {
        const auto is_covered = [&](Event& earlier) {
            return (earlier.lanes = current.unordered(earlier)) == 0;
        };
        events.erase(std::remove_if(events.begin(), events.end(), is_covered), events.end());
        if (events.size() > events.capacity() / 2) events.reserve(2 * events.capacity());
    }
    events.push_back(event);
}

void RaceDetector::record_write(Cell& cell, const CurrentAccess& current) const {
    cell.write = writes_;
    const auto own = current.event.is_strong ? current.thread.published : nullptr;
    cell.published = current.reads ? forwarded(cell.published, own) : own;
}

}  // namespace emulator
