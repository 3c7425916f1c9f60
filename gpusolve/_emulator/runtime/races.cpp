#include "races.h"

namespace emulator {

RaceDetector::RaceDetector(const GlobalSpan* spans, std::size_t count)
    : shadows_(spans, spans + count) {}

bool RaceDetector::watches(std::uintptr_t address) const {
    return std::any_of(shadows_.begin(), shadows_.end(),
                       [&](const Shadow& shadow) { return shadow.span().contains(address); });
}

std::optional<Race> RaceDetector::touch(std::uint64_t block, std::uintptr_t address,
                                        std::size_t bytes, Touch touch, std::uint64_t instruction) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Block& own = block_of(block);
    const Now now{own, touch, {block, own.time, touch.is_strong, instruction}};
    find_bytes(address, bytes);
    if (bytes_.empty()) return {};
    if (auto race = find_race(address, now)) return race;
    remember(now);
    return {};
}

void RaceDetector::fence(std::uint64_t block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Block& own = block_of(block);
    own.known.learn(own.seen);
    own.fenced = std::make_shared<const Clock>(own.known);
    own.known.set(block, ++own.time);
}

RaceDetector::Block& RaceDetector::block_of(std::uint64_t number) {
    Block& block = blocks_[number];
    if (block.time == 0) block.known.set(number, block.time = 1);
    return block;
}

/// Only those inside of a span, if the access goes on beyond its end: it is about to fault.
void RaceDetector::find_bytes(std::uintptr_t address, std::size_t count) {
    bytes_.clear();
    for (Shadow& shadow : shadows_)
        for (std::size_t i = 0; i < count && shadow.span().contains(address + i); ++i)
            bytes_.push_back(&shadow.at(address + i));
}

// ---- what is wrong ----------------------------------------------------------------------

std::optional<Race> RaceDetector::find_race(std::uintptr_t address, const Now& now) const {
    std::optional<Race> race;
    for (std::size_t i = 0; i < bytes_.size() && !race; ++i)
        if ((race = conflict(*bytes_[i], now))) race->address = address + i;
    if (!race && now.touch.is_strong && now.touch.reads)
        if ((race = tear(now))) race->address = address;
    return race;
}

bool RaceDetector::conflicts(const Event& earlier, const Now& now) {
    return earlier.block != now.event.block && !(earlier.is_strong && now.event.is_strong) &&
           !now.block.known.knows(earlier);
}

std::optional<Race> RaceDetector::conflict(const ShadowByte& byte, const Now& now) {
    if (conflicts(byte.written, now)) return Race{0, byte.written, true, false};
    if (!now.touch.writes) return {};
    for (const Event& read : byte.reads)
        if (conflicts(read, now)) return Race{0, read, false, false};
    return {};
}

/// A strong read of bytes from several writes, one of which it might as well have missed.
std::optional<Race> RaceDetector::tear(const Now& now) const {
    const bool is_whole = std::all_of(bytes_.begin(), bytes_.end(), [&](const ShadowByte* byte) {
        return byte->write == bytes_.front()->write;
    });
    if (is_whole) return {};
    for (const ShadowByte* byte : bytes_)
        if (byte->written.block != now.event.block && !now.block.known.knows(byte->written))
            return Race{0, byte->written, true, true};
    return {};
}

// ---- what is remembered -----------------------------------------------------------------

void RaceDetector::remember(const Now& now) {
    const auto& carried = bytes_.front()->carried;
    if (now.touch.is_strong && now.touch.reads && carried) now.block.seen.learn(*carried);
    if (now.touch.writes) ++writes_;
    for (ShadowByte* byte : bytes_) {
        if (now.touch.writes)
            remember_write(*byte, now);
        else
            remember_read(*byte, now);
    }
}

/// In place of those reads that whoever conflicts with them conflicts with this one, too.
void RaceDetector::remember_read(ShadowByte& byte, const Now& now) {
    const auto is_covered = [&](const Event& earlier) {
        return (earlier.is_strong || !now.event.is_strong) && now.block.known.knows(earlier);
    };
    auto& reads = byte.reads;
    reads.erase(std::remove_if(reads.begin(), reads.end(), is_covered), reads.end());
    reads.push_back(now.event);
}

void RaceDetector::remember_write(ShadowByte& byte, const Now& now) const {
    byte.written = now.event;
    byte.write = writes_;
    byte.reads.clear();
    const auto before = now.touch.reads ? byte.carried : nullptr;
    byte.carried = now.touch.is_strong ? now.block.fenced : nullptr;
    if (!before) return;
    auto both = std::make_shared<Clock>(*before);
    if (byte.carried) both->learn(*byte.carried);
    byte.carried = both;
}

}  // namespace emulator
