// A GPU that is none, as its driver shows it: memory, streams, events, recordings, and what is not allowed.
//
// Main type: Gpu. Of all orders that CUDA allows, work is done in the latest: it waits in its stream until somebody
// waits for it. So a copy out of pinned memory takes what is there then, and a host that reads too early reads
// the old. A kernel that may begin early does so before the two ahead of it have begun at all: what it reads of theirs
// without waiting is the old, too. Refuses to know: the names and structures of CUDA's interface.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cubin.h"

namespace fake {

/// CUresult, those of its values that are given here.
enum Code : int {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_OUT_OF_RESOURCES = 701,
    LAUNCH_FAILED = 719,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
};

/// Done later, in its stream's order; what it says is the GPU's failure.
using Work = std::function<Code()>;

struct Event {
    bool timed = true;
    /// How often it was recorded, and how often such a record was reached.
    uint64_t recorded = 0, passed = 0;
    /// By the GPU's clock.
    uint64_t when = 0;
};

/// One thing that a stream or a recording holds.
struct Node {
    Node(Work work) : work(std::move(work)) {}

    Work work;
    /// What it records and nothing else; anew by each replay.
    std::shared_ptr<Event> event;
    /// Of a kernel that may begin before the one ahead has ended: does what needs nothing of the others, and gives
    /// what is left to do.
    std::function<Work()> begin;
    bool begun = false, is_kernel = false;
};

struct Graph {
    std::vector<Node> nodes;
};

struct Stream {
    std::deque<Node> waiting;
    std::shared_ptr<Graph> recording;
    std::thread::id recorder;
    bool invalidated = false;
};

struct Module {
    Cubin cubin;
};

inline uintptr_t last_handle = 0x1000;

/// Things by the handles under which they were given out. A handle is never given out twice, whatever of.
template <class Thing> class Handles {
  public:
    void *add(std::shared_ptr<Thing> thing) {
        last_handle += 0x10;
        things[reinterpret_cast<void *>(last_handle)] = std::move(thing);
        return reinterpret_cast<void *>(last_handle);
    }
    std::shared_ptr<Thing> find(void *handle) const {
        const auto found = things.find(handle);
        return found == things.end() ? nullptr : found->second;
    }
    bool remove(void *handle) { return things.erase(handle) == 1; }
    size_t count() const { return things.size(); }

    std::map<void *, std::shared_ptr<Thing>> things;
};

class Gpu {
  public:
    static Gpu &the();

    // ---- what a call may do -------------------------------------------------------------------------

    /// Counts the call, and says what it must give at once: a failure that was planted, or one that is there for
    /// good.
    Code enter(const char *call);
    /// A mistake of the caller's, for the report; gives the code.
    Code wrong(const char *call, const std::string &what, Code code);
    /// Whether this thread records into any stream: much is forbidden then, and spoils the recording.
    bool records_here();

    // ---- memory -------------------------------------------------------------------------------------

    /// 0: there is not so much.
    uint64_t allocate(size_t bytes);
    bool free(uint64_t address);
    /// Whether one allocation that lives holds all of it.
    bool holds(uint64_t address, size_t bytes) const;
    size_t free_bytes() const { return capacity - taken; }

    // ---- work ---------------------------------------------------------------------------------------

    Code enqueue(Stream &stream, Node node);
    /// Does a stream's work, up to `event` where one is given.
    Code drain(Stream &stream, const Event *event = nullptr);
    Code drain_all();

    std::recursive_mutex mutex;
    unsigned arch = 90;
    size_t capacity = size_t(6) << 30;
    /// Of a driver that takes the libraries of CUDA 12 and 13.
    int version = 13000;
    /// Microseconds: each work takes one, so that what was timed can be told beforehand.
    uint64_t clock = 0;
    bool initialized = false;

    Handles<Stream> streams;
    Handles<Event> events;
    Handles<Graph> graphs, recordings;
    Handles<Module> modules;
    Handles<Kernel> functions;
    /// Of cuBLASLt.
    Handles<std::array<int64_t, 5>> descriptions;
    std::map<uint64_t, size_t> allocations, pinned;

    /// Writes what was called, what was wrong and what was not given back.
    void report();

  private:
    Gpu();
    void begin_early(Stream &stream);
    size_t taken = 0, most_taken = 0;
    std::map<std::string, uint64_t> calls;
    std::vector<std::string> mistakes;
    /// The planted failure: the call, the how manieth time, the code.
    std::string fails_in;
    uint64_t fails_at = 0;
    Code fails_with = OK, lost = OK;
};

} // namespace fake
