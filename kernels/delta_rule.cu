// The gated delta rule of a recurrent layer, between its projections: convolution, recurrence and gated norm, a sequence's
// rows one after another. Decoding is one row of each sequence. arXiv:2412.06464; as transformers 5 computes it
// (torch_recurrent_gated_delta_rule).
//
// formula    of each value head, S [key_dim, value_dim] its state and q, k, v its columns of
//              silu(sum over taps j of conv[j] . input[p - (taps - 1) + j])      inputs before the first are 0
//              q = q / sqrt(|q|^2 + 1e-6) / sqrt(key_dim),  k = k / sqrt(|k|^2 + 1e-6)
//              decay = exp(-exp(log_decay) softplus(a + step_bias)),  beta = sigmoid(b)
//              S = decay S;  delta = beta (v - S^T k);  S = S + k delta^T;  o = S^T q
//              out = o / sqrt(mean(o^2) + eps) . norm . silu(z)
//            S is passed over once: S^T k and S^T q are summed together, and o = decay S^T q + (k . q) delta.
//
// entry delta_rule
//   projected  [n, 2 key_heads key_dim + 2 value_heads value_dim + 2 value_heads] f32: q, k, v, z, b, a; value head h has the
//              q and k of head h / (value_heads / key_heads)
//   conv       [taps, columns of q, k and v] f32, the oldest tap first
//   log_decay, step_bias  [value_heads] f32;  norm [value_dim] f32
//   states     the layer's, [any, value_heads, UNIT] f32; UNIT = key_dim value_dim + (taps - 1) (2 key_dim + value_dim): S,
//              then the convolution's last inputs of q, k and v, the oldest first. Read unless the position is 0, written
//   spans      [spans, 8] int: first row; rows (0: padding); position of the first; state; row, counted from the first, after
//              which the state is also stored elsewhere (-1: never); where; two unused. No two spans share a state, but for
//              warm-up, whose answers are not read
//   out        [n, value_heads value_dim] element
//   launch     grid = (value_heads, spans), block = 512, dynamic shared = 0 bytes
// entry copy_state: states[layer, to] = states[layer, from]
//   states     the first layer's; the next layer begins layer_stride numbers later; a state has `unit` numbers in each
//   from, to   states, different
//   launch     grid = (layers, any), block = 512, dynamic shared = 0 bytes
// supported  key_dim and value_dim multiples of 4 up to 128, taps 1 to 4, up to 65,535 spans
// bottleneck decoding: memory bandwidth, S being read and written once; the loads of S, which earlier steps wrote, are under
//            way as soon as a multiprocessor has ended its blocks of the projection ahead. Many rows: latency, three barriers a
//            row
#include "delta.cuh"

constexpr int THREADS = 512;
constexpr int WARPS = THREADS / WARP;
/// Rows of S that a warp keeps; a lane has four of their columns.
constexpr int KEPT = MOST_DIM / WARPS;
/// Warps that a column of up to MOST_DIM numbers takes. The first have q and k, the next v and what is made of it.
constexpr int COLUMN_WARPS = MOST_DIM / WARP;

struct Span {
    int first, rows, position, state, kept_after, kept_in, unused[2];
};

/// A channel of the convolution: its weights and last inputs, the oldest first, zeros before those that there are.
struct Channel {
    float weights[MOST_TAPS], inputs[MOST_TAPS];

    /// `tail`: the channel's oldest input, the next ones `stride` further each; null: there are none yet.
    __device__ __forceinline__ void load(const float *conv, int channels, const float *tail, int stride, int taps) {
#pragma unroll
        for (int j = 0; j < MOST_TAPS; j++) {
            const int tap = j - (MOST_TAPS - taps);
            weights[j] = tap >= 0 ? conv[tap * channels] : 0.0f;
        }
        inputs[0] = 0.0f;
#pragma unroll
        for (int j = 1; j < MOST_TAPS; j++) {
            const int slot = j - 1 - (MOST_TAPS - taps);
            inputs[j] = tail && slot >= 0 ? tail[slot * stride] : 0.0f;
        }
    }

    __device__ __forceinline__ float take(float input) {
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j + 1 < MOST_TAPS; j++) {
            inputs[j] = inputs[j + 1];
            sum += weights[j] * inputs[j];
        }
        inputs[MOST_TAPS - 1] = input;
        return silu(sum + weights[MOST_TAPS - 1] * input);
    }

    __device__ __forceinline__ void store(float *tail, int stride, int taps) const {
#pragma unroll
        for (int j = 1; j < MOST_TAPS; j++) {
            const int slot = j - 1 - (MOST_TAPS - taps);
            if (slot >= 0) {
                tail[slot * stride] = inputs[j];
            }
        }
    }
};

/// A lane's part of S: four columns of the rows warp, warp + WARPS and so on.
struct Matrix {
    float4 rows[KEPT];

    __device__ __forceinline__ static bool is_there(const Sizes &sizes, int i) {
        return warp_index() + i * WARPS < sizes.key_dim && 4 * lane_index() < sizes.value_dim;
    }

    __device__ __forceinline__ static int place(const Sizes &sizes, int i) {
        return (warp_index() + i * WARPS) * sizes.value_dim + 4 * lane_index();
    }

    /// null: S is 0.
    __device__ __forceinline__ void load(const Sizes &sizes, const float *from) {
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            const bool there = from && is_there(sizes, i);
            const uint4 bits = load_written_if(there, from + (there ? place(sizes, i) : 0));
            rows[i] = make_float4(__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z),
                                  __uint_as_float(bits.w));
        }
    }

    __device__ __forceinline__ void store(const Sizes &sizes, float *to) const {
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            if (is_there(sizes, i)) {
                *reinterpret_cast<float4 *>(to + place(sizes, i)) = rows[i];
            }
        }
    }
};

__device__ __forceinline__ void add_scaled(float4 &sum, float by, const float4 &value) {
    sum.x += by * value.x;
    sum.y += by * value.y;
    sum.z += by * value.z;
    sum.w += by * value.w;
}

/// What a thread does besides its part of S. Each takes two numbers of a row.
struct Role {
    bool has_key, has_value, has_gates;
    /// Of its head's q and k, or v and z.
    int column;
    /// Of the row's numbers, the two.
    int first, second;

    __device__ __forceinline__ static Role of(const Sizes &sizes, int head) {
        const int thread = int(threadIdx.x);
        Role role = {};
        if (thread < MOST_DIM) {
            role.column = thread;
            role.has_key = thread < sizes.key_dim;
            role.first = sizes.column(head, thread);
            role.second = sizes.key_cols() + role.first;
        } else if (thread < 2 * MOST_DIM) {
            role.column = thread - MOST_DIM;
            role.has_value = role.column < sizes.value_dim;
            role.first = sizes.column(head, 2 * sizes.key_dim + role.column);
            role.second = sizes.value_cols() + role.first;
        } else {
            role.has_gates = thread == 2 * MOST_DIM;
            role.first = sizes.channels() + sizes.value_cols() + head;
            role.second = sizes.value_heads + role.first;
        }
        return role;
    }

    __device__ __forceinline__ bool is_busy() const { return has_key || has_value || has_gates; }
};

/// The two channels of a thread: of q and k, or of v alone.
struct Channels {
    Channel first, second;

    __device__ __forceinline__ void load(const Role &role, const Sizes &sizes, const float *conv, const float *tails) {
        const int stride = sizes.own_channels(), column = role.column;
        const float *const own = tails ? tails + column : nullptr;
        if (role.has_key) {
            first.load(conv + role.first, sizes.channels(), own, stride, sizes.taps);
            second.load(conv + role.second, sizes.channels(), own ? own + sizes.key_dim : nullptr, stride, sizes.taps);
        } else if (role.has_value) {
            first.load(conv + role.first, sizes.channels(), own ? own + 2 * sizes.key_dim : nullptr, stride, sizes.taps);
        }
    }

    __device__ __forceinline__ void store(const Role &role, const Sizes &sizes, float *tails) const {
        const int stride = sizes.own_channels();
        if (role.has_key) {
            first.store(tails + role.column, stride, sizes.taps);
            second.store(tails + sizes.key_dim + role.column, stride, sizes.taps);
        } else if (role.has_value) {
            first.store(tails + 2 * sizes.key_dim + role.column, stride, sizes.taps);
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
    delta_rule(const float *projected, const float *conv, const float *log_decay, const float *step_bias,
               const float *norm, float eps, float *states, const Span *spans, element *out, int key_heads,
               int value_heads, int key_dim, int value_dim, int taps) {
    allow_next_kernel();
    const Sizes sizes = {key_heads, value_heads, key_dim, value_dim, taps};
    const int head = int(blockIdx.x), warp = warp_index();
    // Of a step's integers, which are copied here ahead of all its kernels. Earlier steps wrote the states.
    const Span span = spans[blockIdx.y];
    const auto place = [&](int state) { return state_of(states, sizes, state, head); };
    const float *const before = span.position > 0 ? place(span.state) : nullptr;
    Matrix matrix;
    matrix.load(sizes, before);
    const Role role = Role::of(sizes, head);
    Channels channels;
    channels.load(role, sizes, conv, before ? before + sizes.matrix() : nullptr);
    const float scale = role.has_value ? norm[role.column] : 0.0f;
    const float rate = role.has_gates ? expf(log_decay[head]) : 0.0f, bias = role.has_gates ? step_bias[head] : 0.0f;
    SHARED(float, queries, MOST_DIM);
    SHARED(float, keys, MOST_DIM);
    // Of q and q, k and k, q and k: what each warp has of the product.
    SHARED(float, products, 3 * COLUMN_WARPS);
    SHARED(float, gates, 2);
    // Of S^T k, then of S^T q.
    SHARED_PACKS(float, partial, 2 * WARPS * MOST_DIM);
    SHARED_PACKS(float, deltas, MOST_DIM);
    SHARED(float, squares, COLUMN_WARPS);
    wait_for_earlier_kernels();
    const float *from = projected + static_cast<long long>(span.first) * sizes.cols();
    float first = 0.0f, second = 0.0f;
    if (role.is_busy() && span.rows > 0) {
        first = from[role.first], second = from[role.second];
    }
    for (int row = 0; row < span.rows; row++) {
        const float one = first, other = second;
        if (role.is_busy() && row + 1 < span.rows) {
            from += sizes.cols();
            first = from[role.first], second = from[role.second];
        }
        float value = 0.0f;
        if (warp < COLUMN_WARPS) {
            const float q = role.has_key ? channels.first.take(one) : 0.0f;
            const float k = role.has_key ? channels.second.take(other) : 0.0f;
            queries[role.column] = q;
            keys[role.column] = k;
            const float qq = warp_sum(q * q), kk = warp_sum(k * k), qk = warp_sum(q * k);
            if (lane_index() == 0) {
                products[warp] = qq;
                products[COLUMN_WARPS + warp] = kk;
                products[2 * COLUMN_WARPS + warp] = qk;
            }
        } else if (role.has_value) {
            value = channels.first.take(one);
        } else if (role.has_gates) {
            gates[0] = expf(-rate * softplus(other + bias));
            gates[1] = sigmoid(one);
        }
        __syncthreads();
        float qq = 0.0f, kk = 0.0f, qk = 0.0f;
#pragma unroll
        for (int w = 0; w < COLUMN_WARPS; w++) {
            qq += products[w];
            kk += products[COLUMN_WARPS + w];
            qk += products[2 * COLUMN_WARPS + w];
        }
        const float query_scale = 1.0f / sqrtf((qq + LENGTH_EPS) * float(key_dim));
        const float key_scale = 1.0f / sqrtf(kk + LENGTH_EPS);
        const float decay = gates[0], beta = gates[1];
        float key[KEPT];
        float4 read = make_float4(0.0f, 0.0f, 0.0f, 0.0f), answer = read;
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            // Beyond key_dim both are 0.
            key[i] = keys[warp + i * WARPS];
            add_scaled(read, key[i], matrix.rows[i]);
            add_scaled(answer, queries[warp + i * WARPS], matrix.rows[i]);
        }
        float *const share = partial + warp * MOST_DIM + 4 * lane_index();
        *reinterpret_cast<float4 *>(share) = read;
        *reinterpret_cast<float4 *>(share + WARPS * MOST_DIM) = answer;
        __syncthreads();
        float made = 0.0f;
        if (warp >= COLUMN_WARPS && warp < 2 * COLUMN_WARPS) {
            float by_key = 0.0f, by_query = 0.0f;
#pragma unroll
            for (int w = 0; w < WARPS; w++) {
                by_key += partial[w * MOST_DIM + role.column];
                by_query += partial[(WARPS + w) * MOST_DIM + role.column];
            }
            const float delta = beta * (value - decay * key_scale * by_key);
            made = query_scale * (decay * by_query + qk * key_scale * delta);
            deltas[role.column] = delta;
            const float sum = warp_sum(made * made);
            if (lane_index() == 0) {
                squares[warp - COLUMN_WARPS] = sum;
            }
        }
        __syncthreads();
        const float4 delta = load_four(deltas + 4 * lane_index());
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            float4 &kept = matrix.rows[i];
            kept = make_float4(decay * kept.x, decay * kept.y, decay * kept.z, decay * kept.w);
            add_scaled(kept, key[i] * key_scale, delta);
        }
        if (role.has_value) {
            float sum = 0.0f;
#pragma unroll
            for (int w = 0; w < COLUMN_WARPS; w++) {
                sum += squares[w];
            }
            const float normed = made / sqrtf(sum / float(value_dim) + eps) * scale;
            const long long at = static_cast<long long>(span.first + row) * sizes.value_cols();
            out[at + head * value_dim + role.column] = to_element(normed * silu(other));
        }
        if (row == span.kept_after) {
            matrix.store(sizes, place(span.kept_in));
            channels.store(role, sizes, place(span.kept_in) + sizes.matrix());
        }
    }
    if (span.rows > 0) {
        matrix.store(sizes, place(span.state));
        channels.store(role, sizes, place(span.state) + sizes.matrix());
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    copy_state(float *states, int from, int to, int layers, long long layer_stride, int unit) {
    wait_for_earlier_kernels();
    const int layer = int(blockIdx.x);
    if (layer >= layers) {
        return;
    }
    float *const all = states + layer * layer_stride;
    const float *const source = all + static_cast<long long>(from) * unit;
    float *const target = all + static_cast<long long>(to) * unit;
    for (int at = (int(blockIdx.y) * THREADS + int(threadIdx.x)) * 4; at < unit; at += int(gridDim.y) * THREADS * 4) {
        *reinterpret_cast<uint4 *>(target + at) = load_written(source + at);
    }
}
