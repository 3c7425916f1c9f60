// Programs register their kernels and variables here, and launch kernels.

#include "host.h"

#include <cstdlib>
#include <cstring>
#include <map>

Host host{};

namespace {

/// A fat binary, as nvcc writes it: a header, and the images, each with a header.
struct Image {
    std::uint16_t kind, version;
    std::uint32_t header_bytes;
    std::uint64_t bytes;
};
constexpr std::uint16_t PTX = 1;
struct FatBinary {
    std::uint32_t magic;
    std::uint16_t version, header_bytes;
    std::uint64_t bytes;
};
struct Wrapper {
    std::uint32_t magic, version;
    const FatBinary* data;
};

struct Configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

/// The dynamic shared memory that cudaFuncSetAttribute() has allowed.
std::map<const void*, size_t> allowed;
/// Addresses of pointers to managed variables, with the variables.
std::vector<void**> managed;

}  // namespace

EXPORT void emulator_start(const Host* given) {
    host = *given;
    std::atexit([] { host.exit(); });
}

Work launch_of(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
               bool cooperative) {
    Function found{};
    if (host.describe(function, &found))
        return [] { return noted(cudaErrorInvalidDeviceFunction); };
    std::vector<std::uint8_t> values(found.parameter_bytes + 1);
    for (std::uint64_t k = 0; k < found.parameters; ++k)
        std::memcpy(values.data() + found.places[2 * k], arguments[k], found.places[2 * k + 1]);
    const auto own = allowed.find(function);
    const size_t most =
        own == allowed.end() ? host.static_shared_bytes - found.shared_bytes : own->second;
    return [=] {
        const int error =
            host.launch(function, &grid, &block, shared, most, values.data(), cooperative);
        return noted(static_cast<cudaError_t>(error));
    };
}

// ---- launches -----------------------------------------------------------------------------

EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                            cudaStream_t stream) {
    configurations.push_back({grid, block, shared, stream});
    return 0;
}
EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared,
                                              void* stream) {
    const Configuration& last = configurations.back();
    *grid = last.grid;
    *block = last.block;
    *shared = last.shared;
    *static_cast<cudaStream_t*>(stream) = last.stream;
    configurations.pop_back();
    return cudaSuccess;
}
API(cudaLaunchKernel,
    (const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t),
    enqueue(launch_of(function, grid, block, arguments, shared, false)))
ALSO(cudaLaunchKernel, __cudaLaunchKernel)

API(cudaLaunchCooperativeKernel,
    (const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t),
    enqueue(launch_of(function, grid, block, arguments, shared, true)))
EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* launch, const void* function,
                                       void** arguments) {
    bool cooperative = false;
    for (unsigned k = 0; k < launch->numAttrs; ++k) {
        const auto& [id, pad, value] = launch->attrs[k];
        if (id == cudaLaunchAttributeCooperative) cooperative = value.cooperative;
        const auto& size = value.clusterDim;
        if (id == cudaLaunchAttributeClusterDimension && size.x * size.y * size.z > 1)
            return unsupported("a launch with clusters of several blocks");
    }
    return enqueue(launch_of(function, launch->gridDim, launch->blockDim, arguments,
                             launch->dynamicSmemBytes, cooperative));
}
/// A kernel is named by the address of its function on the host.
API(__cudaGetKernel, (cudaKernel_t * kernel, const void* function),
    success(*kernel = static_cast<cudaKernel_t>(const_cast<void*>(function))))
ALSO(__cudaGetKernel, cudaGetKernel)

// ---- attributes of kernels ----------------------------------------------------------------

EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* found, const void* function) {
    Function kernel{};
    if (host.describe(function, &kernel)) return noted(cudaErrorInvalidDeviceFunction);
    *found = {};
    found->sharedSizeBytes = kernel.shared_bytes;
    found->maxThreadsPerBlock = static_cast<int>(kernel.most_threads);
    found->numRegs = 32;
    found->ptxVersion = found->binaryVersion = host.capability;
    const auto own = allowed.find(function);
    found->maxDynamicSharedSizeBytes = static_cast<int>(
        own == allowed.end() ? host.static_shared_bytes - kernel.shared_bytes : own->second);
    return cudaSuccess;
}
EXPORT cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute,
                                        int value) {
    Function kernel{};
    if (host.describe(function, &kernel)) return noted(cudaErrorInvalidDeviceFunction);
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || static_cast<size_t>(value) > host.shared_bytes - kernel.shared_bytes)
        return noted(cudaErrorInvalidValue);
    allowed[function] = static_cast<size_t>(value);
    return cudaSuccess;
}
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                                 int threads, size_t shared) {
    *blocks = host.resident(function, threads, shared);
    return noted(*blocks < 0 ? cudaErrorInvalidDeviceFunction : cudaSuccess);
}
ALSO(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
     cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)

// ---- registration, by code that nvcc adds to a program -------------------------------------

EXPORT void** __cudaRegisterFatBinary(void* given) {
    const auto* wrapper = static_cast<const Wrapper*>(given);
    const char* at = reinterpret_cast<const char*>(wrapper->data) + wrapper->data->header_bytes;
    const char* const end = at + wrapper->data->bytes;
    while (at < end) {
        const auto* image = reinterpret_cast<const Image*>(at);
        at += image->header_bytes;
        if (image->kind == PTX) host.add_module(given, at);
        at += image->bytes;
    }
    return static_cast<void**>(given);
}
EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
ALSO(__cudaRegisterFatBinaryEnd, __cudaUnregisterFatBinary)

EXPORT void __cudaRegisterFunction(void** handle, const char* function, char*, const char* name,
                                   int, void*, void*, void*, void*, int*) {
    host.add_symbol(handle, function, name);
}
EXPORT void __cudaRegisterVar(void** handle, char* variable, char*, const char* name, int, size_t,
                              int, int) {
    host.add_symbol(handle, variable, name);
}
EXPORT void __cudaRegisterManagedVar(void** handle, void** pointer, char*, const char* name, int,
                                     size_t, int, int) {
    host.add_symbol(handle, pointer, name);
    managed.push_back(pointer);
}
/// Called before the program uses its managed variables.
EXPORT char __cudaInitModule(void**) {
    for (void** pointer : managed) cudaGetSymbolAddress(pointer, pointer);
    managed.clear();
    return 1;
}
