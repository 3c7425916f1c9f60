// Streams, events and graphs.

#include "host.h"

#include <chrono>
#include <utility>

/// The work of a graph, in an order in which it can be done.
struct CUgraph_st {
    std::vector<Work> work;
};
struct CUgraphExec_st {
    std::vector<Work> work;
};
struct CUgraphNode_st {
    CUgraph_st* graph;
    size_t number;  // of its work
};
struct CUstream_st {};
struct CUevent_st {
    std::chrono::steady_clock::time_point time;
    bool is_recorded;
};

namespace {

/// The graph of the stream that is captured, or null.
cudaGraph_t captured = nullptr;

cudaError_t add(cudaGraphNode_t* node, cudaGraph_t graph, Work work) {
    if (node) *node = new CUgraphNode_st{graph, graph->work.size()};
    graph->work.push_back(std::move(work));
    return cudaSuccess;
}

Work all_of(const std::vector<Work>& work) {
    return [work] {
        for (const Work& one : work)
            if (const cudaError_t error = one()) return error;
        return cudaSuccess;
    };
}

Work kernel(const cudaKernelNodeParams& given) {
    return launch_of(given.func, given.gridDim, given.blockDim, given.kernelParams,
                     given.sharedMemBytes, false);
}

Work call(cudaHostFn_t function, void* data) {
    return [=] { return function(data), cudaSuccess; };
}

Work fill(const cudaMemsetParams& given) {
    return [given] {
        for (size_t k = 0; k < given.width * given.height; ++k) {
            char* row = static_cast<char*>(given.dst) + k / given.width * given.pitch;
            char* to = row + k % given.width * given.elementSize;
            check("cudaGraphAddMemsetNode", "memory", to, given.elementSize, true);
            copy(to, &given.value, given.elementSize);
        }
        return cudaSuccess;
    };
}

template <class Handle>
cudaError_t destroy(Handle handle) {
    if (!handle) return noted(cudaErrorInvalidResourceHandle);
    delete handle;
    return cudaSuccess;
}

}  // namespace

bool is_capturing() {
    return captured;
}

cudaError_t enqueue(Work work) {
    return captured ? add(nullptr, captured, std::move(work)) : work();
}

// ---- streams ------------------------------------------------------------------------------

API(cudaStreamCreate, (cudaStream_t * stream), success(*stream = new CUstream_st))
ALSO(cudaStreamCreate, cudaStreamCreateWithFlags, cudaStreamCreateWithPriority)

API(cudaStreamDestroy, (cudaStream_t stream), destroy(stream))
API(cudaStreamGetFlags, (cudaStream_t, unsigned* flags), success(*flags = 0))
ALSO(cudaStreamGetFlags, cudaStreamGetPriority)

API(cudaDeviceSynchronize, (), (host.count("synchronizations"), cudaSuccess))
ALSO(cudaDeviceSynchronize, cudaStreamSynchronize, cudaEventSynchronize)

API(cudaLaunchHostFunc, (cudaStream_t, cudaHostFn_t function, void* data),
    enqueue(call(function, data)))
API(cudaStreamAddCallback,
    (cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned),
    enqueue([=] { return function(stream, cudaSuccess, data), cudaSuccess; }))

// ---- events -------------------------------------------------------------------------------

API(cudaEventCreate, (cudaEvent_t * event), success(*event = new CUevent_st{}))
ALSO(cudaEventCreate, cudaEventCreateWithFlags)

API(cudaEventDestroy, (cudaEvent_t event), destroy(event))
/// While a stream is captured, an event only orders work, and may be destroyed before its launch.
API(cudaEventRecord, (cudaEvent_t event, cudaStream_t),
    is_capturing() ? cudaSuccess : success(*event = {std::chrono::steady_clock::now(), true}))
ALSO(cudaEventRecord, cudaEventRecordWithFlags)

EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    if (!start || !end || !start->is_recorded || !end->is_recorded)
        return noted(cudaErrorInvalidResourceHandle);
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
    return cudaSuccess;
}

// ---- graphs -------------------------------------------------------------------------------

EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
    if (captured) return noted(cudaErrorIllegalState);
    captured = new CUgraph_st;
    return cudaSuccess;
}
EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
    *graph = std::exchange(captured, nullptr);
    return noted(*graph ? cudaSuccess : cudaErrorIllegalState);
}
API(cudaStreamIsCapturing, (cudaStream_t, cudaStreamCaptureStatus* status),
    success(*status = captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone))

API(cudaGraphCreate, (cudaGraph_t * graph, unsigned), success(*graph = new CUgraph_st))
API(cudaGraphClone, (cudaGraph_t * made, cudaGraph_t graph),
    success(*made = new CUgraph_st(*graph)))
API(cudaGraphDestroy, (cudaGraph_t graph), destroy(graph))

using Nodes = const cudaGraphNode_t*;  // on which a node depends: they are there before it
API(cudaGraphAddKernelNode,
    (cudaGraphNode_t * node, cudaGraph_t graph, Nodes, size_t, const cudaKernelNodeParams* given),
    add(node, graph, kernel(*given)))
API(cudaGraphAddMemcpyNode,
    (cudaGraphNode_t * node, cudaGraph_t graph, Nodes, size_t, const cudaMemcpy3DParms* given),
    add(node, graph, [own = *given] { return cudaMemcpy3D(&own); }))
API(cudaGraphAddMemcpyNode1D,
    (cudaGraphNode_t * node, cudaGraph_t graph, Nodes, size_t, void* to, const void* from,
     size_t bytes, cudaMemcpyKind kind),
    add(node, graph, [=] { return cudaMemcpy(to, from, bytes, kind); }))
API(cudaGraphAddMemsetNode,
    (cudaGraphNode_t * node, cudaGraph_t graph, Nodes, size_t, const cudaMemsetParams* given),
    add(node, graph, fill(*given)))
API(cudaGraphAddHostNode,
    (cudaGraphNode_t * node, cudaGraph_t graph, Nodes, size_t, const cudaHostNodeParams* given),
    add(node, graph, call(given->fn, given->userData)))
API(cudaGraphAddChildGraphNode,
    (cudaGraphNode_t * node, cudaGraph_t graph, Nodes, size_t, cudaGraph_t child),
    add(node, graph, all_of(child->work)))
API(cudaGraphAddEmptyNode, (cudaGraphNode_t * node, cudaGraph_t graph, Nodes, size_t),
    add(node, graph, [] { return cudaSuccess; }))
EXPORT cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph, Nodes, size_t,
                                            cudaMemAllocNodeParams* given) {
    given->dptr = allocate(given->bytesize, cudaMemoryTypeDevice, CALLER, true);
    return given->dptr ? cudaGraphAddEmptyNode(node, graph, nullptr, 0)
                       : noted(cudaErrorMemoryAllocation);
}
ALSO(cudaGraphAddEmptyNode, cudaGraphAddMemFreeNode)

API(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t*, size_t* count),
    success(*count = graph->work.size()))

API(cudaGraphInstantiate, (cudaGraphExec_t * made, cudaGraph_t graph, unsigned long long),
    success(*made = new CUgraphExec_st{graph->work}))
ALSO(cudaGraphInstantiate, cudaGraphInstantiateWithFlags)

API(cudaGraphExecKernelNodeSetParams,
    (cudaGraphExec_t graph, cudaGraphNode_t node, const cudaKernelNodeParams* given),
    success(graph->work[node->number] = kernel(*given)))
API(cudaGraphLaunch, (cudaGraphExec_t graph, cudaStream_t), enqueue(all_of(graph->work)))
API(cudaGraphExecDestroy, (cudaGraphExec_t graph), destroy(graph))
