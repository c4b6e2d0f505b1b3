// How the kernels for attention of single rows walk over paged keys and values. attention_rows.cu finds the row's
// own key in the cache, attention_decode.cu makes it.
//
// The keys in sight are numbered from 0 and divided into parts, one for each block of the row and up to H query heads
// of one key head. In a block each warp takes the keys of its turns, and in a warp each team of lanes one key.
#pragma once

#include "common.cuh"

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / WARP;
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
    /// Keys that a warp takes in one turn, and those of a block.
    static constexpr int TURN = DEPTH * TEAMS, STEP = WARPS * TURN;

    using Packs = uint4[DEPTH][PACKS];

    float q[H][WIDTH], sum[H][WIDTH], greatest[H], total[H];
    /// Keys and values that are under way, and the pages of those that come next.
    Packs keys, values;
    int page[DEPTH];

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

    /// Where a warp begins among keys from `first` on.
    __device__ __forceinline__ static int begin_at(int first) { return first + warp_index() * TURN; }

    /// Looks up the pages of the first keys of first .. end.
    __device__ __forceinline__ void find(const Row &row, int first, int end, int skip) {
        look_up(row, begin_at(first), end, skip);
    }

    /// Starts the loads of the first keys and values, whose pages were found.
    __device__ __forceinline__ void depart(const Row &row, int first, int end, int skip) {
        const int base = begin_at(first);
        load(row, row.keys, keys, base, end, skip);
        load(row, row.values, values, base, end, skip);
        look_up(row, base + STEP, end, skip);
    }

    /// The keys numbered first .. end, each at the position of its number plus `skip`, of which the first have
    /// departed. A turn's keys make room for the next turn's, and so do its values. (NVRTC 12.9 and 13.0 put both
    /// loads behind most of the turn's arithmetic, so that a warp has none under way for a moment in each turn.)
    __device__ __forceinline__ void attend(const Row &row, int first, int end, int skip) {
        for (int base = begin_at(first); base < end; base += STEP) {
            float scores[DEPTH][H];
            score(keys, scores, base, end);
            load(row, row.keys, keys, base + STEP, end, skip);
            weigh(scores);
            add(values, scores);
            load(row, row.values, values, base + STEP, end, skip);
            look_up(row, base + 2 * STEP, end, skip);
        }
    }

    /// The number of the team's key u in the turn from `base` on.
    __device__ __forceinline__ static int key(int base, int u) { return base + u * TEAMS + team(); }

    __device__ __forceinline__ void look_up(const Row &row, int base, int end, int skip) {
#pragma unroll
        for (int u = 0; u < DEPTH; u++) {
            page[u] = key(base, u) < end ? row.page_of(key(base, u) + skip) : 0;
        }
    }

    __device__ __forceinline__ void load(const Row &row, const element *cache, Packs &packs, int base, int end,
                                         int skip) const {
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

    /// Of N keys a team, in the turn from `base` on.
    template <int N>
    __device__ __forceinline__ void score(const uint4 (&keys)[N][PACKS], float (&scores)[N][H], int base,
                                          int end) const {
#pragma unroll
        for (int u = 0; u < N; u++) {
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
            for (int u = 0; u < N; u++) {
#pragma unroll
                for (int h = 0; h < H; h++) {
                    scores[u][h] += __shfl_xor_sync(ALL_LANES, scores[u][h], step);
                }
            }
        }
#pragma unroll
        for (int u = 0; u < N; u++) {
#pragma unroll
            for (int h = 0; h < H; h++) {
                scores[u][h] = key(base, u) < end ? scores[u][h] : minus_infinity();
            }
        }
    }

    template <int N>
    __device__ __forceinline__ void add(const uint4 (&values)[N][PACKS], const float (&weights)[N][H]) {
#pragma unroll
        for (int u = 0; u < N; u++) {
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
    template <int N> __device__ __forceinline__ void weigh(float (&scores)[N][H]) {
#pragma unroll
        for (int h = 0; h < H; h++) {
            float most = greatest[h];
#pragma unroll
            for (int u = 0; u < N; u++) {
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
            for (int u = 0; u < N; u++) {
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

/// The keys of one block: first .. end, none where first is not below.
struct Share {
    int first, end;
};

/// In multiples of a page.
__device__ __forceinline__ Share share_of(const Sight &sight, int part, int parts) {
    const int each = divided_up(divided_up(sight.count, parts), PAGE_TOKENS) * PAGE_TOKENS;
    const int first = part * each;
    return {first, first + each < sight.count ? first + each : sight.count};
}
