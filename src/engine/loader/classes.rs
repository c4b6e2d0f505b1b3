//! Tensors that only some classes of models have: attention's gates, recurrent layers, experts.
//!
//! Refuses to know: what is computed from them.

use super::{DeltaRule, Loader, Weights, upload_error};
use crate::backend::{Backend, BackendError, DeltaWeights, ExpertWeights, SharedExpert};
use crate::config::experts::Experts;
use crate::config::hybrid::Hybrid;
use crate::weights::{Tensor, WeightError};
use std::ops::Range;

impl<B: Backend> Loader<'_, B> {
    /// Experts are stored together, `[experts, rows, columns]`, or one by one. `prefix` ends with a dot.
    pub fn experts(
        &mut self,
        prefix: &str,
        hidden: usize,
        experts: &Experts,
    ) -> Result<ExpertWeights<B::Weight>, WeightError> {
        let (count, size) = (experts.count, experts.intermediate);
        let together = format!("{prefix}experts.gate_up_proj");
        let (gate_up, down) = match self.weights {
            Weights::Stored(checkpoint) if checkpoint.has(&together) => (
                self.stack(&together, [count, 2 * size, hidden])?,
                self.stack(&format!("{prefix}experts.down_proj"), [count, hidden, size])?,
            ),
            _ => {
                let name = |expert, part| format!("{prefix}experts.{expert}.{part}.weight");
                let gate_up = (0..count).flat_map(|expert| {
                    ["gate_proj", "up_proj"].map(|part| (name(expert, part), size, hidden))
                });
                let down = (0..count).map(|expert| (name(expert, "down_proj"), hidden, size));
                (
                    self.matrices(&gate_up.collect::<Vec<_>>())?,
                    self.matrices(&down.collect::<Vec<_>>())?,
                )
            }
        };
        let shared = match experts.shared {
            None => None,
            Some(size) => {
                let (gate_up, down) = self.mlp(&format!("{prefix}shared_expert"), hidden, size)?;
                let gate = format!("{prefix}shared_expert_gate.weight");
                Some(SharedExpert {
                    gate_up,
                    down,
                    gate: self.matrix(&gate, 1, hidden)?,
                })
            }
        };
        Ok(ExpertWeights {
            router: self.matrix(&format!("{prefix}gate.weight"), count, hidden)?,
            gate_up,
            down,
            shared,
        })
    }

    /// A tensor `[count, rows, cols]` as a matrix `[count · rows, cols]`.
    fn stack(&mut self, name: &str, shape: [usize; 3]) -> Result<B::Weight, WeightError> {
        let [count, rows, cols] = shape;
        let Weights::Stored(checkpoint) = self.weights else {
            return self.matrix(name, count * rows, cols);
        };
        let tensor = Tensor {
            rows: count * rows,
            cols,
            ..checkpoint.tensor(name, &shape)?
        };
        self.read.insert(name.to_owned());
        self.count(&[tensor]);
        let uploaded = self.backend.upload(&[tensor]);
        uploaded.map_err(|cause| upload_error(name, &cause))
    }

    /// Stacked q, k and v, and the output's gates. Stored are, a head after the other, the rows of its query and those of its
    /// gate.
    pub fn gated_queries(
        &mut self,
        [(q, q_rows, cols), k, v]: &[(String, usize, usize); 3],
        heads: usize,
        head: Head,
    ) -> Result<(B::Weight, B::Weight), WeightError> {
        let Weights::Stored(checkpoint) = self.weights else {
            let gate = [(q.clone(), *q_rows, *cols)];
            let all = [gate[0].clone(), k.clone(), v.clone()];
            return Ok((self.random(&all)?, self.random(&gate)?));
        };
        let both = checkpoint.matrix(q, 2 * q_rows, *cols)?;
        let [keys, values] = [k, v].map(|(name, rows, cols)| checkpoint.matrix(name, *rows, *cols));
        self.read.extend([q, &k.0, &v.0].map(String::clone));
        let (queries, gates) = halves_of_heads(&both, heads);
        let mut queries = head.apart(&queries);
        queries.extend(head.apart(&[keys?]));
        queries.push(values?);
        self.count(&queries);
        self.count(&gates);
        let failed = |cause: BackendError| upload_error(q, &cause);
        let queries = self.backend.upload(&queries).map_err(failed)?;
        Ok((queries, self.backend.upload(&gates).map_err(failed)?))
    }

    pub fn gated_biases(
        &mut self,
        [(q, q_rows), k, v]: &[(String, usize); 3],
        heads: usize,
        head: Head,
    ) -> Result<(B::Vector, B::Vector), WeightError> {
        let Weights::Stored(checkpoint) = self.weights else {
            let gate = [(q.clone(), *q_rows)];
            return Ok((
                self.vectors(&[gate[0].clone(), k.clone(), v.clone()])?,
                self.vectors(&gate)?,
            ));
        };
        let column = |name: &str, length: usize| -> Result<Tensor<'_>, WeightError> {
            let stored = checkpoint.vector(name, length)?;
            Ok(Tensor {
                rows: length,
                cols: 1,
                ..stored
            })
        };
        let both = column(q, 2 * q_rows)?;
        let [keys, values] = [k, v].map(|(name, length)| column(name, *length));
        self.read.extend([q, &k.0, &v.0].map(String::clone));
        let (queries, gates) = halves_of_heads(&both, heads);
        let mut queries = head.apart(&queries);
        queries.extend(head.apart(&[keys?]));
        queries.push(values?);
        self.parameters += (2 * q_rows + k.1 + v.1) as u64;
        let failed = |cause: BackendError| upload_error(q, &cause);
        let queries = self.backend.upload_vector(&queries).map_err(failed)?;
        Ok((queries, self.backend.upload_vector(&gates).map_err(failed)?))
    }

    pub fn delta(
        &mut self,
        layer: usize,
        hidden: usize,
        Hybrid { delta, tensors, .. }: &Hybrid,
    ) -> Result<DeltaRule<B>, WeightError> {
        let name = |part: &str| format!("{tensors}layers.{layer}.linear_attn.{part}");
        let heads = delta.value_heads;
        let projections = [
            ("in_proj_qkv", delta.channels()),
            ("in_proj_z", delta.value_cols()),
            ("in_proj_b", heads),
            ("in_proj_a", heads),
        ];
        let projections = projections.map(|(part, rows)| (name(part) + ".weight", rows, hidden));
        let taps = delta.taps;
        let conv = name("conv1d.weight");
        let output = name("out_proj.weight");
        Ok(DeltaRule {
            projections: self.matrices(&projections)?,
            weights: DeltaWeights {
                conv: self.changed(&conv, &[delta.channels(), 1, taps], |stored| {
                    let tap = |tap: usize| stored.iter().copied().skip(tap).step_by(taps);
                    (0..taps).flat_map(tap).collect()
                })?,
                log_decay: self.vector(&name("A_log"), heads)?,
                step_bias: self.vector(&name("dt_bias"), heads)?,
                norm: self.vector(&name("norm.weight"), delta.value_dim)?,
            },
            output: self.matrix(&output, hidden, delta.value_cols())?,
        })
    }
}

/// A head of queries or keys, of which the leading numbers are turned.
#[derive(Clone, Copy)]
pub struct Head {
    pub dim: usize,
    /// Turned; number i belongs to number i + rotary_dim / 2.
    pub rotary_dim: usize,
}

impl Head {
    /// A head's numbers in the order in which backends have them: those that are turned together half a head apart, as where
    /// all are turned. Scores do not depend on the order, and attention need not know of partial rotary.
    fn parts(self) -> [Range<usize>; 4] {
        let (half, pairs) = (self.dim / 2, self.rotary_dim / 2);
        [
            0..pairs,
            2 * pairs..pairs + half,
            pairs..2 * pairs,
            pairs + half..self.dim,
        ]
    }

    /// The rows of each head in that order.
    fn apart<'a>(self, tensors: &[Tensor<'a>]) -> Vec<Tensor<'a>> {
        if self.rotary_dim == self.dim {
            return tensors.to_vec();
        }
        let mut all = Vec::new();
        for tensor in tensors {
            let row = tensor.cols * tensor.dtype.bytes();
            for head in tensor.bytes.chunks_exact(self.dim * row) {
                all.extend(self.parts().map(|part| Tensor {
                    rows: part.len(),
                    bytes: &head[part.start * row..part.end * row],
                    ..*tensor
                }));
            }
        }
        all.retain(|part| part.rows > 0);
        all
    }

    /// A norm's factors in that order.
    pub fn norm(self, weights: &[f32]) -> Vec<f32> {
        let parts = self.parts().into_iter();
        parts.flat_map(|part| weights[part].to_vec()).collect()
    }
}

/// The first and the second half of each head's rows.
fn halves_of_heads<'a>(both: &Tensor<'a>, heads: usize) -> (Vec<Tensor<'a>>, Vec<Tensor<'a>>) {
    let rows = both.rows / heads / 2;
    let half = rows * both.cols * both.dtype.bytes();
    let halves = both.bytes.chunks_exact(half).map(|bytes| Tensor {
        rows,
        bytes,
        ..*both
    });
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for (at, tensor) in halves.enumerate() {
        match at % 2 {
            0 => first.push(tensor),
            _ => second.push(tensor),
        }
    }
    (first, second)
}
