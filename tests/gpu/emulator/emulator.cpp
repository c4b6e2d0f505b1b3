// Runs the kernels on a CPU: every CUDA thread is a fiber, the blocks of a launch run one after another. Threads of the
// host run launches side by side.
//
// Built from the repository's root, once for each element type, as one shared library:
//   g++ -std=c++20 -O2 -shared -fPIC -ftls-model=initial-exec -DEMULATED -DELEMENT=0 tests/gpu/emulator/emulator.cpp -o emulator_0.so
// It exports `emulate`, `emulate_begin` and `emulate_end`, and `emulate_seed`. Refuses to know: what any kernel computes.

#include "machine.h"
// Before the kernels, whose files each stand in a namespace of their own.
#include "../../../kernels/attention_block.cuh"
#include "../../../kernels/common.cuh"
#include "../../../kernels/delta.cuh"
#include "../../../kernels/rope.cuh"

namespace embedding_file {
#include "../../../kernels/embedding.cu"
}
namespace rms_norm_file {
#include "../../../kernels/rms_norm.cu"
}
namespace qkv_epilogue_file {
#include "../../../kernels/qkv_epilogue.cu"
}
namespace attention_prefill_file {
#include "../../../kernels/attention_prefill.cu"
}
namespace attention_decode_file {
#include "../../../kernels/attention_decode.cu"
}
namespace attention_rows_file {
#include "../../../kernels/attention_rows.cu"
}
namespace delta_rule_file {
#include "../../../kernels/delta_rule.cu"
}
namespace delta_chunks_file {
#include "../../../kernels/delta_chunks.cu"
}
namespace gate_file {
#include "../../../kernels/gate.cu"
}
namespace swiglu_file {
#include "../../../kernels/swiglu.cu"
}
namespace gemv_file {
#include "../../../kernels/gemv.cu"
}
namespace rank_file {
#include "../../../kernels/rank.cu"
}
namespace page_copy_file {
#include "../../../kernels/page_copy.cu"
}
namespace random_file {
#include "../../../kernels/random.cu"
}
namespace convert_file {
#include "../../../kernels/convert.cu"
}

namespace emulator {

namespace {

template <class... Args, size_t... At>
void call(void (*kernel)(Args...), void **args, std::index_sequence<At...>) {
    kernel(*static_cast<Args *>(args[At])...);
}

template <auto KERNEL, class... Args> void unpack_and_call(void (*)(Args...), void **args) {
    call(KERNEL, args, std::index_sequence_for<Args...>{});
}

template <auto KERNEL> void body(void **args) { unpack_and_call<KERNEL>(KERNEL, args); }

struct Entry {
    const char *name;
    Body body;
};

#define ENTRY(file, name) {#name, body<file##_file::name>}

const Entry ENTRIES[] = {
    ENTRY(embedding, embedding),
    ENTRY(rms_norm, rms_norm),
    ENTRY(rms_norm, rms_norm_wide),
    ENTRY(rms_norm, add_rms_norm),
    ENTRY(rms_norm, add_rms_norm_wide),
    ENTRY(rms_norm, add_bias),
    ENTRY(qkv_epilogue, rope_angles),
    ENTRY(qkv_epilogue, qkv_epilogue),
#if ELEMENT != 2
    ENTRY(attention_prefill, attention_prefill),
    ENTRY(attention_prefill, attention_prefill_2),
#endif
    ENTRY(attention_rows, attention_rows_1),
    ENTRY(attention_rows, attention_rows_2),
    ENTRY(attention_rows, attention_rows_4),
    ENTRY(attention_rows, attention_rows_8),
    ENTRY(attention_decode, attention_decode_1),
    ENTRY(attention_decode, attention_decode_2),
    ENTRY(attention_decode, attention_decode_4),
    ENTRY(attention_decode, attention_decode_8),
    ENTRY(delta_rule, delta_rule),
    ENTRY(delta_rule, copy_state),
#if ELEMENT != 2
    ENTRY(delta_chunks, delta_chunks),
    ENTRY(delta_chunks, delta_scan),
    ENTRY(delta_chunks, delta_norm),
#endif
    ENTRY(gate, gate),
    ENTRY(swiglu, swiglu),
    ENTRY(gemv, gemv_1),
    ENTRY(gemv, gemv_2),
    ENTRY(gemv, gemv_4),
    ENTRY(gemv, gemv_8),
    ENTRY(gemv, gemv_swiglu_1),
    ENTRY(gemv, gemv_swiglu_2),
    ENTRY(gemv, gemv_swiglu_4),
    ENTRY(gemv, gemv_swiglu_8),
    ENTRY(rank, rank_partial),
    ENTRY(rank, rank_final),
    ENTRY(page_copy, copy_page),
    ENTRY(random, fill_random),
    ENTRY(random, fill_vector),
    ENTRY(convert, convert),
};

/// The machine that runs from here on, with all of its blocks ahead of it; null where no GPU takes such a launch.
Machine *set_up(Body body, const unsigned grid[3], const unsigned block[3], unsigned dynamic_bytes, void **args) {
    const bool fits = block[0] >= 1 && block[0] <= THREAD_LIMIT && block[1] == 1 && block[2] == 1 &&
                      grid[0] >= 1 && grid[1] >= 1 && grid[2] >= 1 && grid[1] <= 65535 && grid[2] <= 65535 &&
                      dynamic_bytes <= DYNAMIC_LIMIT;
    if (!fits) {
        return nullptr;
    }
    {
        const std::lock_guard lock(taking);
        if (idle.empty()) {
            idle.push_back(std::make_unique<Machine>());
            poison(aligned(idle.back()->statics), STATIC_LIMIT);
        }
        machine = idle.back().release();
        idle.pop_back();
        machine->order.seed(static_cast<std::minstd_rand::result_type>(seeds()));
    }
    if (!machine->stacks) {
        void *stacks = mmap(nullptr, THREAD_LIMIT * STACK_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks == MAP_FAILED) {
            return nullptr;
        }
        machine->stacks = static_cast<unsigned char *>(stacks);
    }
    machine->grid = {grid[0], grid[1], grid[2]};
    machine->block = {block[0], 1, 1};
    machine->threads = block[0];
    machine->dynamic_bytes = dynamic_bytes;
    machine->body = body;
    machine->args = args;
    machine->blocks.resize(uint64_t(grid[0]) * grid[1] * grid[2]);
    std::iota(machine->blocks.begin(), machine->blocks.end(), uint64_t(0));
    std::shuffle(machine->blocks.begin(), machine->blocks.end(), machine->order);
    return machine;
}

void begin_next_block() {
    begin_block(machine->blocks.back());
    machine->blocks.pop_back();
}

/// Runs what is left of the block that has begun, and the blocks behind it.
Status run_to_end() {
    for (;;) {
        Status status = run_threads();
        status = status == OK ? end_block() : status;
        if (status != OK || machine->blocks.empty()) {
            const std::lock_guard lock(taking);
            idle.emplace_back(machine);
            return status;
        }
        begin_next_block();
    }
}

const Entry *find(const char *kernel) {
    const auto named = [&](const Entry &entry) { return std::strcmp(entry.name, kernel) == 0; };
    const auto *found = std::find_if(std::begin(ENTRIES), std::end(ENTRIES), named);
    return found == std::end(ENTRIES) ? nullptr : found;
}

} // namespace
} // namespace emulator

#define EXPORTED extern "C" __attribute__((visibility("default")))

/// Draws the order of blocks and warps anew.
EXPORTED void emulate_seed(unsigned long long seed) {
    const std::lock_guard lock(emulator::taking);
    emulator::seeds.seed(seed);
}

/// `args` as for cuLaunchKernel: a pointer to each argument. 0 done; 1 unknown kernel; 2 a barrier or an
/// instruction of a warp that not all threads reached; 3 a write behind the dynamic shared memory; 4 no
/// such launch on a GPU (sizes beyond a device's limits).
EXPORTED int emulate(const char *kernel, const unsigned grid[3], const unsigned block[3], unsigned dynamic_shared,
                     void **args) {
    using namespace emulator;
    const Entry *found = find(kernel);
    if (!found) {
        return UNKNOWN_KERNEL;
    }
    if (!set_up(found->body, grid, block, dynamic_shared, args)) {
        return BAD_LAUNCH;
    }
    begin_next_block();
    return run_to_end();
}

/// As a dependent launch, before the kernels ahead of it have run: one block goes as far as it does without waiting for
/// them. To be ended by `emulate_end`, until when `args` must live; null where `emulate` would refuse.
EXPORTED void *emulate_begin(const char *kernel, const unsigned grid[3], const unsigned block[3],
                             unsigned dynamic_shared, void **args) {
    using namespace emulator;
    const Entry *found = find(kernel);
    if (!found || !set_up(found->body, grid, block, dynamic_shared, args)) {
        return nullptr;
    }
    machine->holds = true;
    begin_next_block();
    run_threads();
    machine->holds = false;
    return machine;
}

/// Runs the rest of what has begun; as `emulate`.
EXPORTED int emulate_end(void *begun) {
    using namespace emulator;
    machine = static_cast<Machine *>(begun);
    return run_to_end();
}
