// Streams, events and graphs.

#include "host.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

using Clock = std::chrono::steady_clock;

/// The work of a graph's nodes, in an order in which it can be done.
struct CUgraphNode_st {
    cudaGraphNodeType type;
    Work work;
};
struct CUgraph_st {
    std::vector<std::shared_ptr<CUgraphNode_st>> nodes;
};
struct CUgraphExec_st {
    std::vector<std::pair<cudaGraphNode_t, CUgraphNode_st>> nodes;
};
struct CUstream_st {
    unsigned flags;
    int priority;
};
struct CUevent_st {
    Clock::time_point time;
    unsigned flags;
    bool is_recorded;
};

namespace {

/// The graph of the stream that is captured, or null.
cudaGraph_t captured = nullptr;

cudaError_t add(cudaGraphNode_t* node, cudaGraph_t graph, cudaGraphNodeType type, Work work) {
    graph->nodes.push_back(std::make_shared<CUgraphNode_st>(CUgraphNode_st{type, std::move(work)}));
    if (node) *node = graph->nodes.back().get();
    return cudaSuccess;
}

Work of_kernel(const cudaKernelNodeParams& given) {
    return launch_of(given.func, given.gridDim, given.blockDim, given.kernelParams,
                     given.sharedMemBytes, false);
}
Work of_host(const cudaHostNodeParams& given) {
    return [given] { return given.fn(given.userData), cudaSuccess; };
}
}  // namespace

cudaError_t enqueue(Work work) {
    return captured ? add(nullptr, captured, cudaGraphNodeTypeKernel, std::move(work)) : work();
}

// ---- streams ------------------------------------------------------------------------------

EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                int priority) {
    *stream = new CUstream_st{flags, priority};
    return cudaSuccess;
}
EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}
EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (!stream) return noted(cudaErrorInvalidResourceHandle);
    delete stream;
    return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceSynchronize() {
    host.count("synchronizations");
    return cudaSuccess;
}
ALSO(cudaDeviceSynchronize, cudaStreamSynchronize, cudaEventSynchronize)

EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
    *priority = stream->priority;
    return cudaSuccess;
}
EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
    *flags = stream->flags;
    return cudaSuccess;
}
EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void* data) {
    return enqueue(of_host({function, data}));
}
EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function,
                                         void* data, unsigned) {
    return enqueue([=] { return function(stream, cudaSuccess, data), cudaSuccess; });
}

// ---- events -------------------------------------------------------------------------------

EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    *event = new CUevent_st{{}, flags, false};
    return cudaSuccess;
}
EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}
EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return cudaSuccess;
}
EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
    if (!event) return noted(cudaErrorInvalidResourceHandle);
    return enqueue([=] {
        event->time = Clock::now();
        event->is_recorded = true;
        return cudaSuccess;
    });
}
ALSO(cudaEventRecord, cudaEventRecordWithFlags)

EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    if (!start || !end || !start->is_recorded || !end->is_recorded ||
        (start->flags | end->flags) & cudaEventDisableTiming)
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
EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
    *status = captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
EXPORT cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
    *graph = new CUgraph_st;
    return cudaSuccess;
}
EXPORT cudaError_t cudaGraphClone(cudaGraph_t* made, cudaGraph_t graph) {
    *made = new CUgraph_st(*graph);
    return cudaSuccess;
}
EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}
EXPORT cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                          const cudaGraphNode_t*, std::size_t,
                                          const cudaKernelNodeParams* given) {
    return add(node, graph, cudaGraphNodeTypeKernel, of_kernel(*given));
}
EXPORT cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                          const cudaGraphNode_t*, std::size_t,
                                          const cudaMemcpy3DParms* given) {
    return add(node, graph, cudaGraphNodeTypeMemcpy, [own = *given] { return cudaMemcpy3D(&own); });
}
EXPORT cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                            const cudaGraphNode_t*, std::size_t, void* to,
                                            const void* from, std::size_t bytes,
                                            cudaMemcpyKind kind) {
    return add(node, graph, cudaGraphNodeTypeMemcpy,
               [=] { return cudaMemcpy(to, from, bytes, kind); });
}
EXPORT cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                          const cudaGraphNode_t*, std::size_t,
                                          const cudaMemsetParams* given) {
    return add(node, graph, cudaGraphNodeTypeMemset, [own = *given] {
        for (std::size_t k = 0; k < own.width * own.height; ++k) {
            char* row = static_cast<char*>(own.dst) + k / own.width * own.pitch;
            char* to = row + k % own.width * own.elementSize;
            check("cudaGraphAddMemsetNode", "memory", to, own.elementSize, true);
            copy(to, &own.value, own.elementSize);
        }
        return cudaSuccess;
    });
}
EXPORT cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                        const cudaGraphNode_t*, std::size_t,
                                        const cudaHostNodeParams* given) {
    return add(node, graph, cudaGraphNodeTypeHost, of_host(*given));
}
EXPORT cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                         const cudaGraphNode_t*, std::size_t) {
    return add(node, graph, cudaGraphNodeTypeEmpty, [] { return cudaSuccess; });
}
EXPORT cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                              const cudaGraphNode_t*, std::size_t,
                                              cudaGraph_t child) {
    return add(node, graph, cudaGraphNodeTypeGraph, [own = *child] {
        for (const auto& one : own.nodes)
            if (const cudaError_t error = one->work()) return error;
        return cudaSuccess;
    });
}
EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                                     std::size_t* count) {
    for (std::size_t k = 0; nodes && k < std::min(*count, graph->nodes.size()); ++k)
        nodes[k] = graph->nodes[k].get();
    *count = graph->nodes.size();
    return cudaSuccess;
}
EXPORT cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
    *type = node->type;
    return cudaSuccess;
}
EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph,
                                        unsigned long long) {
    *made = new CUgraphExec_st;
    for (const auto& node : graph->nodes) (*made)->nodes.emplace_back(node.get(), *node);
    return cudaSuccess;
}
ALSO(cudaGraphInstantiate, cudaGraphInstantiateWithFlags)

EXPORT cudaError_t cudaGraphExecUpdate(cudaGraphExec_t made, cudaGraph_t graph,
                                       cudaGraphExecUpdateResultInfo* result) {
    *result = {};
    if (made->nodes.size() != graph->nodes.size()) {
        result->result = cudaGraphExecUpdateErrorTopologyChanged;
        return noted(cudaErrorGraphExecUpdateFailure);
    }
    for (std::size_t k = 0; k < graph->nodes.size(); ++k)
        made->nodes[k].second.work = graph->nodes[k]->work;
    return cudaSuccess;
}
EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
    return enqueue([graph] {
        for (const auto& [node, own] : graph->nodes)
            if (const cudaError_t error = own.work()) return error;
        return cudaSuccess;
    });
}
EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    delete graph;
    return cudaSuccess;
}
EXPORT cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node,
                                                    const cudaKernelNodeParams* given) {
    for (auto& [own, copied] : graph->nodes)
        if (own == node) copied.work = of_kernel(*given);
    return cudaSuccess;
}
