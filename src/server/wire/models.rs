//! `/v1/models`: the one model that is served.

use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct ModelList<'a> {
    object: &'static str,
    data: [Model<'a>; 1],
}

#[derive(Debug, Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    /// Context length in tokens, under vLLM's name for it.
    max_model_len: usize,
}

impl<'a> ModelList<'a> {
    /// `created`: Unix seconds since when the model is served.
    pub(crate) fn new(id: &'a str, created: u64, max_model_len: usize) -> Self {
        let model = Model {
            id,
            object: "model",
            created,
            owned_by: "infergate",
            max_model_len,
        };
        Self {
            object: "list",
            data: [model],
        }
    }
}
