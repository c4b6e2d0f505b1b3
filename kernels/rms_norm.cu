// RMS norm of rows, alone or after the residual sum.
//
// formula    out[i] = x / sqrt(mean(x^2) + eps) . weight, with
//   entries rms_norm, rms_norm_wide          x = x[rows[i]], or x[i] where rows is null; plus the same row of
//                                            delta where that is not null
//   entries add_rms_norm, add_rms_norm_wide  x = x[i] + delta[i], stored back into x before
//   entry add_bias      x[i] += bias alone
// x          [any, cols] f32 (rms_norm), [n, cols] f32, read and written (add_rms_norm, add_bias)
// rows       [n] int or null
// delta      like x, f32
// weight     [cols] f32; bias too
// out        [n, cols] element; never x
// launch     the norms: grid = (n), block = 512, dynamic shared = 0 bytes
//            add_bias: grid = (n, ceil(cols / 1024)), block = 256, dynamic shared = 0 bytes
// supported  cols a multiple of 4, up to 4,096 for the norms and up to 16,384 for the wide ones, whose
//            registers leave less room for blocks of the kernel behind
// bottleneck latency at few rows (one block a row, the row stays in registers between its two uses, and the
//            weight is there before what is normed), else memory bandwidth
#include "common.cuh"

constexpr int THREADS = 512;
/// Groups of four columns that a thread keeps, and in the wide entries.
constexpr int KEPT = 2, WIDE_KEPT = 8;

__device__ __forceinline__ float4 sum_of(const float4 &a, const float4 &b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/// One thread's part of a vector of `cols` numbers: `kept` groups of four.
template <int K>
__device__ __forceinline__ void load_part(const float *from, int cols, float4 (&kept)[K]) {
#pragma unroll
    for (int i = 0; i < K; i++) {
        const int at = (i * THREADS + int(threadIdx.x)) * 4;
        if (at < cols) {
            kept[i] = load_four(from + at);
        }
    }
}

/// One block's row: x[rows[row]] or x[row], to which with ADD the same row of delta is added first, and stored in sum
/// unless that is null. x and delta are read once, all loads before the first use.
template <int K, bool ADD>
__device__ __forceinline__ void norm(const float *x, const int *rows, float *sum, const float *delta,
                                     const float *weight, float eps, element *out, int n, int cols) {
    allow_next_kernel();
    // No kernel of a step writes weights.
    float4 scales[K];
    load_part(weight, cols, scales);
    wait_for_earlier_kernels();
    const int row = int(blockIdx.x);
    if (row >= n) {
        return;
    }
    const long long from = (rows ? rows[row] : row) * static_cast<long long>(cols);
    const long long start = static_cast<long long>(row) * cols;
    float4 kept[K], more[ADD ? K : 1];
    load_part(x + from, cols, kept);
    if (ADD) {
        load_part(delta + from, cols, more);
    }
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < K; i++) {
        const int at = (i * THREADS + int(threadIdx.x)) * 4;
        if (at >= cols) {
            continue;
        }
        float4 &value = kept[i];
        if (ADD) {
            value = sum_of(value, more[i]);
            if (sum) {
                *reinterpret_cast<float4 *>(sum + start + at) = value;
            }
        }
        squares += value.x * value.x + value.y * value.y + value.z * value.z + value.w * value.w;
    }
    const float scale = 1.0f / sqrtf(block_sum<THREADS>(squares) / float(cols) + eps);
#pragma unroll
    for (int i = 0; i < K; i++) {
        const int at = (i * THREADS + int(threadIdx.x)) * 4;
        if (at < cols) {
            const float4 by = scales[i], value = kept[i];
            store_four(out + start + at, make_float4(value.x * scale * by.x, value.y * scale * by.y,
                                                     value.z * scale * by.z, value.w * scale * by.w));
        }
    }
}

#define NORMS(NAME, K)                                                                                    \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                 \
        rms_norm##NAME(const float *x, const float *delta, const int *rows, const float *weight,          \
                       float eps, element *out, int n, int cols) {                                        \
        if (delta) {                                                                                      \
            norm<K, true>(x, rows, nullptr, delta, weight, eps, out, n, cols);                            \
        } else {                                                                                          \
            norm<K, false>(x, rows, nullptr, nullptr, weight, eps, out, n, cols);                         \
        }                                                                                                 \
    }                                                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                 \
        add_rms_norm##NAME(float *x, const float *delta, const float *weight, float eps, element *out,    \
                           int n, int cols) {                                                             \
        norm<K, true>(x, nullptr, x, delta, weight, eps, out, n, cols);                                   \
    }

NORMS(, KEPT)
NORMS(_wide, WIDE_KEPT)

extern "C" __global__ void __launch_bounds__(256) add_bias(float *x, const float *bias, int n, int cols) {
    allow_next_kernel();
    wait_for_earlier_kernels();
    const int row = int(blockIdx.x), at = (int(blockIdx.y) * 256 + int(threadIdx.x)) * 4;
    if (row >= n || at >= cols) {
        return;
    }
    float *to = x + static_cast<long long>(row) * cols + at;
    *reinterpret_cast<float4 *>(to) = sum_of(load_four(to), load_four(bias + at));
}
