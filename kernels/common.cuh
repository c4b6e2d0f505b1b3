// What the kernels share: the element type, packs of 16 bytes, reductions.
//
// A kernel file is compiled once for each element type of matrices: ELEMENT 0 bf16, 1 f16, 2 f32. No CUDA
// header is included, so that NVRTC needs no include path but for this folder's own headers.
// Sums are f32 and in an order that depends on sizes and the launch alone: nothing is summed by atomics.
#pragma once

#ifndef ELEMENT
#error "compile with -DELEMENT=0 (bf16), 1 (f16) or 2 (f32)"
#endif
#ifndef DEPENDENT_LAUNCH
#define DEPENDENT_LAUNCH 0
#endif

#include "ptx.cuh"

#ifndef EMULATED
/// A static array in shared memory; and one in which packs of 16 bytes may be read and written.
#define SHARED(type, name, count) __shared__ type name[count]
#define SHARED_PACKS(type, name, count) __shared__ __align__(16) type name[count]
/// The launch's dynamic shared memory.
#define DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#endif

constexpr int PAGE_TOKENS = 16;
constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

/// One number of a matrix, of the KV cache or of a product's operand.
struct element {
#if ELEMENT == 2
    float bits;
#else
    unsigned short bits;
#endif
};

/// Elements in 16 bytes.
constexpr int PACK = 16 / int(sizeof(element));

__device__ __forceinline__ float minus_infinity() { return __int_as_float(int(0xff800000u)); }

__device__ __forceinline__ float bfloat_to_float(unsigned short bits) {
    return __uint_as_float(unsigned(bits) << 16);
}

__device__ __forceinline__ float to_float(element value) {
#if ELEMENT == 0
    return bfloat_to_float(value.bits);
#elif ELEMENT == 1
    return half_to_float(value.bits);
#else
    return value.bits;
#endif
}

__device__ __forceinline__ element to_element(float value) {
    element out;
#if ELEMENT == 0
    out.bits = float_to_bfloat(value);
#elif ELEMENT == 1
    out.bits = float_to_half(value);
#else
    out.bits = value;
#endif
    return out;
}

#if ELEMENT != 2
/// Two elements in a word, the first in the low bits.
__device__ __forceinline__ unsigned to_pair(float low, float high) {
#if ELEMENT == 0
    return floats_to_bfloats(low, high);
#else
    return floats_to_halves(low, high);
#endif
}
#endif

__device__ __forceinline__ void unpack_word(unsigned word, float *out) {
#if ELEMENT == 0
    out[0] = __uint_as_float(word << 16);
    out[1] = __uint_as_float(word & 0xffff0000u);
#elif ELEMENT == 1
    out[0] = half_to_float(static_cast<unsigned short>(word & 0xffffu));
    out[1] = half_to_float(static_cast<unsigned short>(word >> 16));
#else
    out[0] = __uint_as_float(word);
#endif
}

__device__ __forceinline__ void unpack(const uint4 &pack, float (&out)[PACK]) {
    constexpr int STEP = PACK / 4;
    unpack_word(pack.x, out);
    unpack_word(pack.y, out + STEP);
    unpack_word(pack.z, out + 2 * STEP);
    unpack_word(pack.w, out + 3 * STEP);
}

__device__ __forceinline__ uint4 pack(const float (&in)[PACK]) {
#if ELEMENT == 2
    return make_uint4(__float_as_uint(in[0]), __float_as_uint(in[1]), __float_as_uint(in[2]),
                      __float_as_uint(in[3]));
#else
    return make_uint4(to_pair(in[0], in[1]), to_pair(in[2], in[3]), to_pair(in[4], in[5]),
                      to_pair(in[6], in[7]));
#endif
}

/// Four floats as four elements in a row.
__device__ __forceinline__ void store_four(element *out, float4 value) {
#if ELEMENT == 2
    *reinterpret_cast<float4 *>(out) = value;
#else
    uint2 words;
    words.x = to_pair(value.x, value.y);
    words.y = to_pair(value.z, value.w);
    *reinterpret_cast<uint2 *>(out) = words;
#endif
}

__device__ __forceinline__ uint4 zero_pack() { return make_uint4(0, 0, 0, 0); }

__device__ __forceinline__ float4 load_four(const float *from) {
    return *reinterpret_cast<const float4 *>(from);
}

__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

__device__ __forceinline__ int lane_index() { return int(threadIdx.x) % WARP; }
__device__ __forceinline__ int warp_index() { return int(threadIdx.x) / WARP; }

__device__ __forceinline__ constexpr int divided_up(int a, int b) { return (a + b - 1) / b; }

/// The sum over the warp, in every lane.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2) {
        value += __shfl_xor_sync(ALL_LANES, value, step);
    }
    return value;
}

/// The sum over the block, in every thread. Once a kernel: its shared array is not used again.
template <int THREADS> __device__ __forceinline__ float block_sum(float value) {
    constexpr int WARPS = THREADS / WARP;
    SHARED(float, sums, WARPS);
    value = warp_sum(value);
    if (lane_index() == 0) {
        sums[warp_index()] = value;
    }
    __syncthreads();
    float total = lane_index() < WARPS ? sums[lane_index()] : 0.0f;
    return warp_sum(total);
}
