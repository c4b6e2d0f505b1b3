// Synthetic weights: numbers that depend on seed and index alone, so that any grid gives the same.
//
// formula    fill_random: out[i] = deviation * sqrt(-2 ln u) cos(2 pi v), u and v from the two halves of
//            splitmix64(seed + (i + 1) * 0x9e3779b97f4a7c15); fill_vector: out[i] = value
// out        [count] element (fill_random), [count] f32 (fill_vector)
// launch     grid = any, e.g. (min(ceil(count / 256), 16384)), block = 256, dynamic shared = 0 bytes
// supported  any count
// bottleneck arithmetic of logarithm and cosine; run once
#include "common.cuh"

constexpr int THREADS = 256;

__device__ __forceinline__ unsigned long long mixed(unsigned long long state) {
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ull;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebull;
    return state ^ (state >> 31);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    fill_random(element *out, long long count, float deviation, unsigned long long seed) {
    wait_for_earlier_kernels();
    const long long step = static_cast<long long>(gridDim.x) * THREADS;
    for (long long i = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; i < count; i += step) {
        const auto index = static_cast<unsigned long long>(i);
        const unsigned long long bits = mixed(seed + (index + 1) * 0x9e3779b97f4a7c15ull);
        // In (0, 1]: the logarithm is finite.
        const float u = (float(unsigned(bits >> 40)) + 1.0f) * (1.0f / 16777216.0f);
        const float v = float(unsigned(bits) >> 8) * (1.0f / 16777216.0f);
        out[i] = to_element(deviation * sqrtf(-2.0f * logf(u)) * cospif(2.0f * v));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    fill_vector(float *out, long long count, float value) {
    wait_for_earlier_kernels();
    const long long step = static_cast<long long>(gridDim.x) * THREADS;
    for (long long i = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; i < count; i += step) {
        out[i] = value;
    }
}
