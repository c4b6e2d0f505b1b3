// Attention of single rows over paged keys and values that hold the rows' own: prompts of windowed and of f32
// models, and rows that decode beside a prompt. The context is split over blocks, the last of which joins them.
//
// formula    out[i, h] = sum over seen j of p[j] v[j], p = softmax over seen j of scale * q[i, h] . k[j]
//            Row i at position p sees 0 ..= p; where window > 0 and p >= sink + window, it sees [0, sink)
//            with q_sink and (p - window, p] with q.
// entries    attention_rows_1, _2, _4, _8: the number H is how many of a key head's query heads a block
//            computes at once; take the least that is not below the group (= heads / kv_heads), or 8
// q          [n, heads, d] element
// q_sink     like q; may be null where sink = 0 or window = 0
// keys, values  the layer's cache, [pages, kv_heads, 16, d] element
// pages      the sequences' page lists, int; row i's begins at pages[first_page[i]]. Page index p (position
//            / 16) is its entry p below ceil(sink / 16), else its entry p - gaps[i]
// first_page, gaps, positions  [n] int
// out        [n, heads, d] element
// partial    [n, heads, splits, d] f32, sums not yet divided; partial_ml [n, heads, splits, 2] f32: the
//            greatest score times log2(e), and the sum of exponentials relative to it (0: no keys, and the
//            split's partial is not written); arrived [n, kv_heads * ceil(group / H)] int, 0 before and after.
//            All three for the joining of splits > 1, else they may be null
// launch     grid = (kv_heads * ceil(group / H), splits, n), block = 256, dynamic shared = 0 bytes
// supported  d a multiple of 16 up to 256, any group, 1 to 64 splits, n up to 65,535
// bottleneck memory bandwidth: keys and values are read once for all query heads of a key head. The keys
//            in sight are divided over the splits from the position alone, in multiples of 16: one launch
//            serves every length.
#include "attention_join.cuh"

/// `count` heads from `from` on; scores come out in powers of two.
template <int H, int LANES, int PACKS>
__device__ __forceinline__ void load_queries(Team<H, LANES, PACKS> &team, const element *from, int count,
                                             int d, float scale) {
#pragma unroll
    for (int h = 0; h < H; h++) {
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            const int column = team.column(p);
            float values[PACK];
            unpack(load_written_if(h < count && column < d, from + h * d + column), values);
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                team.q[h][p * PACK + i] = values[i] * (scale * LOG2_E);
            }
        }
    }
}

template <int H, int LANES, int PACKS>
__device__ __forceinline__ void run(const Row &row, const Results &results, const element *q,
                                    const element *q_sink, const Sight &sight, float scale,
                                    const Joint &joint) {
    const Share share = share_of(sight, results.split, results.splits);
    if (share.first >= share.end) {
        wait_for_earlier_kernels();
        finish_empty(results);
        return;
    }
    Team<H, LANES, PACKS> team;
    typename Team<H, LANES, PACKS>::Flight flight;
    const int near = share.first > sight.sink ? share.first : sight.sink;
    const bool sees_sink = share.first < sight.sink;
    // Eight heads leave no registers for pages that are known so early.
    const bool is_known = H < 8 && !sees_sink;
    if (is_known) {
        team.find(row, flight, near, share.end, sight.skip);
    }
    wait_for_earlier_kernels();
    team.begin();
    if (sees_sink) {
        const int until = share.end < sight.sink ? share.end : sight.sink;
        load_queries(team, q_sink, results.count, row.d, scale);
        team.find(row, flight, share.first, until, 0);
        team.depart(row, flight, share.first, until, 0);
        team.attend(row, flight, share.first, until, 0);
    }
    if (share.end > sight.sink) {
        load_queries(team, q, results.count, row.d, scale);
        if (!is_known) {
            team.find(row, flight, near, share.end, sight.skip);
        }
        team.depart(row, flight, near, share.end, sight.skip);
        team.attend(row, flight, near, share.end, sight.skip);
    }
    finish(team, results, joint);
}

template <int H>
__device__ __forceinline__ void attend_row(const element *q, const element *q_sink, const element *keys,
                                           const element *values, const int *pages, const int *first_page,
                                           const int *gaps, const int *positions, float *partial,
                                           float *partial_ml, int *arrived, element *out, int n, int heads,
                                           int kv_heads, int d, float scale, int sink, int window,
                                           int splits) {
    allow_next_kernel();
    // Of a step's integers, which are copied here ahead of all its kernels, much is read before what earlier
    // kernels write: `run` waits for those.
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
    const element *own = q + results.head * d, *far = q_sink ? q_sink + results.head * d : own;
    const int bytes = d * int(sizeof(element));
    if (bytes <= 128) {
        run<H, 8, 1>(row, results, own, far, sight, scale, joint);
    } else if (bytes <= 256) {
        run<H, 16, 1>(row, results, own, far, sight, scale, joint);
    } else if (bytes <= 512) {
        run<H, 32, 1>(row, results, own, far, sight, scale, joint);
    } else {
#if ELEMENT == 2
        run<H, 32, 2>(row, results, own, far, sight, scale, joint);
#endif
    }
    if (splits > 1 && is_last(results)) {
        join_blocks(results, joint);
    }
}

#define ATTENTION_ROWS(H, RESIDENT)                                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) attention_rows_##H(                   \
        const element *q, const element *q_sink, const element *keys, const element *values,              \
        const int *pages, const int *first_page, const int *gaps, const int *positions, float *partial,   \
        float *partial_ml, int *arrived, element *out, int n, int heads, int kv_heads, int d,             \
        float scale, int sink, int window, int splits) {                                                  \
        attend_row<H>(q, q_sink, keys, values, pages, first_page, gaps, positions, partial, partial_ml,   \
                      arrived, out, n, heads, kv_heads, d, scale, sink, window, splits);                  \
    }

ATTENTION_ROWS(1, 2)
ATTENTION_ROWS(2, 2)
ATTENTION_ROWS(4, 1)
ATTENTION_ROWS(8, 1)
