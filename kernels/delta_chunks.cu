// The gated delta rule of long prompts, in chunks of up to 64 rows on the tensor cores: the WY form of arXiv:2412.06464,
// section 3.3. Computes what delta_rule.cu does; sums have another order, operands 16 bits.
//
// formula    of a value head and a chunk, with q, k, v, beta and decay as in delta_rule.cu, G[i] = sum of ln decay up to row i
//              A[i, j] = beta[i] (k[i] . k[j]) e^(G[i] - G[j])  for j < i, else 0;   T = (1 + A)^-1
//              W = T . diag(beta e^G) K,   U = T . diag(beta) V,   P[i, j] = (q[i] . k[j]) e^(G[i] - G[j])  for j <= i, else 0
//            and with S of the chunk before, n rows
//              N = U - W S,   O = diag(e^G) Q S + P N,   S = e^G[n - 1] S + (diag(e^(G[n - 1] - G)) K)^T N
//            q is kept as the convolution leaves it; 1 / length is part of its rows' factors.
//
// entry delta_chunks: what of a chunk does not depend on S
//   projected, conv, log_decay, step_bias, states  as in delta_rule.cu; of the states the convolution's inputs are read
//   chunks     [chunks, 8] int: first row, rows (1 to 64), rows of its span before it, position of the span's first row, state;
//              three unused
//   qs, ks     [chunks, key_heads, 64, key_dim] element
//   w          [chunks, value_heads, 64, key_dim] element;  u [chunks, value_heads, 64, value_dim] f32
//   p          [chunks, value_heads, 64, 64] element
//   factors    [chunks, value_heads, 192] f32: e^G / |q| / sqrt(key_dim) of each row, e^(G[n - 1] - G) of each row, then e^G[n - 1]
//   launch     grid = (value_heads, chunks), block = 256, dynamic shared = 66,560 bytes
// entry delta_scan: S through the chunks of a span
//   scans      [scans, 8] int: first chunk, chunks, position of the span's first row, state; after how many of its rows, which
//              end a chunk, the state is also stored elsewhere (0: never), and where; its first row, its rows (at least
//              taps - 1). All of its chunks are full but the last and the one that ends there
//   states     read unless the position is 0, written
//   u          becomes O
//   launch     grid = (ceil(value_dim / 32), value_heads, scans), block = 128, dynamic shared = 73,728 bytes
// entry delta_norm: out = O / sqrt(mean(O^2) + eps) . norm . silu(z)
//   out        [n, value_heads value_dim] element
//   launch     grid = (value_heads, chunks), block = 256, dynamic shared = 0 bytes
// supported  bf16 and f16 (with f32 the file has no entry: delta_rule serves it); key_dim and value_dim multiples of 16 up to
//            128, taps 1 to 4
// bottleneck delta_scan: latency, one chunk after another; the others: tensor cores and memory bandwidth
#include "delta.cuh"

#if ELEMENT != 2

constexpr int THREADS = 256, SCAN_THREADS = 128;
constexpr int ROWS = 64;
/// Columns of S that a block of delta_scan has.
constexpr int STRIP = 32;
constexpr int FACTORS = 3 * ROWS;
constexpr float LOG2_E = 1.44269504088896340736f;

struct Chunk {
    int first, rows, before, position, state, unused[3];
};

struct Scan {
    int first_chunk, chunks, position, state, kept_rows, kept_in, first_row, rows;
};

// ---- tiles in shared memory ------------------------------------------------------------------------

/// Rows of PACKS packs of 16 bytes, swizzled by the row's number so that eight rows of a column lie in different banks.
template <int PACKS> struct Tile {
    element *numbers;

    __device__ __forceinline__ static int place(int row, int pack) {
        const int swap = PACKS >= 8 ? row & 7 : row / (8 / PACKS) & (PACKS - 1);
        return (row * PACKS + (pack ^ swap)) * PACK;
    }

    __device__ __forceinline__ element *at(int row, int column) const {
        return numbers + place(row, column / PACK) + column % PACK;
    }

    /// Rows `row` to + 16, columns `column` to + 16, as the left side of a product.
    __device__ __forceinline__ void left(unsigned (&out)[4], int row, int column) const {
        const int lane = lane_index();
        load_matrices(out, numbers + place(row + lane % 16, column / PACK + lane / 16));
    }

    /// The same of the transposed tile.
    __device__ __forceinline__ void left_transposed(unsigned (&out)[4], int row, int column) const {
        const int lane = lane_index();
        const int from = column + lane / 16 * 8 + lane % 8;
        load_matrices_transposed(out, numbers + place(from, row / PACK + lane / 8 % 2));
    }

    /// Rows `row` to + 16, columns `column` to + 16, as the right side: out[0] and [1] for the first eight columns.
    __device__ __forceinline__ void right(unsigned (&out)[4], int row, int column) const {
        const int lane = lane_index();
        load_matrices_transposed(out, numbers + place(row + lane % 16, column / PACK + lane / 16));
    }

    /// The same of the transposed tile.
    __device__ __forceinline__ void right_transposed(unsigned (&out)[4], int row, int column) const {
        const int lane = lane_index();
        const int from = column + lane / 16 * 8 + lane % 8;
        load_matrices(out, numbers + place(from, row / PACK + lane / 8 % 2));
    }

    /// All of `rows` rows of `cols` columns, by asynchronous copies.
    __device__ __forceinline__ void copy(const element *from, int rows, int cols, int threads) const {
        const int packs = cols / PACK;
        for (int i = int(threadIdx.x); i < rows * packs; i += threads) {
            const int row = i / packs, pack = i % packs;
            copy_async(numbers + place(row, pack), from + row * cols + pack * PACK, true);
        }
    }
};

using Wide = Tile<16>;
using Square = Tile<8>;
using Narrow = Tile<4>;

/// A warp's 16 rows and 16 columns of sums. A lane has rows lane / 4 and that + 8.
struct Sums {
    float of[2][4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            of[0][i] = of[1][i] = 0.0f;
        }
    }

    __device__ __forceinline__ void add(const unsigned (&left)[4], const unsigned (&right)[4]) {
        multiply_add(of[0], left, right[0], right[1]);
        multiply_add(of[1], left, right[2], right[3]);
    }

    /// Row and column of the pair of numbers (side, 2 half) and the one behind it.
    __device__ __forceinline__ static int row(int half) { return lane_index() / 4 + 8 * half; }
    __device__ __forceinline__ static int column(int side) { return 8 * side + lane_index() % 4 * 2; }
};

__device__ __forceinline__ float exponential(float x) { return exp2_fast(x * LOG2_E); }

__device__ __forceinline__ void store_pair(element *to, float low, float high) {
    *reinterpret_cast<unsigned *>(to) = to_pair(low, high);
}

// ---- delta_chunks ----------------------------------------------------------------------------------

/// The convolution's input `back` rows before the chunk's row `row`.
__device__ __forceinline__ float input(const float *projected, const Sizes &sizes, const Chunk &chunk, const float *tails,
                                       int row, int back, int column, int channel) {
    const int index = chunk.before + row - back;
    if (index >= 0) {
        return projected[static_cast<long long>(chunk.first + row - back) * sizes.cols() + column];
    }
    const int slot = sizes.taps - 1 + index;
    return chunk.position > 0 && slot >= 0 ? tails[slot * sizes.own_channels() + channel] : 0.0f;
}

/// Rows of a part of a channel.
constexpr int PART = 16;

/// q, k and v of the chunk after the convolution; zeros behind its rows.
__device__ __forceinline__ void mix(const float *projected, const float *conv, const Sizes &sizes, const Chunk &chunk,
                                    const float *tails, int head, const Wide &queries, const Wide &keys,
                                    const Wide &values) {
    const int own = sizes.own_channels();
    for (int task = int(threadIdx.x); task < own * (ROWS / PART); task += THREADS) {
        const int channel = task % own, first = task / own * PART, column = sizes.column(head, channel);
        float weights[MOST_TAPS], inputs[MOST_TAPS];
#pragma unroll
        for (int j = 0; j < MOST_TAPS; j++) {
            const int tap = j - (MOST_TAPS - sizes.taps);
            weights[j] = tap >= 0 ? conv[tap * sizes.channels() + column] : 0.0f;
        }
#pragma unroll
        for (int j = 1; j < MOST_TAPS; j++) {
            const int back = MOST_TAPS - j;
            const bool there = back < sizes.taps && first < chunk.rows;
            inputs[j] = there ? input(projected, sizes, chunk, tails, first, back, column, channel) : 0.0f;
        }
        const bool is_value = channel >= 2 * sizes.key_dim, is_query = channel < sizes.key_dim;
        const Wide &tile = is_value ? values : is_query ? queries : keys;
        const int place = channel - (is_value ? 2 * sizes.key_dim : is_query ? 0 : sizes.key_dim);
        for (int row = first; row < first + PART; row++) {
            float sum = 0.0f;
            if (row < chunk.rows) {
#pragma unroll
                for (int j = 0; j + 1 < MOST_TAPS; j++) {
                    inputs[j] = inputs[j + 1];
                    sum += weights[j] * inputs[j];
                }
                inputs[MOST_TAPS - 1] = projected[static_cast<long long>(chunk.first + row) * sizes.cols() + column];
                sum += weights[MOST_TAPS - 1] * inputs[MOST_TAPS - 1];
            }
            *tile.at(row, place) = to_element(silu(sum));
        }
    }
}

/// What belongs to the rows of a chunk, each [ROWS].
struct RowFactors {
    /// Sums of ln decay; beta; 1 / length of q, times 1 / sqrt(key_dim).
    float *sums, *beta, *query;
};

/// By the first two warps.
__device__ __forceinline__ void open_gates(const float *projected, const float *log_decay, const float *step_bias,
                                           const Sizes &sizes, const Chunk &chunk, int head,
                                           const RowFactors &factors) {
    const int row = int(threadIdx.x);
    if (row >= ROWS) {
        return;
    }
    float step = 0.0f, beta = 0.0f;
    if (row < chunk.rows) {
        const long long start = static_cast<long long>(chunk.first + row) * sizes.cols();
        const float *const gates = projected + start + sizes.channels() + sizes.value_cols();
        step = -expf(log_decay[head]) * softplus(gates[sizes.value_heads + head] + step_bias[head]);
        beta = sigmoid(gates[head]);
    }
#pragma unroll
    for (int by = 1; by < WARP; by *= 2) {
        const float before = __shfl_up_sync(ALL_LANES, step, by);
        step += lane_index() >= by ? before : 0.0f;
    }
    factors.sums[row] = step;
    factors.beta[row] = beta;
}

/// 1 / length of each q; normalises k. One warp a row. Adds the first 32 rows' sum of ln decay to the last 32.
__device__ __forceinline__ void measure(const Wide &queries, const Wide &keys, int key_dim, const RowFactors &factors) {
    for (int row = warp_index(); row < ROWS; row += THREADS / WARP) {
        float qq = 0.0f, kk = 0.0f;
        for (int column = lane_index(); column < key_dim; column += WARP) {
            const float q = to_float(*queries.at(row, column)), k = to_float(*keys.at(row, column));
            qq += q * q;
            kk += k * k;
        }
        qq = warp_sum(qq);
        // Kept in 16 bits: a large 1 / length as a factor of what is computed later would overflow there.
        const float scale = 1.0f / sqrtf(warp_sum(kk) + LENGTH_EPS);
        for (int column = lane_index(); column < key_dim; column += WARP) {
            element *const k = keys.at(row, column);
            *k = to_element(to_float(*k) * scale);
        }
        if (lane_index() == 0) {
            factors.query[row] = 1.0f / sqrtf((qq + LENGTH_EPS) * float(key_dim));
            if (row >= WARP) {
                factors.sums[row] += factors.sums[WARP - 1];
            }
        }
    }
}

/// A lower triangle of f32; rows of 68 numbers lie in different banks.
struct Triangle {
    static constexpr int BLOCK = 16, BLOCKS = ROWS / BLOCK, STRIDE = ROWS + 4;
    float *numbers;

    __device__ __forceinline__ float &at(int row, int column) const { return numbers[row * STRIDE + column]; }

    /// From A to (1 + A)^-1 in place: blocks of the diagonal by substitution, then a row of blocks after the other, each of
    /// which is -inverse(own diagonal) . sum of A . the inverse's rows above.
    __device__ __forceinline__ void invert() const {
        const int thread = int(threadIdx.x), base = thread / BLOCK * BLOCK, column = thread % BLOCK;
        float inverse[BLOCK];
        if (thread < ROWS) {
#pragma unroll
            for (int i = 0; i < BLOCK; i++) {
                float sum = 0.0f;
#pragma unroll
                for (int k = 0; k < i; k++) {
                    sum += at(base + i, base + k) * inverse[k];
                }
                inverse[i] = i == column ? 1.0f : i > column ? -sum : 0.0f;
            }
        }
        __syncthreads();
        if (thread < ROWS) {
#pragma unroll
            for (int i = 0; i < BLOCK; i++) {
                at(base + i, base + column) = inverse[i];
            }
        }
        __syncthreads();
        // A thread has one place of each block.
        const int row = thread / BLOCK;
        for (int block = 1; block < BLOCKS; block++) {
            const int own = block * BLOCK;
            float kept[BLOCKS - 1];
#pragma unroll
            for (int left = 0; left < BLOCKS - 1; left++) {
                kept[left] = 0.0f;
                for (int k = left * BLOCK; left < block && k < own; k++) {
                    kept[left] += at(own + row, k) * at(k, left * BLOCK + column);
                }
            }
            __syncthreads();
            put(kept, block, own + row, column);
            __syncthreads();
#pragma unroll
            for (int left = 0; left < BLOCKS - 1; left++) {
                kept[left] = 0.0f;
                for (int k = 0; left < block && k <= row; k++) {
                    kept[left] -= at(own + row, own + k) * at(own + k, left * BLOCK + column);
                }
            }
            __syncthreads();
            put(kept, block, own + row, column);
            __syncthreads();
        }
    }

    /// 16 rows and columns as the left side of a product, each column times its factor.
    __device__ __forceinline__ void left(unsigned (&out)[4], int row, int column, const float *factors) const {
        const int top = row + lane_index() / 4, first = column + lane_index() % 4 * 2;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int r = top + i % 2 * 8, c = first + i / 2 * 8;
            out[i] = to_pair(at(r, c) * factors[c], at(r, c + 1) * factors[c + 1]);
        }
    }

  private:
    __device__ __forceinline__ void put(const float (&kept)[BLOCKS - 1], int block, int row, int column) const {
#pragma unroll
        for (int left = 0; left < BLOCKS - 1; left++) {
            if (left < block) {
                at(row, left * BLOCK + column) = kept[left];
            }
        }
    }
};

/// k . k and q . k of 16 rows and 32 columns: A into the triangle, P into memory.
__device__ __forceinline__ void relate(const Wide &queries, const Wide &keys, int key_dim, const RowFactors &factors,
                                       const Triangle &triangle, element *p) {
    const int top = warp_index() / 2 * 16, first = warp_index() % 2 * 32;
    Sums by_key[2], by_query[2];
#pragma unroll
    for (int c = 0; c < 2; c++) {
        by_key[c].clear();
        by_query[c].clear();
    }
    for (int depth = 0; depth < key_dim; depth += 16) {
        unsigned key[4], query[4];
        keys.left(key, top, depth);
        queries.left(query, top, depth);
#pragma unroll
        for (int c = 0; c < 2; c++) {
            unsigned other[4];
            keys.right_transposed(other, depth, first + 16 * c);
            by_key[c].add(key, other);
            by_query[c].add(query, other);
        }
    }
#pragma unroll
    for (int c = 0; c < 2; c++) {
#pragma unroll
        for (int side = 0; side < 2; side++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int row = top + Sums::row(half), column = first + 16 * c + Sums::column(side);
                float related[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int other = column + i;
                    const float decay = exponential(factors.sums[row] - factors.sums[other]);
                    const float a = factors.beta[row] * by_key[c].of[side][2 * half + i];
                    triangle.at(row, other) = other < row ? decay * a : 0.0f;
                    const float b = factors.query[row] * by_query[c].of[side][2 * half + i];
                    related[i] = other <= row ? decay * b : 0.0f;
                }
                store_pair(p + row * ROWS + column, related[0], related[1]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    delta_chunks(const float *projected, const float *conv, const float *log_decay, const float *step_bias, float *states,
                 const Chunk *chunks, element *qs, element *ks, element *w, float *u, element *p, float *factors,
                 int key_heads, int value_heads, int key_dim, int value_dim, int taps) {
    DYNAMIC_SHARED(shared);
    SHARED(float, row_factors, 5 * ROWS);
    allow_next_kernel();
    wait_for_earlier_kernels();
    const Sizes sizes = {key_heads, value_heads, key_dim, value_dim, taps};
    const int head = int(blockIdx.x), key_head = head / sizes.group();
    const Chunk chunk = chunks[blockIdx.y];
    element *const room = reinterpret_cast<element *>(shared);
    const Wide queries = {room}, keys = {room + ROWS * MOST_DIM}, values = {room + 2 * ROWS * MOST_DIM};
    const Triangle triangle = {reinterpret_cast<float *>(room + 3 * ROWS * MOST_DIM)};
    const RowFactors rows = {row_factors, row_factors + ROWS, row_factors + 2 * ROWS};
    float *const key_side = row_factors + 3 * ROWS, *const value_side = row_factors + 4 * ROWS;
    const float *const tails = state_of(states, sizes, chunk.state, head) + sizes.matrix();
    mix(projected, conv, sizes, chunk, tails, head, queries, keys, values);
    open_gates(projected, log_decay, step_bias, sizes, chunk, head, rows);
    __syncthreads();
    measure(queries, keys, key_dim, rows);
    __syncthreads();
    const long long index = blockIdx.y, of_head = index * value_heads + head;
    if (int(threadIdx.x) < ROWS) {
        const int row = int(threadIdx.x);
        const float sum = rows.sums[row], all = rows.sums[ROWS - 1], beta = rows.beta[row];
        key_side[row] = beta * exponential(sum);
        value_side[row] = beta;
        float *const to = factors + of_head * FACTORS;
        to[row] = exponential(sum) * rows.query[row];
        to[ROWS + row] = exponential(all - sum);
        to[2 * ROWS + row] = exponential(all);
    }
    if (head % sizes.group() == 0) {
        const long long to = (index * key_heads + key_head) * ROWS * key_dim;
        for (int i = int(threadIdx.x) * PACK; i < ROWS * key_dim; i += THREADS * PACK) {
            const int row = i / key_dim, column = i % key_dim;
            *reinterpret_cast<uint4 *>(qs + to + i) = *reinterpret_cast<const uint4 *>(queries.at(row, column));
            *reinterpret_cast<uint4 *>(ks + to + i) = *reinterpret_cast<const uint4 *>(keys.at(row, column));
        }
    }
    relate(queries, keys, key_dim, rows, triangle, p + of_head * ROWS * ROWS);
    __syncthreads();
    triangle.invert();
    // 16 rows a warp, every second 16 columns.
    const int top = warp_index() / 2 * 16, odd = warp_index() % 2 * 16;
    const auto times = [&](const float *side, const Wide &tile, int column) {
        Sums sums;
        sums.clear();
        for (int depth = 0; depth <= top; depth += 16) {
            unsigned left[4], right[4];
            triangle.left(left, top, depth, side);
            tile.right(right, depth, column);
            sums.add(left, right);
        }
        return sums;
    };
    for (int column = odd; column < key_dim; column += 32) {
        const Sums sums = times(key_side, keys, column);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int side = i / 2, half = i % 2;
            element *const to = w + (of_head * ROWS + top + Sums::row(half)) * key_dim + column + Sums::column(side);
            store_pair(to, sums.of[side][2 * half], sums.of[side][2 * half + 1]);
        }
    }
    for (int column = odd; column < value_dim; column += 32) {
        const Sums sums = times(value_side, values, column);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int side = i / 2, half = i % 2;
            float *const to = u + (of_head * ROWS + top + Sums::row(half)) * value_dim + column + Sums::column(side);
            *reinterpret_cast<float2 *>(to) = make_float2(sums.of[side][2 * half], sums.of[side][2 * half + 1]);
        }
    }
}

// ---- delta_scan ------------------------------------------------------------------------------------

/// Tiles of 16 rows and columns of S that a warp has.
constexpr int STATE_ROWS = MOST_DIM / 16 / (SCAN_THREADS / WARP), STATE_COLUMNS = STRIP / 16;

/// A block's columns of S: a warp has 32 rows of it in f32, and all are in shared memory as operands.
struct Strip {
    Sums of[STATE_ROWS][STATE_COLUMNS];
    Narrow tile;
    int key_dim, value_dim, first;

    /// `each(number, row, column)` of every number of the lane's, which `each` may change.
    template <class Each> __device__ __forceinline__ void visit(Each each) {
#pragma unroll
        for (int r = 0; r < STATE_ROWS; r++) {
#pragma unroll
            for (int c = 0; c < STATE_COLUMNS; c++) {
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    const int side = i / 4, half = i / 2 % 2;
                    const int row = (warp_index() * STATE_ROWS + r) * 16 + Sums::row(half);
                    const int column = 16 * c + Sums::column(side) + i % 2;
                    each(of[r][c].of[side][2 * half + i % 2], row, column);
                }
            }
        }
    }

    __device__ __forceinline__ bool is_there(int row, int column) const {
        return row < key_dim && first + column < value_dim;
    }

    /// null: S is 0.
    __device__ __forceinline__ void load(const float *from) {
        visit([&](float &number, int row, int column) {
            number = from && is_there(row, column) ? from[row * value_dim + first + column] : 0.0f;
        });
    }

    __device__ __forceinline__ void store(float *to) {
        visit([&](float &number, int row, int column) {
            if (is_there(row, column)) {
                to[row * value_dim + first + column] = number;
            }
        });
    }

    __device__ __forceinline__ void publish() {
        visit([&](float &number, int row, int column) { *tile.at(row, column) = to_element(number); });
    }
};

/// Puts what the convolution keeps after `end` of the span's rows into `to`; `old`: what it kept before them, null where there
/// is nothing before.
__device__ __forceinline__ void keep_inputs(const float *projected, const Sizes &sizes, const Scan &scan, int head, int end,
                                            const float *old, float *to) {
    const int own = sizes.own_channels(), kept = sizes.taps - 1;
    for (int channel = int(threadIdx.x); channel < own; channel += SCAN_THREADS) {
        const int column = sizes.column(head, channel);
        for (int slot = 0; slot < kept; slot++) {
            const int index = end - kept + slot;
            float value = 0.0f;
            if (index >= 0) {
                value = projected[static_cast<long long>(scan.first_row + index) * sizes.cols() + column];
            } else if (old) {
                value = old[(kept + index) * own + channel];
            }
            to[slot * own + channel] = value;
        }
    }
}

/// Shared memory of delta_scan.
struct ScanRoom {
    Wide w, queries, keys;
    Square p;
    Narrow news, later, state;

    __device__ __forceinline__ static ScanRoom of(unsigned char *shared) {
        element *const room = reinterpret_cast<element *>(shared);
        constexpr int WIDE = ROWS * MOST_DIM, SQUARE = ROWS * ROWS, NARROW = ROWS * STRIP;
        element *const p = room + 3 * WIDE, *const news = p + SQUARE;
        return {{room}, {room + WIDE}, {room + 2 * WIDE}, {p}, {news}, {news + NARROW}, {news + 2 * NARROW}};
    }
};

extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    delta_scan(const float *projected, float *states, const Scan *scans, const element *qs, const element *ks,
               const element *w, float *u, const element *p, const float *factors, int key_heads, int value_heads,
               int key_dim, int value_dim, int taps) {
    DYNAMIC_SHARED(shared);
    SHARED(float, row_factors, FACTORS);
    allow_next_kernel();
    wait_for_earlier_kernels();
    const Sizes sizes = {key_heads, value_heads, key_dim, value_dim, taps};
    const int head = int(blockIdx.y), key_head = head / sizes.group(), first = int(blockIdx.x) * STRIP;
    const Scan scan = scans[blockIdx.z];
    const ScanRoom room = ScanRoom::of(shared);
    float *const own = state_of(states, sizes, scan.state, head);
    const float *const before = scan.position > 0 ? own : nullptr;
    Strip strip = {{}, room.state, key_dim, value_dim, first};
    strip.load(before);
    const int top = warp_index() * 16;
    const auto copy_w = [&](long long chunk) {
        room.w.copy(w + (chunk * value_heads + head) * ROWS * key_dim, ROWS, key_dim, SCAN_THREADS);
        copies_commit();
    };
    const auto copy_others = [&](long long chunk) {
        const long long of_key = (chunk * key_heads + key_head) * ROWS * key_dim;
        room.queries.copy(qs + of_key, ROWS, key_dim, SCAN_THREADS);
        room.keys.copy(ks + of_key, ROWS, key_dim, SCAN_THREADS);
        room.p.copy(p + (chunk * value_heads + head) * ROWS * ROWS, ROWS, ROWS, SCAN_THREADS);
        copies_commit();
    };
    // One block of a head has the convolution's inputs too: the old ones are read before they are replaced.
    const auto keep = [&](int rows, int state) {
        float *const to = state_of(states, sizes, state, head);
        strip.store(to);
        if (blockIdx.x == 0) {
            const float *const old = before ? before + sizes.matrix() : nullptr;
            keep_inputs(projected, sizes, scan, head, rows, old, to + sizes.matrix());
        }
    };
    copy_w(scan.first_chunk);
    copy_others(scan.first_chunk);
    for (int at = 0; at < scan.chunks; at++) {
        const long long chunk = scan.first_chunk + at, of_head = chunk * value_heads + head;
        strip.publish();
        for (int i = int(threadIdx.x); i < FACTORS; i += SCAN_THREADS) {
            row_factors[i] = factors[of_head * FACTORS + i];
        }
        float *const results = u + of_head * ROWS * value_dim;
        copies_wait<0>();
        __syncthreads();
        // N = U - W S, and N times e^(G[n - 1] - G) for the update of S.
        Sums answers[STATE_COLUMNS];
#pragma unroll
        for (int c = 0; c < STATE_COLUMNS; c++) {
            Sums read;
            read.clear();
            answers[c].clear();
            for (int depth = 0; depth < key_dim; depth += 16) {
                unsigned left[4], query[4], right[4];
                room.w.left(left, top, depth);
                room.queries.left(query, top, depth);
                room.state.right(right, depth, 16 * c);
                read.add(left, right);
                answers[c].add(query, right);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int side = i / 2, half = i % 2, row = top + Sums::row(half);
                const int column = 16 * c + Sums::column(side);
                float2 number = make_float2(0.0f, 0.0f);
                if (first + column < value_dim) {
                    number = *reinterpret_cast<const float2 *>(results + row * value_dim + first + column);
                }
                number.x -= read.of[side][2 * half];
                number.y -= read.of[side][2 * half + 1];
                const float share = row_factors[ROWS + row];
                store_pair(room.news.at(row, column), number.x, number.y);
                store_pair(room.later.at(row, column), number.x * share, number.y * share);
            }
        }
        __syncthreads();
        const bool is_last = at + 1 == scan.chunks;
        if (!is_last) {
            copy_w(chunk + 1);
        }
        // O = diag(e^G) Q S + P N
#pragma unroll
        for (int c = 0; c < STATE_COLUMNS; c++) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                answers[c].of[i / 4][i % 4] *= row_factors[top + Sums::row(i / 2 % 2)];
            }
            for (int depth = 0; depth <= top; depth += 16) {
                unsigned left[4], right[4];
                room.p.left(left, top, depth);
                room.news.right(right, depth, 16 * c);
                answers[c].add(left, right);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int side = i / 2, half = i % 2, row = top + Sums::row(half);
                const int column = first + 16 * c + Sums::column(side);
                if (column < value_dim) {
                    *reinterpret_cast<float2 *>(results + row * value_dim + column) =
                        make_float2(answers[c].of[side][2 * half], answers[c].of[side][2 * half + 1]);
                }
            }
        }
        // S = e^G[n - 1] S + (diag(e^(G[n - 1] - G)) K)^T N
        const float decay = row_factors[2 * ROWS];
        strip.visit([&](float &number, int, int) { number *= decay; });
#pragma unroll
        for (int r = 0; r < STATE_ROWS; r++) {
            const int row = (warp_index() * STATE_ROWS + r) * 16;
            for (int depth = 0; depth < ROWS && row < key_dim; depth += 16) {
                unsigned left[4];
                room.keys.left_transposed(left, row, depth);
#pragma unroll
                for (int c = 0; c < STATE_COLUMNS; c++) {
                    unsigned right[4];
                    room.later.right(right, depth, 16 * c);
                    strip.of[r][c].add(left, right);
                }
            }
        }
        __syncthreads();
        if (!is_last) {
            copy_others(chunk + 1);
        }
        if (scan.kept_rows > 0 && at + 1 == divided_up(scan.kept_rows, ROWS)) {
            keep(scan.kept_rows, scan.kept_in);
        }
    }
    keep(scan.rows, scan.state);
}

// ---- delta_norm ------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(THREADS)
    delta_norm(const float *projected, const float *norm, float eps, const Chunk *chunks, const float *o, element *out,
               int key_heads, int value_heads, int key_dim, int value_dim, int taps) {
    allow_next_kernel();
    const Sizes sizes = {key_heads, value_heads, key_dim, value_dim, taps};
    const int head = int(blockIdx.x), column = 4 * lane_index();
    const bool there = column < value_dim;
    const float4 scale = there ? load_four(norm + column) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const Chunk chunk = chunks[blockIdx.y];
    wait_for_earlier_kernels();
    const long long of_head = static_cast<long long>(blockIdx.y) * value_heads + head;
    for (int row = warp_index(); row < chunk.rows; row += THREADS / WARP) {
        const long long at = chunk.first + row;
        float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (there) {
            value = load_four(o + (of_head * ROWS + row) * value_dim + column);
        }
        const float squares = value.x * value.x + value.y * value.y + value.z * value.z + value.w * value.w;
        const float by = 1.0f / sqrtf(warp_sum(squares) / float(value_dim) + eps);
        if (there) {
            const float *z = projected + at * sizes.cols() + sizes.channels() + head * value_dim + column;
            store_four(out + at * sizes.value_cols() + head * value_dim + column,
                       make_float4(value.x * by * scale.x * silu(z[0]), value.y * by * scale.y * silu(z[1]),
                                   value.z * by * scale.z * silu(z[2]), value.w * by * scale.w * silu(z[3])));
        }
    }
}

#endif
