// The gate of attention's output: x = x . sigmoid(gate).
//
// entry      gate
// gate       [count] f32
// x          [count] element, read and written
// launch     grid = (ceil(count / 1024)), block = 256, dynamic shared = 0 bytes
// supported  count a multiple of 4, below 2^31
// bottleneck latency at few rows, else memory bandwidth
#include "common.cuh"

constexpr int THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS) gate(const float *gate, element *x, int count) {
    allow_next_kernel();
    wait_for_earlier_kernels();
    const int at = (int(blockIdx.x) * THREADS + int(threadIdx.x)) * 4;
    if (at >= count) {
        return;
    }
    const float4 by = load_four(gate + at);
    const float open[4] = {by.x, by.y, by.z, by.w};
    float value[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        value[i] = to_float(x[at + i]) / (1.0f + expf(-open[i]));
    }
    store_four(x + at, make_float4(value[0], value[1], value[2], value[3]));
}
