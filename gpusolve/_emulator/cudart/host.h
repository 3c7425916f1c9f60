// The library that programs use in place of libcudart. It is compiled with the toolkit's headers,
// so that types and signatures are those of the toolkit that compiles the program.
//
// Everything is done at once, in order: a stream, an event or an asynchronous copy is complete when
// the call returns. Only while a stream is captured, all work is kept for the graph. Python runs
// the kernels.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

/// A function of the API that returns an expression.
#define API(name, parameters, ...)       \
    EXPORT cudaError_t name parameters { \
        return __VA_ARGS__;              \
    }

/// Other names of a function of the same file. They may have more arguments, such as the stream of
/// an asynchronous function, which are ignored.
#define ALSO(function, ...) \
    asm(".irp name, " #__VA_ARGS__ "\n.globl \\name\n.set \\name, " #function "\n.endr");

/// A kernel, as Python describes it.
struct Function {
    std::uint64_t shared_bytes;  // of its __shared__ variables
    std::uint64_t most_threads;  // of a block
    std::uint64_t parameter_bytes, parameters;
    const std::uint64_t* places;  // offset and size of each parameter
};

/// What Python does for the library, and the limits of the device: `CHost` in program.py.
struct Host {
    void (*add_module)(const void* handle, const char* ptx);
    /// A kernel or a variable.
    void (*add_symbol)(const void* handle, const void* symbol, const char* name);
    /// The address and the size of a variable on the device. Not 0 if it is not known.
    int (*find_variable)(const void* variable, void** address, std::uint64_t* bytes);
    /// Not 0 if the function is not a kernel.
    int (*describe)(const void* function, Function* found);
    /// Run a kernel. An error of CUDA, or 0.
    int (*launch)(const void* function, const dim3* grid, const dim3* block,
                  std::uint64_t shared_bytes, std::uint64_t allowed_shared_bytes,
                  const std::uint8_t* parameters, int cooperative);
    /// The number of blocks that are resident on a multiprocessor.
    int (*resident)(const void* function, int threads, std::uint64_t shared_bytes);
    /// Let kernels access memory. Its bits for bytes that are written, or null.
    std::uint8_t* (*allocated)(void* memory, std::uint64_t bytes, const void* caller, int is_unset);
    void (*freed)(const void* memory);
    void (*count)(const char* what);  // for a profile: allocations, copies, memsets, ...
    void (*exit)();                   // the program has called exit()
    void (*fail)(const char* message);
    int devices, multiprocessors, capability, threads, blocks;  // the last two: of a multiprocessor
    std::uint64_t shared_bytes, static_shared_bytes, shared_bytes_of_multiprocessor;
};

extern Host host;

/// Keep an error for cudaGetLastError().
cudaError_t noted(cudaError_t error);

/// Warn of what the emulator does not do.
cudaError_t unsupported(const char* what);

/// Where a function is called.
#define CALLER __builtin_return_address(0)

/// For assignments that cannot fail.
template <class... Values>
cudaError_t success(Values...) {
    return cudaSuccess;
}

using Work = std::function<cudaError_t()>;

/// Do the work now, or keep it while a stream is captured.
cudaError_t enqueue(Work work);
bool is_capturing();

/// The work of a launch, with copies of its arguments.
Work launch_of(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
               bool cooperative);

/// Memory for kernels: zeros. Null if there is not enough.
void* allocate(size_t bytes, cudaMemoryType type, const void* caller, bool is_of_graph = false);
/// End the program if these bytes are not in one allocation, or, unless they must be in one, in
/// none.
void check(const char* call, const char* what, const void* memory, size_t bytes, bool must);
void copy(void* to, const void* from, size_t bytes);

inline bool is_from_device(cudaMemcpyKind kind) {
    return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
}
inline bool is_to_device(cudaMemcpyKind kind) {
    return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
}

[[noreturn]] void fail(const char* format, ...);
