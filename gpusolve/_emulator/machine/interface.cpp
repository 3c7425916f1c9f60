// The C interface, which Python calls.

#include <algorithm>
#include <cstdlib>

#include <cxxabi.h>

#include "program.h"

using namespace machine;

#define EXPORT extern "C" __attribute__((visibility("default")))

/// Whether this CPU has the instructions of the object.
EXPORT int gpusolve_supports() {
#ifdef __AVX2__
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
#else
    return 1;
#endif
}

/// What a function of the interface returns last; each thread has its own.
static thread_local std::string text, counted;

/// The result of a function, or null, and the text of its exception.
template <class F>
static auto* made(F function) {
    try {
        return function().release();
    } catch (const std::exception& error) {
        text = error.what();
        return static_cast<decltype(function().release())>(nullptr);
    }
}

/// The reason why a program or kernel is missing, or what a launch has printed.
EXPORT const char* machine_text() {
    return text.c_str();
}

EXPORT const char* machine_demangle(const char* symbol) {
    int status = 0;
    char* found = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
    text = found ? found : symbol;
    std::free(found);
    return text.c_str();
}

EXPORT void* machine_program(const char* ptx) {
    return made([&] { return read_program(ptx); });
}
EXPORT const char* machine_describe_program(const Program* program) {
    return (text = described(*program)).c_str();
}
EXPORT void machine_place(Program* program, const u64* addresses, const char* is_new) {
    place_variables(*program, addresses, is_new);
}
EXPORT void machine_delete_program(Program* program) {
    delete program;
}

EXPORT void* machine_load(const Program* program, const char* entry, u64 gap,
                          const char* hidden_files) {
    return made([&] { return load(*program, entry, gap, hidden_files); });
}
EXPORT const char* machine_describe(const Kernel* kernel) {
    return (text = described(*kernel)).c_str();
}
EXPORT const char* machine_sites(const Kernel* kernel) {
    return (text = described_sites(*kernel)).c_str();
}
EXPORT void machine_delete_kernel(Kernel* kernel) {
    delete kernel;
}

namespace {

/// Offsets of the parameters from which a value may have come, by the instructions before.
void trace(const Kernel& kernel, const Inst* inst, Place value, int depth,
           std::vector<u64>& offsets) {
    const Inst* const first = inst->function->code.data();
    while ((value & 3) == FRAME && inst-- != first) {
        const int results = inst->kind == MEMORY && !inst->is_write() ? inst->vector : 1;
        int k = 0;
        while (k < results && inst->op[k] != value) ++k;
        if (k == results || inst->is_write() || inst->call) continue;
        if (inst->kind == MEMORY) {
            const Place from = inst->op[inst->vector];
            if (inst->space == Space::param && (from & 3) == CONSTANTS)
                offsets.push_back(kernel.constants[(from >> 2) / 8] +
                                  static_cast<u64>(inst->address[0].offset) +
                                  8 * static_cast<u64>(k));
            return;
        }
        if (inst->kind == INTEGER || inst->kind == MOVE)
            for (int source = 1; source < inst->count && depth < 40; ++source)
                trace(kernel, inst, inst->op[source], depth + 1, offsets);
        return;
    }
}

}  // namespace

/// Offsets of the parameters that may be the pointer of an access.
EXPORT const char* machine_origins(const Kernel* kernel, u32 site) {
    const Inst& inst = *kernel->by_site[site];
    std::vector<u64> found;
    if (inst.function == kernel->entry)
        for (int k = 0; k < inst.count && k < 5; ++k) trace(*kernel, &inst, inst.op[k], 0, found);
    text.clear();
    for (const u64 offset : found) text += std::to_string(offset) + " ";
    return text.c_str();
}

/// Called with Python's lock. Not 0 if the kernel has failed, or Python has an exception.
EXPORT int machine_launch(const void* kernel, const Request* request, Fault* fault,
                          const Python* python) {
    Launch launch(*static_cast<const Kernel*>(kernel), *request, *fault, *python);
    const auto checks = new_checks(request->checks_races, request->checks_memory);
    if (request->checks_races || request->checks_memory) launch.checks = checks.get();
    const auto counts = new_counts();
    if (request->counts) launch.counts = counts.get();
    launch.is_watched = launch.checks || launch.counts;
    launch.thread = python->save();
    launch.run();
    python->restore(launch.thread);
    text = launch.output;
    counted = launch.counted;
    return launch.stopped ? 1 : 0;
}

/// The counts of the last launch; empty if it has failed, or was not counted.
EXPORT const char* machine_counts() {
    return counted.c_str();
}
