// After the stacked q, k, v projection: RMS norm of each q and k head, RoPE, and the write of k and v into
// the paged cache.
//
// formula    head = head / sqrt(mean(head^2) + eps) . norm; then for i < d / 2 =: half
//              out[i]        = head[i] cos - head[i + half] sin
//              out[i + half] = head[i + half] cos + head[i] sin      (half-split, as GPT-NeoX and Qwen)
//            Where a part of a head is turned, the loader puts its pairs half a head apart, and the others have frequency 0.
//            angle of frequency i at position p: f32(p) * frequency[i] rounded to f32 below p = 65,536, as
//            the reference computes it; the product in f64 from there, where f32 would be off by a 256th
//            of a radian and more
//
// entry rope_angles
//   positions    [n] int
//   frequencies  [half] f32
//   cos_sin      [n, 2, half] f32: cosines, then sines; those of the first `turned` frequencies times `scale`
//   launch       grid = (ceil(n * half / 128)), block = 128, dynamic shared = 0 bytes
// entry qkv_epilogue
//   qkv          [n, (heads + 2 kv_heads) * d] f32: q heads, k heads, v heads
//   q_norm, k_norm  [d] f32
//   cos_sin      [n, 2, half] f32
//   places       [n] int: page * 16 + slot of each row's token
//   sink_cos_sin [2, half] f32 or null: the angle under which far rows see a window's sink
//   q_sink       [n, heads, d] element or null with it: q under that angle
//   q            [n, heads, d] element
//   keys, values the layer's cache, [pages, kv_heads, 16, d] element
//   launch       grid = (ceil((heads + 2 kv_heads) / 4), n), block = 128, dynamic shared = 0 bytes
// supported  d a multiple of 2 up to 256, n up to 65,535; n * half below 2^31
// bottleneck latency: one warp a head, all its loads at once, the norm's weight before what it norms; at many
//            rows memory bandwidth
#include "rope.cuh"

constexpr int THREADS = 128;
constexpr int WARPS = THREADS / WARP;

extern "C" __global__ void __launch_bounds__(THREADS)
    rope_angles(const int *positions, const float *frequencies, float *cos_sin, int n, int half, int turned,
                float scale) {
    allow_next_kernel();
    wait_for_earlier_kernels();
    const int index = int(blockIdx.x) * THREADS + int(threadIdx.x);
    if (index >= n * half) {
        return;
    }
    const int row = index / half, at = index % half, position = positions[row];
    const float frequency = frequencies[at];
    float sine, cosine;
    if (position < 65536) {
        sincosf(float(position) * frequency, &sine, &cosine);
    } else {
        // The turn's remainder is what needs f64; what is left is small.
        const double turns = double(position) * double(frequency) * 0.15915494309189533577;
        const double rest = turns - floor(turns);
        sincosf(float(rest * 6.28318530717958647693), &sine, &cosine);
    }
    float *out = cos_sin + static_cast<long long>(row) * 2 * half;
    const float factor = at < turned ? scale : 1.0f;
    out[at] = cosine * factor;
    out[half + at] = sine * factor;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    qkv_epilogue(const float *qkv, const float *q_norm, const float *k_norm, float eps,
                 const float *cos_sin, const int *places, const float *sink_cos_sin, element *q_sink,
                 element *q, element *keys, element *values, int n, int heads, int kv_heads, int d) {
    allow_next_kernel();
    const int row = int(blockIdx.y);
    const int head = int(blockIdx.x) * WARPS + warp_index();
    const int all = heads + 2 * kv_heads, half = d / 2;
    // No kernel of a step writes weights.
    Pairs norm;
    norm.load(head < heads ? q_norm : k_norm, half);
    wait_for_earlier_kernels();
    if (row >= n || head >= all) {
        return;
    }
    Pairs kept, angle;
    kept.load(qkv + (static_cast<long long>(row) * all + head) * d, half);
    angle.load(cos_sin + static_cast<long long>(row) * d, half);
    const int place = places[row];
    const int kv_head = head < heads + kv_heads ? head - heads : head - heads - kv_heads;
    const long long page_head = static_cast<long long>(place / PAGE_TOKENS) * kv_heads + kv_head;
    const long long cached = (page_head * PAGE_TOKENS + place % PAGE_TOKENS) * d;
    if (head >= heads + kv_heads) {
        kept.store(values + cached, half);
        return;
    }
    kept.norm(norm, eps, d);
    if (head >= heads) {
        turned(kept, angle).store(keys + cached, half);
        return;
    }
    const long long at = (static_cast<long long>(row) * heads + head) * d;
    turned(kept, angle).store(q + at, half);
    if (q_sink) {
        angle.load(sink_cos_sin, half);
        turned(kept, angle).store(q_sink + at, half);
    }
}
