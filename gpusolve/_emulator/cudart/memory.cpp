// Memory of the device and of the host, copies and memsets.

#include "host.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace {

constexpr size_t ALIGNMENT = 256, GAP = 32 << 10;  // the gap is on both sides
constexpr size_t DEVICE_BYTES = size_t{8} << 30;

struct Allocation {
    size_t bytes;
    cudaMemoryType type;
    std::uint8_t* written;  // a bit for each byte, or null
    void* start;            // what free() takes, or null
    bool is_of_graph;       // which can be launched again, so nothing frees it
};

std::map<std::uintptr_t, Allocation> allocations;
size_t used = 0;
std::recursive_mutex lock;
using Guard = std::lock_guard<std::recursive_mutex>;

std::uintptr_t number(const void* memory) {
    return reinterpret_cast<std::uintptr_t>(memory);
}

/// The allocation of an address, and the offset in it; null if there is none.
const Allocation* find(const void* memory, size_t* offset) {
    auto after = allocations.upper_bound(number(memory));
    if (after == allocations.begin()) return nullptr;
    const auto& [start, found] = *--after;
    *offset = number(memory) - start;
    return *offset < found.bytes ? &found : nullptr;
}

void add(void* memory, const Allocation& made, const void* caller) {
    // The host may write its memory without a call.
    const bool is_unset = made.type == cudaMemoryTypeDevice;
    auto& kept = allocations[number(memory)] = made;
    kept.written = host.allocated(memory, made.bytes, caller, is_unset);
    used += made.bytes;
    host.count("allocations");
}

/// Note which bytes have values: all, or the bytes that have values in other memory.
void mark(const void* to, const void* from, size_t bytes) {
    size_t start = 0, first = 0;
    const Allocation* target = find(to, &start);
    if (!target || !target->written) return;
    const Allocation* source = from ? find(from, &first) : nullptr;
    const auto* known = source ? source->written : nullptr;
    for (size_t k = 0; k < bytes; ++k) {
        auto& bits = target->written[(start + k) / 8];
        const unsigned bit = 1u << ((start + k) % 8);
        const bool is_known = !known || known[(first + k) / 8] >> ((first + k) % 8) & 1;
        bits = static_cast<std::uint8_t>(is_known ? bits | bit : bits & ~bit);
    }
}

cudaError_t give(void** pointer, size_t bytes, cudaMemoryType type, const void* caller) {
    *pointer = bytes ? allocate(bytes, type, caller, is_capturing()) : nullptr;
    return noted(*pointer || !bytes ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t release(const void* pointer, bool is_of_host) {
    const Guard guard(lock);
    if (!pointer) return cudaSuccess;
    const auto found = allocations.find(number(pointer));
    if (found == allocations.end() || (found->second.type == cudaMemoryTypeHost) != is_of_host)
        return noted(cudaErrorInvalidValue);
    if (found->second.is_of_graph) return cudaSuccess;
    host.freed(pointer);
    used -= found->second.bytes;
    std::free(found->second.start);
    allocations.erase(found);
    return cudaSuccess;
}

size_t pitch_of(size_t width) {
    return (width + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

}  // namespace

void fail(const char* format, ...) {
    char text[512];
    va_list values;
    va_start(values, format);
    std::vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    host.fail(text);
    std::abort();
}

void* allocate(size_t bytes, cudaMemoryType type, const void* caller, bool is_of_graph) {
    const Guard guard(lock);
    if (bytes > DEVICE_BYTES - used) return nullptr;
    void* start = std::calloc(1, bytes + 2 * GAP + ALIGNMENT);
    if (!start) return nullptr;
    void* memory = reinterpret_cast<void*>(pitch_of(number(start) + GAP));
    add(memory, {bytes, type, nullptr, start, is_of_graph}, caller);
    return memory;
}

void check(const char* call, const char* what, const void* memory, size_t bytes, bool must) {
    const Guard guard(lock);
    size_t offset = 0;
    const Allocation* found = find(memory, &offset);
    if (!bytes || (found ? bytes <= found->bytes - offset : !must)) return;
    fail("%s: the %s must be %zu bytes of device memory, got %p, which has %zu", call, what, bytes,
         memory, found ? found->bytes - offset : 0);
}

void copy(void* to, const void* from, size_t bytes) {
    const Guard guard(lock);
    std::memmove(to, from, bytes);
    mark(to, from, bytes);
}

// ---- allocations --------------------------------------------------------------------------

API(cudaMalloc, (void** pointer, size_t bytes), give(pointer, bytes, cudaMemoryTypeDevice, CALLER))
ALSO(cudaMalloc, cudaMallocAsync, cudaMallocFromPoolAsync)

API(cudaMallocManaged, (void** pointer, size_t bytes, unsigned),
    give(pointer, bytes, cudaMemoryTypeManaged, CALLER))
API(cudaMallocHost, (void** pointer, size_t bytes),
    give(pointer, bytes, cudaMemoryTypeHost, CALLER))
ALSO(cudaMallocHost, cudaHostAlloc)

EXPORT cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
    *pitch = pitch_of(width);
    return give(pointer, *pitch * height, cudaMemoryTypeDevice, CALLER);
}
EXPORT cudaError_t cudaMalloc3D(cudaPitchedPtr* made, cudaExtent extent) {
    *made = {nullptr, pitch_of(extent.width), extent.width, extent.height};
    return give(&made->ptr, made->pitch * extent.height * extent.depth, cudaMemoryTypeDevice,
                CALLER);
}
API(cudaFree, (void* pointer), release(pointer, false))
ALSO(cudaFree, cudaFreeAsync)

API(cudaFreeHost, (void* pointer), release(pointer, true))
ALSO(cudaFreeHost, cudaHostUnregister)

EXPORT cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned) {
    const Guard guard(lock);
    size_t offset = 0;
    if (find(memory, &offset)) return noted(cudaErrorHostMemoryAlreadyRegistered);
    add(memory, {bytes, cudaMemoryTypeHost, nullptr, nullptr, false}, CALLER);
    return cudaSuccess;
}
EXPORT cudaError_t cudaHostGetDevicePointer(void** pointer, void* memory, unsigned) {
    size_t offset = 0;
    *pointer = memory;
    return noted(find(memory, &offset) ? cudaSuccess : cudaErrorInvalidValue);
}
EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void* memory) {
    size_t offset = 0;
    void* pointer = const_cast<void*>(memory);
    *found = {};
    if (const Allocation* allocation = find(memory, &offset)) {
        found->type = allocation->type;
        found->devicePointer = pointer;
    }
    if (found->type != cudaMemoryTypeDevice) found->hostPointer = pointer;
    return cudaSuccess;
}
API(cudaMemGetInfo, (size_t* free, size_t* total),
    success(*free = DEVICE_BYTES - used, *total = DEVICE_BYTES))
ALSO(cudaMemGetInfo, cuMemGetInfo_v2)

// ---- variables ----------------------------------------------------------------------------

EXPORT cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
    const Guard guard(lock);
    std::uint64_t bytes = 0;
    if (host.find_variable(symbol, address, &bytes)) return noted(cudaErrorInvalidSymbol);
    allocations[number(*address)] = {bytes, cudaMemoryTypeDevice, nullptr, nullptr, false};
    return cudaSuccess;
}
EXPORT cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
    void* address;
    const cudaError_t error = cudaGetSymbolAddress(&address, symbol);
    if (!error) *bytes = allocations[number(address)].bytes;
    return error;
}
EXPORT cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes,
                                      size_t offset, cudaMemcpyKind kind) {
    void* to;
    const cudaError_t error = cudaGetSymbolAddress(&to, symbol);
    return error ? error : cudaMemcpy(static_cast<char*>(to) + offset, from, bytes, kind);
}
ALSO(cudaMemcpyToSymbol, cudaMemcpyToSymbolAsync)

EXPORT cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                        cudaMemcpyKind kind) {
    void* from;
    const cudaError_t error = cudaGetSymbolAddress(&from, symbol);
    return error ? error : cudaMemcpy(to, static_cast<char*>(from) + offset, bytes, kind);
}
ALSO(cudaMemcpyFromSymbol, cudaMemcpyFromSymbolAsync)

// ---- copies and memsets -------------------------------------------------------------------

EXPORT cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return enqueue([=] {
        check("cudaMemcpy", "source", from, bytes, is_from_device(kind));
        check("cudaMemcpy", "target", to, bytes, is_to_device(kind));
        copy(to, from, bytes);
        host.count("copies");
        return cudaSuccess;
    });
}
ALSO(cudaMemcpy, cudaMemcpyAsync)

API(cudaMemcpyPeer, (void* to, int, const void* from, int, size_t bytes),
    cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice))
ALSO(cudaMemcpyPeer, cudaMemcpyPeerAsync)

EXPORT cudaError_t cudaMemset3D(cudaPitchedPtr memory, int value, cudaExtent extent) {
    return enqueue([=] {
        for (size_t k = 0; k < extent.depth * extent.height; ++k) {
            const size_t row = k / extent.height * memory.ysize + k % extent.height;
            void* const start = static_cast<char*>(memory.ptr) + row * memory.pitch;
            check("cudaMemset", "memory", start, extent.width, true);
            const Guard guard(lock);
            std::memset(start, value, extent.width);
            mark(start, nullptr, extent.width);
        }
        host.count("memsets");
        return cudaSuccess;
    });
}
ALSO(cudaMemset3D, cudaMemset3DAsync)

API(cudaMemset2D, (void* memory, size_t pitch, int value, size_t width, size_t height),
    cudaMemset3D({memory, pitch, width, height}, value, {width, height, 1}))
ALSO(cudaMemset2D, cudaMemset2DAsync)

API(cudaMemset, (void* memory, int value, size_t bytes),
    cudaMemset2D(memory, bytes, value, bytes, 1))
ALSO(cudaMemset, cudaMemsetAsync)
