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
// pages, first_page, gaps, positions, out, partial, partial_ml, arrived  as in attention_rows.cu
// launch     grid = (kv_heads * ceil(group / H), splits, n), block = 256, dynamic shared = 0 bytes
// supported  d a multiple of 16 up to 256, any group, 1 to 64 splits, n up to 65,535; no two rows of one sequence
// bottleneck latency at short contexts, else memory bandwidth. What is cached was written by earlier steps, which a
//            copy parts from this one (Step::write): the first keys and values are under way once a
//            multiprocessor has finished its own blocks of the projection ahead.
#include "attention_join.cuh"
#include "rope.cuh"

/// What the projection gave a row.
struct Projected {
    /// The block's first query head; its key head; its value head.
    const float *queries, *key, *value;
    const float *q_norm, *k_norm, *angle, *sink_angle;
    float eps;
    /// The caches, where this block is the one that writes the row's key and value.
    element *keys, *values;
};

/// What is made of it, in shared memory until the warps are joined.
struct Made {
    /// [count, d]; under the sink's angle; [d] twice.
    float *queries, *sink_queries, *key, *value;

    __device__ __forceinline__ static Made within(float *room, int count, int d) {
        return {room, room + count * d, room + 2 * count * d, room + (2 * count + 1) * d};
    }
};

/// A warp makes a head, the queries before the own key and the value, those only where `own` is not negative: the
/// position that they are stored at. All may be read after it.
__device__ __forceinline__ void make(const Row &row, const Projected &projected, const Made &made, int count,
                                     int own, bool sees_sink) {
    const int d = row.d, half = d / 2, tasks = own < 0 ? count : count + 2;
    for (int task = warp_index(); task < tasks; task += WARPS) {
        const bool is_query = task < count, is_value = task == count + 1;
        Pairs head, norm, angle;
        head.load(is_query ? projected.queries + task * d : is_value ? projected.value : projected.key, half);
        element *const cache = is_value ? projected.values : is_query ? nullptr : projected.keys;
        if (!is_value) {
            norm.load(is_query ? projected.q_norm : projected.k_norm, half);
            angle.load(projected.angle, half);
            head.norm(norm, projected.eps, d);
            if (is_query && sees_sink) {
                Pairs sink;
                sink.load(projected.sink_angle, half);
                turned(head, sink).store_floats(made.sink_queries + task * d, half);
            }
            head = turned(head, angle);
        }
        head.store_floats(is_query ? made.queries + task * d : is_value ? made.value : made.key, half);
        if (cache) {
            head.store(cache + row.start_of(row.page_of(own), own), half);
        }
    }
    __syncthreads();
}

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

template <int H, int LANES, int PACKS> struct Decode {
    using T = Team<H, LANES, PACKS>;
    T team;
    typename T::Flight flight;

    __device__ __forceinline__ void run(const Row &row, const Projected &projected, const Results &results,
                                        const Sight &sight, float scale, const Joint &joint) {
        const Share share = share_of(sight, results.split, results.splits);
        if (share.first >= share.end) {
            wait_for_earlier_kernels();
            finish_empty(results);
            return;
        }
        // The greatest number is the row's own, which is not in the cache.
        const bool has_own = share.end == sight.count;
        const int end = has_own ? share.end - 1 : share.end;
        const int near = share.first > sight.sink ? share.first : sight.sink;
        const bool sees_sink = share.first < sight.sink;
        // Eight heads leave no registers for loads that are under way so early.
        const bool is_early = H < 8 && !sees_sink;
        if (is_early) {
            depart(row, near, end, sight.skip);
        }
        if (int(threadIdx.x) * 8 < row.d) {
            fetch_into_l2(projected.q_norm + threadIdx.x * 8);
            fetch_into_l2(projected.k_norm + threadIdx.x * 8);
        }
        wait_for_earlier_kernels();
        const Made made = Made::within(joint.sums, results.count, row.d);
        make(row, projected, made, results.count, has_own ? sight.count - 1 + sight.skip : -1, sees_sink);
        team.begin();
        if (sees_sink) {
            const int until = end < sight.sink ? end : sight.sink;
            take_queries(made.sink_queries, results.count, row.d, scale);
            depart(row, share.first, until, 0);
            team.attend(row, flight, share.first, until, 0);
        }
        if (share.end > sight.sink) {
            take_queries(made.queries, results.count, row.d, scale);
            if (has_own && warp_index() == 0) {
                take_own(made, row.d);
            }
            if (!is_early) {
                depart(row, near, end, sight.skip);
            }
            team.attend(row, flight, near, end, sight.skip);
        }
        finish(team, results, joint);
    }

  private:
    __device__ __forceinline__ void depart(const Row &row, int first, int end, int skip) {
        team.find(row, flight, first, end, skip);
        team.depart(row, flight, first, end, skip);
    }

    __device__ __forceinline__ static void take(const float *from, int d, float scale, float (&to)[T::WIDTH]) {
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            const int column = T::column(p);
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                to[p * PACK + i] = column < d ? from[column + i] * scale : 0.0f;
            }
        }
    }

    __device__ __forceinline__ void take_queries(const float *from, int count, int d, float scale) {
#pragma unroll
        for (int h = 0; h < H; h++) {
            take(from + h * d, h < count ? d : 0, scale * LOG2_E, team.q[h]);
        }
    }

    /// By one warp, of whose teams one counts: as the only key of a turn, rounded as the cache has it.
    __device__ __forceinline__ void take_own(const Made &made, int d) {
        uint4 key[1][PACKS], value[1][PACKS];
        float numbers[T::WIDTH];
        take(made.key, d, 1.0f, numbers);
        pack_floats(numbers, key[0]);
        take(made.value, d, 1.0f, numbers);
        pack_floats(numbers, value[0]);
        float scores[1][H];
        team.score(key, scores, 0, 1);
        team.weigh(scores);
        team.add(value, scores);
    }
};

template <int H>
__device__ __forceinline__ void
decode_row(const float *qkv, const float *q_norm, const float *k_norm, float eps, const float *cos_sin,
           const float *sink_cos_sin, element *keys, element *values, const int *pages,
           const int *first_page, const int *gaps, const int *positions, float *partial, float *partial_ml,
           int *arrived, element *out, int n, int heads, int kv_heads, int d, float scale, int sink,
           int window, int splits) {
    allow_next_kernel();
    // Of a step's integers, which are copied here ahead of all its kernels, of weights and of what is cached much
    // is read before what earlier kernels write: `run` waits for those.
    const int index = int(blockIdx.z);
    if (index >= n) {
        wait_for_earlier_kernels();
        return;
    }
    const Place place = Place::of_block<H>(heads, kv_heads);
    const Row row = {keys, values, pages + first_page[index], kv_heads, place.kv_head, d, gaps[index],
                     divided_up(sink, PAGE_TOKENS)};
    const Results results = results_of(place, partial, partial_ml, arrived, out, heads, d, splits);
    JOINT(H, joint);
    const Sight sight = sight_of(positions[index], sink, window);
    const long long all = heads + 2 * kv_heads;
    const float *from = qkv + index * all * d;
    const bool writes = place.part == 0;
    const Projected projected = {from + place.head * d,
                                 from + (heads + place.kv_head) * d,
                                 from + (heads + kv_heads + place.kv_head) * d,
                                 q_norm,
                                 k_norm,
                                 cos_sin + static_cast<long long>(index) * d,
                                 sink_cos_sin,
                                 eps,
                                 writes ? keys : nullptr,
                                 writes ? values : nullptr};
    const int bytes = d * int(sizeof(element));
    if (bytes <= 128) {
        Decode<H, 8, 1>().run(row, projected, results, sight, scale, joint);
    } else if (bytes <= 256) {
        Decode<H, 16, 1>().run(row, projected, results, sight, scale, joint);
    } else if (bytes <= 512) {
        Decode<H, 32, 1>().run(row, projected, results, sight, scale, joint);
    } else {
#if ELEMENT == 2
        Decode<H, 32, 2>().run(row, projected, results, sight, scale, joint);
#endif
    }
    if (splits > 1 && is_last(results)) {
        join_blocks(results, joint);
    }
}

#define ATTENTION_DECODE(H, RESIDENT)                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) attention_decode_##H(                 \
        const float *qkv, const float *q_norm, const float *k_norm, float eps, const float *cos_sin,      \
        const float *sink_cos_sin, element *keys, element *values, const int *pages,                      \
        const int *first_page, const int *gaps, const int *positions, float *partial, float *partial_ml,  \
        int *arrived, element *out, int n, int heads, int kv_heads, int d, float scale, int sink,         \
        int window, int splits) {                                                                         \
        decode_row<H>(qkv, q_norm, k_norm, eps, cos_sin, sink_cos_sin, keys, values, pages, first_page,   \
                      gaps, positions, partial, partial_ml, arrived, out, n, heads, kv_heads, d, scale,   \
                      sink, window, splits);                                                              \
    }

ATTENTION_DECODE(1, 2)
ATTENTION_DECODE(2, 2)
ATTENTION_DECODE(4, 1)
ATTENTION_DECODE(8, 1)
