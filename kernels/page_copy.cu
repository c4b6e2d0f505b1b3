// Copies one page of keys and values in every layer.
//
// entry      copy_page
// keys       first layer's keys [pages, page_elements] element; layer l stands l * layer_stride elements on
// values     the same for values
// from, to   page indices, different
// launch     grid = (layers, 2), block = 256, dynamic shared = 0 bytes
// supported  page_elements and layer_stride multiples of 8
// bottleneck memory bandwidth
#include "common.cuh"

constexpr int THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
    copy_page(element *keys, element *values, int from, int to, int layers, long long layer_stride,
              int page_elements) {
    wait_for_earlier_kernels();
    const int layer = int(blockIdx.x);
    if (layer >= layers) {
        return;
    }
    element *pages = (blockIdx.y == 0 ? keys : values) + layer * layer_stride;
    const element *source = pages + static_cast<long long>(from) * page_elements;
    element *target = pages + static_cast<long long>(to) * page_elements;
    for (int at = int(threadIdx.x) * PACK; at < page_elements; at += THREADS * PACK) {
        *reinterpret_cast<uint4 *>(target + at) = load_written(source + at);
    }
}
