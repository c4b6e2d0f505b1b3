//! `/v1/models`: the one model that is served.

use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct ModelList<'a> {
    object: &'static str,
    data: [Model<'a>; 1],
}

#[derive(Debug, Serialize)]
pub struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    /// The model's own name, under vLLM's name for it: its benchmark client reads it.
    root: &'a str,
    /// Context length in tokens, under vLLM's name for it.
    max_model_len: usize,
}

impl<'a> ModelList<'a> {
    pub fn of_one(model: Model<'a>) -> Self {
        Self {
            object: "list",
            data: [model],
        }
    }
}

impl<'a> Model<'a> {
    /// `created`: Unix seconds since when the model is served.
    pub fn new(id: &'a str, created: u64, max_model_len: usize) -> Self {
        Self {
            id,
            object: "model",
            created,
            owned_by: "infergate",
            root: id,
            max_model_len,
        }
    }
}
