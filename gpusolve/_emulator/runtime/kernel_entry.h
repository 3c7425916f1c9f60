// Calls a kernel with untyped arguments, and describes its parameters, against which the
// launch checks the arguments.

#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#define EMULATOR_EXPORT extern "C" __attribute__((visibility("default")))

/// A function whose accesses are not checked.
#ifdef EMULATOR_CHECKS
#define EMULATOR_UNCHECKED __attribute__((no_sanitize("thread"), no_sanitize("alignment")))
#else
#define EMULATOR_UNCHECKED
#endif

namespace emulator {

/// `kind` of the value, or of a pointer's target: 'f'loating, 'i'nteger, 's'tructure, 'v'oid.
/// `is_const`: a pointer to const. `bytes`: the size of the value or the target.
struct Parameter {
    int is_pointer;
    int is_const;
    int kind;
    int bytes;
};

template <class T>
constexpr int kind_of() {
    if constexpr (std::is_void_v<T>) return 'v';
    if constexpr (std::is_floating_point_v<T>) return 'f';
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) return 'i';
    return 's';
}

template <class T>
constexpr int bytes_of() {
    if constexpr (std::is_void_v<T>)
        return 1;
    else
        return sizeof(T);
}

template <class T>
constexpr Parameter describe() {
    using Target = std::remove_pointer_t<T>;
    using Described = std::remove_cv_t<Target>;
    return {std::is_pointer_v<T>, std::is_const_v<Target>, kind_of<Described>(),
            bytes_of<Described>()};
}

template <class Kernel>
struct Entry;

template <class... Parameters>
struct Entry<void (*)(Parameters...)> {
    static constexpr int count = sizeof...(Parameters);
    // One extra element, because an array cannot be empty.
    static constexpr Parameter parameters[count + 1] = {describe<Parameters>()...};

    static void call(void (*kernel)(Parameters...), void* const* arguments) {
        call(kernel, arguments, std::index_sequence_for<Parameters...>());
    }

  private:
    /// All threads read the arguments, and nothing writes them.
    template <std::size_t... Index>
    EMULATOR_UNCHECKED static void call(void (*kernel)(Parameters...), void* const* arguments,
                                        std::index_sequence<Index...>) {
        kernel(*static_cast<Parameters*>(arguments[Index])...);
    }
};

/// Run a thread of the kernel.
void call_kernel(void* const* arguments);

/// The dynamic shared memory of this block.
unsigned char* dynamic_shared_memory();

}  // namespace emulator

/// Define the entry points of this object's kernel. The kernel's name is looked up in the global
/// namespace, where no name of the emulator hides it.
#define EMULATOR_KERNEL(...)                                                   \
    extern "C" __attribute__((used)) void emulator_no_initialisation() {}      \
    static constexpr auto emulated_kernel = &__VA_ARGS__;                      \
    namespace emulator {                                                       \
    using KernelEntry = Entry<std::remove_const_t<decltype(emulated_kernel)>>; \
    void call_kernel(void* const* arguments) {                                 \
        KernelEntry::call(emulated_kernel, arguments);                         \
    }                                                                          \
    unsigned char* dynamic_shared_memory() {                                   \
        return emulator_dynamic_shared_memory + shared_guard_bytes;            \
    }                                                                          \
    }                                                                          \
    EMULATOR_EXPORT const int emulator_parameter_count;                        \
    EMULATOR_EXPORT const emulator::Parameter* const emulator_parameters;      \
    const int emulator_parameter_count = emulator::KernelEntry::count;         \
    const emulator::Parameter* const emulator_parameters = emulator::KernelEntry::parameters;
