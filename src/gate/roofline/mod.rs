//! The least time that a machine needs for a model: bytes that must move, operations that must be done.
//!
//! Main types: [`Shape`], [`Machine`], [`Floor`]. Pure arithmetic; the formulas stand in docs/cuda.md
//! with a worked case. Refuses to know: engines, clocks, how a machine was measured.

use serde::Serialize;

/// What the formulas need of a model. Sizes are counts of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub hidden: u64,
    /// Layers that attend, and their heads.
    pub attention_layers: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    /// In the layers' matrices that a token is multiplied by.
    pub layer_numbers: u64,
    /// Of a sequence's recurrent state, in f32.
    pub state_numbers: u64,
    pub vocab: u64,
    /// Bytes of a stored weight.
    pub weight_bytes: u64,
    /// Bytes of a cached number.
    pub kv_bytes: u64,
}

/// What was measured of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Machine {
    pub bytes_per_second: f64,
    /// Multiplications and additions each count.
    pub operations_per_second: f64,
}

/// What has to be done, and the least time for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Floor {
    pub bytes: u64,
    pub operations: u64,
    pub milliseconds: f64,
    pub bound: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    Bytes,
    Operations,
}

impl Bound {
    /// What holds the time up.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "memory-bound",
            Self::Operations => "compute-bound",
        }
    }
}

impl Shape {
    /// Numbers in the output matrix.
    fn head_numbers(&self) -> u64 {
        self.vocab * self.hidden
    }

    fn kv_bytes_per_token(&self) -> u64 {
        2 * self.attention_layers * self.kv_heads * self.head_dim * self.kv_bytes
    }

    /// Bytes of the weights that every step reads. Of an input table only rows are read.
    fn weight_bytes(&self) -> u64 {
        (self.layer_numbers + self.head_numbers()) * self.weight_bytes
    }

    fn state_bytes(&self) -> u64 {
        self.state_numbers * size_of::<f32>() as u64
    }

    /// A token decays each number of the state, reads, writes and reads again: once, and three times twice.
    fn state_operations(&self) -> u64 {
        7 * self.state_numbers
    }

    /// Operations of attention for a query that sees `positions` keys.
    fn attention_operations(&self, positions: u64) -> u64 {
        4 * self.attention_layers * self.heads * self.head_dim * positions
    }

    /// One more token of one sequence, that sees `context` positions, itself among them.
    pub fn decode(&self, context: u64, machine: &Machine) -> Floor {
        // The state comes and goes.
        let past = context * self.kv_bytes_per_token() + 2 * self.state_bytes();
        let products = 2 * (self.layer_numbers + self.head_numbers());
        let past_operations = self.attention_operations(context) + self.state_operations();
        machine.floor(self.weight_bytes() + past, products + past_operations)
    }

    /// The first token after a prompt of `tokens`, none of which is cached. Logits are needed of the last.
    pub fn prefill(&self, tokens: u64, machine: &Machine) -> Floor {
        // The state is empty at first, and may stay in a cache until the end.
        let past = tokens * self.kv_bytes_per_token() + self.state_bytes();
        let products = 2 * (tokens * self.layer_numbers + self.head_numbers());
        // A prompt's i-th token sees i positions.
        let seen = tokens * (tokens + 1) / 2;
        let past_operations = self.attention_operations(seen) + tokens * self.state_operations();
        machine.floor(self.weight_bytes() + past, products + past_operations)
    }
}

/// By how much a rate is raised at the most.
const MOST_RAISE: f64 = 1.25;

impl Machine {
    /// Raises each rate that a measured time beats, by at most a quarter. The speed of a shared machine changes by the minute,
    /// but a time of half the floor is a mistake, and must stay visible.
    pub fn that_took(self, milliseconds: f64, floor: &Floor) -> Self {
        let factor = |amount: u64, rate: f64| {
            let alone_ms = amount as f64 / rate * 1e3;
            (alone_ms / milliseconds).clamp(1.0, MOST_RAISE)
        };
        let Self {
            bytes_per_second,
            operations_per_second,
        } = self;
        Self {
            bytes_per_second: bytes_per_second * factor(floor.bytes, bytes_per_second),
            operations_per_second: operations_per_second
                * factor(floor.operations, operations_per_second),
        }
    }

    /// The greater of both rates each.
    pub fn faster(self, other: Self) -> Self {
        Self {
            bytes_per_second: self.bytes_per_second.max(other.bytes_per_second),
            operations_per_second: self.operations_per_second.max(other.operations_per_second),
        }
    }

    fn floor(&self, bytes: u64, operations: u64) -> Floor {
        let moving = bytes as f64 / self.bytes_per_second;
        let computing = operations as f64 / self.operations_per_second;
        Floor {
            bytes,
            operations,
            milliseconds: moving.max(computing) * 1e3,
            bound: if moving >= computing {
                Bound::Bytes
            } else {
                Bound::Operations
            },
        }
    }
}

/// Times faster than which no answer of this model on this machine can be true, as `engine.plausible` of
/// gates/gate.toml takes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plausible {
    pub tpot_floor: String,
    pub prefill_floor: String,
}

/// Of the floor, what a measured rate may be short of the true one: another access pattern or shape of product may be faster
/// than those that were timed.
const MARGIN: f64 = 0.9;

/// Weights of fewer bytes may lie in a processor's cache, which is faster than its memory.
const CACHED_BYTES: u64 = 512 << 20;

/// `None` where memory is no bound, since the weights may stay in a cache.
///
/// Rows of a batch share the weights' bytes, so that a token of a prompt costs its operations at the least;
/// and no decoding step is shorter than one at context 1.
pub fn plausible(shape: &Shape, machine: &Machine) -> Option<Plausible> {
    if shape.weight_bytes() < CACHED_BYTES {
        return None;
    }
    let decode_us = shape.decode(1, machine).milliseconds * 1e3;
    let prompt_us = 2.0 * shape.layer_numbers as f64 / machine.operations_per_second * 1e6;
    Some(Plausible {
        tpot_floor: format!("{} µs", plain(decode_us * MARGIN)),
        prefill_floor: format!("{} µs/token", plain(prompt_us * MARGIN)),
    })
}

impl Plausible {
    /// The line for gates/gate.toml.
    pub fn toml(&self) -> String {
        let Self {
            tpot_floor,
            prefill_floor,
        } = self;
        format!(
            "plausible = {{ tpot_floor = \"{tpot_floor}\", prefill_floor = \"{prefill_floor}\" }}"
        )
    }
}

/// Three digits, rounded down: a floor must not be raised by how it is written. Gate files know no
/// exponents.
fn plain(value: f64) -> String {
    let digits = (2 - value.log10().floor() as i32).clamp(0, 9);
    let scale = 10_f64.powi(digits);
    let cut = (value * scale).floor() / scale;
    format!("{cut:.*}", digits.unsigned_abs() as usize)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    /// Qwen3-4B with bf16 weights and cache.
    const QWEN3_4B: Shape = Shape {
        hidden: 2560,
        attention_layers: 36,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        layer_numbers: 36 * (2560 * 80 * 128 + 3 * 2560 * 9728),
        state_numbers: 0,
        vocab: 151_936,
        weight_bytes: 2,
        kv_bytes: 2,
    };

    const H200: Machine = Machine {
        bytes_per_second: 4.3e12,
        operations_per_second: 700e12,
    };

    /// The case that docs/cuda.md works out by hand.
    #[test]
    fn the_worked_case() {
        // 36 · 2560 · (80 · 128 + 3 · 9728) + 151936 · 2560 numbers of 2 bytes; 147456 bytes a position.
        let decode = QWEN3_4B.decode(1024, &H200);
        assert_eq!(decode.bytes, 2 * 4_022_272_000 + 1024 * 147_456);
        assert_eq!(decode.bound, Bound::Bytes);
        assert!((decode.milliseconds - 1.9059).abs() < 1e-3, "{decode:?}");
        let prefill = QWEN3_4B.prefill(1024, &H200);
        let attention = 4 * 36 * 32 * 128 * (1024 * 1025 / 2);
        let products = 2 * (1024 * 3_633_315_840 + 388_956_160);
        assert_eq!(prefill.operations, products + attention);
        assert_eq!(prefill.bound, Bound::Operations);
        assert!((prefill.milliseconds - 11.074).abs() < 1e-2, "{prefill:?}");
    }

    #[test]
    fn floors_give_way_to_what_was_measured_but_not_to_mistakes() {
        let decode = |took_ms: f64| {
            let machine = H200.that_took(took_ms, &QWEN3_4B.decode(1024, &H200));
            QWEN3_4B.decode(1024, &machine).milliseconds
        };
        for (took_ms, floor_ms) in [(1.6, 1.6), (3.0, 1.9059), (0.9, 1.9059 / MOST_RAISE)] {
            assert!((decode(took_ms) - floor_ms).abs() < 1e-3, "{took_ms}");
        }
        // 6.2 ms of bytes and 6 of operations took 5: both rates are too low.
        let slow = Machine {
            bytes_per_second: 1e12,
            operations_per_second: 1e12,
        };
        let floor = slow.floor(6_200_000_000, 6_000_000_000);
        let floor = slow
            .that_took(5.0, &floor)
            .floor(floor.bytes, floor.operations);
        assert!((floor.milliseconds - 5.0).abs() < 1e-9, "{floor:?}");
    }

    /// Qwen3.5-9B: 24 of 32 layers keep a state, which moves with each token whatever the context is.
    #[test]
    fn a_state_comes_and_goes() {
        let attention = 4096 * (3 * 16 + 2 * 4) * 256;
        let recurrent = 4096 * (2 * 2048 + 4096 + 4096 + 2 * 32 + 4096);
        let state = 32 * 128 * 128 + 3 * (2 * 2048 + 4096);
        let hybrid = Shape {
            hidden: 4096,
            attention_layers: 8,
            heads: 16,
            kv_heads: 4,
            head_dim: 256,
            layer_numbers: 8 * attention + 24 * recurrent + 32 * 3 * 4096 * 12_288,
            state_numbers: 24 * state,
            vocab: 248_320,
            ..QWEN3_4B
        };
        let floor = hybrid.decode(1, &H200);
        // 2 MiB of matrices and 98,304 bytes of the convolution a layer, in and out.
        assert_eq!(hybrid.state_bytes(), 24 * ((2 << 20) + 98_304));
        let weights = 2 * (hybrid.layer_numbers + hybrid.head_numbers());
        assert_eq!(floor.bytes, weights + 2 * hybrid.state_bytes() + 32_768);
        assert_eq!(
            hybrid.decode(1025, &H200).bytes - floor.bytes,
            1024 * 32_768
        );
    }

    /// The published count less the weights of norms, which are vectors.
    #[test]
    fn matrices_are_all_but_the_norms() {
        let numbers = QWEN3_4B.layer_numbers + QWEN3_4B.head_numbers();
        let norms = 36 * (2 * 2560 + 2 * 128) + 2560;
        assert_eq!(numbers + norms, 4_022_468_096);
    }

    #[test]
    fn plausible_floors_are_below_the_floors_and_written_plainly() {
        let floors = plausible(&QWEN3_4B, &H200).unwrap();
        let small = Shape {
            layer_numbers: QWEN3_4B.layer_numbers / 36,
            vocab: 448,
            ..QWEN3_4B
        };
        assert_eq!(plausible(&small, &H200), None);
        // 0.9 · 8.0447 GB / 4.3 TB/s, and 0.9 · 2 · 3.6333 G / 700 T/s.
        assert_eq!(floors.tpot_floor, "1683 µs");
        assert_eq!(floors.prefill_floor, "9.34 µs/token");
        for (value, text) in [(1683.75, "1683"), (0.012_399, "0.0123"), (99.99, "99.9")] {
            assert_eq!(plain(value), text);
        }
    }
}
