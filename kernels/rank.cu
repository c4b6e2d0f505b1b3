// From rows of logits to tokens: the greatest that is not banned, log-sum-exp, the logit of a given token,
// the best tokens with their logits, a draw by temperature. In two steps: each chunk of 2,048 logits by one
// block, then the chunks of a row by one block. Ties always go to the lower id. NaN is reported, and passed
// over otherwise.
//
// A draw's weights are w(i) = e^((logit(i) - logit of the best not banned) / temperature), 0 for banned ids. Of
// all ids in their order the draw takes the first at which the running sum exceeds chance · (sum of all w).
//
// entry rank_partial
//   logits        [n, vocab] f32
//   banned        [n, 32] int, a row's banned ids; banned_count [n] int, 0 to 32
//   top           [n] int: how many best tokens each row wants, 0 to 20
//   beta          [n] f32: 1 / temperature of the row's draw; 0 where there is none
//   chunk_values  [n, chunks, 22] f32, chunks = ceil(vocab / 2048): greatest, best not banned, best tokens
//   chunk_ids     [n, chunks, 22] int: 1 if there is NaN, id of the best not banned or -1, ids of the best
//   chunk_sums    [n, chunks, 2] f64: sum of e^(logit - the chunk's greatest); where there is a draw, sum of w with
//                 the chunk's own best not banned
//   launch        grid = (chunks, n), block = 256, dynamic shared = 0 bytes
// entry rank_final
//   chunk_values, chunk_ids, chunk_sums, logits, banned, banned_count, top, beta  as above
//   given         [n] int: a token whose logit is wanted, or -1
//   chance        [n] f64: where the draw lies, 0 <= chance < 1
//   values        [n, 24] f32: greatest logit, best not banned, that of the given one, that of the drawn one, then
//                 the `top` best. What is not asked for is left as it was.
//   ids           [n, 24] int: 1 if the row holds NaN, id of the best not banned or -1, the given id, the id drawn
//                 or -1, then the ids of the `top` best
//   sums          [n, 2] f64: ln of the sum of e^logit; where there is a draw, sum of w
//   launch        grid = (n), block = 256, dynamic shared = 0 bytes
// supported  vocab of at least 20, n up to 65,535
// bottleneck latency: a row of 151,936 logits is 0.6 MB, read once
#include "common.cuh"

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / WARP;
/// Blocks that a multiprocessor must have room for: a row has fewer than a GPU has multiprocessors, so registers are
/// worth more than company.
constexpr int RESIDENT = 1;
constexpr int CHUNK = 2048;
/// Logits that a thread keeps.
constexpr int KEPT = CHUNK / THREADS;
constexpr int MOST_TOP = 20;
constexpr int MOST_BANNED = 32;
constexpr int IN_CHUNK = 2 + MOST_TOP;
constexpr int IN_ROW = 4 + MOST_TOP;
constexpr int NO_ID = 0x7fffffff;

struct Candidate {
    float value;
    int id;
};

__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }

__device__ __forceinline__ Candidate none() { return {minus_infinity(), NO_ID}; }

/// False where either is NaN.
__device__ __forceinline__ bool before(const Candidate &a, const Candidate &b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
}

/// What a block's reductions work in; each use is followed by a barrier before the next.
struct Scratch {
    float *values;
    int *ids;
    double *sums;
};

/// The first of all threads' candidates, in every thread.
__device__ __forceinline__ Candidate first_of(Candidate own, const Scratch &scratch) {
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2) {
        const Candidate other = {__shfl_xor_sync(ALL_LANES, own.value, step),
                                 __shfl_xor_sync(ALL_LANES, own.id, step)};
        if (before(other, own)) {
            own = other;
        }
    }
    if (lane_index() == 0) {
        scratch.values[warp_index()] = own.value;
        scratch.ids[warp_index()] = own.id;
    }
    __syncthreads();
    Candidate first = none();
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        const Candidate other = {scratch.values[w], scratch.ids[w]};
        if (before(other, first)) {
            first = other;
        }
    }
    __syncthreads();
    return first;
}

__device__ __forceinline__ double block_sum_wide(double own, const Scratch &scratch) {
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2) {
        own += __shfl_xor_sync(ALL_LANES, own, step);
    }
    if (lane_index() == 0) {
        scratch.sums[warp_index()] = own;
    }
    __syncthreads();
    double total = 0.0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        total += scratch.sums[w];
    }
    __syncthreads();
    return total;
}

/// The sum over the threads before this one.
__device__ __forceinline__ double sum_before(double own, const Scratch &scratch) {
    double sum = own;
#pragma unroll
    for (int step = 1; step < WARP; step *= 2) {
        const double lower = __shfl_up_sync(ALL_LANES, sum, step);
        sum += lane_index() >= step ? lower : 0.0;
    }
    if (lane_index() == WARP - 1) {
        scratch.sums[warp_index()] = sum;
    }
    const double lower = __shfl_up_sync(ALL_LANES, sum, 1);
    double before = lane_index() > 0 ? lower : 0.0;
    __syncthreads();
    for (int w = 0; w < warp_index(); w++) {
        before += scratch.sums[w];
    }
    __syncthreads();
    return before;
}

/// One of several items with weights, and the weight of all that come before it.
struct Share {
    int item;
    double passed;
};

/// The first of `count` items at which the running sum of the weights exceeds `mark`; where rounding leaves none, the
/// last that has a weight. One item at least must have one.
template <class Weight>
__device__ __forceinline__ Share share_at(double mark, int count, const Weight &weight, const Scratch &scratch) {
    const int each = divided_up(count, THREADS), first = int(threadIdx.x) * each;
    const int end = first + each < count ? first + each : count;
    double own = 0.0;
#pragma unroll 1
    for (int item = first; item < end; item++) {
        own += weight(item);
    }
    double passed = sum_before(own, scratch), own_passed = 0.0;
    // A found item is worth more than any other, and the first of those the most; of the others the last is.
    Candidate own_item = none();
#pragma unroll 1
    for (int item = first; item < end && own_item.value < infinity(); item++) {
        const double one = weight(item);
        if (one > 0.0) {
            own_item = {passed + one > mark ? infinity() : float(item), item};
            own_passed = passed;
        }
        passed += one;
    }
    const int item = first_of(own_item, scratch).id;
    if (own_item.id == item) {
        scratch.sums[0] = own_passed;
    }
    __syncthreads();
    passed = scratch.sums[0];
    __syncthreads();
    return {item, passed};
}

/// Of a logit in a draw; minus infinity and NaN have none.
__device__ __forceinline__ float draw_weight(float logit, float best, float beta) {
    return logit > minus_infinity() ? expf((logit - best) * beta) : 0.0f;
}

__device__ __forceinline__ bool is_banned(const int *banned, int count, int id) {
    for (int i = 0; i < count; i++) {
        if (banned[i] == id) {
            return true;
        }
    }
    return false;
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    rank_partial(const float *logits, const int *banned, const int *banned_count, const int *top,
                 const float *beta, float *chunk_values, int *chunk_ids, double *chunk_sums, int n,
                 int vocab) {
    SHARED(float, values, WARPS);
    SHARED(int, ids, WARPS);
    SHARED(double, sums, WARPS);
    SHARED(int, row_banned, MOST_BANNED);
    allow_next_kernel();
    wait_for_earlier_kernels();
    const Scratch scratch = {values, ids, sums};
    const int row = int(blockIdx.y), start = int(blockIdx.x) * CHUNK, thread = int(threadIdx.x);
    if (row >= n) {
        return;
    }
    const int own_banned_count = banned_count[row];
    if (thread < own_banned_count) {
        row_banned[thread] = banned[row * MOST_BANNED + thread];
    }
    __syncthreads();
    const float *from = logits + static_cast<long long>(row) * vocab;
    float kept[KEPT];
    bool nan = false;
    Candidate greatest = none(), allowed = none();
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        const int id = start + i * THREADS + thread;
        kept[i] = id < vocab ? from[id] : minus_infinity();
    }
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        const Candidate one = {kept[i], start + i * THREADS + thread};
        if (one.id >= vocab) {
            continue;
        }
        nan |= kept[i] != kept[i];
        if (before(one, greatest)) {
            greatest = one;
        }
        if (before(one, allowed) && !is_banned(row_banned, own_banned_count, one.id)) {
            allowed = one;
        }
    }
    greatest = first_of(greatest, scratch);
    allowed = first_of(allowed, scratch);
    double sum = 0.0;
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        // Where all are minus infinity there is nothing to sum; NaN is passed over.
        if (kept[i] > minus_infinity()) {
            sum += double(expf(kept[i] - greatest.value));
        }
    }
    sum = block_sum_wide(sum, scratch);
    const float row_beta = beta[row];
    double weights = 0.0;
    if (row_beta > 0.0f) {
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            if (!is_banned(row_banned, own_banned_count, start + i * THREADS + thread)) {
                weights += double(draw_weight(kept[i], allowed.value, row_beta));
            }
        }
        weights = block_sum_wide(weights, scratch);
    }
    const int any_nan = __syncthreads_or(nan);
    const long long chunk = static_cast<long long>(row) * gridDim.x + blockIdx.x;
    float *out_values = chunk_values + chunk * IN_CHUNK;
    int *out_ids = chunk_ids + chunk * IN_CHUNK;
    if (thread == 0) {
        out_values[0] = greatest.value;
        out_values[1] = allowed.value;
        out_ids[0] = any_nan;
        out_ids[1] = allowed.id == NO_ID ? -1 : allowed.id;
        chunk_sums[2 * chunk] = sum;
        chunk_sums[2 * chunk + 1] = weights;
    }
    const int wanted = top[row];
    Candidate last = greatest;
    for (int k = 0; k < wanted; k++) {
        Candidate next = k == 0 ? greatest : none();
        if (k > 0) {
#pragma unroll
            for (int i = 0; i < KEPT; i++) {
                const Candidate one = {kept[i], start + i * THREADS + thread};
                if (one.id < vocab && before(last, one) && before(one, next)) {
                    next = one;
                }
            }
            next = first_of(next, scratch);
            last = next;
        }
        if (thread == 0) {
            out_values[2 + k] = next.value;
            out_ids[2 + k] = next.id;
        }
    }
}

/// A draw from a row, by what is known of its chunks.
struct Draw {
    const float *chunk_values;
    const double *chunk_sums;
    int chunks;
    /// The best logit that is not banned.
    float best;
    float beta;

    /// What a chunk's weights, which are taken against its own best, are multiplied by.
    __device__ __forceinline__ double scale(int chunk) const {
        return double(draw_weight(chunk_values[chunk * IN_CHUNK + 1], best, beta));
    }

    __device__ __forceinline__ double weight(int chunk) const {
        return chunk_sums[2 * chunk + 1] * scale(chunk);
    }

    __device__ __forceinline__ double total(const Scratch &scratch) const {
        double sum = 0.0;
        for (int chunk = int(threadIdx.x); chunk < chunks; chunk += THREADS) {
            sum += weight(chunk);
        }
        return block_sum_wide(sum, scratch);
    }

    /// The id at `mark` of the total.
    __device__ __forceinline__ int at(double mark, const float *row, int vocab, const int *banned, int banned_count,
                                      const Scratch &scratch) const {
        const Share chunk = share_at(mark, chunks, [&](int one) { return weight(one); }, scratch);
        const int start = chunk.item * CHUNK, count = vocab - start < CHUNK ? vocab - start : CHUNK;
        const float own_best = chunk_values[chunk.item * IN_CHUNK + 1];
        const auto in_chunk = [&](int at) {
            const bool out = is_banned(banned, banned_count, start + at);
            return out ? 0.0 : double(draw_weight(row[start + at], own_best, beta));
        };
        const double own_mark = (mark - chunk.passed) / scale(chunk.item);
        return start + share_at(own_mark, count, in_chunk, scratch).item;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    rank_final(const float *chunk_values, const int *chunk_ids, const double *chunk_sums,
               const float *logits, const int *banned, const int *banned_count, const int *top,
               const float *beta, const int *given, const double *chance, float *values, int *ids,
               double *sums, int n, int vocab) {
    SHARED(float, warp_values, WARPS);
    SHARED(int, warp_ids, WARPS);
    SHARED(double, warp_sums, WARPS);
    allow_next_kernel();
    wait_for_earlier_kernels();
    const Scratch scratch = {warp_values, warp_ids, warp_sums};
    const int row = int(blockIdx.x), thread = int(threadIdx.x);
    if (row >= n) {
        return;
    }
    const int chunks = divided_up(vocab, CHUNK);
    const long long first_chunk = static_cast<long long>(row) * chunks;
    chunk_values += first_chunk * IN_CHUNK;
    chunk_ids += first_chunk * IN_CHUNK;
    chunk_sums += 2 * first_chunk;
    Candidate greatest = none(), allowed = none();
    bool nan = false;
    for (int chunk = thread; chunk < chunks; chunk += THREADS) {
        const Candidate most = {chunk_values[chunk * IN_CHUNK], chunk};
        const Candidate one = {chunk_values[chunk * IN_CHUNK + 1], chunk_ids[chunk * IN_CHUNK + 1]};
        nan |= chunk_ids[chunk * IN_CHUNK] != 0;
        if (before(most, greatest)) {
            greatest = most;
        }
        if (one.id >= 0 && before(one, allowed)) {
            allowed = one;
        }
    }
    greatest = first_of(greatest, scratch);
    allowed = first_of(allowed, scratch);
    double sum = 0.0;
    for (int chunk = thread; chunk < chunks; chunk += THREADS) {
        const float most = chunk_values[chunk * IN_CHUNK];
        if (most > minus_infinity()) {
            sum += chunk_sums[2 * chunk] * double(expf(most - greatest.value));
        }
    }
    sum = block_sum_wide(sum, scratch);
    const int any_nan = __syncthreads_or(nan);
    float *out_values = values + row * IN_ROW;
    int *out_ids = ids + row * IN_ROW;
    if (thread == 0) {
        const int one = given[row];
        out_values[0] = greatest.value;
        out_values[1] = allowed.value;
        out_ids[0] = any_nan;
        out_ids[1] = allowed.id == NO_ID ? -1 : allowed.id;
        out_ids[2] = one;
        out_ids[3] = -1;
        if (one >= 0 && one < vocab) {
            out_values[2] = logits[static_cast<long long>(row) * vocab + one];
        }
        sums[2 * row] = double(greatest.value) + log(sum);
    }
    // Of what is not finite nothing can be drawn, and the host says so.
    const bool is_finite = allowed.value > minus_infinity() && allowed.value < infinity();
    if (beta[row] > 0.0f && is_finite) {
        const Draw draw = {chunk_values, chunk_sums, chunks, allowed.value, beta[row]};
        const double total = draw.total(scratch);
        const int id = draw.at(chance[row] * total, logits + static_cast<long long>(row) * vocab, vocab,
                               banned + row * MOST_BANNED, banned_count[row], scratch);
        if (thread == 0) {
            out_values[3] = logits[static_cast<long long>(row) * vocab + id];
            out_ids[3] = id;
            sums[2 * row + 1] = total;
        }
    }
    const int wanted = top[row];
    Candidate last = {infinity(), -1};
    for (int k = 0; k < wanted; k++) {
        Candidate next = none();
        for (int at = thread; at < chunks * wanted; at += THREADS) {
            const int entry = at / wanted * IN_CHUNK + 2 + at % wanted;
            const Candidate one = {chunk_values[entry], chunk_ids[entry]};
            if (before(last, one) && before(one, next)) {
                next = one;
            }
        }
        next = first_of(next, scratch);
        last = next;
        if (thread == 0) {
            out_values[4 + k] = next.value;
            out_ids[4 + k] = next.id;
        }
    }
}
