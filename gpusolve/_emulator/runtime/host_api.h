// The CUDA runtime API, for whole programs. Everything is done at once, in order: a stream, an
// event or an asynchronous copy is complete when the call returns.
//
// Kernels are launched, and device memory is allocated, by functions that _host.py passes.

#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "device.h"
#include "kernel_entry.h"
#include "written_memory.h"

#pragma GCC visibility push(hidden)

// ---- types --------------------------------------------------------------------------------

enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidSymbol = 13,
    cudaErrorInvalidDevicePointer = 17,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchFailure = 719,
    cudaErrorUnknown = 999,
};
using cudaError_t = cudaError;

enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault,
};

using cudaStream_t = struct CUstream_st*;

struct CUevent_st {
    std::chrono::steady_clock::time_point time;
};
using cudaEvent_t = CUevent_st*;

enum { cudaStreamDefault, cudaStreamNonBlocking };
enum { cudaEventDefault, cudaEventBlockingSync, cudaEventDisableTiming };
enum { cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocMapped };
enum { cudaMemAttachGlobal = 1, cudaMemAttachHost };

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout,
};
enum cudaFuncCache {
    cudaFuncCachePreferNone,
    cudaFuncCachePreferShared,
    cudaFuncCachePreferL1,
    cudaFuncCachePreferEqual,
};

enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrClockRate = 13,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrIntegrated = 18,
    cudaDevAttrComputeMode = 20,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrCooperativeLaunch = 95,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};

enum cudaComputeMode {
    cudaComputeModeDefault,
    cudaComputeModeExclusive,
    cudaComputeModeProhibited,
    cudaComputeModeExclusiveProcess,
};

/// The emulated device: _device.py has the same limits.
struct cudaDeviceProp {
    char name[256] = "gpusolve emulator";
    std::size_t totalGlobalMem = 8ull << 30;
    std::size_t sharedMemPerBlock = 48 * 1024;
    std::size_t sharedMemPerBlockOptin = 99 * 1024;
    std::size_t sharedMemPerMultiprocessor = 100 * 1024;
    std::size_t reservedSharedMemPerBlock = 1024;
    std::size_t totalConstMem = 64 * 1024;
    std::size_t memPitch = 0x7fffffff;
    int regsPerBlock = 65536, regsPerMultiprocessor = 65536;
    int warpSize = 32;
    int maxThreadsPerBlock = 1024;
    int maxThreadsDim[3] = {1024, 1024, 64};
    int maxGridSize[3] = {2147483647, 65535, 65535};
    int clockRate = 1000000, memoryClockRate = 1000000, memoryBusWidth = 256;
    int major = 8, minor = 6;
    int multiProcessorCount = 2;
    int maxThreadsPerMultiProcessor = 1536, maxBlocksPerMultiProcessor = 16;
    int l2CacheSize = 1 << 20;
    int integrated = 0, canMapHostMemory = 1, unifiedAddressing = 1, managedMemory = 1;
    int concurrentManagedAccess = 1, concurrentKernels = 1, asyncEngineCount = 1, ECCEnabled = 0;
    int cooperativeLaunch = 1, computeMode = 0, kernelExecTimeoutEnabled = 0, pciBusID = 0;
    int pciDeviceID = 0, pciDomainID = 0, deviceOverlap = 1, textureAlignment = 512;
};

namespace emulator {

/// What _host.py does for a program. A name is what the program's text calls the memory or kernel.
struct Host {
    void (*launch)(const char* name, const unsigned* grid, const unsigned* block,
                   std::uint64_t shared_bytes, void* work, int cooperative);
    void* (*allocate)(const char* name, std::uint64_t bytes, std::uint64_t element_bytes);
    void (*release)(void* memory);
    void (*count)(const char* what);  // for a profile: copies, memsets, synchronizations
    void (*exit)();                   // the program has called exit()
    void (*fail)(const char* message);
};

#ifdef EMULATOR_MEMORY_CHECKS
constexpr bool checks_memory = true;
#else
constexpr bool checks_memory = false;
#endif

inline Host host{};
inline std::map<std::uintptr_t, std::size_t> allocations;  // bytes by address
inline cudaError last_error = cudaSuccess;

/// Keep an error for cudaGetLastError().
inline cudaError noted(cudaError error) {
    if (error != cudaSuccess) last_error = error;
    return error;
}

/// Whether the bytes are all in one allocation of device memory.
inline bool is_device_memory(const void* memory, std::size_t bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    auto after = allocations.upper_bound(address);
    if (after == allocations.begin()) return false;
    const auto& [start, size] = *--after;
    return address - start <= size && bytes <= size - (address - start);
}

/// End the program if a copy leaves the memory that its kind names.
inline void check_side(const char* function, const char* name, const void* memory,
                       std::size_t bytes, bool is_device) {
    if (bytes == 0 || is_device_memory(memory, bytes) == is_device) return;
    char text[256];
    std::snprintf(text, sizeof(text), "%s: %s must be %llu bytes of %s memory", function, name,
                  static_cast<unsigned long long>(bytes), is_device ? "device" : "host");
    host.fail(text);
}

inline cudaError copy(const char* function, void* target, const void* source, std::size_t bytes,
                      cudaMemcpyKind kind) {
    if (kind != cudaMemcpyDefault) {
        const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
        const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
        check_side(function, "the target", target, bytes, to_device);
        check_side(function, "the source", source, bytes, from_device);
    }
    host.count("copies");
    if (checks_memory) written_memory().copy(target, source, bytes);
    std::memmove(target, source, bytes);
    return cudaSuccess;
}

inline cudaError synchronize() {
    host.count("synchronizations");
    return cudaSuccess;
}

template <class T>
cudaError allocate(const char* name, T** memory, std::size_t bytes) {
    while (*name == '&' || *name == '(') ++name;
    constexpr std::size_t element_bytes = bytes_of<T>();
    if (!memory) return noted(cudaErrorInvalidValue);
    *memory = static_cast<T*>(host.allocate(name, bytes, element_bytes));
    if (!*memory) return noted(cudaErrorMemoryAllocation);
    allocations[reinterpret_cast<std::uintptr_t>(*memory)] = bytes;
    if (checks_memory) written_memory().add(*memory, bytes);
    return cudaSuccess;
}

/// Memory that the host may write, too; it counts as written.
template <class T>
cudaError allocate_managed(const char* name, T** memory, std::size_t bytes) {
    const cudaError error = allocate(name, memory, bytes);
    if (checks_memory && error == cudaSuccess) written_memory().remove(*memory);
    return error;
}

inline cudaError allocate_rows(const char* name, void** memory, std::size_t* pitch,
                               std::size_t width, std::size_t height) {
    constexpr std::size_t unit = 512;
    *pitch = (width + unit - 1) / unit * unit;
    return allocate(name, reinterpret_cast<unsigned char**>(memory), *pitch * height);
}

inline cudaError release(void* memory) {
    if (!memory) return cudaSuccess;
    if (allocations.erase(reinterpret_cast<std::uintptr_t>(memory)) == 0)
        return noted(cudaErrorInvalidDevicePointer);
    if (checks_memory) written_memory().remove(memory);
    host.release(memory);
    return cudaSuccess;
}

// ---- launches -----------------------------------------------------------------------------

/// What the launch's threads call.
struct Work {
    void (*call)(const void* object);
    const void* object;
};

/// The arguments of `<<< >>>`.
struct Configuration {
    dim3 grid, block;
    std::size_t shared_bytes = 0;
    cudaStream_t stream = nullptr;
};

inline void launch(const char* name, const Configuration& configuration, const Work& work,
                   bool cooperative) {
    const auto& [grid, block, shared_bytes, stream] = configuration;
    const unsigned blocks[3] = {grid.x, grid.y, grid.z}, threads[3] = {block.x, block.y, block.z};
    void* arguments[] = {const_cast<Work*>(&work)};
    host.launch(name, blocks, threads, shared_bytes, arguments, cooperative);
}

/// `kernel<<<...>>>`, to which the arguments follow.
template <class Kernel>
struct Launcher {
    const char* name;
    Configuration configuration;
    Kernel kernel;

    template <class... Values>
    void operator()(Values... values) const {
        const auto all = [&]() EMULATOR_UNCHECKED { kernel(values...); };
        using All = decltype(all);
        const Work work{
            [](const void* object) EMULATOR_UNCHECKED { (*static_cast<All*>(object))(); }, &all};
        launch(name, configuration, work, false);
    }
};

template <class Kernel>
Launcher<Kernel> launcher(const char* name, Configuration configuration, Kernel kernel) {
    return {name, configuration, kernel};
}

/// cudaLaunchKernel() and cudaLaunchCooperativeKernel(), with pointers to the arguments.
template <class... Parameters>
cudaError launch_pointers(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                          void** arguments, std::size_t shared_bytes, cudaStream_t stream,
                          bool cooperative) {
    const auto all = [=]() EMULATOR_UNCHECKED {
        Entry<void (*)(Parameters...)>::call(kernel, arguments);
    };
    using All = decltype(all);
    const Work work{[](const void* object) { (*static_cast<All*>(object))(); }, &all};
    launch(name, {grid, block, shared_bytes, stream}, work, cooperative);
    return cudaSuccess;
}

}  // namespace emulator

// ---- memory -------------------------------------------------------------------------------

// Macros, so that reports name the memory as the program does.
#define cudaMalloc(memory, bytes) emulator::allocate(#memory, memory, bytes)
#define cudaMallocManaged(memory, bytes, ...) emulator::allocate_managed(#memory, memory, bytes)
#define cudaMallocAsync(memory, bytes, stream) emulator::allocate(#memory, memory, bytes)
#define cudaMallocPitch(memory, pitch, width, height) \
    emulator::allocate_rows(#memory, reinterpret_cast<void**>(memory), pitch, width, height)

inline cudaError cudaFree(void* memory) {
    return emulator::release(memory);
}
inline cudaError cudaFreeAsync(void* memory, cudaStream_t) {
    return emulator::release(memory);
}
/// Pinned memory of the host, which kernels may access.
template <class T>
cudaError cudaMallocHost(T** memory, std::size_t bytes, unsigned = 0) {
    *memory = static_cast<T*>(emulator::host.allocate("pinned", bytes, emulator::bytes_of<T>()));
    return *memory ? cudaSuccess : emulator::noted(cudaErrorMemoryAllocation);
}
template <class T>
cudaError cudaHostAlloc(T** memory, std::size_t bytes, unsigned flags) {
    return cudaMallocHost(memory, bytes, flags);
}
inline cudaError cudaFreeHost(void* memory) {
    if (memory) emulator::host.release(memory);
    return cudaSuccess;
}
template <class T>
cudaError cudaHostGetDevicePointer(T** memory, void* pinned, unsigned) {
    *memory = static_cast<T*>(pinned);
    return cudaSuccess;
}
inline cudaError cudaMemcpy(void* target, const void* source, std::size_t bytes,
                            cudaMemcpyKind kind) {
    return emulator::copy("cudaMemcpy", target, source, bytes, kind);
}
inline cudaError cudaMemcpyAsync(void* target, const void* source, std::size_t bytes,
                                 cudaMemcpyKind kind, cudaStream_t = nullptr) {
    return emulator::copy("cudaMemcpyAsync", target, source, bytes, kind);
}
inline cudaError cudaMemcpy2D(void* target, std::size_t target_pitch, const void* source,
                              std::size_t source_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind) {
    for (std::size_t row = 0; row < height; ++row)
        emulator::copy("cudaMemcpy2D", static_cast<char*>(target) + row * target_pitch,
                       static_cast<const char*>(source) + row * source_pitch, width, kind);
    return cudaSuccess;
}
inline cudaError cudaMemset(void* memory, int value, std::size_t bytes) {
    emulator::check_side("cudaMemset", "the target", memory, bytes, true);
    emulator::host.count("memsets");
    if (emulator::checks_memory) emulator::written_memory().write(memory, bytes);
    std::memset(memory, value, bytes);
    return cudaSuccess;
}
inline cudaError cudaMemsetAsync(void* memory, int value, std::size_t bytes,
                                 cudaStream_t = nullptr) {
    return cudaMemset(memory, value, bytes);
}
inline cudaError cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    *free = *total = cudaDeviceProp().totalGlobalMem;
    for (const auto& [address, bytes] : emulator::allocations) *free -= bytes;
    return cudaSuccess;
}

template <class T>
cudaError cudaGetSymbolAddress(void** memory, T& symbol) {
    *memory = reinterpret_cast<void*>(&reinterpret_cast<char&>(symbol));
    return cudaSuccess;
}
template <class T>
cudaError cudaMemcpyToSymbol(T& symbol, const void* source, std::size_t bytes,
                             std::size_t offset = 0, cudaMemcpyKind = cudaMemcpyHostToDevice) {
    if (offset + bytes > sizeof(T)) return emulator::noted(cudaErrorInvalidValue);
    std::memcpy(&reinterpret_cast<char&>(symbol) + offset, source, bytes);
    return cudaSuccess;
}
template <class T>
cudaError cudaMemcpyFromSymbol(void* target, const T& symbol, std::size_t bytes,
                               std::size_t offset = 0, cudaMemcpyKind = cudaMemcpyDeviceToHost) {
    if (offset + bytes > sizeof(T)) return emulator::noted(cudaErrorInvalidValue);
    std::memcpy(target, &reinterpret_cast<const char&>(symbol) + offset, bytes);
    return cudaSuccess;
}

// ---- launches by function -----------------------------------------------------------------

#define cudaLaunchKernel(kernel, grid, block, arguments, ...) \
    emulator::launch_by_function(#kernel, false, kernel, grid, block, arguments, ##__VA_ARGS__)
#define cudaLaunchCooperativeKernel(kernel, grid, block, arguments, ...) \
    emulator::launch_by_function(#kernel, true, kernel, grid, block, arguments, ##__VA_ARGS__)

namespace emulator {

template <class... Parameters>
cudaError launch_by_function(const char* name, bool cooperative, void (*kernel)(Parameters...),
                             dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes = 0,
                             cudaStream_t stream = nullptr) {
    return launch_pointers(name, kernel, grid, block, arguments, shared_bytes, stream, cooperative);
}

/// Blocks of a multiprocessor at a time, for a kernel without many registers.
inline int blocks_at_a_time(int threads, std::size_t shared_bytes) {
    const cudaDeviceProp device;
    const int warps = (threads + 31) / 32;
    const int by_threads = device.maxThreadsPerMultiProcessor / (warps * 32);
    const int by_memory = static_cast<int>(device.sharedMemPerMultiprocessor /
                                           (shared_bytes + device.reservedSharedMemPerBlock));
    return std::min({by_threads, by_memory, device.maxBlocksPerMultiProcessor});
}

}  // namespace emulator

template <class Kernel>
cudaError cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int) {
    return cudaSuccess;
}
template <class Kernel>
cudaError cudaFuncSetCacheConfig(Kernel, cudaFuncCache) {
    return cudaSuccess;
}
template <class Kernel>
cudaError cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel, int threads,
                                                        std::size_t shared_bytes) {
    *blocks = emulator::blocks_at_a_time(threads, shared_bytes);
    return cudaSuccess;
}
template <class Kernel>
cudaError cudaOccupancyMaxPotentialBlockSize(int* blocks, int* threads, Kernel,
                                             std::size_t shared_bytes = 0, int limit = 0) {
    *threads = limit > 0 ? std::min(limit, 768) : 768;
    *blocks =
        cudaDeviceProp().multiProcessorCount * emulator::blocks_at_a_time(*threads, shared_bytes);
    return cudaSuccess;
}

// ---- devices, errors, streams, events -----------------------------------------------------

inline cudaError cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
inline cudaError cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
inline cudaError cudaSetDevice(int device) {
    return device == 0 ? cudaSuccess : emulator::noted(cudaErrorInvalidDevice);
}
inline cudaError cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    *properties = {};
    return cudaSetDevice(device);
}
inline cudaError cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    const cudaDeviceProp properties;
    const std::map<cudaDeviceAttr, std::size_t> values{
        {cudaDevAttrMaxThreadsPerBlock, properties.maxThreadsPerBlock},
        {cudaDevAttrMaxSharedMemoryPerBlock, properties.sharedMemPerBlock},
        {cudaDevAttrWarpSize, properties.warpSize},
        {cudaDevAttrClockRate, properties.clockRate},
        {cudaDevAttrIntegrated, properties.integrated},
        {cudaDevAttrComputeMode, properties.computeMode},
        {cudaDevAttrMultiProcessorCount, properties.multiProcessorCount},
        {cudaDevAttrMaxThreadsPerMultiProcessor, properties.maxThreadsPerMultiProcessor},
        {cudaDevAttrComputeCapabilityMajor, properties.major},
        {cudaDevAttrComputeCapabilityMinor, properties.minor},
        {cudaDevAttrCooperativeLaunch, properties.cooperativeLaunch},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, properties.sharedMemPerBlockOptin}};
    const auto found = values.find(attribute);
    if (found == values.end()) return emulator::noted(cudaErrorInvalidValue);
    *value = static_cast<int>(found->second);
    return cudaSetDevice(device);
}
inline cudaError cudaDriverGetVersion(int* version) {
    *version = 12000;
    return cudaSuccess;
}
inline cudaError cudaRuntimeGetVersion(int* version) {
    return cudaDriverGetVersion(version);
}
inline cudaError cudaDeviceSynchronize() {
    return emulator::synchronize();
}
inline cudaError cudaThreadSynchronize() {
    return emulator::synchronize();
}
inline cudaError cudaDeviceReset() {
    return cudaSuccess;
}

inline cudaError cudaPeekAtLastError() {
    return emulator::last_error;
}
inline cudaError cudaGetLastError() {
    return std::exchange(emulator::last_error, cudaSuccess);
}
inline const char* cudaGetErrorName(cudaError error) {
    static const std::map<cudaError, const char*> names{
        {cudaSuccess, "cudaSuccess"},
        {cudaErrorInvalidValue, "cudaErrorInvalidValue"},
        {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation"},
        {cudaErrorInvalidDevicePointer, "cudaErrorInvalidDevicePointer"},
        {cudaErrorInvalidDevice, "cudaErrorInvalidDevice"}};
    const auto found = names.find(error);
    return found == names.end() ? "cudaErrorUnknown" : found->second;
}
inline const char* cudaGetErrorString(cudaError error) {
    return error == cudaSuccess ? "no error" : cudaGetErrorName(error);
}

inline cudaError cudaStreamCreate(cudaStream_t* stream) {
    *stream = nullptr;
    return cudaSuccess;
}
inline cudaError cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    return cudaStreamCreate(stream);
}
inline cudaError cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
    return cudaStreamCreate(stream);
}
inline cudaError cudaStreamDestroy(cudaStream_t) {
    return cudaSuccess;
}
inline cudaError cudaStreamSynchronize(cudaStream_t) {
    return emulator::synchronize();
}
inline cudaError cudaStreamQuery(cudaStream_t) {
    return cudaSuccess;
}
inline cudaError cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) {
    return cudaSuccess;
}

inline cudaError cudaEventCreate(cudaEvent_t* event, unsigned = 0) {
    *event = new CUevent_st{std::chrono::steady_clock::now()};
    return cudaSuccess;
}
inline cudaError cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    return cudaEventCreate(event, flags);
}
inline cudaError cudaEventRecord(cudaEvent_t event, cudaStream_t = nullptr) {
    event->time = std::chrono::steady_clock::now();
    return cudaSuccess;
}
inline cudaError cudaEventSynchronize(cudaEvent_t) {
    return emulator::synchronize();
}
inline cudaError cudaEventQuery(cudaEvent_t) {
    return cudaSuccess;
}
/// The time of the emulator, not of a GPU.
inline cudaError cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
    return cudaSuccess;
}
inline cudaError cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return cudaSuccess;
}

#pragma GCC visibility pop

// ---- the program's entry ------------------------------------------------------------------

namespace emulator {

inline int run_main(int (*main)(), int, char**) {
    return main();
}
inline int run_main(void (*main)(), int, char**) {
    main();
    return 0;
}
template <class Text>
int run_main(int (*main)(int, Text), int count, char** values) {
    return main(count, const_cast<Text>(values));
}

/// Run the program, and tell the host if it calls exit() instead of returning.
template <class Main>
int run_until_exit(Main main, int count, char** values) {
    static bool runs = false;
    std::atexit([] {
        if (runs) host.exit();
    });
    runs = true;
    const int status = run_main(main, count, values);
    runs = false;
    return status;
}

}  // namespace emulator

/// Define the entry points of a whole program.
#define EMULATOR_PROGRAM()                                                          \
    extern "C" __attribute__((used)) void emulator_no_initialisation() {}           \
    namespace emulator {                                                            \
    EMULATOR_UNCHECKED void call_kernel(void* const* arguments) {                   \
        const auto& work = *static_cast<const Work*>(arguments[0]);                 \
        work.call(work.object);                                                     \
    }                                                                               \
    unsigned char* dynamic_shared_memory() {                                        \
        return emulator_dynamic_shared_memory + shared_guard_bytes;                 \
    }                                                                               \
    }                                                                               \
    EMULATOR_EXPORT int emulator_run_program(const emulator::Host* host, int count, \
                                             char** values) {                       \
        emulator::host = *host;                                                     \
        return emulator::run_until_exit(&main, count, values);                      \
    }
