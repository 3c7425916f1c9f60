#include "races.h"

namespace emulator {

namespace {

Knowledge both(const Knowledge& one, const Knowledge& other) {
    if (!one || one == other) return other;
    if (!other) return one;
    auto joined = std::make_shared<Clock>(*one);
    joined->learn(*other);
    return joined;
}

/// The message of an atomic update, whose thread would send one of its own.
std::shared_ptr<const Message> handed_on(const std::shared_ptr<const Message>& before,
                                         const std::shared_ptr<const Message>& own) {
    if (!before || before == own) return own;
    if (!own) return before;
    const bool same_block = before->block == own->block;
    return std::make_shared<const Message>(
        Message{own->block, both(own->for_block, same_block ? before->for_block : nullptr),
                both(own->for_device, before->for_device)});
}

}  // namespace

// ---- what the threads of a block know ---------------------------------------------------

BlockWitness::BlockWitness(std::uint32_t threads, const MemorySpan& shared_memory)
    : threads_(threads), shared_(shared_memory) {}

void BlockWitness::begin(std::uint64_t block) {
    block_ = block;
    const auto nothing = std::make_shared<const Clock>(block);
    for (Thread& thread : threads_) thread = {1, nothing, nullptr, nullptr, nullptr};
    shared_.clear();
}

void BlockWitness::barrier() {
    Knowledge joined;
    std::uint32_t time = 0;
    for (const Thread& thread : threads_) {
        joined = both(joined, thread.known);
        time = std::max(time, thread.time);
    }
    auto known = std::make_shared<Clock>(*joined);
    known->of(block_).learn_all(time);
    for (Thread& thread : threads_) {
        thread.known = known;
        thread.time = time + 1;
    }
}

void BlockWitness::sync(std::uint32_t warp, std::uint32_t lanes) {
    Knowledge joined;
    for_each_lane(lanes, [&](unsigned lane) {
        joined = both(joined, threads_[warp * warpSize + lane].known);
    });
    auto known = std::make_shared<Clock>(*joined);
    for_each_lane(lanes, [&](unsigned lane) {
        const std::uint32_t thread = warp * warpSize + lane;
        known->of(block_).learn(thread, threads_[thread].time++);
    });
    for_each_lane(lanes, [&](unsigned lane) { threads_[warp * warpSize + lane].known = known; });
}

void BlockWitness::fence(std::uint32_t number, Scope scope) {
    Thread& thread = threads_[number];
    thread.known = both(thread.known, thread.seen_in_block);
    thread.seen_in_block = nullptr;
    if (scope == Scope::device) {
        thread.known = both(thread.known, thread.seen_anywhere);
        thread.seen_anywhere = nullptr;
    }
    auto known = std::make_shared<Clock>(*thread.known);
    known->of(block_).learn(number, thread.time++);
    const Knowledge before = thread.message ? thread.message->for_device : nullptr;
    thread.message = std::make_shared<const Message>(
        Message{block_, known, scope == Scope::device ? known : before});
}

// ---- what they touch --------------------------------------------------------------------

RaceDetector::RaceDetector(const MemorySpan* spans, std::size_t count)
    : shadows_(spans, spans + count) {}

bool RaceDetector::watches(std::uintptr_t address) const {
    return std::any_of(shadows_.begin(), shadows_.end(),
                       [&](const Shadow& shadow) { return shadow.span().contains(address); });
}

std::optional<Race> RaceDetector::touch(BlockWitness& block, std::uint32_t thread,
                                        std::uintptr_t address, std::size_t bytes, Touch touch,
                                        std::uint64_t instruction) {
    const std::lock_guard<std::mutex> lock(mutex_);
    BlockWitness::Thread& own = block.threads_[thread];
    const Event event{block.block_, instruction,  thread / warpSize, 1u << thread % warpSize,
                      own.time,     touch.writes, touch.is_strong};
    const Now now{own, event, touch.reads};
    find_places(block, address, bytes);
    if (places_.empty()) return {};
    if (auto race = find_race(now)) return race;
    remember(now);
    return {};
}

/// Only those inside of a span, if the access goes on beyond its end: it is about to fault.
void RaceDetector::find_places(BlockWitness& block, std::uintptr_t address, std::size_t bytes) {
    places_.clear();
    if (block.shared_memory().contains(address)) return block.shared_.find(address, bytes, places_);
    for (Shadow& shadow : shadows_)
        if (shadow.span().contains(address)) shadow.find(address, bytes, places_);
}

/// Those of an earlier event's lanes whose accesses the thread does not know.
std::uint32_t RaceDetector::Now::unknown(const Event& earlier) const {
    const std::uint32_t own = earlier.is_of_warp(event) ? event.lanes : 0;
    const std::uint32_t others = earlier.lanes & ~own;
    return others ? others & thread.known->unknown(earlier) : 0;
}

// ---- what is wrong ----------------------------------------------------------------------

std::optional<Race> RaceDetector::find_race(const Now& now) const {
    for (const Place& place : places_)
        if (auto race = conflict(place, now)) return race;
    return now.event.is_strong && now.reads ? tear(now) : std::nullopt;
}

std::optional<Race> RaceDetector::conflict(const Place& place, const Now& now) {
    const std::vector<Event>& events = place.cell->events;
    for (const Event& earlier : events) {
        if (!earlier.writes && !now.event.writes) continue;
        if (earlier.is_strong && now.event.is_strong) continue;
        if (const std::uint32_t unknown = now.unknown(earlier))
            return Race{place.address, earlier.by(unknown), false};
    }
    return {};
}

/// A strong read of words from several writes, one of which it might as well have missed.
std::optional<Race> RaceDetector::tear(const Now& now) const {
    const bool is_whole = std::all_of(places_.begin(), places_.end(), [&](const Place& place) {
        return place.cell->write == places_.front().cell->write;
    });
    if (is_whole) return {};
    for (const Place& place : places_)
        for (const Event& earlier : place.cell->events)
            if (const std::uint32_t unknown = earlier.writes ? now.unknown(earlier) : 0)
                return Race{places_.front().address, earlier.by(unknown), true};
    return {};
}

// ---- what is remembered -----------------------------------------------------------------

void RaceDetector::remember(const Now& now) {
    const auto& message = places_.front().cell->message;
    if (now.event.is_strong && now.reads && message) {
        if (message->block == now.event.block)
            now.thread.seen_in_block = both(now.thread.seen_in_block, message->for_block);
        now.thread.seen_anywhere = both(now.thread.seen_anywhere, message->for_device);
    }
    if (now.event.writes) ++writes_;
    for (const Place& place : places_) {
        remember_event(place.cell->events, now);
        if (now.event.writes) remember_write(*place.cell, now);
    }
}

/// In place of those that whatever conflicts with them conflicts with this one, too.
void RaceDetector::remember_event(std::vector<Event>& events, const Now& now) {
    Event* same = nullptr;
    std::size_t kept = 0;
    for (Event earlier : events) {
        const bool may_cover =
            (now.event.writes || !earlier.writes) && (!now.event.is_strong || earlier.is_strong);
        if (earlier.is_same(now.event)) {
            earlier.lanes |= now.event.lanes;
            same = &events[kept];
        } else if (may_cover) {
            earlier.lanes = now.unknown(earlier);
        }
        if (earlier.lanes) events[kept++] = earlier;
    }
    events.resize(kept);
    if (!same) events.push_back(now.event);
}

void RaceDetector::remember_write(Cell& cell, const Now& now) const {
    cell.write = writes_;
    const auto own = now.event.is_strong ? now.thread.message : nullptr;
    cell.message = now.reads ? handed_on(cell.message, own) : own;
}

}  // namespace emulator
