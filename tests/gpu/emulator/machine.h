// A launch: fibers, the barriers and meetings that they wait at, and their memory.
//
// Main type: Machine. Each thread of the host runs one at a time; others may have begun. Refuses to know: the names of
// kernels.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <sys/mman.h>
#include <utility>
#include <vector>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include "emulator.h"
#include "instructions.h"

#if defined(__x86_64__)
/// Keeps the registers that a function must preserve on this stack, and goes on with the other. As
/// assembly of the file, so that the compiler knows nothing of it and keeps no variable across it.
extern "C" void emulator_switch_stack(void **keep, void *other);
asm(".text\n"
    ".hidden emulator_switch_stack\n"
    ".globl emulator_switch_stack\n"
    "emulator_switch_stack:\n"
    "pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15\n"
    "movq %rsp, (%rdi)\n"
    "movq %rsi, %rsp\n"
    "popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp\n"
    "ret\n");
#endif

namespace emulator {

__thread dim3 thread_index, block_index, block_size, grid_size;

namespace {

/// A NaN as f32, and in both halves as bf16 and f16.
constexpr uint32_t POISON = 0x7fffffffu;
constexpr size_t STACK_BYTES = 256 * 1024;
/// Behind the dynamic shared memory: a write into it is found after the block.
constexpr size_t GUARD_BYTES = 4096;
constexpr size_t DYNAMIC_LIMIT = 256 * 1024;
constexpr size_t STATIC_LIMIT = 48 * 1024;
constexpr unsigned THREAD_LIMIT = 1024;

enum Status { OK = 0, UNKNOWN_KERNEL = 1, DIVERGED = 2, OUT_OF_BOUNDS = 3, BAD_LAUNCH = 4 };

struct Copy {
    void *to;
    const void *from;
    bool valid;
    /// What was there when it was asked for, where that was before earlier kernels had run.
    bool is_early;
    unsigned char early[16];
};

enum class State { Ready, InWarp, AtBarrier, BeforeEarlier, Done };

struct Fiber {
    State state;
    unsigned thread;
    /// The meeting or barrier that it waits for is over once the counter has passed this.
    uint64_t ticket;
    std::vector<Copy> open;
    std::vector<std::vector<Copy>> groups;
#if defined(__x86_64__)
    void *stack_pointer;
#else
    ucontext_t context;
#endif
};

struct Warp {
    uint64_t meetings = 0;
    unsigned lanes = 0, arrived = 0;
    Meeting kind = Meeting::Sync;
    /// In turn, so that a lane may bring its next operands while others still take the last results.
    Operands slots[2][WARP_LANES];
};

using Body = void (*)(void **);

/// One for each launch that has begun; taken from those that lie idle.
struct Machine {
    unsigned char *stacks = nullptr;
    dim3 grid, block, at;
    unsigned dynamic_bytes = 0;
    /// In the order in which they run, the last first.
    std::vector<uint64_t> blocks;
    /// Draws the order of blocks and warps.
    std::minstd_rand order;
    /// Threads go no further than to where they wait for earlier kernels.
    bool holds = false;
    std::vector<unsigned char> dynamic = std::vector<unsigned char>(DYNAMIC_LIMIT + GUARD_BYTES + 128);
    std::vector<unsigned char> statics = std::vector<unsigned char>(STATIC_LIMIT + 128);
    std::vector<std::pair<const void *, size_t>> sites;
    size_t statics_used = 0, most_statics = 0;
    std::vector<Fiber> fibers = std::vector<Fiber>(THREAD_LIMIT);
    std::vector<Warp> warps = std::vector<Warp>(THREAD_LIMIT / WARP_LANES);
    unsigned threads = 0, alive = 0, at_barrier = 0;
    uint64_t barriers = 0;
    int vote = 0, vote_result = 0;
    bool failed = false;
    Fiber *current = nullptr;
    Body body = nullptr;
    void **args = nullptr;
#if defined(__x86_64__)
    void *scheduler = nullptr;
#else
    ucontext_t scheduler;
#endif
};

/// Held while one is taken or given back.
std::mutex taking;
/// Draws each launch's seed.
std::mt19937_64 seeds{0};
/// Never destroyed: a thread may still be at work when the process ends.
auto &idle = *new std::vector<std::unique_ptr<Machine>>;
/// The one that runs in this thread.
__thread Machine *machine = nullptr;

unsigned char *aligned(std::vector<unsigned char> &bytes) {
    const auto address = reinterpret_cast<uintptr_t>(bytes.data());
    return bytes.data() + (128 - address % 128) % 128;
}

void poison(void *to, size_t bytes) {
    auto *words = static_cast<unsigned char *>(to);
    size_t at = 0;
    for (; at + 4 <= bytes; at += 4) {
        std::memcpy(words + at, &POISON, 4);
    }
    std::memcpy(words + at, &POISON, bytes - at);
}

// ---- fibers -------------------------------------------------------------------------------------

#if defined(__x86_64__)

void leave() { emulator_switch_stack(&machine->current->stack_pointer, machine->scheduler); }
void enter(Fiber &fiber) { emulator_switch_stack(&machine->scheduler, fiber.stack_pointer); }
void leave_for(Fiber &own, Fiber &other) { emulator_switch_stack(&own.stack_pointer, other.stack_pointer); }

#else

void leave() { swapcontext(&machine->current->context, &machine->scheduler); }
void enter(Fiber &fiber) { swapcontext(&machine->scheduler, &fiber.context); }
void leave_for(Fiber &own, Fiber &other) { swapcontext(&own.context, &other.context); }

#endif

void release_barrier_if_full() {
    if (machine->alive > 0 && machine->at_barrier == machine->alive) {
        machine->at_barrier = 0;
        machine->barriers++;
        machine->vote_result = machine->vote;
        machine->vote = 0;
    }
}

void fiber_main() {
    machine->body(machine->args);
    Fiber &fiber = *machine->current;
    fiber.state = State::Done;
    machine->alive--;
    machine->warps[fiber.thread / WARP_LANES].lanes &= ~(1u << fiber.thread % WARP_LANES);
    release_barrier_if_full();
    leave();
    __builtin_unreachable();
}

void prepare(Fiber &fiber, unsigned thread) {
    fiber.state = State::Ready;
    fiber.thread = thread;
    fiber.open.clear();
    fiber.groups.clear();
    unsigned char *stack = machine->stacks + thread * STACK_BYTES;
#if defined(__x86_64__)
    // As if it had been left just before the call of fiber_main: six registers, then where to go on; the
    // stack is 8 off a multiple of 16 there, as after a call.
    auto **top = reinterpret_cast<void **>(stack + STACK_BYTES - 64);
    top[-1] = nullptr;
    top[-2] = reinterpret_cast<void *>(&fiber_main);
    fiber.stack_pointer = top - 8;
#else
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stack;
    fiber.context.uc_stack.ss_size = STACK_BYTES;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &fiber_main, 0);
#endif
}

// ---- a block ------------------------------------------------------------------------------------

bool runnable(const Fiber &fiber) {
    switch (fiber.state) {
    case State::Ready:
        return true;
    case State::InWarp:
        return machine->warps[fiber.thread / WARP_LANES].meetings > fiber.ticket;
    case State::AtBarrier:
        return machine->barriers > fiber.ticket;
    case State::BeforeEarlier:
        return !machine->holds;
    case State::Done:
        return false;
    }
    return false;
}

void make_current(Fiber &fiber) {
    machine->current = &fiber;
    fiber.state = State::Ready;
    thread_index = {fiber.thread, 0, 0};
}

void resume(Fiber &fiber) {
    make_current(fiber);
    enter(fiber);
}

/// Leaves for the warp's next lane where that can go on, without the scheduler between: most meetings are shuffles.
void leave_for_next_lane(Fiber &own) {
    const unsigned warp = own.thread / WARP_LANES, lane = (own.thread + 1) % WARP_LANES;
    Fiber &next = machine->fibers[warp * WARP_LANES + lane];
    if (!runnable(next)) {
        return leave();
    }
    make_current(next);
    leave_for(own, next);
}

/// Runs one warp's lanes as far as they get without the other warps.
bool run_warp(unsigned warp) {
    const unsigned first = warp * WARP_LANES, end = std::min(first + WARP_LANES, machine->threads);
    bool any = false;
    for (bool moved = true; moved && !machine->failed;) {
        moved = false;
        for (unsigned thread = first; thread < end && !machine->failed; thread++) {
            if (runnable(machine->fibers[thread])) {
                resume(machine->fibers[thread]);
                moved = any = true;
            }
        }
    }
    return any;
}

void begin_block(uint64_t at) {
    const dim3 grid = machine->grid;
    machine->at = {unsigned(at % grid.x), unsigned(at / grid.x % grid.y), unsigned(at / grid.x / grid.y)};
    poison(aligned(machine->dynamic), machine->dynamic_bytes + GUARD_BYTES);
    // What lies behind was never written.
    poison(aligned(machine->statics), std::min(machine->most_statics, STATIC_LIMIT));
    machine->sites.clear();
    machine->statics_used = 0;
    machine->alive = machine->threads;
    machine->at_barrier = 0;
    machine->vote = 0;
    machine->failed = false;
    for (unsigned first = 0; first < machine->threads; first += WARP_LANES) {
        const unsigned lanes = std::min(WARP_LANES, machine->threads - first);
        Warp &warp = machine->warps[first / WARP_LANES];
        warp.lanes = lanes == WARP_LANES ? ~0u : (1u << lanes) - 1;
        warp.arrived = 0;
    }
    for (unsigned thread = 0; thread < machine->threads; thread++) {
        prepare(machine->fibers[thread], thread);
    }
}

/// Runs the block's threads to their end, or as far as they get while the machine holds.
Status run_threads() {
    grid_size = machine->grid;
    block_size = machine->block;
    block_index = machine->at;
    std::vector<unsigned> warps((machine->threads + WARP_LANES - 1) / WARP_LANES);
    std::iota(warps.begin(), warps.end(), 0u);
    while (machine->alive > 0) {
        std::shuffle(warps.begin(), warps.end(), machine->order);
        bool moved = false;
        for (const unsigned warp : warps) {
            moved |= run_warp(warp);
        }
        if (machine->failed || !moved) {
            return !machine->failed && machine->holds ? OK : DIVERGED;
        }
    }
    return machine->failed ? DIVERGED : OK;
}

/// Whether the guard behind the block's dynamic shared memory is as it was.
Status end_block() {
    const unsigned char *guard = aligned(machine->dynamic) + machine->dynamic_bytes;
    for (size_t at = 0; at < GUARD_BYTES; at += 4) {
        if (std::memcmp(guard + at, &POISON, 4) != 0) {
            return OUT_OF_BOUNDS;
        }
    }
    return OK;
}

Warp &own_warp() { return machine->warps[machine->current->thread / WARP_LANES]; }

/// Ends the launch: the running thread never goes on.
void fail() {
    machine->failed = true;
    for (;;) {
        leave();
    }
}

void wait_at_barrier() {
    Fiber &fiber = *machine->current;
    fiber.state = State::AtBarrier;
    fiber.ticket = machine->barriers;
    machine->at_barrier++;
    release_barrier_if_full();
    if (machine->barriers == fiber.ticket) {
        leave();
    } else {
        fiber.state = State::Ready;
    }
}

} // namespace

unsigned own_lane() { return machine->current->thread % WARP_LANES; }

Operands &own_slot() {
    Warp &warp = own_warp();
    return warp.slots[warp.meetings % 2][own_lane()];
}

Operands *meet(Meeting kind, unsigned mask) {
    Warp &warp = own_warp();
    Fiber &fiber = *machine->current;
    // Only whole warps meet: a mask that leaves out a lane, or a lane that has ended, is an error.
    const bool whole = mask == ~0u && warp.lanes == ~0u;
    if (!whole || (warp.arrived > 0 && warp.kind != kind)) {
        fail();
    }
    const uint64_t ticket = warp.meetings;
    warp.kind = kind;
    if (++warp.arrived == WARP_LANES) {
        warp.arrived = 0;
        perform(kind, warp.slots[ticket % 2]);
        warp.meetings++;
    } else {
        fiber.state = State::InWarp;
        fiber.ticket = ticket;
        leave_for_next_lane(fiber);
    }
    return warp.slots[ticket % 2];
}

void block_barrier() { wait_at_barrier(); }

void wait_for_earlier() {
    if (machine->holds) {
        machine->current->state = State::BeforeEarlier;
        leave();
    }
}

int block_barrier_or(int predicate) {
    machine->vote |= predicate != 0;
    wait_at_barrier();
    return machine->vote_result;
}

void *shared_array(const void *site, size_t bytes, bool of_packs) {
    for (const auto &[known, offset] : machine->sites) {
        if (known == site) {
            return aligned(machine->statics) + offset;
        }
    }
    const size_t offset = machine->statics_used + (of_packs ? 0 : 8);
    if (offset + bytes > STATIC_LIMIT) {
        fail();
    }
    machine->sites.emplace_back(site, offset);
    machine->statics_used = (offset + bytes + 127) / 128 * 128;
    machine->most_statics = std::max(machine->most_statics, machine->statics_used);
    return aligned(machine->statics) + offset;
}

unsigned char *dynamic_shared() { return aligned(machine->dynamic); }

void start_copy(void *to, const void *from, bool valid) {
    poison(to, 16);
    Copy copy{to, from, valid, machine->holds, {}};
    if (copy.is_early && valid) {
        std::memcpy(copy.early, from, 16);
    }
    machine->current->open.push_back(copy);
}

void close_copies() {
    Fiber &fiber = *machine->current;
    fiber.groups.push_back(std::move(fiber.open));
    fiber.open.clear();
}

void finish_copies(int pending) {
    auto &groups = machine->current->groups;
    while (groups.size() > size_t(pending)) {
        for (const Copy &copy : groups.front()) {
            if (copy.valid) {
                std::memcpy(copy.to, copy.is_early ? copy.early : copy.from, 16);
            } else {
                std::memset(copy.to, 0, 16);
            }
        }
        groups.erase(groups.begin());
    }
}

} // namespace emulator
