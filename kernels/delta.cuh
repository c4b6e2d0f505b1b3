// What the kernels of the gated delta rule share: a layer's sizes, where a head's state lies, its gates.
#pragma once

#include "common.cuh"

constexpr int MOST_DIM = 128, MOST_TAPS = 4;
constexpr float LENGTH_EPS = 1e-6f;

/// Sizes of the layer.
struct Sizes {
    int key_heads, value_heads, key_dim, value_dim, taps;

    __device__ __forceinline__ int key_cols() const { return key_heads * key_dim; }
    __device__ __forceinline__ int value_cols() const { return value_heads * value_dim; }
    __device__ __forceinline__ int channels() const { return 2 * key_cols() + value_cols(); }
    __device__ __forceinline__ int cols() const { return channels() + value_cols() + 2 * value_heads; }
    /// Value heads that share a q and k.
    __device__ __forceinline__ int group() const { return value_heads / key_heads; }
    /// Channels of one value head, with its q and k.
    __device__ __forceinline__ int own_channels() const { return 2 * key_dim + value_dim; }
    __device__ __forceinline__ int matrix() const { return key_dim * value_dim; }
    __device__ __forceinline__ long long unit() const { return matrix() + (taps - 1) * own_channels(); }

    /// Of a row's numbers that of a value head's channel: q, k, then v.
    __device__ __forceinline__ int column(int head, int channel) const {
        const int key_head = head / group();
        if (channel < key_dim) {
            return key_head * key_dim + channel;
        }
        if (channel < 2 * key_dim) {
            return key_cols() + key_head * key_dim + channel - key_dim;
        }
        return 2 * key_cols() + head * value_dim + channel - 2 * key_dim;
    }
};

/// A value head's part of a state: S, then the convolution's last inputs, the oldest first.
__device__ __forceinline__ float *state_of(float *states, const Sizes &sizes, int state, int head) {
    return states + (static_cast<long long>(state) * sizes.value_heads + head) * sizes.unit();
}

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

/// ln(1 + e^x); beyond 20 it is x, as in torch.
__device__ __forceinline__ float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }
