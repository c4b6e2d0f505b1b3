//! Hybrid models of the Qwen3.5 class: which layers attend, and the sizes of those that keep a state.
//!
//! Main types: [`Hybrid`], [`DeltaShape`]. The layer is the gated delta rule of S. Yang, J. Kautz and A. Hatamizadeh, "Gated
//! Delta Networks" (arXiv:2412.06464). Refuses to know: weights.

use serde::Deserialize;

/// What a hybrid model has that others have not.
#[derive(Clone, Debug, PartialEq)]
pub struct Hybrid {
    /// By layer: whether it attends to all positions; the others keep a recurrent state.
    pub attends: Vec<bool>,
    pub delta: DeltaShape,
    /// What the names of its tensors begin with.
    pub tensors: &'static str,
}

/// Sizes of the layers with a recurrent state. Columns of q, k and v together are a convolution's channels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeltaShape {
    pub layers: usize,
    /// Heads of q and k; value head h has those of head `h / (value_heads / key_heads)`.
    pub key_heads: usize,
    pub value_heads: usize,
    pub key_dim: usize,
    pub value_dim: usize,
    /// Of the convolution, the token's own among them.
    pub taps: usize,
    pub norm_eps: f32,
}

impl DeltaShape {
    pub fn key_cols(&self) -> usize {
        self.key_heads * self.key_dim
    }

    pub fn value_cols(&self) -> usize {
        self.value_heads * self.value_dim
    }

    /// Channels of the convolution: q, k and v.
    pub fn channels(&self) -> usize {
        2 * self.key_cols() + self.value_cols()
    }

    /// Columns of the stacked projections: q, k, v; the output's gate z; b and a, one each a value head.
    pub fn projected_cols(&self) -> usize {
        self.channels() + self.value_cols() + 2 * self.value_heads
    }

    /// Numbers of a sequence's state: a layer has `[key_dim, value_dim]` a value head, and the convolution's last inputs.
    pub fn state_numbers(&self) -> usize {
        let matrices = self.value_heads * self.key_dim * self.value_dim;
        self.layers * (matrices + (self.taps - 1) * self.channels())
    }

    /// Numbers of a sequence's state in one layer where a value head has its own copy of what the convolution keeps of its q
    /// and k, as on a GPU.
    pub fn numbers_by_value_head(&self) -> usize {
        let channels = 2 * self.key_dim + self.value_dim;
        self.value_heads * (self.key_dim * self.value_dim + (self.taps - 1) * channels)
    }

    /// Numbers in the weights of one such layer, norms of the layer and the MLP not among them.
    pub fn parameters(&self, hidden: usize) -> usize {
        let projections = hidden * (self.projected_cols() + self.value_cols());
        projections + self.taps * self.channels() + 2 * self.value_heads + self.value_dim
    }
}

/// The keys of a configuration that only hybrid models have.
#[derive(Clone, Default, Deserialize)]
pub struct RawHybrid {
    full_attention_interval: Option<usize>,
    linear_conv_kernel_dim: Option<usize>,
    linear_key_head_dim: Option<usize>,
    linear_value_head_dim: Option<usize>,
    linear_num_key_heads: Option<usize>,
    linear_num_value_heads: Option<usize>,
}

/// Every how many layers one attends, where nothing is said.
const INTERVAL: usize = 4;
/// More taps than this are a slip of the hand.
const MOST_TAPS: usize = 64;

impl RawHybrid {
    /// `kinds`: the configuration's `layer_types`, if it has them; there are `layers`.
    ///
    /// # Errors
    /// A layer of another type, and sizes that cannot be.
    pub fn read(
        &self,
        kinds: Option<&[String]>,
        layers: usize,
        norm_eps: f32,
        tensors: &'static str,
    ) -> Result<Hybrid, String> {
        bounded(layers)?;
        let interval = self.full_attention_interval.unwrap_or(INTERVAL);
        if interval == 0 {
            return Err("`full_attention_interval` = 0 is out of range".to_owned());
        }
        let attends = match kinds {
            None => (1..=layers)
                .map(|layer| layer.is_multiple_of(interval))
                .collect(),
            Some(kinds) => kinds
                .iter()
                .map(|kind| match kind.as_str() {
                    "full_attention" => Ok(true),
                    "linear_attention" => Ok(false),
                    other => Err(format!("a layer of type `{other}` is not supported")),
                })
                .collect::<Result<Vec<bool>, String>>()?,
        };
        let size = |key: &str, value: Option<usize>, default: usize| {
            let value = value.unwrap_or(default);
            match (1..=1 << 20).contains(&value) {
                true => Ok(value),
                false => Err(format!("`{key}` = {value} is out of range")),
            }
        };
        let delta = DeltaShape {
            layers: attends.iter().filter(|attends| !**attends).count(),
            key_heads: size("linear_num_key_heads", self.linear_num_key_heads, 16)?,
            value_heads: size("linear_num_value_heads", self.linear_num_value_heads, 32)?,
            key_dim: size("linear_key_head_dim", self.linear_key_head_dim, 128)?,
            value_dim: size("linear_value_head_dim", self.linear_value_head_dim, 128)?,
            taps: size("linear_conv_kernel_dim", self.linear_conv_kernel_dim, 4)?,
            norm_eps,
        };
        if delta.taps > MOST_TAPS {
            return Err(format!(
                "`linear_conv_kernel_dim` = {} is out of range",
                delta.taps
            ));
        }
        if !delta.value_heads.is_multiple_of(delta.key_heads) {
            return Err(format!(
                "linear_num_value_heads = {} is not a multiple of linear_num_key_heads = {}",
                delta.value_heads, delta.key_heads
            ));
        }
        Ok(Hybrid {
            attends,
            delta,
            tensors,
        })
    }
}

/// More layers are a slip of the hand, and a list of them may not fit the memory.
pub fn bounded(layers: usize) -> Result<(), String> {
    match layers {
        0..=65_536 => Ok(()),
        _ => Err(format!("`num_hidden_layers` = {layers} is out of range")),
    }
}
