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
// pages      the sequences' page lists, int
// splits     [splits, 8] int: who does what. Row, or -1 for nothing; its position; where its page list begins in pages;
//            its gap: page index p (position / 16) is the list's entry p below ceil(sink / 16), else its entry
//            p - gap; the part of the row's keys, of how many, and the number of the split with the row's first part,
//            behind which its others follow. The parts are of equal size but for the last, in multiples of 16 keys.
// out        [n, heads, d] element; rows without a split are left as they are
// partial    [splits, heads, d] f32, sums not yet divided; partial_ml [splits, heads, 2] f32: the greatest score
//            times log2(e), and the sum of exponentials relative to it (0: no keys, and the split's partial is not
//            written); arrived [n, kv_heads * ceil(group / H)] int, 0 before and after. All three for the joining of
//            rows with several parts, else they are not touched
// launch     grid = (kv_heads * ceil(group / H), splits), block = 256, dynamic shared = 0 bytes
// supported  d a multiple of 16 up to 256, any group, 1 to 64 parts a row, up to 65,535 splits
// bottleneck memory bandwidth: keys and values are read once for all query heads of a key head. Which row is
//            divided into how many parts is the host's choice for each step (splits.rs), so that one launch gives
//            every multiprocessor its share of contexts that differ.
#include "attention_block.cuh"

struct Queries {
    static constexpr bool MAKES_OWN = false;
    const element *q, *q_sink;

    int heads;

    __device__ __forceinline__ Queries of(const Block &block) const {
        const long long row = block.index, start = (row * heads + block.place.head) * block.row.d;
        return {q + start, q_sink + start, heads};
    }

    template <int H, int LANES, int PACKS>
    __device__ __forceinline__ void load_queries(const Block &block, Team<H, LANES, PACKS> &team, bool is_far) const {
        const int d = block.row.d;
        const element *const from = is_far ? q_sink : q;
#pragma unroll
        for (int h = 0; h < H; h++) {
#pragma unroll
            for (int p = 0; p < PACKS; p++) {
                const int column = team.column(p);
                float values[PACK];
                unpack(load_written_if(h < block.place.count && column < d, from + h * d + column), values);
#pragma unroll
                for (int i = 0; i < PACK; i++) {
                    team.q[h][p * PACK + i] = values[i] * (block.scale * LOG2_E);
                }
            }
        }
    }
};

#define ATTENTION_ROWS(H, RESIDENT)                                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) attention_rows_##H(                   \
        const element *q, const element *q_sink, const element *keys, const element *values,              \
        const int *pages, const Split *splits, float *partial, float *partial_ml, int *arrived,           \
        element *out, int heads, int kv_heads, int d, float scale, int sink, int window) {                \
        attend_row<H>(Queries{q, q_sink, heads}, keys, values, pages, splits, partial, partial_ml,        \
                      arrived, out, heads, kv_heads, d, scale, sink, window);                             \
    }

ATTENTION_ROWS(1, 2)
ATTENTION_ROWS(2, 2)
ATTENTION_ROWS(4, 1)
ATTENTION_ROWS(8, 1)
