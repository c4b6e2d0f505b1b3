//! Models of a true shape with random weights: to measure speed where no weights are at hand.
//!
//! Main type: [`Synthetic`]. The configurations are the published ones without an end-of-sequence token, so
//! that an answer ends where the request says. The tokenizer is the embedded model's: text goes in by its
//! few hundred tokens, and ids beyond them are shown as one of them each. Refuses to know: how numbers are
//! drawn.

use super::embedded;

/// A published shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synthetic {
    Qwen3B06,
    Qwen3B17,
    Qwen3B4,
    Qwen3B8,
    Qwen35B08,
    Qwen35B2,
    Qwen35B4,
    Qwen35B9,
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
static QWEN35_B08: FileList = files(include_bytes!("qwen3.5-0.8b.json"));
static QWEN35_B2: FileList = files(include_bytes!("qwen3.5-2b.json"));
static QWEN35_B4: FileList = files(include_bytes!("qwen3.5-4b.json"));
static QWEN35_B9: FileList = files(include_bytes!("qwen3.5-9b.json"));

impl Synthetic {
    pub const ALL: [Self; 8] = [
        Self::Qwen3B06,
        Self::Qwen3B17,
        Self::Qwen3B4,
        Self::Qwen3B8,
        Self::Qwen35B08,
        Self::Qwen35B2,
        Self::Qwen35B4,
        Self::Qwen35B9,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Qwen3B06 => "qwen3-0.6b",
            Self::Qwen3B17 => "qwen3-1.7b",
            Self::Qwen3B4 => "qwen3-4b",
            Self::Qwen3B8 => "qwen3-8b",
            Self::Qwen35B08 => "qwen3.5-0.8b",
            Self::Qwen35B2 => "qwen3.5-2b",
            Self::Qwen35B4 => "qwen3.5-4b",
            Self::Qwen35B9 => "qwen3.5-9b",
        }
    }

    pub fn files(self) -> &'static [(&'static str, &'static [u8])] {
        match self {
            Self::Qwen3B06 => &QWEN3_B06,
            Self::Qwen3B17 => &QWEN3_B17,
            Self::Qwen3B4 => &QWEN3_B4,
            Self::Qwen3B8 => &QWEN3_B8,
            Self::Qwen35B08 => &QWEN35_B08,
            Self::Qwen35B2 => &QWEN35_B2,
            Self::Qwen35B4 => &QWEN35_B4,
            Self::Qwen35B9 => &QWEN35_B9,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::files::{Files, ModelSource};
    use crate::loader::{SyntheticWeights, Weights};

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

    /// As the model cards and the headers of the published files have them; tied embeddings once. Those of Qwen3.5 as
    /// transformers 5 counts them for these configurations.
    #[test]
    fn shapes_have_as_many_parameters_as_the_published_models() {
        let parameters = Synthetic::ALL.map(|model| config(model).parameters());
        assert_eq!(
            parameters,
            [
                596_049_920,
                1_720_574_976,
                4_022_468_096,
                8_190_735_360,
                752_393_024,
                1_881_825_088,
                4_205_751_296,
                8_953_803_264,
            ]
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
