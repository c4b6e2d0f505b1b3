//! Models of a true shape with random weights: to measure speed where no weights are at hand.
//!
//! Main types: [`Synthetic`], which model; [`Weights`], stored ones or such. The configurations are the
//! published ones without an end-of-sequence token, so that an answer ends where the request says. The
//! tokenizer is the embedded model's: text goes in by its few hundred tokens, and ids beyond them are
//! shown as one of them each. Refuses to know: how numbers are drawn.

use super::config::Config;
use super::embedded;
use super::weights::{Checkpoint, Dtype};

/// A published shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synthetic {
    Qwen3B06,
    Qwen3B17,
    Qwen3B4,
    Qwen3B8,
}

type FileList = [(&'static str, &'static [u8]); 4];

const fn files(config: &'static [u8]) -> FileList {
    let [tokenizer, tokenizer_config, chat_template] = embedded::TEXT_FILES;
    [
        ("config.json", config),
        tokenizer,
        tokenizer_config,
        chat_template,
    ]
}

static QWEN3_B06: FileList = files(include_bytes!("qwen3-0.6b.json"));
static QWEN3_B17: FileList = files(include_bytes!("qwen3-1.7b.json"));
static QWEN3_B4: FileList = files(include_bytes!("qwen3-4b.json"));
static QWEN3_B8: FileList = files(include_bytes!("qwen3-8b.json"));

impl Synthetic {
    pub const ALL: [Self; 4] = [Self::Qwen3B06, Self::Qwen3B17, Self::Qwen3B4, Self::Qwen3B8];

    pub fn name(self) -> &'static str {
        match self {
            Self::Qwen3B06 => "qwen3-0.6b",
            Self::Qwen3B17 => "qwen3-1.7b",
            Self::Qwen3B4 => "qwen3-4b",
            Self::Qwen3B8 => "qwen3-8b",
        }
    }

    pub fn files(self) -> &'static [(&'static str, &'static [u8])] {
        match self {
            Self::Qwen3B06 => &QWEN3_B06,
            Self::Qwen3B17 => &QWEN3_B17,
            Self::Qwen3B4 => &QWEN3_B4,
            Self::Qwen3B8 => &QWEN3_B8,
        }
    }
}

/// Where a model's weights come from.
pub enum Weights {
    Stored(Checkpoint),
    Synthetic(SyntheticWeights),
}

/// Weights that are made when they are asked for.
pub struct SyntheticWeights {
    model: Synthetic,
    parameters: usize,
}

impl SyntheticWeights {
    pub fn new(model: Synthetic, config: &Config) -> Self {
        Self {
            model,
            parameters: config.parameters(),
        }
    }

    pub fn name(&self) -> &'static str {
        self.model.name()
    }
}

impl Weights {
    /// What the start-up's stage is called that brings them to the backend.
    pub fn stage(&self) -> &'static str {
        match self {
            Self::Stored(_) => "weights_upload",
            Self::Synthetic(_) => "weights_made",
        }
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Stored(checkpoint) => checkpoint.bytes(),
            Self::Synthetic(weights) => weights.parameters * Dtype::Bf16.bytes(),
        }
    }

    /// Of the matrices; f32 where they are stored in several types.
    pub fn dtype(&self) -> Dtype {
        match self {
            Self::Stored(checkpoint) => checkpoint.dtype(),
            Self::Synthetic(_) => Dtype::Bf16,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::files::{Files, ModelSource};

    fn config(model: Synthetic) -> Config {
        let files = Files::open(&ModelSource::Synthetic(model)).unwrap();
        Config::load(&files).unwrap()
    }

    /// No upload is timed where there is none.
    #[test]
    fn weights_that_are_made_have_a_stage_of_their_own() {
        let model = Synthetic::Qwen3B06;
        let made = Weights::Synthetic(SyntheticWeights::new(model, &config(model)));
        assert_eq!(made.stage(), "weights_made");
    }

    /// As the model cards and the headers of the published files have them; tied embeddings once.
    #[test]
    fn shapes_have_as_many_parameters_as_the_published_models() {
        let parameters = Synthetic::ALL.map(|model| config(model).parameters());
        assert_eq!(
            parameters,
            [596_049_920, 1_720_574_976, 4_022_468_096, 8_190_735_360]
        );
    }

    #[test]
    fn answers_end_where_the_request_says() {
        assert!(
            Synthetic::ALL
                .iter()
                .all(|model| config(*model).eos.is_empty())
        );
    }
}
