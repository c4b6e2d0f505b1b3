// Attention of rows that decode, each its sequence's newest: what qkv_epilogue and attention_rows do, in one. Norm
// and RoPE of the queries and of the row's own key, attention over the keys in the cache and that one, and the
// write of it into the cache, where no block of this kernel reads it.
//
// formula    qkv_epilogue.cu's for q and k, attention_rows.cu's over them; q is not rounded in between
// entries    attention_decode_1, _2, _4, _8: as attention_rows_H
// qkv        [n, (heads + 2 kv_heads) * d] f32: q heads, k heads, v heads
// q_norm, k_norm  [d] f32
// cos_sin    [n, 2, d / 2] f32; sink_cos_sin [2, d / 2] f32, the angle under which far rows see a window's sink; may be
//            null where sink = 0 or window = 0
// keys, values  the layer's cache, [pages, kv_heads, 16, d] element; of each row's sequence all that it sees but its
//            own position, which is written
// pages, splits, out, partial, partial_ml, arrived  as in attention_rows.cu
// launch     grid = (kv_heads * ceil(group / H), splits), block = 256, dynamic shared = 0 bytes
// supported  d a multiple of 16 up to 256, any group, 1 to 64 parts a row, up to 65,535 splits; no two rows of one
//            sequence
// bottleneck latency at short contexts, else memory bandwidth. What is cached was written by earlier steps, which a
//            copy parts from this one (Step::write): the first keys and values are under way once a
//            multiprocessor has finished its own blocks of the projection ahead.
#include "attention_block.cuh"
#include "rope.cuh"

template <int PACKS, int WIDTH>
__device__ __forceinline__ void pack_floats(const float (&from)[WIDTH], uint4 (&to)[PACKS]) {
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        float values[PACK];
#pragma unroll
        for (int i = 0; i < PACK; i++) {
            values[i] = from[p * PACK + i];
        }
        to[p] = pack(values);
    }
}

/// What is made of a projected row, in shared memory until the warps are joined.
struct Made {
    /// [count, d]; under the sink's angle; [d] twice.
    float *queries, *sink_queries, *key, *value;

    __device__ __forceinline__ static Made of(const Block &block) {
        const int d = block.row.d, count = block.place.count;
        float *const room = block.joint.sums;
        return {room, room + count * d, room + 2 * count * d, room + (2 * count + 1) * d};
    }
};

/// What the projection gave a row.
struct Projected {
    static constexpr bool MAKES_OWN = true;
    /// The block's first query head; its key head; its value head.
    const float *queries, *key, *value;
    const float *q_norm, *k_norm, *angle, *sink_angle;
    float eps;
    /// The caches, where this block is the one that writes the row's key and value.
    element *keys, *values;

    __device__ __forceinline__ void fetch(const Block &block) const {
        const int at = int(threadIdx.x) * 8;
        if (at < block.row.d) {
            fetch_into_l2(q_norm + at);
            fetch_into_l2(k_norm + at);
        }
    }

    /// A warp makes a head, the queries before the own key and the value. All may be read after it.
    __device__ __forceinline__ void make(const Block &block, int own, bool sees_sink) const {
        const Row &row = block.row;
        const Made made = Made::of(block);
        const int d = row.d, half = d / 2, count = block.place.count, tasks = own < 0 ? count : count + 2;
        for (int task = warp_index(); task < tasks; task += WARPS) {
            const bool is_query = task < count, is_value = task == count + 1;
            Pairs head, norm, turn;
            head.load(is_query ? queries + task * d : is_value ? value : key, half);
            element *const cache = is_value ? values : is_query ? nullptr : keys;
            if (!is_value) {
                norm.load(is_query ? q_norm : k_norm, half);
                turn.load(angle, half);
                head.norm(norm, eps, d);
                if (is_query && sees_sink) {
                    Pairs sink;
                    sink.load(sink_angle, half);
                    turned(head, sink).store_floats(made.sink_queries + task * d, half);
                }
                head = turned(head, turn);
            }
            head.store_floats(is_query ? made.queries + task * d : is_value ? made.value : made.key, half);
            if (cache) {
                head.store(cache + row.start_of(row.page_of(own), own), half);
            }
        }
        __syncthreads();
    }

    template <int H, int LANES, int PACKS>
    __device__ __forceinline__ void load_queries(const Block &block, Team<H, LANES, PACKS> &team, bool is_far) const {
        const Made made = Made::of(block);
        const int d = block.row.d;
        const float *const from = is_far ? made.sink_queries : made.queries;
#pragma unroll
        for (int h = 0; h < H; h++) {
            take(team, from + h * d, h < block.place.count ? d : 0, block.scale * LOG2_E, team.q[h]);
        }
    }

    /// By one warp, of whose teams one counts: as the only key of a turn, rounded as the cache has it.
    template <int H, int LANES, int PACKS>
    __device__ __forceinline__ void take_own(const Block &block, Team<H, LANES, PACKS> &team) const {
        const Made made = Made::of(block);
        uint4 key[1][PACKS], value[1][PACKS];
        float numbers[PACKS * PACK];
        take(team, made.key, block.row.d, 1.0f, numbers);
        pack_floats(numbers, key[0]);
        take(team, made.value, block.row.d, 1.0f, numbers);
        pack_floats(numbers, value[0]);
        float scores[1][H];
        team.score(key, scores, 0, 1);
        team.weigh(scores);
        team.add(value, scores);
    }

  private:
    /// A lane's part of a head of `d` numbers.
    template <int H, int LANES, int PACKS>
    __device__ __forceinline__ static void take(const Team<H, LANES, PACKS> &team, const float *from, int d,
                                                float scale, float (&to)[PACKS * PACK]) {
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            const int column = team.column(p);
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                to[p * PACK + i] = column < d ? from[column + i] * scale : 0.0f;
            }
        }
    }
};

/// The kernel's arguments that have to do with it.
struct Projection {
    const float *qkv, *q_norm, *k_norm;
    float eps;
    const float *cos_sin, *sink_cos_sin;
    element *keys, *values;
    int heads;

    __device__ __forceinline__ Projected of(const Block &block) const {
        const Place &place = block.place;
        const int d = block.row.d, kv_heads = block.row.kv_heads;
        const long long index = block.index, all = heads + 2 * kv_heads;
        const float *from = qkv + index * all * d;
        const bool writes = place.share == 0;
        return {from + place.head * d,
                from + (heads + place.kv_head) * d,
                from + (heads + kv_heads + place.kv_head) * d,
                q_norm,
                k_norm,
                cos_sin + index * d,
                sink_cos_sin,
                eps,
                writes ? keys : nullptr,
                writes ? values : nullptr};
    }
};

#define ATTENTION_DECODE(H, RESIDENT)                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) attention_decode_##H(                 \
        const float *qkv, const float *q_norm, const float *k_norm, float eps, const float *cos_sin,      \
        const float *sink_cos_sin, element *keys, element *values, const int *pages, const Split *splits, \
        float *partial, float *partial_ml, int *arrived, element *out, int heads, int kv_heads, int d,    \
        float scale, int sink, int window) {                                                              \
        const Projection from = {qkv, q_norm, k_norm, eps, cos_sin, sink_cos_sin, keys, values, heads};   \
        attend_row<H>(from, keys, values, pages, splits, partial, partial_ml, arrived, out, heads,        \
                      kv_heads, d, scale, sink, window);                                                  \
    }

ATTENTION_DECODE(1, 2)
ATTENTION_DECODE(2, 2)
ATTENTION_DECODE(4, 1)
ATTENTION_DECODE(8, 1)
