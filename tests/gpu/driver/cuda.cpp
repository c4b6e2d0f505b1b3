// libcuda.so for a machine without a GPU: the functions that infergate calls, as NVIDIA's documentation of the driver
// API tells them. Here: the device, memory, streams, events and recordings.
//
// Built together with kernels.cpp, cublaslt.cpp, gpu.cpp and the emulator into one library, which lies there under both
// names. It is strict where the driver is lenient: what the documentation forbids is refused and reported. Settings:
//   FAKE_CUDA_FAIL=CALL:N:CODE  the N-th such call fails, with 13 where it is cuBLASLt's; after 700 and 719 every later
//                               call does
//   FAKE_CUDA_VERSION=13000     of the driver
//   FAKE_CUDA_ARCH=90           of the GPU
//   FAKE_CUDA_SEED=0            of the order in which blocks and warps run
//   FAKE_CUDA_REPORT=FILE       written at the end: calls, mistakes, and what was not given back
// Refuses to know: how work waits, what a kernel computes.

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "call.h"

using namespace fake;

namespace {

constexpr int DEVICE = 0;
// An H200.
constexpr unsigned MULTIPROCESSORS = 132;

enum Attribute : int {
    ATTRIBUTE_MULTIPROCESSORS = 16,
    ATTRIBUTE_MAJOR = 75,
    ATTRIBUTE_MINOR = 76,
    ATTRIBUTE_SHARED_OPTIN = 97,
    ATTRIBUTE_MEMORY_POOLS = 115,
};
constexpr unsigned EVENT_DISABLE_TIMING = 2, EVENT_RECORD_EXTERNAL = 1;
constexpr int CAPTURE_THREAD_LOCAL = 1;
/// Larger copies within the device are not made: a rate is measured by them, and nobody reads what they give.
constexpr size_t MOST_COPIED = size_t(1) << 28;

/// Records the event, which is reached when this is done.
Work record(const std::shared_ptr<Event> &event) {
    const uint64_t record = ++event->recorded;
    return [=] {
        event->passed = std::max(event->passed, record);
        event->when = Gpu::the().clock;
        return OK;
    };
}

} // namespace

// ---- the process and the device -----------------------------------------------------------------

API int cuInit(unsigned) {
    Call call("cuInit", NOTHING);
    call.gpu.initialized = bool(call);
    return call.code;
}

API int cuDriverGetVersion(int *version) {
    Call call("cuDriverGetVersion", NOTHING);
    *version = call.gpu.version;
    return call.code;
}

API int cuDeviceGetCount(int *count) {
    Call call("cuDeviceGetCount", INITIALIZED);
    *count = 1;
    return call.code;
}

API int cuDeviceGet(int *device, int ordinal) {
    Call call("cuDeviceGet", INITIALIZED);
    *device = DEVICE;
    return call && ordinal != 0 ? call.wrong("there is one device", INVALID_VALUE) : call.code;
}

API int cuDeviceGetName(char *name, int length, int) {
    Call call("cuDeviceGetName", INITIALIZED);
    std::snprintf(name, size_t(length), "fake GPU");
    return call.code;
}

API int cuDeviceGetAttribute(int *value, int attribute, int) {
    Call call("cuDeviceGetAttribute", INITIALIZED);
    switch (attribute) {
    case ATTRIBUTE_MULTIPROCESSORS:
        *value = MULTIPROCESSORS;
        break;
    case ATTRIBUTE_MAJOR:
        *value = int(call.gpu.arch / 10);
        break;
    case ATTRIBUTE_MINOR:
        *value = int(call.gpu.arch % 10);
        break;
    case ATTRIBUTE_SHARED_OPTIN:
        *value = SHARED_LIMIT;
        break;
    case ATTRIBUTE_MEMORY_POOLS:
        *value = 1;
        break;
    default:
        return call.wrong("attribute " + number(attribute) + " is not known here", INVALID_VALUE);
    }
    return call.code;
}

API int cuDevicePrimaryCtxRetain(Handle *context, int) {
    Call call("cuDevicePrimaryCtxRetain", INITIALIZED);
    *context = CONTEXT;
    return call.code;
}

API int cuDevicePrimaryCtxRelease_v2(int) { return Call("cuDevicePrimaryCtxRelease_v2", INITIALIZED).code; }

API int cuCtxGetCurrent(Handle *context) {
    Call call("cuCtxGetCurrent", INITIALIZED);
    *context = current;
    return call.code;
}

API int cuCtxSetCurrent(Handle context) {
    Call call("cuCtxSetCurrent", INITIALIZED);
    if (call) {
        current = context;
    }
    return call.code;
}

API int cuGetErrorName(int, const char **text) {
    *text = "CUDA_ERROR";
    return OK;
}

API int cuGetErrorString(int error, const char **text) {
    switch (error) {
    case OUT_OF_MEMORY:
        *text = "out of memory";
        break;
    case NO_DEVICE:
        *text = "no CUDA-capable device is detected";
        break;
    case ILLEGAL_ADDRESS:
        *text = "an illegal memory access was encountered";
        break;
    default:
        *text = "some failure";
    }
    return OK;
}

// ---- memory -------------------------------------------------------------------------------------

API int cuMemGetInfo_v2(size_t *free, size_t *total) {
    Call call("cuMemGetInfo_v2", BOUND);
    *free = call.gpu.free_bytes();
    *total = call.gpu.capacity;
    return call.code;
}

API int cuMemAlloc_v2(Pointer *address, size_t bytes) {
    Call call("cuMemAlloc_v2", BOUND_AND_NOT_RECORDING);
    if (!call) {
        return call.code;
    }
    if (bytes == 0) {
        return call.wrong("nothing", INVALID_VALUE);
    }
    *address = call.gpu.allocate(bytes);
    return *address ? OK : OUT_OF_MEMORY;
}

API int cuMemFree_v2(Pointer address) {
    Call call("cuMemFree_v2", BOUND_AND_NOT_RECORDING);
    if (!call) {
        return call.code;
    }
    const Code done = call.gpu.drain_all();
    return call.gpu.free(address) ? done : call.wrong("this was not allocated", INVALID_VALUE);
}

API int cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
    Call call("cuMemHostAlloc", BOUND_AND_NOT_RECORDING);
    if (!call) {
        return call.code;
    }
    *memory = std::malloc(bytes);
    call.gpu.pinned[reinterpret_cast<uint64_t>(*memory)] = bytes;
    return OK;
}

API int cuMemFreeHost(void *memory) {
    Call call("cuMemFreeHost", BOUND_AND_NOT_RECORDING);
    if (!call) {
        return call.code;
    }
    const Code done = call.gpu.drain_all();
    if (call.gpu.pinned.erase(reinterpret_cast<uint64_t>(memory)) == 0) {
        return call.wrong("this was not allocated", INVALID_VALUE);
    }
    std::free(memory);
    return done;
}

namespace {

/// Whether the GPU reads and writes it by itself, later. Other memory of the host's is copied at once.
bool is_pinned(const Gpu &gpu, const void *memory, size_t bytes) {
    const auto address = reinterpret_cast<uint64_t>(memory);
    auto after = gpu.pinned.upper_bound(address);
    return after != gpu.pinned.begin() && address + bytes <= (--after)->first + after->second;
}

void *host(Pointer address) { return reinterpret_cast<void *>(address); }

Work copy(void *to, const void *from, size_t bytes) {
    return [=] {
        std::memmove(to, from, bytes);
        return OK;
    };
}

} // namespace

API int cuMemsetD8Async(Pointer to, unsigned char value, size_t bytes, Handle handle) {
    Call call("cuMemsetD8Async", BOUND);
    const auto stream = into(call, handle, to, bytes);
    if (!stream) {
        return call.code;
    }
    return call.gpu.enqueue(*stream, Work([=] {
        std::memset(host(to), value, bytes);
        return OK;
    }));
}

API int cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, Handle handle) {
    Call call("cuMemcpyDtoDAsync_v2", BOUND);
    const auto stream = into(call, handle, to, bytes);
    if (!stream || !into(call, handle, from, bytes)) {
        return call.code;
    }
    return call.gpu.enqueue(*stream, copy(host(to), host(from), bytes <= MOST_COPIED ? bytes : 0));
}

API int cuMemcpyHtoDAsync_v2(Pointer to, const void *from, size_t bytes, Handle handle) {
    Call call("cuMemcpyHtoDAsync_v2", BOUND);
    const auto stream = into(call, handle, to, bytes);
    if (!stream) {
        return call.code;
    }
    if (is_pinned(call.gpu, from, bytes)) {
        return call.gpu.enqueue(*stream, copy(host(to), from, bytes));
    }
    if (stream->recording) {
        return call.wrong("memory that is not pinned, in a recording", CAPTURE_UNSUPPORTED);
    }
    const auto kept = std::make_shared<std::vector<char>>(static_cast<const char *>(from),
                                                          static_cast<const char *>(from) + bytes);
    return call.gpu.enqueue(*stream, Work([=] {
        std::memcpy(host(to), kept->data(), bytes);
        return OK;
    }));
}

API int cuMemcpyDtoHAsync_v2(void *to, Pointer from, size_t bytes, Handle handle) {
    Call call("cuMemcpyDtoHAsync_v2", BOUND);
    const auto stream = into(call, handle, from, bytes);
    if (!stream) {
        return call.code;
    }
    const Code queued = call.gpu.enqueue(*stream, copy(to, host(from), bytes));
    return queued != OK || is_pinned(call.gpu, to, bytes) ? queued : call.gpu.drain(*stream);
}

// ---- streams and events -------------------------------------------------------------------------

API int cuStreamCreate(Handle *handle, unsigned) {
    Call call("cuStreamCreate", BOUND);
    if (call) {
        *handle = call.gpu.streams.add(std::make_shared<Stream>());
    }
    return call.code;
}

API int cuStreamDestroy_v2(Handle handle) {
    Call call("cuStreamDestroy_v2", BOUND);
    const auto stream = named(call, call.gpu.streams, handle, "stream");
    if (!stream) {
        return call.code;
    }
    const Code done = call.gpu.drain(*stream);
    call.gpu.streams.remove(handle);
    return done;
}

API int cuStreamSynchronize(Handle handle) {
    Call call("cuStreamSynchronize", BOUND_AND_NOT_RECORDING);
    const auto stream = named(call, call.gpu.streams, handle, "stream");
    return stream ? call.gpu.drain(*stream) : call.code;
}

API int cuEventCreate(Handle *handle, unsigned flags) {
    Call call("cuEventCreate", BOUND);
    if (call) {
        const auto event = std::make_shared<Event>();
        event->timed = !(flags & EVENT_DISABLE_TIMING);
        *handle = call.gpu.events.add(event);
    }
    return call.code;
}

API int cuEventDestroy_v2(Handle handle) {
    Call call("cuEventDestroy_v2", BOUND);
    if (named(call, call.gpu.events, handle, "event")) {
        call.gpu.events.remove(handle);
    }
    return call.code;
}

API int cuEventRecordWithFlags(Handle handle, Handle stream_handle, unsigned flags) {
    Call call("cuEventRecordWithFlags", BOUND);
    const auto stream = named(call, call.gpu.streams, stream_handle, "stream");
    const auto event = named(call, call.gpu.events, handle, "event");
    if (!stream || !event) {
        return call.code;
    }
    // Within a recording any other record would only order streams, and never be reached.
    if (bool(stream->recording) != (flags == EVENT_RECORD_EXTERNAL)) {
        return call.wrong(stream->recording ? "in a recording" : "outside of a recording", INVALID_VALUE);
    }
    Node node(stream->recording ? nullptr : record(event));
    node.event = event;
    return call.gpu.enqueue(*stream, std::move(node));
}

API int cuEventRecord(Handle event, Handle stream) { return cuEventRecordWithFlags(event, stream, 0); }

API int cuEventSynchronize(Handle handle) {
    Call call("cuEventSynchronize", BOUND_AND_NOT_RECORDING);
    const auto event = named(call, call.gpu.events, handle, "event");
    if (!event) {
        return call.code;
    }
    for (const auto &[other, stream] : call.gpu.streams.things) {
        const Code done = call.gpu.drain(*stream, event.get());
        if (done != OK) {
            return done;
        }
    }
    return OK;
}

API int cuEventElapsedTime(float *milliseconds, Handle start_handle, Handle end_handle) {
    Call call("cuEventElapsedTime", BOUND);
    const auto start = named(call, call.gpu.events, start_handle, "event");
    const auto end = named(call, call.gpu.events, end_handle, "event");
    if (!start || !end) {
        return call.code;
    }
    if (!start->timed || !end->timed || !start->recorded || !end->recorded) {
        return call.wrong("an event without a time", INVALID_HANDLE);
    }
    if (start->passed < start->recorded || end->passed < end->recorded) {
        return call.wrong("an event that was not waited for", NOT_READY);
    }
    *milliseconds = float(end->when - start->when) / 1e3f;
    return OK;
}

// ---- recordings ---------------------------------------------------------------------------------

API int cuStreamBeginCapture_v2(Handle handle, int mode) {
    Call call("cuStreamBeginCapture_v2", BOUND);
    const auto stream = named(call, call.gpu.streams, handle, "stream");
    if (!stream) {
        return call.code;
    }
    if (stream->recording || mode != CAPTURE_THREAD_LOCAL) {
        return call.wrong("it records already, or in another mode", INVALID_VALUE);
    }
    stream->recording = std::make_shared<Graph>();
    stream->recorder = std::this_thread::get_id();
    stream->invalidated = false;
    return OK;
}

API int cuStreamEndCapture(Handle handle, Handle *graph) {
    Call call("cuStreamEndCapture", BOUND);
    const auto stream = call.gpu.streams.find(handle);
    if (!stream || !stream->recording || stream->recorder != std::this_thread::get_id()) {
        return call ? call.wrong("this thread does not record", INVALID_VALUE) : call.code;
    }
    // It ends, whether it can be used or not.
    const auto recorded = std::move(stream->recording);
    stream->recording = nullptr;
    if (!call || stream->invalidated) {
        return call ? CAPTURE_INVALIDATED : call.code;
    }
    *graph = call.gpu.graphs.add(recorded);
    return OK;
}

API int cuGraphGetNodes(Handle handle, Handle *nodes, size_t *count) {
    Call call("cuGraphGetNodes", BOUND);
    const auto graph = named(call, call.gpu.graphs, handle, "graph");
    if (!graph) {
        return call.code;
    }
    if (nodes) {
        return call.wrong("the nodes themselves are not known here", INVALID_VALUE);
    }
    *count = graph->nodes.size();
    return OK;
}

API int cuGraphInstantiateWithFlags(Handle *handle, Handle graph_handle, unsigned long long) {
    Call call("cuGraphInstantiateWithFlags", BOUND);
    if (const auto graph = named(call, call.gpu.graphs, graph_handle, "graph")) {
        *handle = call.gpu.recordings.add(graph);
    }
    return call.code;
}

API int cuGraphDestroy(Handle handle) {
    Call call("cuGraphDestroy", BOUND);
    if (named(call, call.gpu.graphs, handle, "graph")) {
        call.gpu.graphs.remove(handle);
    }
    return call.code;
}

API int cuGraphExecDestroy(Handle handle) {
    Call call("cuGraphExecDestroy", BOUND);
    if (named(call, call.gpu.recordings, handle, "recording")) {
        call.gpu.recordings.remove(handle);
    }
    return call.code;
}

API int cuGraphUpload(Handle handle, Handle stream_handle) {
    Call call("cuGraphUpload", BOUND);
    const auto stream = named(call, call.gpu.streams, stream_handle, "stream");
    if (!stream || !named(call, call.gpu.recordings, handle, "recording")) {
        return call.code;
    }
    return stream->recording ? call.wrong("in a recording", CAPTURE_UNSUPPORTED) : call.code;
}

API int cuGraphLaunch(Handle handle, Handle stream_handle) {
    Call call("cuGraphLaunch", BOUND);
    const auto stream = named(call, call.gpu.streams, stream_handle, "stream");
    const auto recording = named(call, call.gpu.recordings, handle, "recording");
    if (!stream || !recording) {
        return call.code;
    }
    for (const Node &node : recording->nodes) {
        Node again = node;
        // What a replay begins with begins when all before it has ended.
        again.begin = &node == &recording->nodes.front() ? nullptr : node.begin;
        if (node.event) {
            again.work = record(node.event);
        }
        const Code queued = call.gpu.enqueue(*stream, std::move(again));
        if (queued != OK) {
            return queued;
        }
    }
    return OK;
}
