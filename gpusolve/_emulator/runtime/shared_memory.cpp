#include "shared_memory.h"

#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "block.h"
#include "kernel_entry.h"

namespace emulator {

namespace {

/// A variable whose address identifies this object in the process.
const char marker = 0;

bool contains(const dl_phdr_info& object, const ElfW(Phdr) & segment, const void* address) {
    const auto start = static_cast<std::uintptr_t>(object.dlpi_addr + segment.p_vaddr);
    const auto target = reinterpret_cast<std::uintptr_t>(address);
    return start <= target && target < start + segment.p_memsz;
}

int find_variables(dl_phdr_info* object, std::size_t, void* result) {
    bool is_this_object = false;
    std::size_t bytes = 0;
    for (int i = 0; i < object->dlpi_phnum; ++i) {
        const auto& segment = object->dlpi_phdr[i];
        if (segment.p_type == PT_LOAD && contains(*object, segment, &marker)) is_this_object = true;
        if (segment.p_type == PT_TLS) bytes = segment.p_memsz;
    }
    if (!is_this_object) return 0;
    *static_cast<Span*>(result) = {object->dlpi_tls_data, bytes};
    return 1;
}

}  // namespace

Span thread_local_variables() {
    Span span{};
    dl_iterate_phdr(find_variables, &span);
    return span;
}

std::size_t static_shared_bytes() {
    constexpr std::size_t unit = shared_unit_bytes;
    constexpr std::size_t emulator_variables = 3;  // threadIdx, blockIdx and the runner
    static_assert(dynamic_shared_bytes % unit == 0, "must be a multiple of the unit");
    const std::size_t all = (thread_local_variables().bytes + unit - 1) / unit * unit;
    return all - shared_guard_bytes - dynamic_shared_bytes - emulator_variables * unit;
}

void poison_shared_memory(Span kept) {
    const Span all = thread_local_variables();
    auto* start = static_cast<unsigned char*>(all.start);
    auto* kept_start = static_cast<unsigned char*>(kept.start);
    auto* kept_end = kept_start + kept.bytes;
    std::memset(start, poison, static_cast<std::size_t>(kept_start - start));
    std::memset(kept_end, poison, static_cast<std::size_t>(start + all.bytes - kept_end));
}

const unsigned char* find_overrun(std::size_t shared_bytes) {
    const unsigned char* dynamic = dynamic_shared_memory();
    const Span guard{const_cast<unsigned char*>(dynamic) - shared_guard_bytes, shared_guard_bytes};
    const Span rest{const_cast<unsigned char*>(dynamic) + shared_bytes,
                    dynamic_shared_bytes - shared_bytes};
    for (const Span& span : {guard, rest}) {
        const auto* start = static_cast<const unsigned char*>(span.start);
        // Compares every byte with the next; memcmp is much faster than a loop.
        if (*start == poison && std::memcmp(start, start + 1, span.bytes - 1) == 0) continue;
        return std::find_if(start, start + span.bytes,
                            [](unsigned char byte) { return byte != poison; });
    }
    return nullptr;
}

}  // namespace emulator
