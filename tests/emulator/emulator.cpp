// Runs the kernels on a CPU: every CUDA thread is a fiber, the blocks of a launch run one after another.
//
// Built from the repository's root, once for each element type, as one shared library:
//   g++ -std=c++20 -O2 -shared -fPIC -DEMULATED -DELEMENT=0 tests/emulator/emulator.cpp -o emulator_0.so
// It exports `emulate` and `emulate_seed`. Refuses to know: what any kernel computes.

#include "machine.h"
// Before the kernels, whose files each stand in a namespace of their own.
#include "../../kernels/attention_block.cuh"
#include "../../kernels/common.cuh"
#include "../../kernels/rope.cuh"

namespace embedding_file {
#include "../../kernels/embedding.cu"
}
namespace rms_norm_file {
#include "../../kernels/rms_norm.cu"
}
namespace qkv_epilogue_file {
#include "../../kernels/qkv_epilogue.cu"
}
namespace attention_prefill_file {
#include "../../kernels/attention_prefill.cu"
}
namespace attention_decode_file {
#include "../../kernels/attention_decode.cu"
}
namespace attention_rows_file {
#include "../../kernels/attention_rows.cu"
}
namespace swiglu_file {
#include "../../kernels/swiglu.cu"
}
namespace gemv_file {
#include "../../kernels/gemv.cu"
}
namespace rank_file {
#include "../../kernels/rank.cu"
}
namespace page_copy_file {
#include "../../kernels/page_copy.cu"
}
namespace random_file {
#include "../../kernels/random.cu"
}
namespace convert_file {
#include "../../kernels/convert.cu"
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

Status launch(unsigned dynamic_bytes) {
    if (!machine.stacks) {
        void *stacks = mmap(nullptr, THREAD_LIMIT * STACK_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks == MAP_FAILED) {
            return BAD_LAUNCH;
        }
        machine.stacks = static_cast<unsigned char *>(stacks);
    }
    const uint64_t blocks = uint64_t(grid_size.x) * grid_size.y * grid_size.z;
    std::vector<uint64_t> order(blocks);
    for (uint64_t at = 0; at < blocks; at++) {
        order[at] = at;
    }
    std::shuffle(order.begin(), order.end(), machine.order);
    for (const uint64_t at : order) {
        block_index = {unsigned(at % grid_size.x), unsigned(at / grid_size.x % grid_size.y),
                       unsigned(at / grid_size.x / grid_size.y)};
        const Status status = run_block(dynamic_bytes);
        if (status != OK) {
            return status;
        }
    }
    return OK;
}

} // namespace
} // namespace emulator

/// Draws the order of blocks and warps anew.
extern "C" __attribute__((visibility("default"))) void emulate_seed(unsigned long long seed) {
    const std::lock_guard lock(emulator::machine.mutex);
    emulator::machine.order.seed(seed);
}

/// `args` as for cuLaunchKernel: a pointer to each argument. 0 done; 1 unknown kernel; 2 a barrier or an
/// instruction of a warp that not all threads reached; 3 a write behind the dynamic shared memory; 4 no
/// such launch on a GPU (sizes beyond a device's limits).
extern "C" __attribute__((visibility("default"))) int emulate(const char *kernel, const unsigned grid[3], const unsigned block[3],
                       unsigned dynamic_shared, void **args) {
    using namespace emulator;
    const std::lock_guard lock(machine.mutex);
    const auto named = [&](const Entry &entry) { return std::strcmp(entry.name, kernel) == 0; };
    const auto *found = std::find_if(std::begin(ENTRIES), std::end(ENTRIES), named);
    if (found == std::end(ENTRIES)) {
        return UNKNOWN_KERNEL;
    }
    const bool fits = block[0] >= 1 && block[0] <= THREAD_LIMIT && block[1] == 1 && block[2] == 1 &&
                      grid[0] >= 1 && grid[1] >= 1 && grid[2] >= 1 && grid[1] <= 65535 && grid[2] <= 65535 &&
                      dynamic_shared <= DYNAMIC_LIMIT;
    if (!fits) {
        return BAD_LAUNCH;
    }
    grid_size = {grid[0], grid[1], grid[2]};
    block_size = {block[0], 1, 1};
    machine.threads = block[0];
    machine.body = found->body;
    machine.args = args;
    return launch(dynamic_shared);
}
