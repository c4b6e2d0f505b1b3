// Attention of single rows over paged keys and values: decoding, windows, f32 models. The context is split
// over blocks, whose parts attention_reduce joins.
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
// out        [n, heads, d] element; written if splits = 1
// partial    [n, heads, splits, d] f32, sums not yet divided; partial_ml [n, heads, splits, 2] f32: the
//            greatest score times log2(e), and the sum of exponentials relative to it (0: no keys, and the
//            split's partial is not written). Written if splits > 1, else may be null
// launch     attention_rows_H: grid = (kv_heads * ceil(group / H), splits, n), block = 256,
//                              dynamic shared = 0 bytes
//            attention_reduce: grid = (heads, n), block = 128, dynamic shared = 0 bytes
// supported  d a multiple of 16 up to 256, any group, 1 to 64 splits, n up to 65,535
// bottleneck memory bandwidth: keys and values are read once for all query heads of a key head. The keys
//            in sight are divided over the splits from the position alone, in multiples of 16: one launch
//            serves every length.
#include "common.cuh"

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / WARP;
/// Numbers of each warp's sums that the block joins at once.
constexpr int JOINED = 1024;
constexpr float LOG2_E = 1.44269504088896340736f;

/// What stays the same for all keys of a block.
struct Row {
    const element *keys, *values;
    const int *pages;
    int kv_heads, kv_head, d, gap, sink_pages;

    /// The page that holds a position.
    __device__ __forceinline__ int page_of(int position) const {
        const int index = position / PAGE_TOKENS;
        return pages[index < sink_pages ? index : index - gap];
    }

    /// Where a position's key and value stand in the cache.
    __device__ __forceinline__ long long start_of(int page, int position) const {
        const long long head = static_cast<long long>(page) * kv_heads + kv_head;
        return (head * PAGE_TOKENS + position % PAGE_TOKENS) * d;
    }
};

/// A key is read by a team of LANES lanes, PACKS times 16 bytes each; a warp holds 32 / LANES teams. Each
/// team keeps its own running softmax of H query heads.
template <int H, int LANES, int PACKS> struct Team {
    static constexpr int WIDTH = PACKS * PACK;
    static constexpr int TEAMS = WARP / LANES;
    /// Keys that a team has under way: as many as the registers allow.
    static constexpr int DEPTH = PACKS == 2 ? 2 : H == 8 ? 3 : 4;
    /// Keys that a warp takes in one turn.
    static constexpr int TURN = DEPTH * TEAMS;

    float q[H][WIDTH], sum[H][WIDTH], greatest[H], total[H];

    __device__ __forceinline__ static int lane() { return lane_index() % LANES; }
    __device__ __forceinline__ static int team() { return lane_index() / LANES; }
    __device__ __forceinline__ static int column(int pack) { return (lane() + pack * LANES) * PACK; }

    __device__ __forceinline__ void begin() {
#pragma unroll
        for (int h = 0; h < H; h++) {
            greatest[h] = minus_infinity();
            total[h] = 0.0f;
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                sum[h][i] = 0.0f;
            }
        }
    }

    /// `count` heads from `from` on; scores come out in powers of two.
    __device__ __forceinline__ void load_queries(const element *from, int count, int d, float scale) {
#pragma unroll
        for (int h = 0; h < H; h++) {
#pragma unroll
            for (int p = 0; p < PACKS; p++) {
                const bool there = h < count && column(p) < d;
                float values[PACK];
                unpack(load_written_if(there, from + h * d + column(p)), values);
#pragma unroll
                for (int i = 0; i < PACK; i++) {
                    q[h][p * PACK + i] = values[i] * (scale * LOG2_E);
                }
            }
        }
    }

    using Packs = uint4[DEPTH][PACKS];

    /// Where a warp begins among keys from `first` on.
    __device__ __forceinline__ static int begin_at(int first) { return first + warp_index() * TURN; }

    /// The keys numbered first .. end, each at the position of its number plus `skip`. A turn's keys make
    /// room for the next turn's as soon as they are used, and so do its values: loads are always under way.
    /// `page`: what was looked up of the first turn.
    __device__ __forceinline__ void attend(const Row &row, int (&page)[DEPTH], int first, int end, int skip) {
        constexpr int STEP = WARPS * TURN;
        Packs keys, values;
        int base = begin_at(first);
        load(row, row.keys, page, keys, base, end, skip);
        load(row, row.values, page, values, base, end, skip);
        look_up(row, page, base + STEP, end, skip);
        for (; base < end; base += STEP) {
            float scores[DEPTH][H];
            score(keys, scores, base, end);
            load(row, row.keys, page, keys, base + STEP, end, skip);
            weigh(scores);
            add(values, scores);
            load(row, row.values, page, values, base + STEP, end, skip);
            look_up(row, page, base + 2 * STEP, end, skip);
        }
    }

    /// The number of the team's key u in the turn from `base` on.
    __device__ __forceinline__ static int key(int base, int u) { return base + u * TEAMS + team(); }

    __device__ __forceinline__ static void look_up(const Row &row, int (&page)[DEPTH], int base, int end,
                                                   int skip) {
#pragma unroll
        for (int u = 0; u < DEPTH; u++) {
            page[u] = key(base, u) < end ? row.page_of(key(base, u) + skip) : 0;
        }
    }

    __device__ __forceinline__ static void load(const Row &row, const element *cache,
                                                const int (&page)[DEPTH], Packs &packs, int base, int end,
                                                int skip) {
#pragma unroll
        for (int u = 0; u < DEPTH; u++) {
            const long long start = row.start_of(page[u], key(base, u) + skip);
#pragma unroll
            for (int p = 0; p < PACKS; p++) {
                const bool there = key(base, u) < end && column(p) < row.d;
                packs[u][p] = load_written_if(there, cache + start + column(p));
            }
        }
    }

    __device__ __forceinline__ void score(const Packs &keys, float (&scores)[DEPTH][H], int base,
                                          int end) const {
#pragma unroll
        for (int u = 0; u < DEPTH; u++) {
            float wide[WIDTH];
            widen(keys[u], wide);
#pragma unroll
            for (int h = 0; h < H; h++) {
                scores[u][h] = 0.0f;
#pragma unroll
                for (int i = 0; i < WIDTH; i++) {
                    scores[u][h] += q[h][i] * wide[i];
                }
            }
        }
#pragma unroll
        for (int step = LANES / 2; step > 0; step /= 2) {
#pragma unroll
            for (int u = 0; u < DEPTH; u++) {
#pragma unroll
                for (int h = 0; h < H; h++) {
                    scores[u][h] += __shfl_xor_sync(ALL_LANES, scores[u][h], step);
                }
            }
        }
#pragma unroll
        for (int u = 0; u < DEPTH; u++) {
#pragma unroll
            for (int h = 0; h < H; h++) {
                scores[u][h] = key(base, u) < end ? scores[u][h] : minus_infinity();
            }
        }
    }

    __device__ __forceinline__ void add(const Packs &values, const float (&weights)[DEPTH][H]) {
#pragma unroll
        for (int u = 0; u < DEPTH; u++) {
            float wide[WIDTH];
            widen(values[u], wide);
#pragma unroll
            for (int h = 0; h < H; h++) {
#pragma unroll
                for (int i = 0; i < WIDTH; i++) {
                    sum[h][i] += weights[u][h] * wide[i];
                }
            }
        }
    }

    /// From scores to weights, and what was summed so far to the new greatest score.
    __device__ __forceinline__ void weigh(float (&scores)[DEPTH][H]) {
#pragma unroll
        for (int h = 0; h < H; h++) {
            float most = greatest[h];
#pragma unroll
            for (int u = 0; u < DEPTH; u++) {
                most = fmaxf(most, scores[u][h]);
            }
            const float base = finite_or_zero(most), change = exp2_fast(greatest[h] - base);
            greatest[h] = most;
            total[h] *= change;
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                sum[h][i] *= change;
            }
#pragma unroll
            for (int u = 0; u < DEPTH; u++) {
                scores[u][h] = exp2_fast(scores[u][h] - base);
                total[h] += scores[u][h];
            }
        }
    }

    /// So that minus infinity less the greatest score is never NaN.
    __device__ __forceinline__ static float finite_or_zero(float most) {
        return most == minus_infinity() ? 0.0f : most;
    }

    __device__ __forceinline__ static void widen(const uint4 (&packs)[PACKS], float (&out)[WIDTH]) {
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            float values[PACK];
            unpack(packs[p], values);
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                out[p * PACK + i] = values[i];
            }
        }
    }

    /// Every team of the warp gets what all of them have.
    __device__ __forceinline__ void join_teams() {
#pragma unroll
        for (int step = LANES; step < WARP; step *= 2) {
#pragma unroll
            for (int h = 0; h < H; h++) {
                const float other = __shfl_xor_sync(ALL_LANES, greatest[h], step);
                const float most = fmaxf(greatest[h], other), base = finite_or_zero(most);
                const float own = exp2_fast(greatest[h] - base), its = exp2_fast(other - base);
                greatest[h] = most;
                total[h] = total[h] * own + __shfl_xor_sync(ALL_LANES, total[h], step) * its;
#pragma unroll
                for (int i = 0; i < WIDTH; i++) {
                    sum[h][i] = sum[h][i] * own + __shfl_xor_sync(ALL_LANES, sum[h][i], step) * its;
                }
            }
        }
    }
};

/// Where a block's results go.
struct Results {
    float *partial, *partial_ml;
    element *out;
    /// Of the first head: row * heads + head.
    long long head;
    int count, d, split, splits;

    __device__ __forceinline__ void store_weights(int h, float greatest, float total) const {
        if (splits > 1 && h < count) {
            float *to = partial_ml + ((head + h) * splits + split) * 2;
            to[0] = greatest, to[1] = total;
        }
    }

    __device__ __forceinline__ void store(int h, int column, float sum, float total) const {
        if (splits > 1) {
            partial[((head + h) * splits + split) * d + column] = sum;
        } else {
            out[(head + h) * d + column] = to_element(sum / total);
        }
    }
};

/// Shared memory that the warps are joined in.
struct Joint {
    /// [WARPS, JOINED], [WARPS, H] twice, [H].
    float *sums, *factors, *weights, *totals;
};

/// Joins the warps in their order and stores.
template <int H, int LANES, int PACKS>
__device__ __forceinline__ void finish(Team<H, LANES, PACKS> &team, const Results &results,
                                       const Joint &joint) {
    constexpr int WIDTH = LANES * PACKS * PACK;
    constexpr int AT_ONCE = JOINED / WIDTH < H ? JOINED / WIDTH : H;
    float *const sums = joint.sums, *const factors = joint.factors, *const weights = joint.weights,
                 *const totals = joint.totals;
    const int warp = warp_index(), thread = int(threadIdx.x);
    team.join_teams();
    if (lane_index() == 0) {
#pragma unroll
        for (int h = 0; h < H; h++) {
            factors[warp * H + h] = team.greatest[h];
            weights[warp * H + h] = team.total[h];
        }
    }
    __syncthreads();
    if (thread < H) {
        float most = minus_infinity(), total = 0.0f;
        for (int w = 0; w < WARPS; w++) {
            most = fmaxf(most, factors[w * H + thread]);
        }
        for (int w = 0; w < WARPS; w++) {
            const float factor = exp2_fast(factors[w * H + thread] - team.finite_or_zero(most));
            factors[w * H + thread] = factor;
            total += factor * weights[w * H + thread];
        }
        totals[thread] = total;
        results.store_weights(thread, most, total);
    }
#pragma unroll
    for (int from = 0; from < H; from += AT_ONCE) {
        if (team.team() == 0) {
#pragma unroll
            for (int h = from; h < from + AT_ONCE && h < H; h++) {
#pragma unroll
                for (int i = 0; i < PACKS * PACK; i++) {
                    const int column = team.column(i / PACK) + i % PACK;
                    sums[warp * JOINED + (h - from) * WIDTH + column] = team.sum[h][i];
                }
            }
        }
        __syncthreads();
        for (int at = thread; at < AT_ONCE * WIDTH; at += THREADS) {
            const int h = from + at / WIDTH, column = at % WIDTH;
            if (h < results.count && column < results.d) {
                float sum = 0.0f;
#pragma unroll
                for (int w = 0; w < WARPS; w++) {
                    sum += factors[w * H + h] * sums[w * JOINED + at];
                }
                results.store(h, column, sum, totals[h]);
            }
        }
        __syncthreads();
    }
}

/// The keys that a row sees, numbered from 0.
struct Sight {
    int count;
    /// The first of them are the sink's, seen with q_sink; the others stand `skip` positions further on.
    int sink, skip;
};

__device__ __forceinline__ Sight sight_of(int position, int sink, int window) {
    if (window > 0 && position >= sink + window) {
        return {sink + window, sink, position + 1 - (sink + window)};
    }
    return {position + 1, 0, 0};
}

template <int H, int LANES, int PACKS>
__device__ __forceinline__ void run(const Row &row, const Results &results, const element *q,
                                    const element *q_sink, const Sight &sight, float scale,
                                    const Joint &joint) {
    const int splits = results.splits;
    const int share = divided_up(divided_up(sight.count, splits), PAGE_TOKENS) * PAGE_TOKENS;
    const int first = results.split * share;
    const int end = first + share < sight.count ? first + share : sight.count;
    if (first >= end) {
        wait_for_earlier_kernels();
        if (int(threadIdx.x) < H) {
            results.store_weights(int(threadIdx.x), minus_infinity(), 0.0f);
        }
        return;
    }
    Team<H, LANES, PACKS> team;
    int page[team.DEPTH];
    const int near = first > sight.sink ? first : sight.sink;
    const bool sees_sink = first < sight.sink;
    // Eight heads leave no registers for pages that are known so early.
    const bool is_known = H < 8 && !sees_sink;
    if (is_known) {
        team.look_up(row, page, team.begin_at(near), end, sight.skip);
    }
    wait_for_earlier_kernels();
    team.begin();
    if (sees_sink) {
        const int until = end < sight.sink ? end : sight.sink;
        team.load_queries(q_sink, results.count, row.d, scale);
        team.look_up(row, page, team.begin_at(first), until, 0);
        team.attend(row, page, first, until, 0);
    }
    if (end > sight.sink) {
        team.load_queries(q, results.count, row.d, scale);
        if (!is_known) {
            team.look_up(row, page, team.begin_at(near), end, sight.skip);
        }
        team.attend(row, page, near, end, sight.skip);
    }
    finish(team, results, joint);
}

template <int H>
__device__ __forceinline__ void attend_row(const element *q, const element *q_sink, const element *keys,
                                           const element *values, const int *pages, const int *first_page,
                                           const int *gaps, const int *positions, float *partial,
                                           float *partial_ml, element *out, int n, int heads, int kv_heads,
                                           int d, float scale, int sink, int window, int splits) {
    allow_next_kernel();
    // Of a step's integers, which are copied here ahead of all its kernels, much is read before what earlier
    // kernels write: `run` waits for those.
    const int index = int(blockIdx.z), group = heads / kv_heads, parts = divided_up(group, H);
    if (index >= n) {
        wait_for_earlier_kernels();
        return;
    }
    const int kv_head = int(blockIdx.x) / parts, part = int(blockIdx.x) % parts;
    const int rest = group - part * H;
    const long long head = static_cast<long long>(index) * heads + kv_head * group + part * H;
    const Row row = {keys, values, pages + first_page[index], kv_heads, kv_head, d, gaps[index],
                     divided_up(sink, PAGE_TOKENS)};
    const Results results = {partial, partial_ml, out, head, rest < H ? rest : H, d, int(blockIdx.y), splits};
    SHARED(float, sums, WARPS * JOINED);
    SHARED(float, factors, WARPS * H);
    SHARED(float, weights, WARPS * H);
    SHARED(float, totals, H);
    const Joint joint = {sums, factors, weights, totals};
    const Sight sight = sight_of(positions[index], sink, window);
    const element *own = q + head * d, *far = q_sink ? q_sink + head * d : own;
    constexpr int BYTES = int(sizeof(element));
    const int bytes = d * BYTES;
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
}

#define ATTENTION_ROWS(H, RESIDENT)                                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) attention_rows_##H(                   \
        const element *q, const element *q_sink, const element *keys, const element *values,              \
        const int *pages, const int *first_page, const int *gaps, const int *positions, float *partial,   \
        float *partial_ml, element *out, int n, int heads, int kv_heads, int d, float scale, int sink,    \
        int window, int splits) {                                                                         \
        attend_row<H>(q, q_sink, keys, values, pages, first_page, gaps, positions, partial, partial_ml,   \
                      out, n, heads, kv_heads, d, scale, sink, window, splits);                           \
    }

ATTENTION_ROWS(1, 2)
ATTENTION_ROWS(2, 2)
ATTENTION_ROWS(4, 1)
ATTENTION_ROWS(8, 1)

extern "C" __global__ void __launch_bounds__(128)
    attention_reduce(const float *partial, const float *partial_ml, element *out, int n, int heads, int d,
                     int splits) {
    allow_next_kernel();
    wait_for_earlier_kernels();
    const int row = int(blockIdx.y);
    if (row >= n) {
        return;
    }
    const long long head = static_cast<long long>(row) * heads + blockIdx.x;
    const float *ml = partial_ml + head * splits * 2;
    // A lane holds the weights of two splits.
    float greatest[2], factor[2], total = 0.0f;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int split = lane_index() + i * WARP;
        greatest[i] = split < splits ? ml[split * 2] : minus_infinity();
    }
    float most = fmaxf(greatest[0], greatest[1]);
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2) {
        most = fmaxf(most, __shfl_xor_sync(ALL_LANES, most, step));
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int split = lane_index() + i * WARP;
        factor[i] = exp2_fast(greatest[i] - most);
        total += split < splits ? factor[i] * ml[split * 2 + 1] : 0.0f;
    }
    const float scale = 1.0f / warp_sum(total);
    const float *from = partial + head * splits * d;
    for (int base = 0; base < d; base += 128) {
        const int column = base + int(threadIdx.x);
        float sum = 0.0f;
#pragma unroll 8
        for (int split = 0; split < splits; split++) {
            // Every lane takes part in the shuffle; a split without keys has weight 0 and no sums.
            const float weight = __shfl_sync(ALL_LANES, split < WARP ? factor[0] : factor[1], split % WARP);
            if (weight > 0.0f && column < d) {
                sum += weight * from[static_cast<long long>(split) * d + column];
            }
        }
        if (column < d) {
            out[head * d + column] = to_element(sum * scale);
        }
    }
}
