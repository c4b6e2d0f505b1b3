// SwiGLU: out = silu(gate) . up with silu(x) = x / (1 + e^-x).
//
// entry      swiglu
// gate_up    [n, 2 m] f32: a row is its gate, then its up
// out        [n, m] element
// launch     grid = (ceil(m / 1024), n), block = 256, dynamic shared = 0 bytes
// supported  m a multiple of 4; n up to 65,535
// bottleneck memory bandwidth
#include "common.cuh"

constexpr int THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
    swiglu(const float *gate_up, element *out, int n, int m) {
    allow_next_kernel();
    wait_for_earlier_kernels();
    const int at = (int(blockIdx.x) * THREADS + int(threadIdx.x)) * 4;
    const int row = int(blockIdx.y);
    if (at >= m || row >= n) {
        return;
    }
    const float *from = gate_up + static_cast<long long>(row) * 2 * m;
    const float4 gate = load_four(from + at), up = load_four(from + m + at);
    store_four(out + static_cast<long long>(row) * m + at,
               make_float4(silu(gate.x) * up.x, silu(gate.y) * up.y, silu(gate.z) * up.z,
                           silu(gate.w) * up.w));
}
