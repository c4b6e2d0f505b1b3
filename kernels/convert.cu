// A matrix in its stored type to the model's element type.
//
// entry      convert
// in         [count] of in_type: 0 bf16, 1 f16, 2 f32
// out        [count] element; rounds to nearest, ties to even
// launch     grid = any, e.g. (min(ceil(count / 256), 16384)), block = 256, dynamic shared = 0 bytes
// supported  any count; another in_type writes NaN
// bottleneck memory bandwidth; run once a matrix
#include "common.cuh"

constexpr int THREADS = 256;

__device__ __forceinline__ float widened(const void *in, int in_type, long long at) {
    switch (in_type) {
    case 0:
        return bfloat_to_float(static_cast<const unsigned short *>(in)[at]);
    case 1:
        return half_to_float(static_cast<const unsigned short *>(in)[at]);
    case 2:
        return static_cast<const float *>(in)[at];
    default:
        return __int_as_float(0x7fffffff);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    convert(const void *in, int in_type, element *out, long long count) {
    wait_for_earlier_kernels();
    const long long step = static_cast<long long>(gridDim.x) * THREADS;
    for (long long i = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; i < count; i += step) {
        out[i] = to_element(widened(in, in_type, i));
    }
}
