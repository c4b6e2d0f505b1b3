// How the fake GPU's memory, work and report behave; gpu.h says what they are.
//
// Refuses to know: the names and structures of CUDA's interface.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu.h"

// The emulator's.
extern "C" void emulate_seed(unsigned long long seed);

namespace fake {

namespace {

const size_t PAGE = size_t(sysconf(_SC_PAGESIZE));
/// As cuMemAlloc aligns.
constexpr size_t ALIGNMENT = 256;
/// What fresh memory holds: a NaN in each type.
constexpr int POISON = 0xff;
/// Kernels that begin before the stream's next has run.
constexpr size_t BEGUN_AHEAD = 2;

size_t pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

const char *setting(const char *name) {
    const char *value = std::getenv(name);
    return value && *value ? value : nullptr;
}

std::string quoted(const std::string &text) {
    std::string all = "\"";
    for (const char c : text) {
        all += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    }
    return all + "\"";
}

} // namespace

Gpu &Gpu::the() {
    // Never destroyed: the report is the last that runs.
    static Gpu *const gpu = new Gpu();
    return *gpu;
}

Gpu::Gpu() {
    if (const char *value = setting("FAKE_CUDA_VERSION")) {
        version = std::atoi(value);
    }
    if (const char *value = setting("FAKE_CUDA_ARCH")) {
        arch = unsigned(std::atoi(value));
    }
    if (const char *value = setting("FAKE_CUDA_SEED")) {
        emulate_seed(std::strtoull(value, nullptr, 10));
    }
    // CALL:TIMES:CODE
    if (const char *value = setting("FAKE_CUDA_FAIL")) {
        char call[64];
        unsigned long times = 0;
        int code = 0;
        if (std::sscanf(value, "%63[^:]:%lu:%d", call, &times, &code) == 3) {
            fails_in = call;
            fails_at = times;
            fails_with = Code(code);
        }
    }
}

Code Gpu::enter(const char *call) {
    const uint64_t times = ++calls[call];
    if (lost != OK) {
        return lost;
    }
    if (fails_in != call || times != fails_at) {
        return OK;
    }
    // From these on nothing works any more in this process.
    if (fails_with == ILLEGAL_ADDRESS || fails_with == LAUNCH_FAILED) {
        lost = fails_with;
    }
    return fails_with;
}

Code Gpu::wrong(const char *call, const std::string &what, Code code) {
    mistakes.push_back(std::string(call) + ": " + what);
    return code;
}

bool Gpu::records_here() {
    bool records = false;
    for (const auto &[handle, stream] : streams.things) {
        if (stream->recording && stream->recorder == std::this_thread::get_id()) {
            stream->invalidated = records = true;
        }
    }
    return records;
}

uint64_t Gpu::allocate(size_t bytes) {
    if (bytes > free_bytes()) {
        return 0;
    }
    // A page before and one behind that nobody may touch, and the end as near to it as the alignment allows.
    const size_t room = pages(bytes);
    void *const map = mmap(nullptr, room + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        return 0;
    }
    unsigned char *const first = static_cast<unsigned char *>(map) + PAGE;
    mprotect(first, room, PROT_READ | PROT_WRITE);
    unsigned char *const start = first + (room - bytes) / ALIGNMENT * ALIGNMENT;
    std::memset(start, POISON, bytes);
    const auto address = reinterpret_cast<uint64_t>(start);
    allocations[address] = bytes;
    taken += bytes;
    most_taken = std::max(most_taken, taken);
    return address;
}

bool Gpu::free(uint64_t address) {
    const auto found = allocations.find(address);
    if (found == allocations.end()) {
        return false;
    }
    taken -= found->second;
    // Its pages go and its place stays taken: whatever still reads or writes it ends the process.
    mmap(reinterpret_cast<void *>(address / PAGE * PAGE - PAGE), pages(found->second) + 2 * PAGE, PROT_NONE,
         MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    allocations.erase(found);
    return true;
}

bool Gpu::holds(uint64_t address, size_t bytes) const {
    auto after = allocations.upper_bound(address);
    if (after == allocations.begin()) {
        return false;
    }
    const auto &[start, size] = *--after;
    return address + bytes <= start + size;
}

Code Gpu::enqueue(Stream &stream, Node node) {
    if (stream.recording) {
        stream.recording->nodes.push_back(std::move(node));
        return stream.invalidated ? CAPTURE_INVALIDATED : OK;
    }
    stream.waiting.push_back(std::move(node));
    return OK;
}

Code Gpu::drain(Stream &stream, const Event *event) {
    while (!stream.waiting.empty() && lost == OK && (!event || event->passed < event->recorded)) {
        begin_early(stream);
        const Node node = std::move(stream.waiting.front());
        stream.waiting.pop_front();
        lost = node.work();
        clock += node.event ? 0 : 1;
    }
    return lost;
}

/// What may begin before the stream's next kernel has ended.
void Gpu::begin_early(Stream &stream) {
    const size_t end = std::min(stream.waiting.size(), 1 + BEGUN_AHEAD);
    for (size_t at = 1; at < end && stream.waiting[at - 1].is_kernel; at++) {
        Node &node = stream.waiting[at];
        if (!node.is_kernel || (!node.begin && !node.begun)) {
            return;
        }
        if (node.begin) {
            node.work = node.begin();
            node.begin = nullptr;
            node.begun = true;
        }
    }
}

Code Gpu::drain_all() {
    for (const auto &[handle, stream] : streams.things) {
        drain(*stream);
    }
    return lost;
}

void Gpu::report() {
    const std::lock_guard alone(mutex);
    const char *path = setting("FAKE_CUDA_REPORT");
    std::FILE *file = path ? std::fopen(path, "w") : nullptr;
    if (!file) {
        return;
    }
    std::string wrongs, counts;
    for (const std::string &mistake : mistakes) {
        wrongs += (wrongs.empty() ? "" : ",") + quoted(mistake);
    }
    for (const auto &[call, times] : calls) {
        counts += (counts.empty() ? "" : ",") + quoted(call) + ":" + std::to_string(times);
    }
    std::fprintf(file, "{\"mistakes\":[%s],\"most_bytes\":%zu,\"calls\":{%s},\"left\":{", wrongs.c_str(), most_taken,
                 counts.c_str());
    std::fprintf(file, "\"allocations\":%zu,\"pinned\":%zu,\"streams\":%zu,\"events\":%zu,", allocations.size(),
                 pinned.size(), streams.count(), events.count());
    std::fprintf(file, "\"graphs\":%zu,\"recordings\":%zu,\"modules\":%zu,\"descriptions\":%zu}}\n", graphs.count(),
                 recordings.count(), modules.count(), descriptions.count());
    std::fclose(file);
}

namespace {
/// At the process's orderly end.
struct AtEnd {
    ~AtEnd() { Gpu::the().report(); }
} at_end;
} // namespace

} // namespace fake
