// The device, errors, and functions that have nothing to do.

#include "host.h"

#include <cstdio>
#include <cstring>

namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct NamedError {
    cudaError_t error;
    const char *name, *text;
};

const NamedError ERRORS[] = {
#define ERROR(name, text) {name, #name, text}
    ERROR(cudaSuccess, "no error"),
    ERROR(cudaErrorInvalidValue, "invalid argument"),
    ERROR(cudaErrorMemoryAllocation, "out of memory"),
    ERROR(cudaErrorInitializationError, "initialization error"),
    ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
    ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    ERROR(cudaErrorNotReady, "device not ready"),
    ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ERROR(cudaErrorHostMemoryAlreadyRegistered,
          "part or all of the requested memory range is already mapped"),
    ERROR(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    ERROR(cudaErrorNotSupported, "operation not supported"),
    ERROR(cudaErrorGraphExecUpdateFailure,
          "the graph update was not performed because it included changes which violated "
          "constraints specific to instantiated graph update"),
#undef ERROR
};

const NamedError& named(cudaError_t error) {
    static const NamedError unknown{error, "unrecognized error code", "unrecognized error code"};
    for (const NamedError& one : ERRORS)
        if (one.error == error) return one;
    return unknown;
}

cudaDeviceProp properties() {
    cudaDeviceProp found{};
    std::strcpy(found.name, "gpusolve emulator");
    std::size_t free = 0;
    cudaMemGetInfo(&free, &found.totalGlobalMem);
    found.sharedMemPerBlock = host.static_shared_bytes;
    found.sharedMemPerBlockOptin = host.shared_bytes;
    found.sharedMemPerMultiprocessor = host.shared_bytes_of_multiprocessor;
    found.reservedSharedMemPerBlock = 1024;
    found.totalConstMem = 64 << 10;
    found.memPitch = 0x7fffffff;
    found.regsPerBlock = found.regsPerMultiprocessor = 65536;
    found.warpSize = 32;
    found.maxThreadsPerBlock = 1024;
    found.maxThreadsDim[0] = found.maxThreadsDim[1] = 1024;
    found.maxThreadsDim[2] = 64;
    found.maxGridSize[0] = 0x7fffffff;
    found.maxGridSize[1] = found.maxGridSize[2] = 65535;
    found.major = host.capability / 10;
    found.minor = host.capability % 10;
    found.multiProcessorCount = host.multiprocessors;
    found.maxThreadsPerMultiProcessor = host.threads;
    found.maxBlocksPerMultiProcessor = host.blocks;
    found.memoryBusWidth = 256;
    found.l2CacheSize = 1 << 20;
    found.textureAlignment = 512;
    found.texturePitchAlignment = 32;
    found.maxTexture1D = found.maxTexture2D[0] = found.maxTexture2D[1] = 1 << 16;
    found.maxTexture3D[0] = found.maxTexture3D[1] = found.maxTexture3D[2] = 1 << 14;
    found.canMapHostMemory = found.unifiedAddressing = found.managedMemory = 1;
    found.concurrentManagedAccess = found.concurrentKernels = found.asyncEngineCount = 1;
    found.cooperativeLaunch = found.streamPrioritiesSupported = found.memoryPoolsSupported = 1;
    found.hostRegisterSupported = found.canUseHostPointerForRegisteredMem = 1;
    found.globalL1CacheSupported = found.localL1CacheSupported = 1;
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

EXPORT cudaError_t cudaGetLastError() {
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}
EXPORT cudaError_t cudaPeekAtLastError() {
    return last_error;
}
EXPORT const char* cudaGetErrorName(cudaError_t error) {
    return named(error).name;
}
EXPORT const char* cudaGetErrorString(cudaError_t error) {
    return named(error).text;
}

// ---- the device ---------------------------------------------------------------------------

EXPORT cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
ALSO(cudaGetDeviceCount, cuDeviceGetCount)

EXPORT cudaError_t cudaSetDevice(int device) {
    return noted(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
EXPORT cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
ALSO(cudaGetDevice, cudaChooseDevice)

EXPORT cudaError_t cudaGetDeviceFlags(unsigned* flags) {
    *flags = cudaDeviceScheduleAuto;
    return cudaSuccess;
}
EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int device) {
    if (device != 0) return noted(cudaErrorInvalidDevice);
    *found = properties();
    return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    if (device != 0) return noted(cudaErrorInvalidDevice);
    const cudaDeviceProp own = properties();
    switch (attribute) {
#define ATTRIBUTE(name, member)                \
    case cudaDevAttr##name:                    \
        *value = static_cast<int>(own.member); \
        break;
        ATTRIBUTE(MaxThreadsPerBlock, maxThreadsPerBlock)
        ATTRIBUTE(MaxBlockDimX, maxThreadsDim[0])
        ATTRIBUTE(MaxBlockDimY, maxThreadsDim[1])
        ATTRIBUTE(MaxBlockDimZ, maxThreadsDim[2])
        ATTRIBUTE(MaxGridDimX, maxGridSize[0])
        ATTRIBUTE(MaxGridDimY, maxGridSize[1])
        ATTRIBUTE(MaxGridDimZ, maxGridSize[2])
        ATTRIBUTE(MaxSharedMemoryPerBlock, sharedMemPerBlock)
        ATTRIBUTE(MaxSharedMemoryPerBlockOptin, sharedMemPerBlockOptin)
        ATTRIBUTE(MaxSharedMemoryPerMultiprocessor, sharedMemPerMultiprocessor)
        ATTRIBUTE(ReservedSharedMemoryPerBlock, reservedSharedMemPerBlock)
        ATTRIBUTE(TotalConstantMemory, totalConstMem)
        ATTRIBUTE(WarpSize, warpSize)
        ATTRIBUTE(MaxPitch, memPitch)
        ATTRIBUTE(MaxRegistersPerBlock, regsPerBlock)
        ATTRIBUTE(MaxRegistersPerMultiprocessor, regsPerMultiprocessor)
        ATTRIBUTE(TextureAlignment, textureAlignment)
        ATTRIBUTE(TexturePitchAlignment, texturePitchAlignment)
        ATTRIBUTE(MultiProcessorCount, multiProcessorCount)
        ATTRIBUTE(MaxThreadsPerMultiProcessor, maxThreadsPerMultiProcessor)
        ATTRIBUTE(MaxBlocksPerMultiprocessor, maxBlocksPerMultiProcessor)
        ATTRIBUTE(ComputeCapabilityMajor, major)
        ATTRIBUTE(ComputeCapabilityMinor, minor)
        ATTRIBUTE(GlobalMemoryBusWidth, memoryBusWidth)
        ATTRIBUTE(L2CacheSize, l2CacheSize)
        ATTRIBUTE(CanMapHostMemory, canMapHostMemory)
        ATTRIBUTE(UnifiedAddressing, unifiedAddressing)
        ATTRIBUTE(ManagedMemory, managedMemory)
        ATTRIBUTE(ConcurrentManagedAccess, concurrentManagedAccess)
        ATTRIBUTE(ConcurrentKernels, concurrentKernels)
        ATTRIBUTE(AsyncEngineCount, asyncEngineCount)
        ATTRIBUTE(CooperativeLaunch, cooperativeLaunch)
        ATTRIBUTE(StreamPrioritiesSupported, streamPrioritiesSupported)
        ATTRIBUTE(MemoryPoolsSupported, memoryPoolsSupported)
        ATTRIBUTE(HostRegisterSupported, hostRegisterSupported)
        ATTRIBUTE(GlobalL1CacheSupported, globalL1CacheSupported)
        ATTRIBUTE(MaxTexture1DWidth, maxTexture1D)
        ATTRIBUTE(MaxTexture2DWidth, maxTexture2D[0])
        ATTRIBUTE(MaxTexture2DHeight, maxTexture2D[1])
#undef ATTRIBUTE
        case cudaDevAttrClockRate:
        case cudaDevAttrMemoryClockRate:
            *value = 1000000;  // kHz
            break;
        case cudaDevAttrGpuOverlap:
            *value = 1;
            break;
        default:
            *value = 0;
    }
    return cudaSuccess;
}
ALSO(cudaDeviceGetAttribute, cuDeviceGetAttribute)

EXPORT cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int) {
    std::snprintf(text, static_cast<std::size_t>(bytes), "0000:00:00.0");
    return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit limit) {
    *value = limit == cudaLimitStackSize ? 1024 : 8 << 20;
    return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    *least = *greatest = 0;
    return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
    *can = 0;
    return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
    *pool = reinterpret_cast<cudaMemPool_t>(1);
    return cudaSuccess;
}
ALSO(cudaDeviceGetDefaultMemPool, cudaDeviceGetMemPool, cudaMemPoolCreate)

EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
ALSO(cudaRuntimeGetVersion, cudaDriverGetVersion, cuDriverGetVersion)

// ---- functions that have nothing to do, with any arguments ---------------------------------

EXPORT cudaError_t emulator_nothing() {
    return cudaSuccess;
}
EXPORT cudaError_t emulator_unsupported() {
    return noted(cudaErrorNotSupported);
}

ALSO(emulator_nothing, cudaDeviceReset, cudaDeviceSetLimit, cudaDeviceSetCacheConfig,
     cudaDeviceSetSharedMemConfig, cudaDeviceSetMemPool, cudaFuncSetCacheConfig,
     cudaFuncSetSharedMemConfig, cudaSetDeviceFlags, cudaSetValidDevices, cudaInitDevice,
     cudaProfilerStart, cudaProfilerStop, cudaMemAdvise, cudaMemAdvise_v2, cudaMemPrefetchAsync,
     cudaMemPrefetchAsync_v2, cudaMemPoolDestroy, cudaMemPoolSetAttribute, cudaMemPoolSetAccess,
     cudaMemPoolTrimTo, cudaStreamQuery, cudaStreamWaitEvent, cudaStreamAttachMemAsync,
     cudaStreamSetAttribute, cudaStreamCopyAttributes, cudaEventQuery, cudaGraphAddDependencies,
     cudaGraphUpload, cudaGraphDebugDotPrint, cudaGraphKernelNodeSetAttribute,
     cudaCtxResetPersistingL2Cache, cuInit)
ALSO(emulator_unsupported, cudaDeviceEnablePeerAccess, cudaDeviceDisablePeerAccess,
     cudaDeviceGetP2PAttribute, cudaIpcGetMemHandle, cudaIpcOpenMemHandle, cudaIpcGetEventHandle,
     cudaGetDriverEntryPoint, cudaGetDriverEntryPointByVersion, cudaStreamGetCaptureInfo,
     cudaStreamGetCaptureInfo_v2, cudaMallocMipmappedArray, cudaFreeMipmappedArray,
     cudaGetMipmappedArrayLevel)

// ---- the driver's functions that programs call to look at the device -------------------------

EXPORT int cuDeviceGet(int* device, int number) {
    *device = 0;
    return number == 0 ? 0 : cudaErrorInvalidDevice;
}
EXPORT int cuDeviceGetName(char* name, int bytes, int) {
    std::snprintf(name, static_cast<std::size_t>(bytes), "%s", properties().name);
    return 0;
}
EXPORT int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
    std::size_t free = 0;
    return cudaMemGetInfo(&free, bytes);
}
EXPORT int cuDeviceComputeCapability(int* major, int* minor, int) {
    *major = host.capability / 10;
    *minor = host.capability % 10;
    return 0;
}
