// Modules, functions and launches of the fake libcuda.so.
//
// A launch is held against what its cubin says and a GPU has; the emulator runs the kernel of that name. Refuses to know:
// memory, recordings.

#include <algorithm>

#include "call.h"

// The emulator's, as tests/gpu/emulator/emulator.cpp tells them.
extern "C" int emulate(const char *kernel, const unsigned grid[3], const unsigned block[3], unsigned dynamic_shared,
                       void **args);
extern "C" void *emulate_begin(const char *kernel, const unsigned grid[3], const unsigned block[3],
                               unsigned dynamic_shared, void **args);
extern "C" int emulate_end(void *begun);

using namespace fake;

namespace {

// An H200.
constexpr unsigned REGISTERS = 65536, REGISTER_GRAIN = 256, WARP = 32, GRID_LIMIT = 65535;

constexpr int DYNAMIC_SHARED = 8;
constexpr unsigned PROGRAMMATIC_SERIALIZATION = 6;

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

/// A kernel with all that it is started with.
struct Start {
    std::string kernel;
    Config config;
    std::vector<uint64_t> words;
    /// To each of the words.
    std::vector<void *> args;
};

Code judge(const Start &start, int status) {
    const std::string what = start.kernel + " failed, status " + number(unsigned(status));
    return status == 0 ? OK : Gpu::the().wrong("cuLaunchKernelEx", what, LAUNCH_FAILED);
}

Code run(const std::shared_ptr<Start> &start) {
    const Config &config = start->config;
    return judge(*start, emulate(start->kernel.c_str(), config.grid, config.block, config.shared, start->args.data()));
}

Work begin(const std::shared_ptr<Start> &start) {
    const Config &config = start->config;
    void *const begun =
        emulate_begin(start->kernel.c_str(), config.grid, config.block, config.shared, start->args.data());
    return [=] { return judge(*start, begun ? emulate_end(begun) : -1); };
}

} // namespace

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
    const auto module = named(call, call.gpu.modules, handle, "module");
    if (!module) {
        return call.code;
    }
    // Its functions go with it.
    std::erase_if(call.gpu.functions.things, [&](const auto &function) {
        return !function.second.owner_before(module) && !module.owner_before(function.second);
    });
    call.gpu.modules.remove(handle);
    return done;
}

API int cuModuleGetFunction(Handle *function, Handle handle, const char *name) {
    Call call("cuModuleGetFunction", BOUND);
    const auto module = named(call, call.gpu.modules, handle, "module");
    if (!module) {
        return call.code;
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
    const auto kernel = named(call, call.gpu.functions, function, "function");
    if (!kernel) {
        return call.code;
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
    const auto stream = named(call, call.gpu.streams, config->stream, "stream");
    const auto kernel = named(call, call.gpu.functions, function, "function");
    if (!stream || !kernel) {
        return call.code;
    }
    if (extra) {
        return call.wrong("arguments in another form", INVALID_VALUE);
    }
    const std::string reason = refused(*config, *kernel, call.gpu.arch);
    if (!reason.empty()) {
        return call.wrong(kernel->name + ": " + reason, INVALID_VALUE);
    }
    if (!has_registers(*config, *kernel)) {
        return call.wrong(kernel->name + ": too many registers for such a block", LAUNCH_OUT_OF_RESOURCES);
    }
    const auto start = std::make_shared<Start>(Start{kernel->name, *config, {}, {}});
    for (size_t at = 0; at < kernel->parameters.size(); at++) {
        start->words.push_back(0);
        std::memcpy(&start->words.back(), args[at], kernel->parameters[at]);
    }
    // Once no word moves any more.
    for (uint64_t &word : start->words) {
        start->args.push_back(&word);
    }
    Node node([=] { return run(start); });
    node.is_kernel = true;
    if (config->count == 1 && config->attributes->value.allowed) {
        node.begin = [=] { return begin(start); };
    }
    return call.gpu.enqueue(*stream, std::move(node));
}
