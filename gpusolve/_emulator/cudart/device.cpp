// The device, errors, and functions that have nothing to do.

#include "host.h"

#include <cstdio>
#include <cstring>
#include <type_traits>

namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

bool is_device(int number) {
    return number >= 0 && number < host.devices;
}

struct NamedError {
    cudaError_t error;
    const char *name, *text;
};

#define NAMED(error) error, #error

const NamedError ERRORS[] = {
    {NAMED(cudaSuccess), "no error"},
    {NAMED(cudaErrorInvalidValue), "invalid argument"},
    {NAMED(cudaErrorMemoryAllocation), "out of memory"},
    {NAMED(cudaErrorInitializationError), "initialization error"},
    {NAMED(cudaErrorInvalidConfiguration), "invalid configuration argument"},
    {NAMED(cudaErrorInvalidPitchValue), "invalid pitch argument"},
    {NAMED(cudaErrorInvalidSymbol), "invalid device symbol"},
    {NAMED(cudaErrorInvalidMemcpyDirection), "invalid copy direction for memcpy"},
    {NAMED(cudaErrorInvalidDeviceFunction), "invalid device function"},
    {NAMED(cudaErrorNoDevice), "no CUDA-capable device is detected"},
    {NAMED(cudaErrorInvalidDevice), "invalid device ordinal"},
    {NAMED(cudaErrorPeerAccessUnsupported),
     "peer access is not supported between these two devices"},
    {NAMED(cudaErrorInvalidResourceHandle), "invalid resource handle"},
    {NAMED(cudaErrorIllegalState), "the operation cannot be performed in the present state"},
    {NAMED(cudaErrorNotReady), "device not ready"},
    {NAMED(cudaErrorIllegalAddress), "an illegal memory access was encountered"},
    {NAMED(cudaErrorHostMemoryAlreadyRegistered),
     "part or all of the requested memory range is already mapped"},
    {NAMED(cudaErrorCooperativeLaunchTooLarge), "too many blocks in cooperative launch"},
    {NAMED(cudaErrorLaunchFailure), "unspecified launch failure"},
    {NAMED(cudaErrorNotSupported), "operation not supported"}};

const NamedError& named(cudaError_t error) {
    static const NamedError unknown{error, "unrecognized error code", "unrecognized error code"};
    for (const NamedError& one : ERRORS)
        if (one.error == error) return one;
    return unknown;
}

/// A limit of the device: its attribute, and how it is set in the properties.
struct Limit {
    cudaDeviceAttr attribute;
    std::uint64_t value;
    void (*set)(cudaDeviceProp& found, std::uint64_t value) = [](cudaDeviceProp&, std::uint64_t) {};
};

#define LIMIT(name, member, value)                                         \
    {cudaDevAttr##name, static_cast<std::uint64_t>(value),                 \
     [](cudaDeviceProp& found, std::uint64_t limit) {                      \
         using Member = std::remove_reference_t<decltype((found.member))>; \
         found.member = static_cast<Member>(limit);                        \
     }}

const std::vector<Limit>& limits() {
    static const std::vector<Limit> all = {
        LIMIT(MaxThreadsPerBlock, maxThreadsPerBlock, 1024),
        LIMIT(MaxBlockDimX, maxThreadsDim[0], 1024),
        LIMIT(MaxBlockDimY, maxThreadsDim[1], 1024),
        LIMIT(MaxBlockDimZ, maxThreadsDim[2], 64),
        LIMIT(MaxGridDimX, maxGridSize[0], 0x7fffffff),
        LIMIT(MaxGridDimY, maxGridSize[1], 65535),
        LIMIT(MaxGridDimZ, maxGridSize[2], 65535),
        LIMIT(MaxSharedMemoryPerBlock, sharedMemPerBlock, host.static_shared_bytes),
        LIMIT(MaxSharedMemoryPerBlockOptin, sharedMemPerBlockOptin, host.shared_bytes),
        LIMIT(MaxSharedMemoryPerMultiprocessor, sharedMemPerMultiprocessor,
              host.shared_bytes_of_multiprocessor),
        LIMIT(ReservedSharedMemoryPerBlock, reservedSharedMemPerBlock, 1024),
        LIMIT(TotalConstantMemory, totalConstMem, 64 << 10),
        LIMIT(WarpSize, warpSize, 32),
        LIMIT(MaxPitch, memPitch, 0x7fffffff),
        LIMIT(MaxRegistersPerBlock, regsPerBlock, 65536),
        LIMIT(MaxRegistersPerMultiprocessor, regsPerMultiprocessor, 65536),
        LIMIT(TextureAlignment, textureAlignment, 512),
        LIMIT(TexturePitchAlignment, texturePitchAlignment, 32),
        LIMIT(MultiProcessorCount, multiProcessorCount, host.multiprocessors),
        LIMIT(MaxThreadsPerMultiProcessor, maxThreadsPerMultiProcessor, host.threads),
        LIMIT(MaxBlocksPerMultiprocessor, maxBlocksPerMultiProcessor, host.blocks),
        LIMIT(ComputeCapabilityMajor, major, host.capability / 10),
        LIMIT(ComputeCapabilityMinor, minor, host.capability % 10),
        LIMIT(GlobalMemoryBusWidth, memoryBusWidth, 256),
        LIMIT(L2CacheSize, l2CacheSize, 1 << 20),
        LIMIT(MaxTexture1DWidth, maxTexture1D, 1 << 16),
        LIMIT(MaxTexture2DWidth, maxTexture2D[0], 1 << 16),
        LIMIT(MaxTexture2DHeight, maxTexture2D[1], 1 << 16),
        LIMIT(MaxTexture3DWidth, maxTexture3D[0], 1 << 14),
        LIMIT(MaxTexture3DHeight, maxTexture3D[1], 1 << 14),
        LIMIT(MaxTexture3DDepth, maxTexture3D[2], 1 << 14),
        LIMIT(CanMapHostMemory, canMapHostMemory, 1),
        LIMIT(UnifiedAddressing, unifiedAddressing, 1),
        LIMIT(ManagedMemory, managedMemory, 1),
        LIMIT(ConcurrentManagedAccess, concurrentManagedAccess, 1),
        LIMIT(ConcurrentKernels, concurrentKernels, 1),
        LIMIT(AsyncEngineCount, asyncEngineCount, 1),
        LIMIT(CooperativeLaunch, cooperativeLaunch, 1),
        LIMIT(StreamPrioritiesSupported, streamPrioritiesSupported, 1),
        LIMIT(MemoryPoolsSupported, memoryPoolsSupported, 1),
        LIMIT(HostRegisterSupported, hostRegisterSupported, 1),
        LIMIT(CanUseHostPointerForRegisteredMem, canUseHostPointerForRegisteredMem, 1),
        LIMIT(GlobalL1CacheSupported, globalL1CacheSupported, 1),
        LIMIT(LocalL1CacheSupported, localL1CacheSupported, 1),
        {cudaDevAttrGpuOverlap, 1},
        {cudaDevAttrClockRate, 1000000},
        {cudaDevAttrMemoryClockRate, 1000000}};
    return all;
}

cudaDeviceProp properties() {
    cudaDeviceProp found{};
    std::strcpy(found.name, "gpusolve emulator");
    size_t free = 0;
    cudaMemGetInfo(&free, &found.totalGlobalMem);
    for (const Limit& limit : limits()) limit.set(found, limit.value);
#if CUDART_VERSION < 13000
    found.clockRate = found.memoryClockRate = 1000000;
    found.deviceOverlap = 1;
#endif
    return found;
}

}  // namespace

cudaError_t noted(cudaError_t error) {
    if (error) last_error = error;
    return error;
}

cudaError_t unsupported(const char* what) {
    std::fprintf(stderr, "warning: %s is not supported by the emulator\n", what);
    return noted(cudaErrorNotSupported);
}

EXPORT cudaError_t cudaGetLastError() {
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}
API(cudaPeekAtLastError, (), last_error)
EXPORT const char* cudaGetErrorName(cudaError_t error) {
    return named(error).name;
}
EXPORT const char* cudaGetErrorString(cudaError_t error) {
    return named(error).text;
}

// ---- the device ---------------------------------------------------------------------------

API(cudaGetDeviceCount, (int* count), success(*count = host.devices))
ALSO(cudaGetDeviceCount, cuDeviceGetCount)

EXPORT cudaError_t cudaSetDevice(int device) {
    if (!is_device(device)) return noted(cudaErrorInvalidDevice);
    current_device = device;
    return cudaSuccess;
}
API(cudaGetDevice, (int* device), success(*device = current_device))
ALSO(cudaGetDevice, cudaChooseDevice)

/// All devices have the same memory.
API(cudaDeviceCanAccessPeer, (int* can, int first, int second),
    success(*can = first != second && is_device(first) && is_device(second)))
API(cudaDeviceEnablePeerAccess, (int device, unsigned),
    noted(is_device(device) && device != current_device ? cudaSuccess : cudaErrorInvalidDevice))
ALSO(cudaDeviceEnablePeerAccess, cudaDeviceDisablePeerAccess)
API(cudaDeviceGetP2PAttribute, (int* value, cudaDeviceP2PAttr, int, int), success(*value = 1))

API(cudaGetDeviceFlags, (unsigned* flags), success(*flags = cudaDeviceScheduleAuto))
ALSO(cudaGetDeviceFlags, cudaDeviceGetSharedMemConfig, cudaDeviceGetCacheConfig)

EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int device) {
    if (!is_device(device)) return noted(cudaErrorInvalidDevice);
    *found = properties();
    return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    if (!is_device(device)) return noted(cudaErrorInvalidDevice);
    *value = 0;  // of what the device lacks
    for (const Limit& limit : limits())
        if (limit.attribute == attribute) *value = static_cast<int>(limit.value);
    return cudaSuccess;
}
ALSO(cudaDeviceGetAttribute, cuDeviceGetAttribute)

EXPORT cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
    std::snprintf(text, static_cast<size_t>(bytes), "0000:%02x:00.0", device);
    return cudaSuccess;
}
API(cudaDeviceGetLimit, (size_t* value, cudaLimit limit),
    success(*value = limit == cudaLimitStackSize ? 1024 : 8 << 20))
API(cudaDeviceGetStreamPriorityRange, (int* least, int* greatest), success(*least = *greatest = 0))
API(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int),
    success(*pool = reinterpret_cast<cudaMemPool_t>(1)))
ALSO(cudaDeviceGetDefaultMemPool, cudaDeviceGetMemPool, cudaMemPoolCreate)

API(cudaMemPoolGetAttribute, (cudaMemPool_t, cudaMemPoolAttr, void* value),
    success(*static_cast<std::uint64_t*>(value) = 0))
ALSO(cudaMemPoolGetAttribute, cudaDeviceGetGraphMemAttribute)

API(cudaRuntimeGetVersion, (int* version), success(*version = CUDART_VERSION))
ALSO(cudaRuntimeGetVersion, cudaDriverGetVersion, cuDriverGetVersion)

// ---- functions that have nothing to do, with any arguments ---------------------------------

API(emulator_nothing, (), cudaSuccess)

ALSO(emulator_nothing, cudaDeviceReset, cudaDeviceGraphMemTrim, cudaDeviceSetLimit,
     cudaDeviceSetCacheConfig, cudaDeviceSetSharedMemConfig, cudaDeviceSetMemPool,
     cudaFuncSetCacheConfig, cudaFuncSetSharedMemConfig, cudaSetDeviceFlags, cudaSetValidDevices,
     cudaInitDevice, cudaProfilerStart, cudaProfilerStop, cudaMemAdvise, cudaMemAdvise_v2,
     cudaMemPrefetchAsync, cudaMemPrefetchAsync_v2, cudaMemPoolDestroy, cudaMemPoolSetAttribute,
     cudaMemPoolSetAccess, cudaMemPoolTrimTo, cudaStreamQuery, cudaStreamWaitEvent,
     cudaStreamAttachMemAsync, cudaStreamSetAttribute, cudaStreamCopyAttributes, cudaEventQuery,
     cudaGraphAddDependencies, cudaGraphUpload, cudaGraphDebugDotPrint,
     cudaGraphKernelNodeSetAttribute, cudaCtxResetPersistingL2Cache, cuInit)

// ---- the driver's functions that programs call to look at the device -------------------------

EXPORT int cuDeviceGet(int* device, int number) {
    *device = number;
    return is_device(number) ? 0 : cudaErrorInvalidDevice;
}
EXPORT int cuDeviceGetName(char* name, int bytes, int) {
    std::snprintf(name, static_cast<size_t>(bytes), "%s", properties().name);
    return 0;
}
EXPORT int cuGetErrorString(cudaError_t error, const char** text) {
    *text = named(error).text;
    return 0;
}
EXPORT int cuDeviceTotalMem_v2(size_t* bytes, int) {
    size_t free = 0;
    return cudaMemGetInfo(&free, bytes);
}
