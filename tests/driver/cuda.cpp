// libcuda.so for a machine without a GPU: the functions that infergate calls, as NVIDIA's documentation of the driver
// API tells them, with kernels run by the emulator.
//
// Built together with cublaslt.cpp, gpu.cpp and the emulator into one library, which lies there under both names. It is
// strict where the driver is lenient: what the documentation forbids is refused and reported. A cubin is read for
// what a launch of its kernels takes, and the emulator's kernel of that name is run in its place. Settings:
//   FAKE_CUDA_FAIL=CALL:N:CODE  the N-th such call fails; after 700 and 719 every later call does
//   FAKE_CUDA_VERSION=12090     of the driver
//   FAKE_CUDA_ARCH=90           of the GPU
//   FAKE_CUDA_REPORT=FILE       written at the end: calls, mistakes, and what was not given back
// Refuses to know: how work waits, what a kernel computes.

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "gpu.h"

extern "C" int emulate(const char *kernel, const unsigned grid[3], const unsigned block[3], unsigned dynamic_shared,
                       void **args);

#define API extern "C" __attribute__((visibility("default")))

using namespace fake;

namespace {

using Handle = void *;
using Pointer = unsigned long long;

constexpr int DEVICE = 0;
const Handle CONTEXT = reinterpret_cast<Handle>(0xc0);
thread_local Handle current = nullptr;

// An H200.
constexpr unsigned MULTIPROCESSORS = 132, SHARED_LIMIT = 232448, SHARED_RESERVED = 1024;
constexpr unsigned REGISTERS = 65536, REGISTER_GRAIN = 256, WARP = 32, GRID_LIMIT = 65535;

enum Attribute : int {
    ATTRIBUTE_MULTIPROCESSORS = 16,
    ATTRIBUTE_MAJOR = 75,
    ATTRIBUTE_MINOR = 76,
    ATTRIBUTE_SHARED_OPTIN = 97,
    ATTRIBUTE_MEMORY_POOLS = 115,
};
constexpr int DYNAMIC_SHARED = 8;
constexpr unsigned PROGRAMMATIC_SERIALIZATION = 6;
constexpr unsigned EVENT_DISABLE_TIMING = 2, EVENT_RECORD_EXTERNAL = 1;
constexpr int CAPTURE_THREAD_LOCAL = 1;
/// Larger copies within the device are not made: a rate is measured by them, and nobody reads what they give.
constexpr size_t MOST_COPIED = size_t(1) << 28;

/// What a call asks for.
enum Needs { NOTHING, INITIALIZED, BOUND, BOUND_AND_NOT_RECORDING };

/// One call: alone, counted, and refused where what it needs is not there.
struct Call {
    Call(const char *name, Needs needs) : name(name), gpu(Gpu::the()), alone(gpu.mutex), code(gpu.enter(name)) {
        if (code != OK || needs == NOTHING) {
            return;
        }
        if (!gpu.initialized) {
            code = wrong("before cuInit", NOT_INITIALIZED);
        } else if (needs >= BOUND && current != CONTEXT) {
            code = wrong("no context is current on this thread", INVALID_CONTEXT);
        } else if (needs == BOUND_AND_NOT_RECORDING && gpu.records_here()) {
            code = wrong("this thread records", CAPTURE_UNSUPPORTED);
        }
    }
    explicit operator bool() const { return code == OK; }
    Code wrong(const std::string &what, Code with) { return gpu.wrong(name, what, with); }

    const char *name;
    Gpu &gpu;
    std::lock_guard<std::recursive_mutex> alone;
    Code code;
};

struct Config {
    unsigned grid[3], block[3], shared;
    Handle stream;
    const struct LaunchAttribute *attributes;
    unsigned count;
};
struct LaunchAttribute {
    unsigned id;
    char pad[4];
    union {
        char room[64];
        int allowed;
    } value;
};
static_assert(sizeof(Config) == 56 && sizeof(LaunchAttribute) == 72);

std::string number(unsigned long long value) { return std::to_string(value); }

/// What keeps a GPU from this launch; empty: nothing.
std::string refused(const Config &config, const Kernel &kernel, unsigned arch) {
    const auto &[x, y, z] = config.grid;
    const unsigned threads = config.block[0] * config.block[1] * config.block[2];
    if (!x || !y || !z || y > GRID_LIMIT || z > GRID_LIMIT || !threads) {
        return "a grid of " + number(x) + ", " + number(y) + ", " + number(z) + " blocks of " + number(threads);
    }
    if (threads > kernel.most_threads) {
        return number(threads) + " threads where it was compiled for " + number(kernel.most_threads);
    }
    if (config.shared > kernel.dynamic_limit) {
        return number(config.shared) + " bytes of shared memory, and " + number(kernel.dynamic_limit) + " are allowed";
    }
    if (config.count > 1 || (config.count == 1 && config.attributes->id != PROGRAMMATIC_SERIALIZATION)) {
        return "an attribute that is not known here";
    }
    if (config.count == 1 && arch < 90) {
        return "a dependent launch before sm_90";
    }
    return "";
}

/// Whether a multiprocessor has the registers for one block; they are given to a warp at a time.
bool has_registers(const Config &config, const Kernel &kernel) {
    const unsigned warps = (config.block[0] * config.block[1] * config.block[2] + WARP - 1) / WARP;
    const unsigned each = (kernel.registers * WARP + REGISTER_GRAIN - 1) / REGISTER_GRAIN * REGISTER_GRAIN;
    return warps * each <= REGISTERS;
}

Code run(const std::string &kernel, Config config, std::vector<uint64_t> words) {
    std::vector<void *> args;
    for (uint64_t &word : words) {
        args.push_back(&word);
    }
    const int status = emulate(kernel.c_str(), config.grid, config.block, config.shared, args.data());
    if (status != 0) {
        return Gpu::the().wrong("cuLaunchKernelEx", kernel + " failed, status " + number(status), LAUNCH_FAILED);
    }
    return OK;
}

Code reach(const std::shared_ptr<Event> &event, uint64_t record) {
    event->passed = std::max(event->passed, record);
    event->when = std::chrono::steady_clock::now();
    return OK;
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

/// The stream that work goes into; null, with the call's code set, where there is none such or the place is none.
std::shared_ptr<Stream> into(Call &call, Handle handle, Pointer address, size_t bytes) {
    if (!call) {
        return nullptr;
    }
    std::shared_ptr<Stream> stream = call.gpu.streams.find(handle);
    if (!stream) {
        call.code = call.wrong("there is no such stream", INVALID_HANDLE);
    } else if (bytes > 0 && !call.gpu.holds(address, bytes)) {
        call.code = call.wrong(number(bytes) + " bytes are not there", INVALID_VALUE);
        stream = nullptr;
    }
    return stream;
}

void *host(Pointer address) { return reinterpret_cast<void *>(address); }

Node copy(void *to, const void *from, size_t bytes) {
    return {[=] {
                std::memmove(to, from, bytes);
                return OK;
            },
            nullptr};
}

} // namespace

API int cuMemsetD8Async(Pointer to, unsigned char value, size_t bytes, Handle handle) {
    Call call("cuMemsetD8Async", BOUND);
    const auto stream = into(call, handle, to, bytes);
    if (!stream) {
        return call.code;
    }
    return call.gpu.enqueue(*stream, {[=] {
                                          std::memset(host(to), value, bytes);
                                          return OK;
                                      },
                                      nullptr});
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
    return call.gpu.enqueue(*stream, {[=] {
                                          std::memcpy(host(to), kept->data(), bytes);
                                          return OK;
                                      },
                                      nullptr});
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
    const auto stream = into(call, handle, 0, 0);
    if (!stream) {
        return call.code;
    }
    const Code done = call.gpu.drain(*stream);
    call.gpu.streams.remove(handle);
    return done;
}

API int cuStreamSynchronize(Handle handle) {
    Call call("cuStreamSynchronize", BOUND_AND_NOT_RECORDING);
    const auto stream = into(call, handle, 0, 0);
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
    return call && !call.gpu.events.remove(handle) ? call.wrong("there is no such event", INVALID_HANDLE) : call.code;
}

API int cuEventRecordWithFlags(Handle handle, Handle stream_handle, unsigned flags) {
    Call call("cuEventRecordWithFlags", BOUND);
    const auto stream = into(call, stream_handle, 0, 0);
    const auto event = call.gpu.events.find(handle);
    if (!stream || !event) {
        return call ? call.wrong("there is no such event", INVALID_HANDLE) : call.code;
    }
    // Within a recording any other record would only order streams, and never be reached.
    if (bool(stream->recording) != (flags == EVENT_RECORD_EXTERNAL)) {
        return call.wrong(stream->recording ? "in a recording" : "outside of a recording", INVALID_VALUE);
    }
    if (stream->recording) {
        return call.gpu.enqueue(*stream, {nullptr, event});
    }
    const uint64_t record = ++event->recorded;
    return call.gpu.enqueue(*stream, {[=] { return reach(event, record); }, nullptr});
}

API int cuEventRecord(Handle event, Handle stream) { return cuEventRecordWithFlags(event, stream, 0); }

API int cuEventSynchronize(Handle handle) {
    Call call("cuEventSynchronize", BOUND_AND_NOT_RECORDING);
    const auto event = call.gpu.events.find(handle);
    if (!call || !event) {
        return call ? call.wrong("there is no such event", INVALID_HANDLE) : call.code;
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
    const auto start = call.gpu.events.find(start_handle), end = call.gpu.events.find(end_handle);
    const bool known = start && end && start->timed && end->timed && start->recorded && end->recorded;
    if (!call || !known) {
        return call ? call.wrong("an event without a time", INVALID_HANDLE) : call.code;
    }
    if (start->passed < start->recorded || end->passed < end->recorded) {
        return call.wrong("an event that was not waited for", NOT_READY);
    }
    *milliseconds = std::chrono::duration<float, std::milli>(end->when - start->when).count();
    return OK;
}

// ---- kernels ------------------------------------------------------------------------------------

API int cuModuleLoadData(Handle *handle, const void *image) {
    Call call("cuModuleLoadData", BOUND_AND_NOT_RECORDING);
    if (!call) {
        return call.code;
    }
    const auto module = std::make_shared<Module>();
    module->cubin = read_cubin(static_cast<const unsigned char *>(image));
    if (module->cubin.kernels.empty()) {
        return call.wrong("no cubin, or one without kernels", INVALID_IMAGE);
    }
    // Machine code runs on its own major version's GPUs, from its minor version on.
    const unsigned arch = module->cubin.arch;
    if (arch / 10 != call.gpu.arch / 10 || arch > call.gpu.arch) {
        return call.wrong("machine code for sm_" + number(arch), NO_BINARY_FOR_GPU);
    }
    *handle = call.gpu.modules.add(module);
    return OK;
}

API int cuModuleUnload(Handle handle) {
    Call call("cuModuleUnload", BOUND_AND_NOT_RECORDING);
    if (!call) {
        return call.code;
    }
    const Code done = call.gpu.drain_all();
    return call.gpu.modules.remove(handle) ? done : call.wrong("there is no such module", INVALID_HANDLE);
}

API int cuModuleGetFunction(Handle *function, Handle handle, const char *name) {
    Call call("cuModuleGetFunction", BOUND);
    const auto module = call.gpu.modules.find(handle);
    if (!call || !module) {
        return call ? call.wrong("there is no such module", INVALID_HANDLE) : call.code;
    }
    const auto found = module->cubin.kernels.find(name);
    if (found == module->cubin.kernels.end()) {
        return call.wrong(std::string("there is no kernel ") + name, NOT_FOUND);
    }
    *function = call.gpu.functions.add(std::shared_ptr<Kernel>(module, &found->second));
    return OK;
}

API int cuFuncSetAttribute(Handle function, int attribute, int value) {
    Call call("cuFuncSetAttribute", BOUND);
    const auto kernel = call.gpu.functions.find(function);
    if (!call || !kernel) {
        return call ? call.wrong("there is no such function", INVALID_HANDLE) : call.code;
    }
    const unsigned limit = SHARED_LIMIT - (std::max(kernel->shared, SHARED_RESERVED) - SHARED_RESERVED);
    if (attribute != DYNAMIC_SHARED || value < 0 || unsigned(value) > limit) {
        return call.wrong(kernel->name + " cannot have " + number(value), INVALID_VALUE);
    }
    kernel->dynamic_limit = unsigned(value);
    return OK;
}

API int cuLaunchKernelEx(const Config *config, Handle function, void **args, void **extra) {
    Call call("cuLaunchKernelEx", BOUND);
    const auto stream = into(call, config->stream, 0, 0);
    const auto kernel = call.gpu.functions.find(function);
    if (!stream || !kernel || extra) {
        return call ? call.wrong("there is no such function", INVALID_HANDLE) : call.code;
    }
    const std::string reason = refused(*config, *kernel, call.gpu.arch);
    if (!reason.empty()) {
        return call.wrong(kernel->name + ": " + reason, INVALID_VALUE);
    }
    if (!has_registers(*config, *kernel)) {
        return call.wrong(kernel->name + ": too many registers for such a block", LAUNCH_OUT_OF_RESOURCES);
    }
    std::vector<uint64_t> words;
    for (size_t at = 0; at < kernel->parameters.size(); at++) {
        words.push_back(0);
        std::memcpy(&words.back(), args[at], kernel->parameters[at]);
    }
    const Config kept = *config;
    return call.gpu.enqueue(*stream, {[=] { return run(kernel->name, kept, words); }, nullptr});
}

// ---- recordings ---------------------------------------------------------------------------------

API int cuStreamBeginCapture_v2(Handle handle, int mode) {
    Call call("cuStreamBeginCapture_v2", BOUND);
    const auto stream = into(call, handle, 0, 0);
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
    const auto graph = call.gpu.graphs.find(handle);
    if (!call || !graph || nodes) {
        return call ? call.wrong("there is no such graph", INVALID_HANDLE) : call.code;
    }
    *count = graph->nodes.size();
    return OK;
}

API int cuGraphInstantiateWithFlags(Handle *handle, Handle graph_handle, unsigned long long) {
    Call call("cuGraphInstantiateWithFlags", BOUND);
    const auto graph = call.gpu.graphs.find(graph_handle);
    if (!call || !graph) {
        return call ? call.wrong("there is no such graph", INVALID_HANDLE) : call.code;
    }
    *handle = call.gpu.recordings.add(graph);
    return OK;
}

API int cuGraphDestroy(Handle handle) {
    Call call("cuGraphDestroy", BOUND);
    return call && !call.gpu.graphs.remove(handle) ? call.wrong("there is no such graph", INVALID_HANDLE) : call.code;
}

API int cuGraphExecDestroy(Handle handle) {
    Call call("cuGraphExecDestroy", BOUND);
    const bool gone = call && !call.gpu.recordings.remove(handle);
    return gone ? call.wrong("there is no such recording", INVALID_HANDLE) : call.code;
}

API int cuGraphLaunch(Handle handle, Handle stream_handle) {
    Call call("cuGraphLaunch", BOUND);
    const auto stream = into(call, stream_handle, 0, 0);
    const auto recording = call.gpu.recordings.find(handle);
    if (!stream || !recording) {
        return call ? call.wrong("there is no such recording", INVALID_HANDLE) : call.code;
    }
    for (const Node &node : recording->nodes) {
        Node again = node;
        if (const auto event = node.event) {
            const uint64_t record = ++event->recorded;
            again.work = [=] { return reach(event, record); };
        }
        const Code queued = call.gpu.enqueue(*stream, std::move(again));
        if (queued != OK) {
            return queued;
        }
    }
    return OK;
}
