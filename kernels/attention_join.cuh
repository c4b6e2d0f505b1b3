// How attention of single rows is joined: the warps of a block, and the blocks that share a row's keys. In a fixed
// order, whichever block ends last.
#pragma once

#include "attention.cuh"

/// Numbers of each warp's sums that the block joins at once.
constexpr int JOINED = 1024;
/// Most parts that a row's keys are divided into: a lane joins two.
constexpr int MOST_PARTS = 2 * WARP;
/// Loads that a thread has under way when it joins blocks.
constexpr int JOIN_DEPTH = 16;

/// What the blocks of one place in the grid's second axis have to do: a part of a row's keys. As the host wrote it.
struct __align__(16) Split {
    /// Negative: there is nothing to do.
    int row;
    int position, first_page, gap;
    /// Of the row's keys, this part of so many, and where the row's first part stands among the splits.
    int part, parts, first;
    int unused;
};

/// Where a block's results go, all of the block's first head.
struct Results {
    /// Of the row's first part.
    float *partial, *partial_ml;
    /// How many blocks of these heads have stored theirs.
    int *arrived;
    element *out;
    /// Of the block, and of the row.
    int count, heads;
    int d, part, parts;

    /// Where a part's results of head h stand.
    __device__ __forceinline__ long long at(int part, int h) const { return static_cast<long long>(part) * heads + h; }

    /// What the block saw of its head h; a block without keys has only this.
    __device__ __forceinline__ void store_weights(int h, float greatest, float total) const {
        if (parts > 1 && h < count) {
            float *to = partial_ml + at(part, h) * 2;
            to[0] = greatest, to[1] = total;
        }
    }

    __device__ __forceinline__ void store(int h, int column, float sum, float total) const {
        if (parts > 1) {
            partial[at(part, h) * d + column] = sum;
        } else {
            out[h * d + column] = to_element(sum / total);
        }
    }
};

/// Which of a row's heads a block has: up to H query heads of one key head, in a grid of
/// (kv_heads * ceil(group / H), splits).
struct Place {
    int kv_head;
    /// Of the key head's query heads.
    int share;
    /// The first of its heads, and their number.
    int head, count;

    template <int H> __device__ __forceinline__ static Place of_block(int heads, int kv_heads) {
        const int group = heads / kv_heads, parts = divided_up(group, H);
        const int kv_head = int(blockIdx.x) / parts, share = int(blockIdx.x) % parts, rest = group - share * H;
        return {kv_head, share, kv_head * group + share * H, rest < H ? rest : H};
    }
};

/// The kernel's arguments for what comes out.
struct Outputs {
    const Split *splits;
    float *partial, *partial_ml;
    int *arrived;
    element *out;
    int heads, d;

    /// Reads the split again, when the keys are done: no registers keep it meanwhile.
    __device__ __forceinline__ Results of(const Place &place) const {
        const Split split = splits[blockIdx.y];
        const long long row = split.row, first = static_cast<long long>(split.first) * heads + place.head;
        return {partial + first * d,
                partial_ml + first * 2,
                arrived + row * gridDim.x + blockIdx.x,
                out + (row * heads + place.head) * d,
                place.count,
                heads,
                d,
                split.part,
                split.parts};
    }
};

/// Shared memory that the warps are joined in.
struct Joint {
    /// [WARPS, JOINED], [WARPS, H] twice, [H].
    float *sums, *factors, *weights, *totals;
};

/// A block's own.
#define JOINT(H, NAME)                                                                                    \
    SHARED(float, NAME##_sums, WARPS *JOINED);                                                            \
    SHARED(float, NAME##_factors, WARPS *H);                                                              \
    SHARED(float, NAME##_weights, WARPS *H);                                                              \
    SHARED(float, NAME##_totals, H);                                                                      \
    const Joint NAME = {NAME##_sums, NAME##_factors, NAME##_weights, NAME##_totals}

/// Joins the block's warps in their order and stores.
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

/// Four floats that were loaded as bits, times a factor that is 0 where none were.
__device__ __forceinline__ void add_scaled(float4 &sum, const uint4 &bits, float factor) {
    sum.x += factor * __uint_as_float(bits.x);
    sum.y += factor * __uint_as_float(bits.y);
    sum.z += factor * __uint_as_float(bits.z);
    sum.w += factor * __uint_as_float(bits.w);
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2) {
        value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, step));
    }
    return value;
}

/// Counts the block among all of its heads. The last of them sees what every other has stored, and leaves the
/// count at 0 for the next launch.
__device__ __forceinline__ bool is_last(const Results &results) {
    SHARED(int, before, 1);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        *before = atomicAdd(results.arrived, 1);
        if (*before == results.parts - 1) {
            *results.arrived = 0;
        }
    }
    __syncthreads();
    __threadfence();
    return *before == results.parts - 1;
}

/// Joins what all blocks of these heads have stored, in their order.
__device__ __forceinline__ void join_blocks(const Results &results, const Joint &joint) {
    // [heads, MOST_PARTS], [heads]
    float *const factors = joint.sums, *const scales = joint.totals;
    const int warp = warp_index(), parts = results.parts;
    if (warp < results.count) {
        float greatest[2], seen[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int part = lane_index() + i * WARP;
            const float *ml = results.partial_ml + results.at(part, warp) * 2;
            greatest[i] = part < parts ? ml[0] : minus_infinity();
            seen[i] = part < parts ? ml[1] : 0.0f;
        }
        const float most = warp_max(fmaxf(greatest[0], greatest[1]));
        float total = 0.0f;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float factor = exp2_fast(greatest[i] - most);
            factors[warp * MOST_PARTS + lane_index() + i * WARP] = factor;
            total += factor * seen[i];
        }
        total = warp_sum(total);
        if (lane_index() == 0) {
            scales[warp] = 1.0f / total;
        }
    }
    __syncthreads();
    const int groups = results.d / 4;
    for (int at = int(threadIdx.x); at < results.count * groups; at += THREADS) {
        const int h = at / groups, column = at % groups * 4;
        const float *factor = factors + h * MOST_PARTS;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        for (int base = 0; base < parts; base += JOIN_DEPTH) {
            uint4 sums[JOIN_DEPTH];
#pragma unroll
            for (int u = 0; u < JOIN_DEPTH; u++) {
                // A block without keys has factor 0 and has stored no sums, and so have those that are not.
                const float *from = results.partial + results.at(base + u, h) * results.d + column;
                sums[u] = load_written_if(factor[base + u] > 0.0f, from);
            }
#pragma unroll
            for (int u = 0; u < JOIN_DEPTH; u++) {
                add_scaled(sum, sums[u], factor[base + u]);
            }
        }
        const float scale = scales[h];
        store_four(results.out + h * results.d + column,
                   make_float4(sum.x * scale, sum.y * scale, sum.z * scale, sum.w * scale));
    }
}

/// What a block without keys does.
__device__ __forceinline__ void finish_empty(const Results &results) {
    if (int(threadIdx.x) < results.count) {
        results.store_weights(int(threadIdx.x), minus_infinity(), 0.0f);
    }
}
