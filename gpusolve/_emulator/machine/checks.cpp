// Checks of each access: races between threads, and reads of memory that nothing has written.
//
// Races are found with vector clocks (Flanagan & Freund, "FastTrack", PLDI 2009), for the order
// of PTX's memory model. Two accesses of different threads conflict if they share a byte, at
// least one writes, they are not both strong in each other's scope, and the earlier is not ordered
// before the later. An access is ordered before
//
// - the accesses of its block that follow the next barrier of the block;
// - the accesses of the mask's lanes that follow the next bar.warp.sync.
//
// This order is transitive. Volatile, relaxed and atomic accesses are strong, and order nothing by
// themselves. A strong write publishes the clock that its thread had at its last fence; an atomic
// update also keeps the clock published with the value that it replaces. A thread that reads the
// value by a strong access joins the published clock at its own next fence. The scope of a fence
// is the block or the device. A barrier between a fence and the access carries both, as CUB's grid
// barrier needs. Shuffles and votes order nothing. Volatile accesses of a warp's lanes to the same
// shared memory conflict, too: code before Volta relied on lockstep. A plain read that races with
// a compare and swap alone is the beginning of a loop that swaps, and no error.

#include "machine.h"

#include "clock.h"

namespace machine {

namespace {

/// ``RaceKind`` in _faults.py.
enum class RaceKind : s32 {
    none,
    conflict,
    torn,
    update,
    overwrite,
    same_value,
    acquire,
    lockstep,
    scope,
    pending
};

/// The clocks that a strong write publishes: those of its thread at its last fences.
struct Published {
    u64 block;
    Clock for_block, for_device;
};
using SharedPublished = std::shared_ptr<const Published>;

/// The accesses to a word, or to a byte, that a later access can conflict with.
struct Cell {
    std::vector<Event> events[2][2];  // by whether they write, and are strong
    SharedPublished published;        // of the last write
    u64 write = 0;                    // its number; 0 is before the launch
};

/// Cells of a page: one for each word, or for each byte after an access to a part of a word.
struct Page {
    std::vector<Cell> cells;
    u32 cell_bytes = 4;
};

constexpr u64 PAGE_BYTES = 256;

struct Shadow {
    std::unordered_map<u64, Page> pages;

    void find(u64 address, u64 bytes, std::vector<std::pair<u64, Cell*>>& found) {
        const u64 end = address + bytes;
        const bool is_in_words = (address | bytes) % 4 == 0;
        while (address < end) {
            Page& page = pages[address / PAGE_BYTES];
            if (page.cells.empty()) page.cells.resize(PAGE_BYTES / 4);
            if (!is_in_words && page.cell_bytes != 1) {
                std::vector<Cell> cells;
                for (const Cell& word : page.cells) cells.insert(cells.end(), 4, word);
                page = {std::move(cells), 1};
            }
            found.push_back({address, &page.cells[address % PAGE_BYTES / page.cell_bytes]});
            address += page.cell_bytes;
        }
    }
};

/// The clocks that an atomic update publishes: those of the value that it replaces, and its own.
SharedPublished forwarded(const SharedPublished& before, const SharedPublished& own) {
    if (!before || before == own) return own;
    if (!own) return before;
    const bool same = before->block == own->block;
    return std::make_shared<Published>(
        Published{own->block, joined(own->for_block, same ? before->for_block : nullptr),
                  joined(own->for_device, before->for_device)});
}

struct ThreadClock {
    u32 time = 1;
    Clock known;                                // accesses ordered before the next
    Clock pending_in_block, pending_on_device;  // joined at a fence of that scope
    Clock out_of_scope;                         // published for another block alone
    SharedPublished published;                  // for the next strong write
};

}  // namespace

struct BlockChecks {
    std::vector<ThreadClock> threads;
    Shadow shared;
    std::vector<bool> written;  // bytes of shared memory
};

struct Checks {
    bool races, memory;
    Shadow global;
    u64 writes = 0;
    std::vector<std::pair<u64, Cell*>> cells;  // of the present access
};

std::unique_ptr<Checks, void (*)(Checks*)> new_checks(bool races, bool memory) {
    return {new Checks{races, memory, {}, 0, {}}, [](Checks* checks) { delete checks; }};
}

namespace {

/// Of threads that meet in a barrier: what each knows, all know.
void meet(Block& block, const std::vector<u32>& who, bool all) {
    BlockChecks& state = *block.checks;
    Clock known, pending_in_block, pending_on_device, for_block, for_device;
    u32 time = 0;
    bool publishes = false;
    for (const u32 k : who) {
        const ThreadClock& thread = state.threads[k];
        known = joined(known, thread.known);
        pending_in_block = joined(pending_in_block, thread.pending_in_block);
        pending_on_device = joined(pending_on_device, thread.pending_on_device);
        if (thread.published) {
            publishes = true;
            for_block = joined(for_block, thread.published->for_block);
            for_device = joined(for_device, thread.published->for_device);
        }
        time = std::max(time, thread.time);
    }
    auto now = known ? std::make_shared<VectorClock>(*known) : std::make_shared<VectorClock>();
    BlockTimes& times = now->blocks[block.number];
    if (all) times.advance_all(time);
    for (const u32 k : who) {
        if (!all) times.advance(k, state.threads[k].time);
        state.threads[k].time = all ? time + 1 : state.threads[k].time + 1;
    }
    SharedPublished published;
    if (publishes)
        published = std::make_shared<Published>(Published{block.number, for_block, for_device});
    for (const u32 k : who) {
        ThreadClock& thread = state.threads[k];
        thread.known = now;
        thread.pending_in_block = pending_in_block;
        thread.pending_on_device = pending_on_device;
        thread.published = published;
    }
}

void fence_of(Block& block, u32 number, bool is_of_block) {
    ThreadClock& thread = block.checks->threads[number];
    thread.known = joined(thread.known, thread.pending_in_block);
    thread.pending_in_block = nullptr;
    if (!is_of_block) {
        thread.known = joined(thread.known, thread.pending_on_device);
        thread.pending_on_device = nullptr;
    }
    auto now = thread.known ? std::make_shared<VectorClock>(*thread.known)
                            : std::make_shared<VectorClock>();
    now->blocks[block.number].advance(number, thread.time++);
    thread.known = now;
    const Clock before = thread.published ? thread.published->for_device : nullptr;
    thread.published =
        std::make_shared<Published>(Published{block.number, now, is_of_block ? before : now});
}

/// Let the other threads run at a fence, before this thread sets its next flag. A thread that waits
/// for a flag would else read a later one, and be ordered after accesses that it did not wait for.
void let_others_read(Warp& w) {
    w.yield();
    w.block->yields = true;
}

/// The access that is checked.
struct Access {
    ThreadClock& thread;
    Event event;
    bool reads, is_shared;

    bool is_in_lockstep(const Event& earlier) const {
        return is_shared && event.is_volatile && earlier.is_volatile && earlier.is_of_warp(event);
    }
    u32 unordered(const Event& earlier) const {
        const u32 others = earlier.lanes & ~(earlier.is_of_warp(event) ? event.lanes : 0);
        if (!others) return 0;
        return others & (thread.known ? thread.known->unordered(earlier) : others);
    }
    bool are_strong(const Event& earlier) const {
        return earlier.is_strong && event.is_strong &&
               (earlier.block == event.block || !(earlier.is_of_block || event.is_of_block));
    }
    /// The lanes of an earlier event that this access conflicts with.
    u32 conflicting(const Event& earlier) const {
        if (are_strong(earlier) && !is_in_lockstep(earlier)) return 0;
        const bool may_be_swapped =
            (event.is_swap && !earlier.writes) || (earlier.is_swap && !event.writes);
        return may_be_swapped ? 0 : unordered(earlier);
    }
    RaceKind kind(const Event& earlier) const {
        if (is_in_lockstep(earlier)) return RaceKind::lockstep;
        for (const Clock& pending : {thread.pending_in_block, thread.pending_on_device})
            if (pending && !pending->unordered(earlier)) return RaceKind::acquire;
        const bool has_scope = earlier.is_of_block || event.is_of_block;
        if (earlier.block != event.block && earlier.is_strong && event.is_strong && has_scope)
            return RaceKind::scope;
        if (thread.out_of_scope && !thread.out_of_scope->unordered(earlier)) return RaceKind::scope;
        const auto read = [](const Event& one) {
            return one.writes ? one.updated_after : one.inst;
        };
        if (read(event) && read(event) == read(earlier)) return RaceKind::update;
        return event.writes && event.inst == earlier.inst ? RaceKind::overwrite
                                                          : RaceKind::conflict;
    }
};

/// Report the access of a lane, and the lanes of an earlier event that it races with.
[[noreturn]] void fail_race(Warp& w, const Inst& i, u32 lane, u64 address, u32 bytes, bool is_write,
                            const Event& earlier, u32 lanes, RaceKind kind) {
    if (Fault* fault = w.launch().report(&w, &i, lane, w.block->number)) {
        fault->kind = static_cast<s32>(FaultKind::race);
        fault->race = static_cast<s32>(kind);
        fault->address = address;
        fault->bytes = bytes;
        fault->is_write = is_write;
        fault->other_is_write = earlier.writes;
        fault->space = static_cast<s32>(w.space);
        fault->other_block = earlier.block;
        fault->other_thread = earlier.warp * LANES + lowest(lanes);
        fault->other_site = static_cast<s32>(earlier.inst->site);
    }
    throw LaunchStopped();
}

/// Fail if an access shares a byte with a copy that a thread of the block has not waited for.
void check_copies(Warp& w, const Inst& i, u32 lane, u32 bytes, bool is_write) {
    const u64 address = w.address[lane];
    for (const auto& warp : w.block->warps)
        for (const Copy& copy : warp->copies) {
            if (address >= copy.address + copy.bytes || copy.address >= address + bytes) continue;
            const u32 lanes = 1u << copy.lane;
            Event earlier{w.block->number, copy.inst, warp->first_thread / LANES, lanes};
            earlier.writes = true;
            fail_race(w, i, lane, address, bytes, is_write, earlier, lanes, RaceKind::pending);
        }
}

/// Whether a store writes what another lane of it writes, or what the memory has.
bool is_same_value(const Warp& w, const Inst& i, u32 lane, const Event& earlier, u32 lanes) {
    if (i.is_atomic() || !i.is_write() || i.vector != 1 || !i.widths[0]) return false;
    const u8* values = w.at<u8>(i.op[1]);
    const u8* own = values + lane * i.widths[0];
    const bool is_now = earlier.inst == &i && earlier.warp == w.first_thread / LANES &&
                        earlier.block == w.block->number && (lanes & w.mask);
    const void* other = is_now ? static_cast<const void*>(values + lowest(lanes) * i.widths[0])
                               : reinterpret_cast<const void*>(w.host[lane]);
    return std::memcmp(own, other, i.bytes) == 0;
}

void record(Checks& checks, const Access& access) {
    const Event& event = access.event;
    ThreadClock& thread = access.thread;
    const auto& first = checks.cells.front().second->published;
    if (event.is_strong && access.reads && first) {
        if (first->block == event.block && first->for_block)
            thread.pending_in_block = joined(thread.pending_in_block, first->for_block);
        else if (first->for_block)
            thread.out_of_scope = joined(thread.out_of_scope, first->for_block);
        if (first->for_device)
            thread.pending_on_device = joined(thread.pending_on_device, first->for_device);
    }
    if (event.writes) ++checks.writes;
    for (const auto& [address, cell] : checks.cells) {
        auto& events = cell->events[event.writes][event.is_strong];
        if (event.writes && !event.is_strong)
            for (auto& kinds : cell->events)
                for (auto& covered : kinds) covered.clear();
        constexpr std::size_t RECENT = 8;
        const auto end =
            events.rbegin() + static_cast<std::ptrdiff_t>(std::min(events.size(), RECENT));
        const auto same = std::find_if(events.rbegin(), end,
                                       [&](const Event& one) { return one.is_same(event); });
        if (same != end) {
            same->lanes |= event.lanes;
        } else {
            // Every later access that conflicts with a covered event conflicts with this one, too.
            if (events.size() == events.capacity()) {
                const auto is_covered = [&](Event& one) {
                    return (one.lanes = access.unordered(one)) == 0;
                };
                events.erase(std::remove_if(events.begin(), events.end(), is_covered),
                             events.end());
                if (events.size() > events.capacity() / 2)
                    events.reserve(2 * events.capacity() + 1);
            }
            events.push_back(event);
        }
        if (event.writes) {
            cell->write = checks.writes;
            const auto own = event.is_strong ? thread.published : nullptr;
            cell->published = access.reads ? forwarded(cell->published, own) : own;
        }
    }
}

void check_race(Checks& checks, Warp& w, const Inst& i, u32 lane, u32 bytes, bool is_write) {
    const u32 number = w.first_thread + lane;
    Block& block = *w.block;
    const bool is_shared = w.space == Space::shared;
    if (i.order & RELEASE) fence_of(block, number, i.scope);
    ThreadClock& thread = block.checks->threads[number];
    const u64 address = w.address[lane];
    checks.cells.clear();
    (is_shared ? block.checks->shared : checks.global).find(address, bytes, checks.cells);
    Access access{thread,
                  {block.number, &i, w.first_thread / LANES, 1u << lane, thread.time, is_write,
                   i.is_volatile || i.is_atomic(), i.is_volatile && !i.order, i.scope == 1,
                   i.is_atomic() && i.count > i.mode + 2},
                  !is_write || i.is_atomic(),
                  is_shared};
    if (is_write && !access.event.is_strong)
        for (const auto& reads : checks.cells.front().second->events[0])
            for (const Event& earlier : reads)
                if (earlier.is_of_warp(access.event) && earlier.lanes & access.event.lanes)
                    access.event.updated_after = earlier.inst;
    for (const auto& [at, cell] : checks.cells)
        for (int writes = !is_write; writes < 2; ++writes)
            for (const auto& events : cell->events[writes])
                for (const Event& earlier : events)
                    if (const u32 lanes = access.conflicting(earlier)) {
                        RaceKind kind = access.kind(earlier);
                        if (is_write && earlier.writes &&
                            (kind == RaceKind::overwrite || kind == RaceKind::conflict) &&
                            is_same_value(w, i, lane, earlier, lanes))
                            kind = RaceKind::same_value;
                        fail_race(w, i, lane, at, bytes, is_write, earlier, lanes, kind);
                    }
    // A strong read of a value whose parts come from different writes.
    if (access.event.is_strong && access.reads)
        for (const auto& [at, cell] : checks.cells) {
            if (cell->write == checks.cells.front().second->write) continue;
            for (const auto& [other_at, other] : checks.cells)
                for (const auto& writes : other->events[1])
                    for (const Event& earlier : writes)
                        if (const u32 lanes = access.unordered(earlier))
                            fail_race(w, i, lane, checks.cells.front().first, bytes, is_write,
                                      earlier, lanes, RaceKind::torn);
        }
    record(checks, access);
    if (i.order & ACQUIRE) fence_of(block, number, i.scope);
}

void check_written(Warp& w, const Inst& i, u32 lane, u32 bytes, bool is_write) {
    const u64 address = w.address[lane];
    bool is_known = false;
    if (w.space == Space::shared) {
        // Between the variables there is no memory.
        const SharedVariable* own = nullptr;
        const auto& variables = w.launch().kernel.shared;
        for (const SharedVariable& variable : variables)
            if (variable.offset <= address && (!own || own->offset <= variable.offset))
                own = &variable;
        const u64 end = !own ? 0 : own->bytes ? own->offset + own->bytes : w.block->shared_bytes;
        if (address + bytes > end)
            w.fail_access(i, lane, FaultKind::access, address, bytes, is_write);
        auto& written = w.block->checks->written;
        for (u64 k = address; k < address + bytes; ++k) {
            is_known |= written[k];
            if (is_write) written[k] = true;
        }
    } else {
        const Region* region = w.launch().find(address);
        if (!region || !region->written) return;
        for (u64 k = address - region->low; k < address - region->low + bytes; ++k) {
            is_known |= region->written[k / 8] >> (k % 8) & 1;
            if (is_write) region->written[k / 8] |= static_cast<u8>(1u << (k % 8));
        }
    }
    if (!is_known && (!is_write || i.is_atomic()))
        w.fail_access(i, lane, FaultKind::unwritten, address, bytes, false);
}

}  // namespace

void watch_access(Warp& w, const Inst& i, u32 bytes, bool is_write) {
    Checks* checks = w.launch().checks;
    if (w.launch().counts) count_access(w, i, bytes, is_write);
    if (!checks || w.space == Space::local || w.space == Space::param || w.space == Space::constant)
        return;
    // Cooperative groups order accesses to the driver's part of shared memory by themselves.
    if (w.space == Space::shared)
        for (const SharedVariable& variable : w.launch().kernel.shared)
            if (variable.name == "reserved" &&
                w.address[lowest(w.mask)] - variable.offset < variable.bytes)
                return;
    for (const u32 lane : Lanes{w.mask}) {
        if (w.space == Space::shared) check_copies(w, i, lane, bytes, is_write);
        if (checks->memory) check_written(w, i, lane, bytes, is_write);
        if (checks->races) check_race(*checks, w, i, lane, bytes, is_write);
    }
    if (checks->races && i.order & (ACQUIRE | RELEASE)) let_others_read(w);
}

void watch_block_start(Block& block) {
    if (block.launch->counts) count_block_start(block);
    if (!block.launch->checks) return;
    block.checks = std::make_shared<BlockChecks>();
    block.checks->threads.resize(block.threads);
    block.checks->written.assign(block.shared_bytes, false);
}

void watch_barrier(Block& block, u32 number) {
    if (block.launch->counts) count_barrier(block);
    if (!block.launch->checks || !block.launch->checks->races) return;
    const bool all = block.barriers[number].expected == 0;
    std::vector<u32> who;
    if (all)
        for (u32 k = 0; k < block.threads; ++k) who.push_back(k);
    else
        for (const auto& warp : block.warps)
            for (const Group& group : warp->groups)
                if (group.state == State::barrier && group.barrier == number)
                    for (const u32 l : Lanes{group.mask}) who.push_back(warp->first_thread + l);
    meet(block, who, all);
}

void watch_warp_sync(Warp& w, const Inst& i) {
    if (!w.launch().checks || !w.launch().checks->races || i.kind != WARP_BARRIER) return;
    std::vector<u32> who;
    for (const u32 l : Lanes{w.mask}) who.push_back(w.first_thread + l);
    meet(*w.block, who, false);
}

void watch_fence(Warp& w, const Inst& i) {
    if (w.launch().counts) count_operation(w, i);
    if (!w.launch().checks || !w.launch().checks->races) return;
    for (const u32 l : Lanes{w.mask}) fence_of(*w.block, w.first_thread + l, i.scope);
    let_others_read(w);
}

}  // namespace machine
