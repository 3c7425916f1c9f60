// The functions that UndefinedBehaviorSanitizer's checks call: an index outside of the declared
// array, an address that is not aligned for its type, and an address past the end of the variable
// to which the same function made the pointer. The host code of a program is not checked.

#include <cstdint>

#include "block.h"

namespace emulator {

namespace {

struct SourceLocation {
    const char* file;
    std::uint32_t line, column;
};

/// A type; `info` of an integer has its width and whether it is signed.
struct TypeDescriptor {
    std::uint16_t kind, info;
    char name[1];
};

struct OutOfBoundsData {
    SourceLocation place;
    const TypeDescriptor *array, *index;
};

struct TypeMismatchData {
    SourceLocation place;
    const TypeDescriptor* type;
    unsigned char log_alignment, kind;
};

/// The value of an index, which is passed in the low bits.
long long value_of(std::uintptr_t index, const TypeDescriptor& type) {
    const unsigned bits = 1u << (type.info >> 1), unused = 64 - bits;
    const auto shifted = static_cast<std::uint64_t>(index) << unused;
    const bool is_signed = type.info & 1;
    return is_signed ? static_cast<std::int64_t>(shifted) >> unused
                     : static_cast<long long>(shifted >> unused);
}

Site site_of(const SourceLocation& place) {
    return {place.file, static_cast<int>(place.line)};
}

}  // namespace

}  // namespace emulator

using namespace emulator;

extern "C" {

void __ubsan_handle_out_of_bounds(const OutOfBoundsData* data, std::uintptr_t index) {
    if (!current_runner()) return;
    fail(site_of(data->place), "index %lld is outside of an array of type %s",
         value_of(index, *data->index), data->array->name);
}

void __ubsan_handle_type_mismatch_v1(const TypeMismatchData* data, std::uintptr_t address) {
    if (!current_runner()) return;
    const unsigned long long alignment = 1ull << data->log_alignment;
    if (address % alignment == 0)
        fail(site_of(data->place), "accesses %s outside of the variable that the pointer points to",
             data->type->name);
    fail(site_of(data->place),
         "misaligned address: it is %llu bytes after a multiple of %llu, to which %s must be "
         "aligned",
         static_cast<unsigned long long>(address % alignment), alignment, data->type->name);
}
}
