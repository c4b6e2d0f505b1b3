//! Recurrent layers: the gated delta rule, copies of their states, and the gate of attention's output beside them.

use super::call::Call;
use super::{Done, F32};
use crate::backend::cuda::device::{Device, View};
use crate::config::hybrid::DeltaShape;

/// Integers of a span: first row, rows, position of the first, state; the row after which the state is also stored
/// elsewhere, and where; two unused.
pub const SPAN_INTS: usize = 8;

/// Greatest dimension of a head, and most taps, that the kernels are made for.
const MOST_DELTA_DIM: usize = 128;
const MOST_DELTA_TAPS: usize = 4;

/// What a recurrent layer computes from and with.
#[derive(Clone, Copy, Debug)]
pub struct DeltaRule {
    pub projected: View,
    pub conv: View,
    pub log_decay: View,
    pub step_bias: View,
    pub norm: View,
    /// Of the layer, for `states_count` states of [`state_unit`] numbers.
    pub states: View,
    pub states_count: usize,
    /// [`SPAN_INTS`] integers each.
    pub spans: View,
    pub span_count: usize,
    pub out: View,
}

/// Numbers of a sequence's state in one layer. A value head has what the convolution keeps of its query and key too.
pub fn state_unit(shape: &DeltaShape) -> usize {
    let channels = 2 * shape.key_dim + shape.value_dim;
    shape.value_heads * (shape.key_dim * shape.value_dim + (shape.taps - 1) * channels)
}

/// Of n rows in spans: `projected` → `out`, and the states after them.
pub fn delta_rule<D: Device>(device: &mut D, of: &DeltaRule, n: usize, shape: &DeltaShape) -> Done {
    let element = device.element().bytes();
    let heads = shape.value_heads;
    let mut call = Call::new("delta_rule");
    supports(&mut call, shape);
    call.at(of.projected, n * shape.projected_cols(), F32);
    call.at(of.conv, shape.taps * shape.channels(), F32);
    call.at(of.log_decay, heads, F32);
    call.at(of.step_bias, heads, F32);
    call.at(of.norm, shape.value_dim, F32);
    call.float(shape.norm_eps);
    call.at(of.states, of.states_count * state_unit(shape), F32);
    call.ints(of.spans, of.span_count * SPAN_INTS);
    call.at(of.out, n * shape.value_cols(), element);
    call.int(shape.key_heads).int(heads);
    call.int(shape.key_dim).int(shape.value_dim).int(shape.taps);
    call.launch(device, [heads, of.span_count, 1], 512, 0)
}

/// Whether the kernels are made for such layers.
pub fn supports_delta(shape: &DeltaShape) -> Done {
    let mut call = Call::new("the CUDA backend");
    supports(&mut call, shape);
    call.check()
}

fn supports(call: &mut Call, shape: &DeltaShape) {
    let fits = |dim: usize| dim.is_multiple_of(4) && (4..=MOST_DELTA_DIM).contains(&dim);
    call.supports(fits(shape.key_dim) && fits(shape.value_dim), || {
        let (keys, values) = (shape.key_dim, shape.value_dim);
        format!("heads of {keys} and {values}; multiples of 4 up to {MOST_DELTA_DIM} are needed")
    });
    call.supports((1..=MOST_DELTA_TAPS).contains(&shape.taps), || {
        format!("{} taps; 1 to {MOST_DELTA_TAPS} are needed", shape.taps)
    });
    let shares = shape.key_heads > 0 && shape.value_heads.is_multiple_of(shape.key_heads);
    call.supports(shares, || {
        format!(
            "{} value heads on {} of keys",
            shape.value_heads, shape.key_heads
        )
    });
}

/// State `from` to state `to`, in every layer.
pub fn copy_state<D: Device>(
    device: &mut D,
    states: View,
    from: usize,
    to: usize,
    count: usize,
    shape: &DeltaShape,
) -> Done {
    let unit = state_unit(shape);
    let mut call = Call::new("copy_state");
    supports(&mut call, shape);
    call.takes(from < count && to < count && from != to, || {
        format!("states {from} and {to} of {count}")
    });
    call.at(states, shape.layers * count * unit, F32);
    call.int(from).int(to).int(shape.layers);
    call.long(count * unit).int(unit);
    call.launch(device, [shape.layers, 1, 1], 512, 0)
}

/// `x = x · sigmoid(gate)`
pub fn gate<D: Device>(device: &mut D, gate: View, x: View, count: usize) -> Done {
    let element = device.element().bytes();
    let mut call = Call::new("gate");
    call.supports(count.is_multiple_of(4), || {
        format!("{count} numbers; a multiple of 4 is needed")
    });
    call.at(gate, count, F32);
    call.at(x, count, element);
    call.int(count);
    call.launch(device, [count.div_ceil(1024), 1, 1], 256, 0)
}
