// What a block's threads did wrong, in words.

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include "block.h"

namespace emulator {

const char* name_of(Operation operation) {
    switch (operation) {
        case Operation::syncthreads:
            return "__syncthreads";
        case Operation::syncthreads_or:
            return "__syncthreads_or";
        case Operation::syncthreads_and:
            return "__syncthreads_and";
        case Operation::syncthreads_count:
            return "__syncthreads_count";
        case Operation::syncwarp:
            return "__syncwarp";
        case Operation::shfl:
            return "__shfl_sync";
        case Operation::shfl_up:
            return "__shfl_up_sync";
        case Operation::shfl_down:
            return "__shfl_down_sync";
        case Operation::shfl_xor:
            return "__shfl_xor_sync";
        case Operation::ballot:
            return "__ballot_sync";
        case Operation::any:
            return "__any_sync";
        case Operation::all:
            return "__all_sync";
    }
    return "?";
}

namespace {

const char* without_directory(const char* file) {
    const char* slash = std::strrchr(file, '/');
    return slash ? slash + 1 : file;
}

std::string to_string(Site site) {
    return std::string(without_directory(site.file)) + ":" + std::to_string(site.line);
}

std::string to_string(uint3 index) {
    return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
           std::to_string(index.z) + ")";
}

/// Where a thread waits, in words.
std::string waiting_place(const Thread& thread, bool in_warp) {
    std::string place = std::string("in ") + name_of(thread.operation);
    if (in_warp) {
        char mask[32];
        std::snprintf(mask, sizeof(mask), " with mask 0x%08x", thread.mask);
        place += mask;
    }
    return place + " at " + to_string(thread.site);
}

}  // namespace

Report* BlockRunner::first_report(const Thread* thread) {
    if (launch_.reported.exchange(true)) return nullptr;
    Report& report = *launch_.report;
    report = {};
    report.happened = 1;
    if (thread) {
        report.has_thread = 1;
        report.thread[0] = thread->index.x;
        report.thread[1] = thread->index.y;
        report.thread[2] = thread->index.z;
    }
    report.block[0] = blockIdx.x;
    report.block[1] = blockIdx.y;
    report.block[2] = blockIdx.z;
    launch_.stopped = true;
    return &report;
}

void BlockRunner::fail_block(const std::string& text) {
    if (Report* report = first_report(nullptr))
        std::snprintf(report->text, sizeof(report->text), "%s", text.c_str());
    throw Abandoned();
}

void BlockRunner::fail_race(const Race& race, Touch how, std::uint64_t instruction) {
    const auto name = [](bool writes) {
        return static_cast<int>(writes ? Access::write : Access::read);
    };
    if (Report* report = first_report(running_)) {
        report->race = static_cast<int>(race.is_torn ? RaceKind::torn : RaceKind::conflict);
        report->access = name(how.writes);
        const MemorySpan& shared = witness_->shared_memory();
        report->in_shared_memory = shared.contains(race.address);
        report->address = race.address - (report->in_shared_memory ? shared.start : 0);
        report->instruction = instruction;
        report->other_access = name(race.other.writes);
        report->other_instruction = race.other.instruction;
        const uint3 other = place_in(launch_.grid, race.other.block);
        report->other_block[0] = other.x;
        report->other_block[1] = other.y;
        report->other_block[2] = other.z;
        const uint3 thread = threads_[race.other_thread()].index;
        report->other_thread[0] = thread.x;
        report->other_thread[1] = thread.y;
        report->other_thread[2] = thread.z;
    }
    throw Abandoned();
}

/// Say which threads wait where, and stop.
void BlockRunner::report_stuck() {
    struct Group {
        std::string place;
        uint3 first;
        int count;
    };
    std::vector<Group> groups;
    bool only_barriers = true;
    for (const Thread& thread : threads_) {
        const Warp& warp = warps_[thread.warp];
        const bool in_warp = warp.in_warp >> thread.lane & 1;
        if (in_warp) only_barriers = false;
        const std::string place = warp.left >> thread.lane & 1
                                      ? "left the kernel"
                                      : "waits " + waiting_place(thread, in_warp);
        auto same = [&](const Group& group) { return group.place == place; };
        auto found = std::find_if(groups.begin(), groups.end(), same);
        if (found == groups.end())
            groups.push_back({place, thread.index, 1});
        else
            ++found->count;
    }
    std::string text = only_barriers
                           ? "divergent barrier: not all threads of the block meet in one"
                           : "deadlock: lanes wait for others of their mask, which never come";
    for (const Group& group : groups)
        text += "\n  " + std::to_string(group.count) + " x " + group.place + ", thread " +
                to_string(group.first) + " first";
    fail_block(text);
}

void fail(Site site, const char* format, ...) {
    BlockRunner& runner = *current_runner();
    if (Report* report = runner.first_report(runner.running())) {
        std::va_list values;
        va_start(values, format);
        std::vsnprintf(report->text, sizeof(report->text), format, values);
        va_end(values);
        std::snprintf(report->file, sizeof(report->file), "%s", without_directory(site.file));
        report->line = site.line;
    }
    runner.abandon();
}

}  // namespace emulator
