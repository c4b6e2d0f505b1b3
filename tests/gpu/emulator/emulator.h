// CUDA's language and kernels/ptx.cuh as plain C++: what the kernels are compiled against where there is
// no GPU.
//
// A twin of kernels/ptx.cuh: the same functions with the same meaning, so that everything but the
// instructions themselves is tested. Refuses to know: what any kernel computes.
//
// What it is strict about, since a GPU is not always: shared memory starts as NaN; a copy that was started
// by copy_async is made only when its thread waits for it, and until then its target is NaN; matrix
// instructions read all lanes' operands at one moment; a barrier or shuffle that not all threads reach is
// an error; warps and blocks run in an order drawn from a seed.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>

// Kernels have plain names: none may be taken for one of the host program's.
#pragma GCC visibility push(hidden)

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct dim3 {
    unsigned x, y, z;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace emulator {

constexpr unsigned WARP_LANES = 32;

/// What a lane brings to an instruction of its warp, and what it takes from it.
struct Operands {
    uint32_t in[10];
    uint32_t out[4];
    const void *address;
};

/// The kinds of meeting of a warp's lanes; two kinds at once are a divergence.
enum class Meeting { Sync, Exchange, Vote, Matrices, MatricesTransposed, MultiplyAdd };

/// The running thread's indices, one set for each thread of the host; set before it runs.
extern __thread dim3 thread_index, block_index, block_size, grid_size;

/// Waits for the warp's other lanes, after which the last of them has done the work of `kind`. The slots
/// stay as they are until the lane's next-but-one meeting.
Operands *meet(Meeting kind, unsigned mask);
unsigned own_lane();
Operands &own_slot();
void block_barrier();
int block_barrier_or(int predicate);
/// Where a launch has only begun, its threads go no further.
void wait_for_earlier();
/// A static shared array: the same for one `site` within a block. Where packs of 16 bytes are not asked for it lies beside their
/// places, so that reading one ends the process.
void *shared_array(const void *site, size_t bytes, bool of_packs);
unsigned char *dynamic_shared();
void start_copy(void *to, const void *from, bool valid);
void close_copies();
void finish_copies(int pending);

template <class T> T exchange(unsigned mask, T value, unsigned from) {
    static_assert(sizeof(T) <= 8);
    std::memcpy(own_slot().in, &value, sizeof(T));
    const Operands *slots = meet(Meeting::Exchange, mask);
    T taken;
    std::memcpy(&taken, slots[from % WARP_LANES].in, sizeof(T));
    return taken;
}

} // namespace emulator

#define threadIdx emulator::thread_index
#define blockIdx emulator::block_index
#define blockDim emulator::block_size
#define gridDim emulator::grid_size

// A type may be local to an instantiation: the site's address tells arrays apart.
#define SHARED_ARRAY(type, name, count, of_packs)                                                         \
    static const char name##_site = 0;                                                                    \
    type *const name = static_cast<type *>(emulator::shared_array(&name##_site, sizeof(type) * (count), of_packs))
#define SHARED(type, name, count) SHARED_ARRAY(type, name, count, false)
#define SHARED_PACKS(type, name, count) SHARED_ARRAY(type, name, count, true)
#define DYNAMIC_SHARED(name) unsigned char *const name = emulator::dynamic_shared()

inline void __syncthreads() { emulator::block_barrier(); }
inline int __syncthreads_or(int predicate) { return emulator::block_barrier_or(predicate); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { emulator::meet(emulator::Meeting::Sync, mask); }

template <class T> T __shfl_sync(unsigned mask, T value, int from) {
    return emulator::exchange(mask, value, unsigned(from));
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits) {
    return emulator::exchange(mask, value, emulator::own_lane() ^ unsigned(bits));
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned by) {
    const unsigned lane = emulator::own_lane();
    return emulator::exchange(mask, value, lane >= by ? lane - by : lane);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned by) {
    const unsigned lane = emulator::own_lane();
    return emulator::exchange(mask, value, lane + by < emulator::WARP_LANES ? lane + by : lane);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
    emulator::own_slot().in[0] = predicate != 0;
    return emulator::meet(emulator::Meeting::Vote, mask)[emulator::own_lane()].out[0];
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }

// Blocks run one after another.
inline void __threadfence() {}
inline int atomicAdd(int *place, int value) {
    const int before = *place;
    *place += value;
    return before;
}

inline unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}
inline float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}
inline int __float_as_int(float value) { return int(__float_as_uint(value)); }
inline float __int_as_float(int bits) { return __uint_as_float(unsigned(bits)); }

inline float cospif(float x) { return float(std::cos(3.14159265358979323846 * double(x))); }

// ---- the twin of ptx.cuh ------------------------------------------------------------------------

inline unsigned short float_to_bfloat(float value) {
    const unsigned bits = __float_as_uint(value);
    if (value != value) {
        return 0x7fff;
    }
    return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

inline float half_to_float(unsigned short half) {
    const unsigned sign = unsigned(half & 0x8000) << 16, exponent = half >> 10 & 31, rest = half & 0x3ff;
    if (exponent == 31) {
        return __uint_as_float(sign | 0x7f800000u | rest << 13);
    }
    if (exponent == 0) {
        const float value = float(rest) * (1.0f / 16777216.0f);
        return sign ? -value : value;
    }
    return __uint_as_float(sign | (exponent + 112) << 23 | rest << 13);
}

inline unsigned short float_to_half(float value) {
    const unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) {
        return 0x7fff;
    }
    if (size >= 0x477ff000u) {
        return static_cast<unsigned short>(sign | 0x7c00);
    }
    if (size < 0x38800000u) {
        // Adding 0.5 leaves the number of 2^-24ths in the low bits, rounded as asked for.
        const float moved = __uint_as_float(size) + 0.5f;
        return static_cast<unsigned short>(sign | (__float_as_uint(moved) - 0x3f000000u));
    }
    return static_cast<unsigned short>(sign | ((size - 0x38000000u + 0xfffu + (size >> 13 & 1)) >> 13));
}

inline unsigned floats_to_bfloats(float low, float high) {
    return float_to_bfloat(low) | unsigned(float_to_bfloat(high)) << 16;
}

inline unsigned floats_to_halves(float low, float high) {
    return float_to_half(low) | unsigned(float_to_half(high)) << 16;
}

inline float exp2_fast(float x) { return x < -126.0f ? 0.0f : std::exp2(x); }

inline uint4 load_once(const void *from) { return *static_cast<const uint4 *>(from); }
inline uint4 load_written(const void *from) { return *static_cast<const uint4 *>(from); }

inline uint4 load_once_if(bool there, const void *from) { return there ? load_once(from) : uint4{0, 0, 0, 0}; }
inline uint4 load_written_if(bool there, const void *from) { return load_once_if(there, from); }

inline void fetch_into_l2(const void *) {}

inline void copy_async(void *to_shared, const void *from_global, bool valid) {
    emulator::start_copy(to_shared, from_global, valid);
}
inline void copies_commit() { emulator::close_copies(); }
template <int PENDING> void copies_wait() { emulator::finish_copies(PENDING); }

inline void load_matrices_as(emulator::Meeting kind, unsigned (&out)[4], const void *row) {
    emulator::own_slot().address = row;
    const emulator::Operands *slots = emulator::meet(kind, 0xffffffffu);
    std::memcpy(out, slots[emulator::own_lane()].out, sizeof(out));
}
inline void load_matrices(unsigned (&out)[4], const void *row) {
    load_matrices_as(emulator::Meeting::Matrices, out, row);
}
inline void load_matrices_transposed(unsigned (&out)[4], const void *row) {
    load_matrices_as(emulator::Meeting::MatricesTransposed, out, row);
}

inline void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    emulator::Operands &own = emulator::own_slot();
    std::memcpy(own.in, a, sizeof(a));
    own.in[4] = b0;
    own.in[5] = b1;
    std::memcpy(own.in + 6, sum, sizeof(sum));
    const emulator::Operands *slots = emulator::meet(emulator::Meeting::MultiplyAdd, 0xffffffffu);
    std::memcpy(sum, slots[emulator::own_lane()].out, sizeof(sum));
}

inline void allow_next_kernel() {}
inline void wait_for_earlier_kernels() { emulator::wait_for_earlier(); }
