// What all calls of the driver have in common.
//
// Main type: Call. Refuses to know: any one of them.
#pragma once

#include "gpu.h"

#define API extern "C" __attribute__((visibility("default")))

namespace fake {

using Handle = void *;
using Pointer = unsigned long long;

/// The one context that there is, and what a thread has made its own.
const Handle CONTEXT = reinterpret_cast<Handle>(0xc0);
inline thread_local Handle current = nullptr;

/// Most bytes of shared memory that a block may ask for, on an H200.
constexpr unsigned SHARED_LIMIT = 232448;

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

inline std::string number(unsigned long long value) { return std::to_string(value); }

/// What has the handle; null, with the call's code set, where nothing has or the call is refused already.
template <class Thing>
std::shared_ptr<Thing> named(Call &call, const Handles<Thing> &things, Handle handle, const std::string &what) {
    if (!call) {
        return nullptr;
    }
    const std::shared_ptr<Thing> found = things.find(handle);
    if (!found) {
        call.code = call.wrong("there is no such " + what, INVALID_HANDLE);
    }
    return found;
}

/// The stream that work goes into; null, with the call's code set, where there is none such or the place is none.
inline std::shared_ptr<Stream> into(Call &call, Handle handle, Pointer address, size_t bytes) {
    std::shared_ptr<Stream> stream = named(call, call.gpu.streams, handle, "stream");
    if (stream && bytes > 0 && !call.gpu.holds(address, bytes)) {
        call.code = call.wrong(number(bytes) + " bytes are not there", INVALID_VALUE);
        stream = nullptr;
    }
    return stream;
}

} // namespace fake
