// Products with few rows of x, as in decoding: a matrix that is read once, times 1 to 8 vectors.
//
// formula    gemv_N:        out[i, r] = sum over c of x[i, c] weight[r, c]  (+ bias[r])
//            gemv_swiglu_N: out[i, r] = silu(gate) . up, gate the product with row r, up with row m + r
// entries    gemv_1, gemv_2, gemv_4, gemv_8, gemv_swiglu_1, _2, _4, _8: for n up to the number
// weight     [rows, cols] element ([2 m, cols] for swiglu), row-major, 16-byte aligned
// x          [n, cols] element
// bias       [rows] f32 or null
// out        [n, rows] f32; [n, m] element for swiglu
// launch     gemv_1, _2, _4:         grid = (ceil(rows / 8)),  block = 128, dynamic shared = 0 bytes
//            gemv_swiglu_1, _2, _4:  grid = (ceil(m / 4)),     block = 128, dynamic shared = 0 bytes
//            gemv_8:                 grid = (ceil(rows / 16)), block = 256, dynamic shared = 0 bytes
//            gemv_swiglu_8:          grid = (ceil(m / 8)),     block = 256, dynamic shared = 0 bytes
// supported  cols a multiple of 8
// bottleneck memory bandwidth: each weight is read once. A multiprocessor needs some 40 KB under way to
//            keep its share of an H200's memory busy: every thread has 8 loads of 16 bytes a turn, and the first
//            of them leave before the earlier kernel has ended. NVRTC 12.9 and 13.0 put a turn's loads behind
//            most of its arithmetic, so a warp has none under way for a moment; the others cover it. x comes
//            through L1. For 8 vectors of 16-bit elements multiplying on the ordinary units would cost as
//            much as the memory, so there the tensor cores do it.
#include "common.cuh"

constexpr int THREADS = 128;
constexpr int WARPS = THREADS / WARP;
constexpr int THREADS_8 = 256;
constexpr int WARPS_8 = THREADS_8 / WARP;
/// Loads under way for each of a warp's two rows.
constexpr int DEPTH = 4;
/// Blocks that a multiprocessor shall hold, by the number of vectors: what bounds the registers.
template <int N> constexpr int RESIDENT = N == 4 ? 3 : (ELEMENT == 2 ? 5 : 6) - (N - 1);

__device__ __forceinline__ const element *row_of(const element *matrix, int row, int cols) {
    return matrix + static_cast<long long>(row) * cols;
}

/// Two rows of the matrix with up to N vectors, by one warp; every lane gets the sums.
template <int N> struct TwoRows {
    float sums[2][N];

    __device__ __forceinline__ void run(const element *first, const element *second, const element *x,
                                        int n, int cols) {
        const int packs = cols / PACK;
        uint4 kept[2][DEPTH];
#pragma unroll
        for (int u = 0; u < DEPTH; u++) {
            fetch(kept, u, first, second, u * WARP + lane_index(), packs);
        }
        allow_next_kernel();
        wait_for_earlier_kernels();
#pragma unroll
        for (int i = 0; i < N; i++) {
            sums[0][i] = sums[1][i] = 0.0f;
        }
        for (int base = lane_index(); base < packs; base += DEPTH * WARP) {
#pragma unroll
            for (int u = 0; u < DEPTH; u++) {
                const int at = base + u * WARP;
                use(kept[0][u], kept[1][u], x + at * PACK, n, cols, at < packs);
                fetch(kept, u, first, second, at + DEPTH * WARP, packs);
            }
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            sums[0][i] = warp_sum(sums[0][i]);
            sums[1][i] = warp_sum(sums[1][i]);
        }
    }

  private:
    static __device__ __forceinline__ void fetch(uint4 (&kept)[2][DEPTH], int u, const element *first,
                                                 const element *second, int at, int packs) {
        kept[0][u] = load_once_if(at < packs, first + at * PACK);
        kept[1][u] = load_once_if(at < packs, second + at * PACK);
    }

    __device__ __forceinline__ void use(const uint4 &first, const uint4 &second, const element *x, int n,
                                        int cols, bool there) {
        uint4 packs[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            // Beyond n the last vector again: its sums are not stored.
            packs[i] = load_written_if(there, row_of(x, i < n ? i : n - 1, cols));
        }
        float a[PACK], b[PACK];
        unpack(first, a);
        unpack(second, b);
#pragma unroll
        for (int i = 0; i < N; i++) {
            float values[PACK];
            unpack(packs[i], values);
#pragma unroll
            for (int j = 0; j < PACK; j++) {
                sums[0][i] += a[j] * values[j];
                sums[1][i] += b[j] * values[j];
            }
        }
    }
};

/// `unit`: the warp's index among all; it makes rows 2 unit and the next.
template <int N>
__device__ __forceinline__ void product(int unit, const element *weight, const element *x,
                                        const float *bias, float *out, int n, int rows, int cols) {
    const int first = 2 * unit, second = first + 1 < rows ? first + 1 : first;
    if (first >= rows) {
        return;
    }
    TwoRows<N> work;
    work.run(row_of(weight, first, cols), row_of(weight, second, cols), x, n, cols);
    const int lane = lane_index();
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (lane < 2 && i < n && first + lane < rows) {
            const int row = first + lane;
            const float sum = lane == 0 ? work.sums[0][i] : work.sums[1][i];
            out[static_cast<long long>(i) * rows + row] = bias ? sum + bias[row] : sum;
        }
    }
}

/// The warp makes column `unit` of out.
template <int N>
__device__ __forceinline__ void swiglu_product(int unit, const element *weight, const element *x,
                                               element *out, int n, int m, int cols) {
    if (unit >= m) {
        return;
    }
    TwoRows<N> work;
    work.run(row_of(weight, unit, cols), row_of(weight, m + unit, cols), x, n, cols);
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (lane_index() == i && i < n) {
            out[static_cast<long long>(i) * m + unit] = to_element(silu(work.sums[0][i]) * work.sums[1][i]);
        }
    }
}

__device__ __forceinline__ int unit_of_4() { return int(blockIdx.x) * WARPS + warp_index(); }
__device__ __forceinline__ int unit_of_8() { return int(blockIdx.x) * WARPS_8 + warp_index(); }

#define GEMV(N)                                                                                            \
    extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT<N>)                                              \
        gemv_##N(const element *weight, const element *x, const float *bias, float *out, int n, int rows, \
                 int cols) {                                                                              \
        product<N>(unit_of_4(), weight, x, bias, out, n, rows, cols);                                     \
    }                                                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT<N>) gemv_swiglu_##N(                             \
        const element *weight, const element *x, element *out, int n, int m, int cols) {                  \
        swiglu_product<N>(unit_of_4(), weight, x, out, n, m, cols);                                       \
    }

GEMV(1)
GEMV(2)
GEMV(4)

#if ELEMENT == 2

extern "C" __global__ void __launch_bounds__(THREADS_8)
    gemv_8(const element *weight, const element *x, const float *bias, float *out, int n, int rows,
           int cols) {
    product<8>(unit_of_8(), weight, x, bias, out, n, rows, cols);
}

extern "C" __global__ void __launch_bounds__(THREADS_8)
    gemv_swiglu_8(const element *weight, const element *x, element *out, int n, int m, int cols) {
    swiglu_product<8>(unit_of_8(), weight, x, out, n, m, cols);
}

#else

/// Columns that a warp takes at once: each lane 8, the four lanes of a row 32.
constexpr int SPAN = 4 * PACK;

/// Sixteen rows of the matrix with eight vectors by one block. Its warps share the columns out; the lane of
/// row g = lane / 4 reads rows g and g + 8. Which eight columns a lane holds does not follow the order that
/// the matrix instruction names, but is the same in both operands, and a sum has no order.
///
/// `sums[warp][row][vector]`; after it every thread may read all.
__device__ __forceinline__ void sixteen_rows(const element *low, const element *high, const element *x,
                                             int n, int cols, float *sums) {
    const int lane = lane_index(), warp = warp_index();
    const int start = (lane % 4) * PACK + warp * SPAN;
    const int step = WARPS_8 * SPAN;
    uint4 a[2][DEPTH];
    const auto fetch = [&](int u, int at) {
        a[0][u] = load_once_if(at < cols, low + at);
        a[1][u] = load_once_if(at < cols, high + at);
    };
#pragma unroll
    for (int u = 0; u < DEPTH; u++) {
        fetch(u, start + u * step);
    }
    allow_next_kernel();
    wait_for_earlier_kernels();
    const element *vector = row_of(x, lane / 4, cols);
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    // By the warp's own first column: all its lanes take the same turns.
    for (int base = warp * SPAN; base < cols; base += DEPTH * step) {
#pragma unroll
        for (int u = 0; u < DEPTH; u++) {
            const int at = base + (lane % 4) * PACK + u * step;
            const uint4 b = load_written_if(at < cols && lane / 4 < n, vector + at);
            const unsigned first[4] = {a[0][u].x, a[1][u].x, a[0][u].y, a[1][u].y};
            const unsigned second[4] = {a[0][u].z, a[1][u].z, a[0][u].w, a[1][u].w};
            multiply_add(sum, first, b.x, b.y);
            multiply_add(sum, second, b.z, b.w);
            fetch(u, at + DEPTH * step);
        }
    }
    float *to = sums + warp * 128 + lane / 4 * 8 + lane % 4 * 2;
    to[0] = sum[0], to[1] = sum[1];
    to[64] = sum[2], to[65] = sum[3];
    __syncthreads();
}

/// In the order of the warps. `index` = row * 8 + vector.
__device__ __forceinline__ float sum_of_warps(const float *sums, int index) {
    float total = 0.0f;
#pragma unroll
    for (int warp = 0; warp < WARPS_8; warp++) {
        total += sums[warp * 128 + index];
    }
    return total;
}

__device__ __forceinline__ int at_most(int a, int b) { return a < b ? a : b; }

extern "C" __global__ void __launch_bounds__(THREADS_8)
    gemv_8(const element *weight, const element *x, const float *bias, float *out, int n, int rows,
           int cols) {
    SHARED(float, sums, WARPS_8 * 128);
    const int tile = int(blockIdx.x) * 16;
    const int low = at_most(tile + lane_index() / 4, rows - 1), high = at_most(low + 8, rows - 1);
    sixteen_rows(row_of(weight, low, cols), row_of(weight, high, cols), x, n, cols, sums);
    const int at = int(threadIdx.x), row = tile + at % 16, vector = at / 16;
    if (vector < n && row < rows) {
        const float sum = sum_of_warps(sums, at % 16 * 8 + vector);
        out[static_cast<long long>(vector) * rows + row] = bias ? sum + bias[row] : sum;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS_8)
    gemv_swiglu_8(const element *weight, const element *x, element *out, int n, int m, int cols) {
    SHARED(float, sums, WARPS_8 * 128);
    const int tile = int(blockIdx.x) * 8, gate = at_most(tile + lane_index() / 4, m - 1);
    sixteen_rows(row_of(weight, gate, cols), row_of(weight, m + gate, cols), x, n, cols, sums);
    const int at = int(threadIdx.x), row = tile + at % 8, vector = at / 8;
    if (vector < n && row < m) {
        const float gated = silu(sum_of_warps(sums, at % 8 * 8 + vector));
        out[static_cast<long long>(vector) * m + row] =
            to_element(gated * sum_of_warps(sums, 64 + at % 8 * 8 + vector));
    }
}

#endif
