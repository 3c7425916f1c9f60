// The C interface, which Python calls.

#include <algorithm>
#include <cstdlib>

#include <cxxabi.h>

#include "machine.h"

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

EXPORT void machine_demangle(const char* symbol, char* text, int bytes) {
    int status = 0;
    char* found = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
    std::snprintf(text, static_cast<std::size_t>(bytes), "%s", found ? found : symbol);
    std::free(found);
}

EXPORT void* machine_load(const Symbol* symbols, int count, const char* entry, u64 gap,
                          const char* hidden_files, char* error, int error_bytes) {
    std::string text;
    auto kernel = load(symbols, count, entry, gap, hidden_files, text);
    std::snprintf(error, static_cast<std::size_t>(error_bytes), "%s", text.c_str());
    return kernel.release();
}

EXPORT void machine_unload(void* kernel) {
    delete static_cast<Kernel*>(kernel);
}

EXPORT u64 machine_shared_bytes(const void* kernel) {
    return static_cast<const Kernel*>(kernel)->static_bytes;
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
EXPORT int machine_origins(const void* kernel, u32 site, u64* offsets, int most) {
    const Kernel& all = *static_cast<const Kernel*>(kernel);
    const Inst& inst = *all.by_site[site];
    std::vector<u64> found;
    if (inst.function == all.entry)
        for (int k = 0; k < inst.count && k < 5; ++k) trace(all, &inst, inst.op[k], 0, found);
    const int count = std::min(most, static_cast<int>(found.size()));
    std::copy_n(found.begin(), count, offsets);
    return count;
}

struct SiteRow {
    s32 ptx_line, file, line;
};

/// The number of instructions; their lines, unless `rows` is null.
EXPORT u32 machine_sites(const void* kernel, SiteRow* rows) {
    const auto& sites = static_cast<const Kernel*>(kernel)->by_site;
    for (const Inst* inst : sites)
        if (rows) *rows++ = {inst->ptx_line, inst->file, inst->line};
    return static_cast<u32>(sites.size());
}

EXPORT int machine_shared_variable(const void* kernel, int number, char* name, int bytes,
                                   u64* offset, u64* size) {
    const auto& shared = static_cast<const Kernel*>(kernel)->shared;
    if (number >= static_cast<int>(shared.size())) return 0;
    const SharedVariable& variable = shared[static_cast<std::size_t>(number)];
    std::snprintf(name, static_cast<std::size_t>(bytes), "%s", variable.name.c_str());
    *offset = variable.offset;
    *size = variable.bytes;
    return 1;
}

/// Called with Python's lock. Not 0 if the kernel has failed, or Python has an exception.
EXPORT int machine_launch(const void* kernel, const Request* request, Fault* fault,
                          const Python* python, char** output, void** counts) {
    Launch launch(*static_cast<const Kernel*>(kernel), *request, *fault, *python);
    const auto checks = new_checks(request->checks_races, request->checks_memory);
    if (request->checks_races || request->checks_memory) launch.checks = checks.get();
    auto counted = new_counts();
    if (request->counts) launch.counts = counted.get();
    launch.is_watched = launch.checks || launch.counts;
    launch.thread = python->save();
    launch.run();
    python->restore(launch.thread);
    *output = nullptr;
    if (!launch.output.empty()) *output = strdup(launch.output.c_str());
    *counts = launch.counts && !launch.stopped ? counted.release() : nullptr;
    return launch.stopped ? 1 : 0;
}

EXPORT const u64* machine_counts(void* counts, int which, u64* length) {
    return counts_table(*static_cast<Counts*>(counts), which, length);
}

EXPORT void machine_delete_counts(void* counts) {
    delete_counts(static_cast<Counts*>(counts));
}

/// Instructions that may read a register before it has a value.
EXPORT int machine_undefined(const void* kernel, u32* sites, int most) {
    int n = 0;
    for (const Function* function : static_cast<const Kernel*>(kernel)->by_index)
        for (const u32 inst : function->undefined)
            if (n < most) sites[n++] = function->code[inst].site;
    return n;
}

EXPORT void machine_free(void* memory) {
    std::free(memory);
}
