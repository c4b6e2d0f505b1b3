// A head in the hands of a warp: RMS norm and RoPE, as qkv_epilogue.cu has the formula.
#pragma once

#include "common.cuh"

/// Pairs (i, i + half) that a lane keeps: 4 * 32 = 128 = 256 / 2.
constexpr int PAIRS = 4;

/// A lane's part of two halves that belong together.
struct Pairs {
    float low[PAIRS], high[PAIRS];

    __device__ __forceinline__ void load(const float *from, int half) {
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            const int at = i * WARP + lane_index();
            low[i] = at < half ? from[at] : 0.0f;
            high[i] = at < half ? from[half + at] : 0.0f;
        }
    }

    __device__ __forceinline__ void store(element *out, int half) const {
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            const int at = i * WARP + lane_index();
            if (at < half) {
                out[at] = to_element(low[i]);
                out[half + at] = to_element(high[i]);
            }
        }
    }

    __device__ __forceinline__ void store_floats(float *out, int half) const {
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            const int at = i * WARP + lane_index();
            if (at < half) {
                out[at] = low[i];
                out[half + at] = high[i];
            }
        }
    }

    /// The whole head's RMS norm, over d numbers.
    __device__ __forceinline__ void norm(const Pairs &weight, float eps, int d) {
        float squares = 0.0f;
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            squares += low[i] * low[i] + high[i] * high[i];
        }
        const float scale = 1.0f / sqrtf(warp_sum(squares) / float(d) + eps);
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            low[i] *= scale * weight.low[i];
            high[i] *= scale * weight.high[i];
        }
    }
};

/// `angle`: cosines and sines.
__device__ __forceinline__ Pairs turned(const Pairs &head, const Pairs &angle) {
    Pairs out;
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        const float cosine = angle.low[i], sine = angle.high[i];
        out.low[i] = head.low[i] * cosine - head.high[i] * sine;
        out.high[i] = head.high[i] * cosine + head.low[i] * sine;
    }
    return out;
}
