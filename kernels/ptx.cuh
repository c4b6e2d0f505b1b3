// Every PTX instruction that the kernels use by name, each behind an inline function; nothing else may
// hold `asm`. Under EMULATED the same functions come from tests/gpu/emulator/emulator.h, as plain C++.
//
// Needs sm_80; griddepcontrol needs sm_90 and is left out below it.
#pragma once

#ifndef EMULATED

// ---- numbers of 16 bits -------------------------------------------------------------------------

/// Rounds to nearest, ties to even; NaN becomes 0x7fff.
__device__ __forceinline__ unsigned short float_to_bfloat(float value) {
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

/// `low` in bits 0 to 15.
__device__ __forceinline__ unsigned floats_to_bfloats(float low, float high) {
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

__device__ __forceinline__ unsigned floats_to_halves(float low, float high) {
    unsigned bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

/// 2^x within 2 units in the last place; 0 for what is below the normal numbers and for -infinity.
__device__ __forceinline__ float exp2_fast(float x) {
    float value;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
    return value;
}

// ---- global memory ------------------------------------------------------------------------------

/// Lines read with it are the first to leave L2. Not volatile: one for all loads of a kernel.
__device__ __forceinline__ unsigned long long leave_first() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

/// 16 bytes that no block reads again and no kernel in flight writes (weights): they stay out of L1, and
/// in L2 they are the first to go, so that activations and the KV cache remain there. Volatile: it is not
/// moved behind wait_for_earlier_kernels.
__device__ __forceinline__ uint4 load_once(const void *from) {
    uint4 value;
    asm volatile(
        "ld.global.nc.L1::no_allocate.L2::cache_hint.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
        : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
        : "l"(from), "l"(leave_first()));
    return value;
}

/// The same where `there`, else zeros and no access. By a predicate, since a branch would keep the compiler
/// from having several loads under way.
__device__ __forceinline__ uint4 load_once_if(bool there, const void *from) {
    uint4 value;
    asm volatile(
        "{\n"
        ".reg .pred there;\n"
        "setp.ne.b32 there, %6, 0;\n"
        "mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;\n"
        "@there ld.global.nc.L1::no_allocate.L2::cache_hint.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4], %5;\n"
        "}\n"
        : "=&r"(value.x), "=&r"(value.y), "=&r"(value.z), "=&r"(value.w)
        : "l"(from), "l"(leave_first()), "r"(int(there)));
    return value;
}

/// 16 bytes that an earlier kernel wrote. Never by the read-only path: under dependent launch this kernel
/// may have started before they were written.
__device__ __forceinline__ uint4 load_written(const void *from) {
    uint4 value;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(from)
                 : "memory");
    return value;
}

/// The same where `there`, else zeros and no access.
__device__ __forceinline__ uint4 load_written_if(bool there, const void *from) {
    uint4 value;
    asm volatile(
        "{\n"
        ".reg .pred there;\n"
        "setp.ne.b32 there, %5, 0;\n"
        "mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;\n"
        "@there ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n"
        "}\n"
        : "=&r"(value.x), "=&r"(value.y), "=&r"(value.z), "=&r"(value.w)
        : "l"(from), "r"(int(there))
        : "memory");
    return value;
}

/// Brings the line that holds the address into L2, and waits for nothing.
__device__ __forceinline__ void fetch_into_l2(const void *from) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

// ---- asynchronous copies to shared memory -------------------------------------------------------

__device__ __forceinline__ unsigned shared_address(const void *pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// Copies 16 bytes, or writes 16 zeros where `valid` is false. There only after copies_wait.
__device__ __forceinline__ void copy_async(void *to_shared, const void *from_global, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to_shared)),
                 "l"(from_global), "r"(valid ? 16 : 0)
                 : "memory");
}

/// Closes a group of copies.
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most the last PENDING groups of this thread are under way.
template <int PENDING> __device__ __forceinline__ void copies_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// ---- matrices -----------------------------------------------------------------------------------

/// Four 8 x 8 matrices of 16-bit numbers: lane i names row i % 8 of matrix i / 8, and gets from each
/// matrix the numbers 2 (i % 4) and the next of row i / 4.
__device__ __forceinline__ void load_matrices(unsigned (&out)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// The same, each matrix transposed.
__device__ __forceinline__ void load_matrices_transposed(unsigned (&out)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// sum[16, 8] += a[16, 16] . b[16, 8], f32 sums. With g = lane / 4 and t = lane % 4:
/// a = (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), each with the next column; b = rows 2t and the
/// next, rows 2t + 8 and the next, of column g; sum = (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
__device__ __forceinline__ void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
#if ELEMENT == 0
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#elif ELEMENT == 1
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// ---- dependent launch ---------------------------------------------------------------------------

/// The kernel launched after this one may start once every block of this one has said so.
__device__ __forceinline__ void allow_next_kernel() {
#if DEPENDENT_LAUNCH && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// From here on all that earlier kernels wrote is there. Every kernel calls it before it reads what a kernel of
/// the same step may have written, and before it writes anything.
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if DEPENDENT_LAUNCH && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#endif
