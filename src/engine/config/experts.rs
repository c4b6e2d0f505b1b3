//! Mixtures of experts: how many there are, how many a token takes, and which layers have them.
//!
//! Main type: [`Experts`]. Refuses to know: weights.

use serde::Deserialize;

use super::hybrid::bounded;

/// The sparse layers of a model. Sizes are counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experts {
    pub count: usize,
    /// Experts that a token takes, those with the greatest scores.
    pub chosen: usize,
    pub intermediate: usize,
    /// The shares of the chosen ones are scaled to a sum of 1.
    pub normalised: bool,
    /// Intermediate size of the expert that every token takes beside the chosen ones.
    pub shared: Option<usize>,
    /// By layer: whether it has experts in place of one MLP.
    pub sparse: Vec<bool>,
}

impl Experts {
    /// Numbers in the matrices of one layer that a token is multiplied by.
    pub fn taken_numbers(&self, hidden: usize) -> usize {
        let shared = self.shared.map_or(0, |size| 3 * hidden * size + hidden);
        hidden * (self.count + 3 * self.chosen * self.intermediate) + shared
    }

    /// Numbers in the weights of one layer's experts.
    pub fn parameters(&self, hidden: usize) -> usize {
        let shared = self.shared.map_or(0, |size| 3 * hidden * size + hidden);
        self.count * hidden * (1 + 3 * self.intermediate) + shared
    }
}

/// The keys of a configuration that only mixtures of experts have.
#[derive(Clone, Default, Deserialize)]
pub struct RawExperts {
    num_experts: Option<usize>,
    /// The name that transformers 5 writes for Qwen3.
    num_local_experts: Option<usize>,
    num_experts_per_tok: Option<usize>,
    moe_intermediate_size: Option<usize>,
    shared_expert_intermediate_size: Option<usize>,
    norm_topk_prob: Option<bool>,
    decoder_sparse_step: Option<usize>,
    mlp_only_layers: Option<Vec<usize>>,
}

/// More are a slip of the hand.
const MOST_EXPERTS: usize = 4096;

impl RawExperts {
    /// There are some.
    pub fn are_named(&self) -> bool {
        let names = [self.num_experts, self.num_local_experts];
        names.into_iter().flatten().any(|count| count > 0)
    }

    /// `has_shared`: of the Qwen3.5 class, whose shares are always normalised.
    ///
    /// # Errors
    /// The key that is missing or out of range.
    pub fn read(&self, layers: usize, has_shared: bool) -> Result<Experts, String> {
        let size = |key: &str, value: Option<usize>| match value {
            Some(value) if (1..=1 << 20).contains(&value) => Ok(value),
            Some(value) => Err(format!("`{key}` = {value} is out of range")),
            None => Err(format!("`{key}` is missing")),
        };
        bounded(layers)?;
        let count = match (self.num_experts, self.num_local_experts) {
            (Some(one), Some(other)) if one != other => {
                return Err(format!(
                    "`num_experts` = {one} and `num_local_experts` = {other} contradict each other"
                ));
            }
            (one, other) => size("num_experts", one.or(other))?,
        };
        if count > MOST_EXPERTS {
            return Err(format!("`num_experts` = {count} is out of range"));
        }
        let chosen = size("num_experts_per_tok", self.num_experts_per_tok)?;
        if chosen > count {
            return Err(format!(
                "num_experts_per_tok = {chosen} of num_experts = {count}"
            ));
        }
        let step = size("decoder_sparse_step", self.decoder_sparse_step.or(Some(1)))?;
        let dense = self.mlp_only_layers.as_deref().unwrap_or_default();
        // Qwen3.5 has no dense layers, whatever these keys say.
        let is_sparse = |layer: usize| {
            has_shared || (!dense.contains(&layer) && (layer + 1).is_multiple_of(step))
        };
        let shared = self.shared_expert_intermediate_size;
        Ok(Experts {
            count,
            chosen,
            intermediate: size("moe_intermediate_size", self.moe_intermediate_size)?,
            normalised: has_shared || self.norm_topk_prob.unwrap_or(false),
            shared: match has_shared {
                true => Some(size("shared_expert_intermediate_size", shared)?),
                false => None,
            },
            sparse: (0..layers).map(is_sparse).collect(),
        })
    }
}
