// The functions that ThreadSanitizer's instrumentation calls at each memory access.
//
// To detect races, and to count costs, kernels are compiled with this instrumentation, and
// linked with these functions in place of the sanitizer's library. To count costs they also
// call a function in each basic block.

#include <cstring>

#include "block.h"

namespace emulator {

namespace {

constexpr AccessKind plain_read{true, false, false}, plain_write{false, true, false};
constexpr AccessKind strong_read{true, false, true}, update{true, true, true};
constexpr AccessKind volatile_read{true, false, true, true},
    volatile_write{false, true, true, true};

void check_access(const volatile void* address, std::size_t bytes, AccessKind how, void* caller) {
    BlockRunner* runner = current_runner();
    if (!runner || !runner->is_watched(address)) return;
    runner->check_access(address, bytes, how, caller);
}

/// Atomics yield by themselves, before the access; volatile accesses do so here.
void check_volatile_access(const volatile void* address, std::size_t bytes, AccessKind how,
                           void* caller) {
    BlockRunner* runner = current_runner();
    if (!runner || !runner->is_watched(address)) return;
    runner->maybe_yield(caller);
    runner->check_access(address, bytes, how, caller);
}

/// The operation comes before the check, because its result decides whether memory is written.
/// A profile counts it as one atomic operation; the load before it in a loop is not counted.
template <class T>
bool compare_exchange(volatile T* address, T* expected, T value, void* caller) {
    if (BlockRunner* runner = current_runner(); runner && runner->is_profiled()) {
        runner->count_atomic(address, sizeof(T), caller);
        return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST,
                                           __ATOMIC_SEQ_CST);
    }
    const bool done = __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST,
                                                  __ATOMIC_SEQ_CST);
    check_access(address, sizeof(T), done ? update : strong_read, caller);
    return done;
}

/// Check a copy as accesses of its whole ranges.
void check_copy(const void* target, const void* source, std::size_t bytes, void* caller) {
    if (BlockRunner* runner = current_runner()) runner->mark_place(caller);
    if (bytes == 0) return;
    if (source) check_access(source, bytes, plain_read, caller);
    check_access(target, bytes, plain_write, caller);
}

void check_atomic_load(const volatile void* address, std::size_t bytes, void* caller) {
    BlockRunner* runner = current_runner();
    if (runner && !runner->is_profiled()) check_access(address, bytes, strong_read, caller);
}

}  // namespace

#define EMULATOR_CALLER __builtin_return_address(0)

void* copy_memory(void* target, const void* source, std::size_t bytes) {
    check_copy(target, source, bytes, EMULATOR_CALLER);
    return std::memcpy(target, source, bytes);
}

void* move_memory(void* target, const void* source, std::size_t bytes) {
    check_copy(target, source, bytes, EMULATOR_CALLER);
    return std::memmove(target, source, bytes);
}

void* set_memory(void* target, int value, std::size_t bytes) {
    check_copy(target, nullptr, bytes, EMULATOR_CALLER);
    return std::memset(target, value, bytes);
}

}  // namespace emulator

using namespace emulator;

extern "C" {

void __sanitizer_cov_trace_pc() {
    if (BlockRunner* runner = current_runner()) runner->count_code(EMULATOR_CALLER);
}

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

#define EMULATOR_ACCESSES(bytes)                                                \
    void __tsan_read##bytes(void* address) {                                    \
        check_access(address, bytes, plain_read, EMULATOR_CALLER);              \
    }                                                                           \
    void __tsan_write##bytes(void* address) {                                   \
        check_access(address, bytes, plain_write, EMULATOR_CALLER);             \
    }                                                                           \
    void __tsan_unaligned_read##bytes(void* address) {                          \
        check_access(address, bytes, plain_read, EMULATOR_CALLER);              \
    }                                                                           \
    void __tsan_unaligned_write##bytes(void* address) {                         \
        check_access(address, bytes, plain_write, EMULATOR_CALLER);             \
    }                                                                           \
    void __tsan_volatile_read##bytes(void* address) {                           \
        check_volatile_access(address, bytes, volatile_read, EMULATOR_CALLER);  \
    }                                                                           \
    void __tsan_volatile_write##bytes(void* address) {                          \
        check_volatile_access(address, bytes, volatile_write, EMULATOR_CALLER); \
    }                                                                           \
    void __tsan_unaligned_volatile_read##bytes(void* address) {                 \
        check_volatile_access(address, bytes, volatile_read, EMULATOR_CALLER);  \
    }                                                                           \
    void __tsan_unaligned_volatile_write##bytes(void* address) {                \
        check_volatile_access(address, bytes, volatile_write, EMULATOR_CALLER); \
    }

EMULATOR_ACCESSES(1)
EMULATOR_ACCESSES(2)
EMULATOR_ACCESSES(4)
EMULATOR_ACCESSES(8)
EMULATOR_ACCESSES(16)

void __tsan_read_range(void* address, unsigned long bytes) {
    check_access(address, bytes, plain_read, EMULATOR_CALLER);
}

void __tsan_write_range(void* address, unsigned long bytes) {
    check_access(address, bytes, plain_write, EMULATOR_CALLER);
}

void* __tsan_memcpy(void* target, const void* source, unsigned long bytes) {
    check_copy(target, source, bytes, EMULATOR_CALLER);
    return std::memcpy(target, source, bytes);
}

void* __tsan_memmove(void* target, const void* source, unsigned long bytes) {
    check_copy(target, source, bytes, EMULATOR_CALLER);
    return std::memmove(target, source, bytes);
}

void* __tsan_memset(void* target, int value, unsigned long bytes) {
    check_copy(target, nullptr, bytes, EMULATOR_CALLER);
    return std::memset(target, value, bytes);
}

// The functions for atomics.h. For compare and exchange GCC calls `_strong`, Clang `_val`.
#define EMULATOR_ATOMICS(bits, T)                                                                \
    T __tsan_atomic##bits##_load(const volatile T* address, int) {                               \
        check_atomic_load(address, sizeof(T), EMULATOR_CALLER);                                  \
        return __atomic_load_n(address, __ATOMIC_SEQ_CST);                                       \
    }                                                                                            \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile T* address, T* expected, T value, \
                                                      int, int) {                                \
        return compare_exchange(address, expected, value, EMULATOR_CALLER);                      \
    }                                                                                            \
    T __tsan_atomic##bits##_compare_exchange_val(volatile T* address, T expected, T value, int,  \
                                                 int) {                                          \
        compare_exchange(address, &expected, value, EMULATOR_CALLER);                            \
        return expected;                                                                         \
    }

EMULATOR_ATOMICS(8, unsigned char)
EMULATOR_ATOMICS(16, unsigned short)
EMULATOR_ATOMICS(32, unsigned)
EMULATOR_ATOMICS(64, unsigned long)

// Functions that only the host code of a whole program calls, which is not checked.
#define EMULATOR_HOST_UPDATE(bits, T, name)                             \
    T __tsan_atomic##bits##_##name(volatile T* address, T value, int) { \
        return __atomic_##name(address, value, __ATOMIC_SEQ_CST);       \
    }
#define EMULATOR_HOST_ATOMICS(bits, T)                                    \
    void __tsan_atomic##bits##_store(volatile T* address, T value, int) { \
        __atomic_store_n(address, value, __ATOMIC_SEQ_CST);               \
    }                                                                     \
    T __tsan_atomic##bits##_exchange(volatile T* address, T value, int) { \
        return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);     \
    }                                                                     \
    EMULATOR_HOST_UPDATE(bits, T, fetch_add)                              \
    EMULATOR_HOST_UPDATE(bits, T, fetch_sub)                              \
    EMULATOR_HOST_UPDATE(bits, T, fetch_and)                              \
    EMULATOR_HOST_UPDATE(bits, T, fetch_or)                               \
    EMULATOR_HOST_UPDATE(bits, T, fetch_xor)

EMULATOR_HOST_ATOMICS(8, unsigned char)
EMULATOR_HOST_ATOMICS(16, unsigned short)
EMULATOR_HOST_ATOMICS(32, unsigned)
EMULATOR_HOST_ATOMICS(64, unsigned long)

void __tsan_atomic_thread_fence(int) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
}
