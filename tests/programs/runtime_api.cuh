// The functions of the runtime API, in one program without a fault. It returns the number of the
// first check that fails, or 0.

#pragma once

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

namespace runtime_api {

__device__ int calls;
__managed__ int shared_by_both = 3;
__constant__ int offsets[4];

__global__ void add_offset(int* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += offsets[i % 4];
    if (i == 0) atomicAdd(&calls, 1);
}

template <int block, class T>
__global__ void sum(const T* x, T* total, int n) {
    extern __shared__ unsigned char bytes[];
    T* const parts = reinterpret_cast<T*>(bytes);
    T own = 0;
    for (int i = threadIdx.x; i < n; i += block) own += x[i];
    parts[threadIdx.x] = own;
    for (int half = block / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    }
    if (threadIdx.x == 0) *total = parts[0];
}

__global__ void __launch_bounds__(64)
    scale_rows(float* x, std::size_t pitch, int width, int height) {
    const int column = threadIdx.x, row = threadIdx.y;
    if (column < width && row < height)
        reinterpret_cast<float*>(reinterpret_cast<char*>(x) + row * pitch)[column] *= 2;
}

struct Shape {
    __device__ virtual int corners() const { return 0; }
};
struct Square : Shape {
    __device__ int corners() const override { return 4; }
};

/// Calls by tables of functions, which are variables.
__global__ void count_corners(int* x) {
    const Shape point;
    const Square square;
    const Shape* shapes[] = {&point, &square};
    x[threadIdx.x] = shapes[threadIdx.x % 2]->corners();
    if (threadIdx.x == 0) ++shared_by_both;
}

extern __shared__ int dynamic[];

__global__ void fill_shared(int* x, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) dynamic[i] = i;
    __syncthreads();
    x[threadIdx.x] = dynamic[n - 1 - threadIdx.x];
}

/// A launch by a function that is chosen at run time.
void launch(void (*kernel)(int*, int), int* x, int n) {
    kernel<<<dim3(2), dim3(32), 0, nullptr>>>(x, n);
}

inline int run() {
    int devices = 0;
    cudaDeviceProp properties;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices != 1) return 1;
    if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess || properties.warpSize != 32)
        return 2;
    if (cudaSetDevice(1) != cudaErrorInvalidDevice || cudaGetLastError() == cudaSuccess) return 3;
    if (cudaGetLastError() != cudaSuccess) return 4;

    constexpr int n = 64;
    int* x;
    if (cudaMallocManaged(&x, n * sizeof(int)) != cudaSuccess) return 5;
    std::fill(x, x + n, 1);
    const int given[] = {0, 1, 2, 3};
    cudaMemcpyToSymbol(offsets, given, sizeof(given));
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    add_offset<<<2, 32, 0, stream>>>(x, n);
    launch(add_offset, x, n);
    launch(add_offset, x, n);
    int size = n;
    void* arguments[] = {&x, &size};
    if (cudaLaunchKernel(add_offset, dim3(2), dim3(32), arguments, 0, stream) != cudaSuccess)
        return 6;
    if (cudaLaunchCooperativeKernel(add_offset, 2, 32, arguments) != cudaSuccess) return 7;
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    for (int i = 0; i < n; ++i)
        if (x[i] != 1 + 5 * (i % 4)) return 8;
    int count = 0;
    cudaMemcpyFromSymbol(&count, calls, sizeof(count));
    if (count != 5) return 9;

    long long *total, *values;
    cudaMalloc(&total, sizeof(*total));
    cudaMallocHost(&values, 100 * sizeof(*values));
    std::iota(values, values + 100, 1);
    sum<128><<<1, 128, 128 * sizeof(long long)>>>(values, total, 100);
    long long found = 0;
    cudaMemcpy(&found, total, sizeof(found), cudaMemcpyDefault);
    if (found != 5050) return 10;
    cudaMemsetAsync(total, 0, sizeof(*total));
    cudaMemcpyAsync(&found, total, sizeof(found), cudaMemcpyDeviceToHost);
    if (found != 0) return 11;
    cudaFreeHost(values);

    float* rows;
    std::size_t pitch;
    cudaMallocPitch((void**)&rows, &pitch, 5 * sizeof(float), 3);
    std::vector<float> host(15, 1.5f);
    cudaMemcpy2D(rows, pitch, host.data(), 20, 20, 3, cudaMemcpyHostToDevice);
    scale_rows<<<1, dim3(8, 4)>>>(rows, pitch, 5, 3);
    cudaMemcpy2D(host.data(), 20, rows, pitch, 20, 3, cudaMemcpyDeviceToHost);
    if (std::any_of(host.begin(), host.end(), [](float value) { return value != 3; })) return 12;

    fill_shared<<<1, 32, 60000>>>(x, 15000);
    if (cudaGetLastError() != cudaErrorInvalidValue) return 17;
    cudaFuncSetAttribute(fill_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000);
    fill_shared<<<1, 32, 60000>>>(x, 15000);
    if (x[0] != 14999 || x[31] != 14968) return 18;
    add_offset<<<1, 2048>>>(x, 1);
    if (cudaGetLastError() != cudaErrorInvalidConfiguration) return 19;
    scale_rows<<<1, 65>>>(rows, pitch, 5, 3);
    if (cudaGetLastError() != cudaErrorInvalidValue) return 32;
    cudaFuncAttributes of_rows;
    int resident = -1;
    cudaFuncGetAttributes(&of_rows, scale_rows);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, scale_rows, 65, 0);
    if (of_rows.maxThreadsPerBlock != 64 || resident != 0) return 33;
    if (cudaLaunchCooperativeKernel(add_offset, 4096, 32, arguments) !=
            cudaErrorCooperativeLaunchTooLarge ||
        cudaGetLastError() == cudaSuccess)
        return 20;

    // A captured stream, and a graph that is made by hand.
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaStreamCreate(&stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMemsetAsync(x, 0, n * sizeof(int), stream);
    add_offset<<<2, 32, 0, stream>>>(x, n);
    cudaStreamEndCapture(stream, &graph);
    const cudaKernelNodeParams launched = {(void*)add_offset, 2, 32, 0, arguments, nullptr};
    cudaGraphNode_t node;
    cudaGraphAddKernelNode(&node, graph, nullptr, 0, &launched);
    cudaGraphInstantiate(&executable, graph, 0);
    if (x[3] != 14996) return 21;
    for (int k = 0; k < 2; ++k) cudaGraphLaunch(executable, stream);
    if (x[3] != 6 || x[n - 1] != 6) return 22;

    // Memory that a graph allocates and frees.
    cudaMemAllocNodeParams memory{};
    memory.bytesize = n * sizeof(int);
    cudaGraphCreate(&graph, 0);
    cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &memory);
    arguments[0] = &memory.dptr;
    const cudaMemsetParams zeros{memory.dptr, 0, 0, sizeof(int), (std::size_t)n, 1};
    cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &zeros);
    cudaGraphAddKernelNode(&node, graph, nullptr, 0, &launched);
    cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, x, memory.dptr, memory.bytesize,
                             cudaMemcpyDefault);
    cudaGraphAddMemFreeNode(&node, graph, nullptr, 0, memory.dptr);
    cudaGraphInstantiate(&executable, graph, 0);
    if (cudaGraphLaunch(executable, stream) != cudaSuccess) return 24;
    if (cudaFree(memory.dptr) != cudaSuccess || x[3] != 3) return 25;
    x[3] = 0;
    if (cudaGraphLaunch(executable, stream) != cudaSuccess || x[3] != 3) return 31;
    int* captured;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaEvent_t event;
    cudaEventCreate(&event);
    cudaEventRecord(event, stream);
    cudaEventDestroy(event);
    cudaMallocAsync((void**)&captured, n * sizeof(int), stream);
    cudaMemsetAsync(captured, 0, n * sizeof(int), stream);
    add_offset<<<2, 32, 0, stream>>>(captured, n);
    cudaMemcpyAsync(x, captured, n * sizeof(int), cudaMemcpyDefault, stream);
    cudaFreeAsync(captured, stream);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&executable, graph, 0);
    for (int k = 0; k < 3; ++k)
        if (cudaGraphLaunch(executable, stream) != cudaSuccess) return 26;
    if (x[3] != 3) return 27;
    const std::size_t of_graphs = 2 * n * sizeof(int);

    // What the emulator does not do is an error.
    if (cudaIpcCloseMemHandle(x) != cudaErrorNotSupported) return 28;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {2, 1, 1};
    const cudaLaunchConfig_t clusters = {2, 32, 0, nullptr, &attribute, 1};
    if (cudaLaunchKernelExC(&clusters, (void*)add_offset, arguments) != cudaErrorNotSupported)
        return 29;
    if (cudaGetLastError() != cudaErrorNotSupported) return 30;

    count_corners<<<1, 32>>>(x);
    if (x[0] != 0 || x[1] != 4 || shared_by_both != 4) return 23;

    std::size_t free, all;
    cudaMemGetInfo(&free, &all);
    if (free >= all) return 14;
    cudaFree(x);
    cudaFree(total);
    cudaFree(rows);
    cudaMemGetInfo(&free, &all);
    if (free != all - of_graphs) return 15;
    int blocks, threads;
    cudaOccupancyMaxPotentialBlockSize(&blocks, &threads, add_offset);
    if (threads % 32 || blocks < 2) return 16;
    return cudaDeviceSynchronize();
}

}  // namespace runtime_api
