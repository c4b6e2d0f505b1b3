//! The parameters that say where an answer ends: stop texts and stop ids.
//!
//! Refuses to know: how a text is found in an answer.

use super::error::ApiError;
use super::parameters::{Parameters, Stop};

/// OpenAI has 4; vLLM has no limit.
const MAX_TEXTS: usize = 16;
/// Each token's text is compared with every stop text: both must be short.
const MAX_TEXT_BYTES: usize = 1024;
/// Each choice keeps its own list.
const MAX_IDS: usize = 4096;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    pub texts: Vec<String>,
    /// Ascending, each once.
    pub ids: Vec<u32>,
    /// The text or token that ends the answer is shown.
    pub shown: bool,
}

impl Stops {
    pub fn read(parameters: &mut Parameters) -> Result<Self, ApiError> {
        let texts = match parameters.stop.take() {
            None => Vec::new(),
            Some(Stop::One(text)) => vec![text],
            Some(Stop::Several(texts)) => texts,
        };
        let lengths = texts.iter().map(String::len);
        if let Some(bytes) = { lengths }.find(|bytes| !(1..=MAX_TEXT_BYTES).contains(bytes)) {
            let message =
                format!("a text in `stop` must be from 1 to {MAX_TEXT_BYTES} bytes, not {bytes}");
            return Err(ApiError::invalid_value("stop", message));
        }
        let ids = parameters.stop_token_ids.take().unwrap_or_default().0;
        at_most(MAX_TEXTS, "texts", texts.len(), "stop")?;
        at_most(MAX_IDS, "different ids", ids.len(), "stop_token_ids")?;
        Ok(Self {
            texts,
            ids,
            shown: parameters.include_stop_str_in_output == Some(true),
        })
    }
}

fn at_most(most: usize, things: &str, count: usize, name: &str) -> Result<(), ApiError> {
    if count <= most {
        return Ok(());
    }
    let message = format!("`{name}` must hold at most {most} {things}, not {count}");
    Err(ApiError::invalid_value(name, message))
}
