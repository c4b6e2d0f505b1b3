// Causal attention of many rows over paged keys and values, on the tensor cores: prefill, with or without a
// cached prefix. In the form of FlashAttention-2 (arXiv:2307.08691): a block keeps its queries and walks
// over the keys; scores never leave the registers.
//
// formula    out[i, h] = sum over j <= p(i) of softmax(scale * q[i, h] . k[j]) v[j], p(i) row i's position
// entries    attention_prefill: one query head a block; attention_prefill_2: two query heads that share a
//            key head, so that each key and value that is read from shared memory is used twice
// q          [rows, heads, d] element
// keys, values  the layer's cache, [pages, kv_heads, 16, d] element
// pages      the sequences' page lists, int
// tiles      [tiles, 4] int: first row, rows (0 to 64, consecutive positions of one sequence), position of
//            the first row, where in `pages` its sequence's list begins. Their keys are in the cache.
// out        [rows, heads, d] element
// launch     attention_prefill:   grid = (heads, tiles), block = 128, dynamic shared = 40,960 bytes for
//                                 d <= 64, 81,920 for d <= 128, else 98,304
//            attention_prefill_2: grid = (heads / 2, tiles), block = 128, dynamic shared = 32,768 bytes for
//                                 d <= 64, else 65,536
// supported  bf16 and f16 (with f32 the file has no entry: attention_rows serves it); d a multiple of 16 up
//            to 256, 128 for attention_prefill_2, which also needs an even number of heads a key head;
//            tiles up to 65,535
// bottleneck tensor cores, then reading shared memory. Keys and values arrive by asynchronous copies one
//            step ahead; 16-byte chunks of a row are swapped by its number, so that eight rows of a column
//            lie in different banks. The last tile, as a rule the longest, starts first.
#include "common.cuh"

#if ELEMENT != 2

constexpr int THREADS = 128;
constexpr int TILE_ROWS = 64;
constexpr float LOG2_E = 1.44269504088896340736f;

struct Tile {
    int first_row, rows, position;
    const int *pages;
};

struct Cache {
    const element *keys, *values;
    int kv_heads, kv_head, d;
};

/// D: d rounded up to 64, 128 or 256. HEADS: query heads of the block. KEYS: keys of a step.
template <int D, int HEADS, int KEYS> struct Prefill {
    /// 16-byte chunks of a row in shared memory.
    static constexpr int CHUNKS = D / PACK;
    /// Depths of 16 along d, and pairs of 8 columns.
    static constexpr int DEPTHS = D / 16;
    /// Columns of 8 keys that scores are made of.
    static constexpr int COLUMNS = KEYS / 8;
    static constexpr int STAGE = KEYS * D;
    /// Whether the queries fit into registers beside all else.
    static constexpr bool KEPT = HEADS == 1 && D <= 128;

    /// Depths between which the compiler may move loads: all at once would cost too many registers.
    static constexpr int UNROLLED = KEPT ? DEPTHS : 4;

    element *queries, *keys, *values;
    int d;
    float factor;
    unsigned kept[KEPT ? DEPTHS : 1][4];
    float sum[HEADS][2 * DEPTHS][4];
    /// Of the rows lane / 4 and that + 8 of the warp's sixteen.
    float greatest[HEADS][2], total[HEADS][2];

    __device__ __forceinline__ static int place(int row, int chunk) {
        return (row * CHUNKS + (chunk ^ (row & 7))) * PACK;
    }

    __device__ __forceinline__ void begin(unsigned char *shared, int head_dim, float scale) {
        queries = reinterpret_cast<element *>(shared);
        keys = queries + HEADS * TILE_ROWS * D;
        values = keys + 2 * STAGE;
        d = head_dim;
        factor = scale * LOG2_E;
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                greatest[h][i] = minus_infinity();
                total[h][i] = 0.0f;
            }
#pragma unroll
            for (int c = 0; c < 2 * DEPTHS; c++) {
                sum[h][c][0] = sum[h][c][1] = sum[h][c][2] = sum[h][c][3] = 0.0f;
            }
        }
    }

    // ---- copies to shared memory ----------------------------------------------------------------

    /// `from`: the tile's first row at the block's first head.
    __device__ __forceinline__ void copy_queries(const element *from, int rows, int heads) {
        constexpr int AT_ONCE = THREADS / CHUNKS;
        const int chunk = int(threadIdx.x) % CHUNKS, first = int(threadIdx.x) / CHUNKS;
        if (chunk * PACK >= d) {
            return;
        }
#pragma unroll
        for (int i = 0; i < HEADS * TILE_ROWS; i += AT_ONCE) {
            const int at = first + i, head = at / TILE_ROWS, row = at % TILE_ROWS;
            const bool there = row < rows;
            const long long start = (static_cast<long long>(there ? row : 0) * heads + head) * d;
            copy_async(queries + place(at, chunk), from + start + chunk * PACK, there);
        }
    }

    /// The keys and values of the positions from `first` on; zeros from `end` on.
    __device__ __forceinline__ void copy_step(const Cache &cache, const Tile &tile, int first, int end,
                                              int stage) {
        constexpr int AT_ONCE = THREADS / CHUNKS;
        const int chunk = int(threadIdx.x) % CHUNKS, lane_row = int(threadIdx.x) / CHUNKS;
        if (chunk * PACK >= d) {
            return;
        }
#pragma unroll 2
        for (int i = 0; i < KEYS; i += AT_ONCE) {
            const int row = i + lane_row, position = first + row;
            const bool there = position < end;
            const int page = tile.pages[(there ? position : 0) / PAGE_TOKENS];
            const long long head = static_cast<long long>(page) * cache.kv_heads + cache.kv_head;
            const long long start = (head * PAGE_TOKENS + position % PAGE_TOKENS) * d + chunk * PACK;
            copy_async(keys + stage * STAGE + place(row, chunk), cache.keys + start, there);
            copy_async(values + stage * STAGE + place(row, chunk), cache.values + start, there);
        }
    }

    // ---- products -------------------------------------------------------------------------------

    __device__ __forceinline__ void load_query(unsigned (&out)[4], int head, int depth) const {
        const int row = head * TILE_ROWS + warp_index() * 16 + lane_index() % 16;
        load_matrices(out, queries + place(row, depth * 2 + lane_index() / 16));
    }

    __device__ __forceinline__ void keep_queries() {
        if (KEPT) {
#pragma unroll
            for (int depth = 0; depth < DEPTHS; depth++) {
                if (depth * 16 < d) {
                    load_query(kept[depth], 0, depth);
                }
            }
        }
    }

    using Scores = float[HEADS][COLUMNS][4];

    __device__ __forceinline__ void score(Scores &scores, int stage) const {
        const element *from = keys + stage * STAGE;
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                scores[h][c][0] = scores[h][c][1] = scores[h][c][2] = scores[h][c][3] = 0.0f;
            }
        }
        const int row = lane_index() / 16 * 8 + lane_index() % 8, side = lane_index() / 8 % 2;
#pragma unroll UNROLLED
        for (int depth = 0; depth < DEPTHS; depth++) {
            if (depth * 16 >= d) {
                continue;
            }
            unsigned query[HEADS][4];
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                if (KEPT) {
                    query[h][0] = kept[depth][0], query[h][1] = kept[depth][1];
                    query[h][2] = kept[depth][2], query[h][3] = kept[depth][3];
                } else {
                    load_query(query[h], h, depth);
                }
            }
#pragma unroll
            for (int c = 0; c < COLUMNS; c += 2) {
                unsigned key[4];
                load_matrices(key, from + place(c * 8 + row, depth * 2 + side));
#pragma unroll
                for (int h = 0; h < HEADS; h++) {
                    multiply_add(scores[h][c], query[h], key[0], key[1]);
                    multiply_add(scores[h][c + 1], query[h], key[2], key[3]);
                }
            }
        }
    }

    /// Hides what lies after a row's own position. `ahead`: of the step's first key before the lane's row.
    __device__ __forceinline__ static void mask(Scores &scores, int ahead) {
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int key = c * 8 + lane_index() % 4 * 2 + i % 2;
                    scores[h][c][i] = key <= ahead + i / 2 * 8 ? scores[h][c][i] : minus_infinity();
                }
            }
        }
    }

    /// From scores to weights. Every row has seen key 0, so its greatest score is a number.
    __device__ __forceinline__ void weigh(Scores &scores) {
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            float change[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float most = greatest[h][i];
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) {
                    most = fmaxf(most, fmaxf(scores[h][c][2 * i], scores[h][c][2 * i + 1]));
                }
                most = fmaxf(most, __shfl_xor_sync(ALL_LANES, most, 1));
                most = fmaxf(most, __shfl_xor_sync(ALL_LANES, most, 2));
                change[i] = exp2_fast((greatest[h][i] - most) * factor);
                greatest[h][i] = most;
                const float base = most * factor;
                float added = 0.0f;
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) {
                    scores[h][c][2 * i] = exp2_fast(scores[h][c][2 * i] * factor - base);
                    scores[h][c][2 * i + 1] = exp2_fast(scores[h][c][2 * i + 1] * factor - base);
                    added += scores[h][c][2 * i] + scores[h][c][2 * i + 1];
                }
                total[h][i] = total[h][i] * change[i] + added;
            }
            // The greatest score soon stops changing.
            if (__any_sync(ALL_LANES, change[0] != 1.0f || change[1] != 1.0f)) {
#pragma unroll
                for (int c = 0; c < 2 * DEPTHS; c++) {
                    sum[h][c][0] *= change[0], sum[h][c][1] *= change[0];
                    sum[h][c][2] *= change[1], sum[h][c][3] *= change[1];
                }
            }
        }
    }

    __device__ __forceinline__ void add(const Scores &weights, int stage) {
        const element *from = values + stage * STAGE;
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) {
            unsigned weight[HEADS][4];
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                const auto &low = weights[h][2 * k], &high = weights[h][2 * k + 1];
                weight[h][0] = to_pair(low[0], low[1]), weight[h][1] = to_pair(low[2], low[3]);
                weight[h][2] = to_pair(high[0], high[1]), weight[h][3] = to_pair(high[2], high[3]);
            }
#pragma unroll
            for (int c = 0; c < DEPTHS; c++) {
                if (c * 16 >= d) {
                    continue;
                }
                unsigned value[4];
                load_matrices_transposed(value,
                                         from + place(k * 16 + lane_index() % 16, c * 2 + lane_index() / 16));
#pragma unroll
                for (int h = 0; h < HEADS; h++) {
                    multiply_add(sum[h][2 * c], weight[h], value[0], value[1]);
                    multiply_add(sum[h][2 * c + 1], weight[h], value[2], value[3]);
                }
            }
        }
    }

    // ---- the whole ------------------------------------------------------------------------------

    __device__ __forceinline__ void walk(const Cache &cache, const Tile &tile) {
        const int end = tile.position + tile.rows, first_row = tile.position + warp_index() * 16;
        int stage = 0;
        for (int first = 0; first < end; first += KEYS, stage ^= 1) {
            copies_wait<0>();
            __syncthreads();
            if (first == 0) {
                keep_queries();
            }
            // All have left the step before, whose room this is.
            if (first + KEYS < end) {
                copy_step(cache, tile, first + KEYS, end, stage ^ 1);
                copies_commit();
            }
            if (first > first_row + 15) {
                continue;
            }
            Scores scores;
            score(scores, stage);
            if (first + KEYS - 1 > first_row) {
                mask(scores, first_row + lane_index() / 4 - first);
            }
            weigh(scores);
            add(scores, stage);
        }
    }

    /// Through the warp's own rows of the queries' room, so that whole chunks are written.
    __device__ __forceinline__ void store(element *out, int rows, int heads) {
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            const int base = h * TILE_ROWS + warp_index() * 16;
            __syncwarp();
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float all = total[h][i];
                all += __shfl_xor_sync(ALL_LANES, all, 1);
                all += __shfl_xor_sync(ALL_LANES, all, 2);
                const float scale = 1.0f / all;
#pragma unroll
                for (int c = 0; c < 2 * DEPTHS; c++) {
                    element *to = queries + place(base + i * 8 + lane_index() / 4, c) + lane_index() % 4 * 2;
                    *reinterpret_cast<unsigned *>(to) =
                        to_pair(sum[h][c][2 * i] * scale, sum[h][c][2 * i + 1] * scale);
                }
            }
            __syncwarp();
#pragma unroll
            for (int at = 0; at < 16 * CHUNKS; at += WARP) {
                const int index = at + lane_index(), chunk = index % CHUNKS, row = index / CHUNKS;
                const int tile_row = warp_index() * 16 + row;
                if (tile_row < rows && chunk * PACK < d) {
                    const long long start = (static_cast<long long>(tile_row) * heads + h) * d;
                    *reinterpret_cast<uint4 *>(out + start + chunk * PACK) =
                        *reinterpret_cast<const uint4 *>(queries + place(base + row, chunk));
                }
            }
        }
    }

    __device__ __forceinline__ static void run(const element *q, const Cache &cache, const Tile &tile,
                                               element *out, int heads, float scale,
                                               unsigned char *shared) {
        Prefill work;
        work.begin(shared, cache.d, scale);
        const long long head = static_cast<long long>(tile.first_row) * heads + blockIdx.x * HEADS;
        const long long start = head * cache.d;
        work.copy_queries(q + start, tile.rows, heads);
        work.copy_step(cache, tile, 0, tile.position + tile.rows, 0);
        copies_commit();
        work.walk(cache, tile);
        work.store(out + start, tile.rows, heads);
    }
};

__device__ __forceinline__ Tile own_tile(const int *tiles, const int *pages) {
    const int *tile = tiles + (gridDim.y - 1 - blockIdx.y) * 4;
    return {tile[0], tile[1], tile[2], pages + tile[3]};
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_prefill(const element *q, const element *keys, const element *values, const int *pages,
                      const int *tiles, element *out, int heads, int kv_heads, int d, float scale) {
    DYNAMIC_SHARED(shared);
    allow_next_kernel();
    wait_for_earlier_kernels();
    const Tile tile = own_tile(tiles, pages);
    if (tile.rows == 0) {
        return;
    }
    const Cache cache = {keys, values, kv_heads, int(blockIdx.x) / (heads / kv_heads), d};
    if (d <= 64) {
        Prefill<64, 1, 64>::run(q, cache, tile, out, heads, scale, shared);
    } else if (d <= 128) {
        Prefill<128, 1, 64>::run(q, cache, tile, out, heads, scale, shared);
    } else {
        Prefill<256, 1, 32>::run(q, cache, tile, out, heads, scale, shared);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_prefill_2(const element *q, const element *keys, const element *values, const int *pages,
                        const int *tiles, element *out, int heads, int kv_heads, int d, float scale) {
    DYNAMIC_SHARED(shared);
    allow_next_kernel();
    wait_for_earlier_kernels();
    const Tile tile = own_tile(tiles, pages);
    if (tile.rows == 0) {
        return;
    }
    const Cache cache = {keys, values, kv_heads, int(blockIdx.x) * 2 / (heads / kv_heads), d};
    if (d <= 64) {
        Prefill<64, 2, 32>::run(q, cache, tile, out, heads, scale, shared);
    } else {
        Prefill<128, 2, 32>::run(q, cache, tile, out, heads, scale, shared);
    }
}

#endif
