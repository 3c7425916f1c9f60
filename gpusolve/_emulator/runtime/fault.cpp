#include "fault.h"

#include <ucontext.h>

#include <atomic>
#include <cstdint>

#include "block.h"

namespace emulator {

namespace {

constexpr int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr int signal_count = sizeof(signals) / sizeof(signals[0]);
struct sigaction previous[signal_count];

/// The signal that interrupts a worker. It is a fault signal, whose handler is
/// installed anyway, so that no other signal handler of the process is replaced.
constexpr int interruption = SIGSEGV;
std::atomic<bool> interrupting;

#if defined(__x86_64__)

std::uint64_t instruction_of(const ucontext_t& context) {
    return static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RIP]);
}

std::uint64_t stack_of(const ucontext_t& context) {
    return static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RSP]);
}

Access access_of(const ucontext_t& context) {
    constexpr int page_fault = 14, write_bit = 2;
    if (context.uc_mcontext.gregs[REG_TRAPNO] != page_fault) return Access::unknown;
    return context.uc_mcontext.gregs[REG_ERR] & write_bit ? Access::write : Access::read;
}

#elif defined(__aarch64__)

std::uint64_t instruction_of(const ucontext_t& context) {
    return context.uc_mcontext.pc;
}

std::uint64_t stack_of(const ucontext_t& context) {
    return context.uc_mcontext.sp;
}

/// The operating system appends records to the context; a record holds the syndrome register.
Access access_of(const ucontext_t& context) {
    struct Record {
        std::uint32_t magic, bytes;
        std::uint64_t syndrome;
    };
    constexpr std::uint32_t syndrome_magic = 0x45535201;
    constexpr std::uint64_t write_bit = 1 << 6;
    const auto* at = reinterpret_cast<const unsigned char*>(context.uc_mcontext.__reserved);
    const auto* end = at + sizeof(context.uc_mcontext.__reserved);
    while (at + sizeof(Record) <= end) {
        const auto& record = *reinterpret_cast<const Record*>(at);
        if (record.magic == syndrome_magic)
            return record.syndrome & write_bit ? Access::write : Access::read;
        if (record.magic == 0 || record.bytes == 0) break;
        at += record.bytes;
    }
    return Access::unknown;
}

#endif

void report_fault(BlockRunner& runner, int signal, const siginfo_t& info,
                  const ucontext_t& context) {
    FaultReport* report = runner.first_report(runner.running());
    if (!report) return;
    report->signal = signal;
    report->address = reinterpret_cast<std::uintptr_t>(info.si_addr);
    report->instruction = instruction_of(context);
    report->caller = runner.running()->place;
    if (signal == SIGSEGV || signal == SIGBUS) {
        report->access = static_cast<int>(access_of(context));
        report->stack_overflow = runner.in_stacks(info.si_addr);
    }
}

void restore_previous() {
    for (int i = 0; i < signal_count; ++i) sigaction(signals[i], &previous[i], nullptr);
}

/// Whether a kernel's thread was running, not the scheduler. Only then may the handler switch
/// to the scheduler. The stack pointer changes with the switch itself, so this test is exact.
bool is_inside_kernel(const BlockRunner* runner, const ucontext_t& context) {
    return runner && runner->in_stacks(reinterpret_cast<const void*>(stack_of(context)));
}

/// Runs on the worker's alternate signal stack, and leaves it by switching to the scheduler.
/// This is safe because the handler blocks no signals, so the mask stays the same.
void handle(int signal, siginfo_t* info, void* any_context) {
    const auto& context = *static_cast<const ucontext_t*>(any_context);
    const bool was_sent = info->si_code <= 0;
    BlockRunner* runner = current_runner();
    const bool inside = is_inside_kernel(runner, context);
    if (was_sent && interrupting) {
        if (inside) runner->interrupt_thread(instruction_of(context));
        return;
    }
    if (inside && !was_sent) {
        report_fault(*runner, signal, *info, context);
        runner->exit_thread();
    }
    // Not a kernel's fault: after the return it happens again, and the previous handler runs.
    restore_previous();
    if (was_sent) raise(signal);
}

}  // namespace

FaultHandlers::FaultHandlers() {
    interrupting = false;
    struct sigaction action{};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < signal_count; ++i) sigaction(signals[i], &action, &previous[i]);
}

FaultHandlers::~FaultHandlers() {
    restore_previous();
}

sigset_t all_but_faults() {
    sigset_t set;
    sigfillset(&set);
    for (int signal : signals) sigdelset(&set, signal);
    return set;
}

void interrupt(pthread_t worker) {
    interrupting = true;
    pthread_kill(worker, interruption);
}

}  // namespace emulator
