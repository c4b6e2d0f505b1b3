// Embedding: out[i] = table[tokens[i]], widened to f32.
//
// entry      embedding
// table      [vocabulary, cols] element, row-major, 16-byte aligned
// tokens     [n] int, each in 0 .. vocabulary
// out        [n, cols] f32
// launch     grid = (n), block = 256, dynamic shared = 0 bytes
// supported  cols a multiple of 8
// bottleneck latency: a row is a few KB; at many rows the write of f32
#include "common.cuh"

constexpr int THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
    embedding(const element *table, const int *tokens, float *out, int n, int cols) {
    allow_next_kernel();
    wait_for_earlier_kernels();
    const int row = int(blockIdx.x);
    if (row >= n) {
        return;
    }
    const element *from = table + static_cast<long long>(tokens[row]) * cols;
    float *to = out + static_cast<long long>(row) * cols;
    for (int at = int(threadIdx.x) * PACK; at < cols; at += THREADS * PACK) {
        float values[PACK];
        unpack(load_once(from + at), values);
#pragma unroll
        for (int i = 0; i < PACK; i += 4) {
            *reinterpret_cast<float4 *>(to + at + i) =
                make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]);
        }
    }
}
