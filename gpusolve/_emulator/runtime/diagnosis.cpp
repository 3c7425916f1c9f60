// Writes the reports of faulty threads and blocks.

#include <dlfcn.h>
#include <signal.h>

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
        case Operation::activemask:
            return "__activemask";
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

/// The operation that a thread waits in, and its line.
std::string describe_wait(const Thread& thread, bool in_warp_operation) {
    std::string text = std::string("waiting in ") + name_of(thread.operation);
    if (in_warp_operation) {
        char mask[32];
        std::snprintf(mask, sizeof(mask), " with mask 0x%08x", thread.mask);
        text += mask;
    }
    return text + " at " + to_string(thread.site);
}

/// An instruction, whose line _report.py fills in.
std::string to_string(std::uintptr_t instruction) {
    std::uint64_t offset = instruction;
    make_relative(offset);
    char text[32];
    std::snprintf(text, sizeof(text), "{0x%llx}", static_cast<unsigned long long>(offset));
    return text;
}

}  // namespace

bool make_relative(std::uint64_t& instruction) {
    Dl_info own{}, object{};
    dladdr(reinterpret_cast<void*>(&make_relative), &own);
    const bool is_own = dladdr(reinterpret_cast<void*>(instruction), &object) != 0 &&
                        object.dli_fbase == own.dli_fbase;
    instruction = is_own ? instruction - reinterpret_cast<std::uintptr_t>(own.dli_fbase) : 0;
    return is_own;
}

FaultReport* BlockRunner::first_report(const Thread* thread) {
    if (launch_.reported.exchange(true)) return nullptr;
    FaultReport& report = *launch_.report;
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
    if (FaultReport* report = first_report(nullptr))
        std::snprintf(report->text, sizeof(report->text), "%s", text.c_str());
    throw LaunchStopped();
}

void BlockRunner::fail_race(const Race& race, std::size_t bytes, AccessKind how,
                            std::uint64_t instruction) {
    const auto access = [](bool writes) {
        return static_cast<int>(writes ? Access::write : Access::read);
    };
    if (FaultReport* report = first_report(running_)) {
        report->race = static_cast<int>(race.kind);
        report->access = access(how.writes);
        report->access_bytes = static_cast<int>(bytes);
        const MemorySpan& shared = race_state_->shared_memory();
        report->in_shared_memory = shared.contains(race.address);
        report->address = race.address - (report->in_shared_memory ? shared.start : 0);
        report->instruction = instruction;
        report->other_access = access(race.other.writes);
        report->other_instruction = race.other.instruction;
        const uint3 other = block_index(launch_.grid, race.other.block);
        report->other_block[0] = other.x;
        report->other_block[1] = other.y;
        report->other_block[2] = other.z;
        const uint3 thread = threads_[race.other_thread()].index;
        report->other_thread[0] = thread.x;
        report->other_thread[1] = thread.y;
        report->other_thread[2] = thread.z;
    }
    throw LaunchStopped();
}

void BlockRunner::fail_access(Misuse misuse, std::uintptr_t address, std::size_t bytes,
                              AccessKind how, std::uint64_t instruction) {
    if (FaultReport* report = first_report(running_)) {
        const bool in_shared_memory = memory_->contains(address) || memory_->is_before(address);
        report->signal = misuse == Misuse::outside ? SIGSEGV : 0;
        report->shared_overrun = misuse == Misuse::past_shared_memory;
        report->unwritten = misuse == Misuse::unwritten;
        report->in_shared_memory = in_shared_memory;
        report->shared_bytes = launch_.shared_bytes;
        report->access = static_cast<int>(how.writes ? Access::write : Access::read);
        report->access_bytes = static_cast<int>(bytes);
        report->address = address - (in_shared_memory ? memory_->start() : 0);
        report->instruction = instruction;
    }
    throw LaunchStopped();
}

/// End the launch because it was stopped.
void BlockRunner::end_launch() {
    if (launch_.is_endless)
        fail_block(
            "endless loop: no thread of the launch ended, and no barrier or warp operation was "
            "completed, within the limit of the schedule" +
            describe_threads());
    throw LaunchStopped();
}

/// End the launch because no thread can run.
void BlockRunner::report_deadlock() {
    bool only_barriers = true;
    for (const Warp& warp : warps_)
        if (warp.in_warp_operation) only_barriers = false;
    if (only_barriers && is_one_barrier())
        fail_block(
            "divergent barrier: some threads have returned before a barrier in which the others "
            "wait; Volta and later GPUs wait for the others only, earlier GPUs may hang; let all "
            "threads reach the barrier, and guard the work instead" +
            describe_threads());
    fail_block(
        (only_barriers
             ? "divergent barrier: all threads of a block must reach the same barrier, so it must "
               "not be in a branch that some skip, nor after an early return"
             : "deadlock: lanes wait for other lanes of their mask; all lanes of a mask must make "
               "the same call with the same mask") +
        describe_threads());
}

/// Whether all threads that have not returned wait in the same barrier.
bool BlockRunner::is_one_barrier() const {
    const Thread* first = nullptr;
    for (const Thread& thread : threads_) {
        if (warps_[thread.warp].finished >> thread.lane & 1) continue;
        if (!first) first = &thread;
        if (thread.operation != first->operation || !is_same(thread.site, first->site))
            return false;
    }
    return true;
}

/// A line for each group of threads that wait at the same place.
std::string BlockRunner::describe_threads() const {
    struct Group {
        std::string state;
        uint3 first;
        int count;
    };
    std::vector<Group> groups;
    for (const Thread& thread : threads_) {
        const Warp& warp = warps_[thread.warp];
        const auto is_in = [&](unsigned lanes) { return lanes >> thread.lane & 1; };
        std::string state;
        if (is_in(warp.finished))
            state = "returned from the kernel";
        else if (is_in(warp.in_warp_operation | warp.in_barrier))
            state = describe_wait(thread, is_in(warp.in_warp_operation));
        else
            state = thread.place ? "running at " + to_string(thread.place) : "not started";
        auto same = [&](const Group& group) { return group.state == state; };
        auto found = std::find_if(groups.begin(), groups.end(), same);
        if (found == groups.end())
            groups.push_back({state, thread.index, 1});
        else
            ++found->count;
    }
    std::string text;
    for (const Group& group : groups)
        text += "\n  " + std::to_string(group.count) + " of " + std::to_string(threads_.size()) +
                " threads: " + group.state + ", first thread " + to_string(group.first);
    return text;
}

void fail(Site site, const char* format, ...) {
    BlockRunner& runner = *current_runner();
    if (FaultReport* report = runner.first_report(runner.running())) {
        std::va_list values;
        va_start(values, format);
        std::vsnprintf(report->text, sizeof(report->text), format, values);
        va_end(values);
        std::snprintf(report->file, sizeof(report->file), "%s", without_directory(site.file));
        report->line = site.line;
    }
    runner.exit_thread();
}

}  // namespace emulator
