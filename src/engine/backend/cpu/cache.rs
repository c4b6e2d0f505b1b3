//! Keys and values in pages on the CPU, and the states of recurrent layers.
//!
//! Main type: [`CpuCache`]. Refuses to know: who owns a page, which positions are attended to.

use std::ops::Range;

use super::delta::States;
use super::memory::Floats;
use crate::backend::{AttentionShape, BackendError};
use crate::kv::{PAGE_TOKENS, PageId};

/// Keys and values of every layer: `[page, kv head, slot, head_dim]` f32 each.
pub struct CpuCache {
    pub shape: AttentionShape,
    pub layers: Vec<Layer>,
    pub states: Option<States>,
}

pub struct Layer {
    pub keys: Floats,
    pub values: Floats,
}

impl CpuCache {
    pub fn new(shape: &AttentionShape) -> Result<Self, BackendError> {
        let sizes = [shape.pages, shape.kv_heads, PAGE_TOKENS, shape.head_dim];
        let layer = |_| -> Result<Layer, BackendError> {
            Ok(Layer {
                keys: Floats::zeroed(&sizes)?,
                values: Floats::zeroed(&sizes)?,
            })
        };
        Ok(Self {
            layers: (0..shape.layers).map(layer).collect::<Result<_, _>>()?,
            states: shape
                .delta
                .map(|(delta, count)| States::new(delta, count))
                .transpose()?,
            shape: shape.clone(),
        })
    }

    /// Takes keys and values of one row of stacked q, k and v.
    pub fn store(&mut self, layer: usize, page: PageId, slot: usize, qkv: &[f32]) {
        let (d, kv_heads) = (self.shape.head_dim, self.shape.kv_heads);
        let (keys, values) = qkv[self.shape.q_cols()..].split_at(kv_heads * d);
        for head in 0..kv_heads {
            let start = self.slots(page, head).start + slot * d;
            let at = head * d..(head + 1) * d;
            self.layers[layer].keys[start..start + d].copy_from_slice(&keys[at.clone()]);
            self.layers[layer].values[start..start + d].copy_from_slice(&values[at]);
        }
    }

    /// Keys and values of every layer.
    pub fn copy_page(&mut self, from: PageId, to: PageId) {
        let page = self.shape.kv_heads * PAGE_TOKENS * self.shape.head_dim;
        let (from, to) = (from as usize * page, to as usize * page);
        for layer in &mut self.layers {
            layer.keys.copy_within(from..from + page, to);
            layer.values.copy_within(from..from + page, to);
        }
    }

    /// The elements of a page's head.
    pub fn slots(&self, page: PageId, head: usize) -> Range<usize> {
        let size = PAGE_TOKENS * self.shape.head_dim;
        let start = (page as usize * self.shape.kv_heads + head) * size;
        start..start + size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::rope::RopeSettings;

    #[test]
    fn a_page_is_copied_whole_in_every_layer_and_nothing_else() {
        let shape = AttentionShape {
            layers: 3,
            heads: 4,
            kv_heads: 2,
            head_dim: 6,
            rope: RopeSettings::plain(1e4),
            rotary_dim: 6,
            norm_eps: 1e-6,
            pages: 5,
            window: None,
            delta: None,
        };
        let page = shape.kv_heads * PAGE_TOKENS * shape.head_dim;
        for (from, to) in [(0, 4), (3, 1), (2, 2)] {
            let mut cache = CpuCache::new(&shape).unwrap();
            let mut next = 0.0;
            for layer in &mut cache.layers {
                for number in layer.keys.iter_mut().chain(layer.values.iter_mut()) {
                    next += 1.0;
                    *number = next;
                }
            }
            let whole = |cache: &CpuCache| -> Vec<Vec<f32>> {
                let both = cache
                    .layers
                    .iter()
                    .flat_map(|layer| [&layer.keys, &layer.values]);
                both.map(|numbers| numbers.to_vec()).collect()
            };
            let mut want = whole(&cache);
            cache.copy_page(from, to);
            for numbers in &mut want {
                let (from, to) = (from as usize * page, to as usize * page);
                numbers.copy_within(from..from + page, to);
            }
            assert_eq!(whole(&cache), want, "{from} {to}");
        }
    }
}
