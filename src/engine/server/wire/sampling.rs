//! The parameters that say how tokens are chosen; what a request leaves out is the model's own
//! (`generation_config.json`), as vLLM has it.
//!
//! Refuses to know: how a choice is made.

use super::error::ApiError;
use super::json::Real;
use super::parameters::Parameters;
use crate::request::Sampling;

impl Parameters {
    pub fn check_allowed(&self) -> Result<(), ApiError> {
        match &self.allowed_token_ids {
            Some(ids) if ids.0.is_empty() => {
                let message = "`allowed_token_ids` is empty: no token could be chosen";
                Err(ApiError::invalid_value("allowed_token_ids", message))
            }
            _ => Ok(()),
        }
    }

    /// `None`: fresh for each prompt. Below 0 by its two's complement: any number will do, if it is always the same.
    pub fn seed(&self) -> Option<u64> {
        self.seed
            .filter(|seed| seed.0 != -1)
            .map(|seed| seed.0 as u64)
    }

    /// The engine's rules: what was sent over what the model has. Ids must be below `vocab`.
    pub fn sampling(&self, model: &Sampling, vocab: usize) -> Result<Sampling, ApiError> {
        let bias = self.logit_bias.clone().unwrap_or_default().0;
        let allowed = self.allowed_token_ids.clone().unwrap_or_default().0;
        check_ids("logit_bias", bias.iter().map(|(id, _)| *id), vocab)?;
        check_ids("allowed_token_ids", allowed.iter().copied(), vocab)?;
        let penalty = |sent: Option<Real<-2, 2>>, model| sent.map_or(model, |it| it.0);
        Ok(Sampling {
            temperature: self.temperature.map_or(model.temperature, |it| it.0),
            top_k: self.top_k.map_or(model.top_k, |it| it.0.max(0) as u32),
            top_p: self.top_p.map_or(model.top_p, |it| it.0),
            min_p: self.min_p.map_or(model.min_p, |it| it.0),
            repetition_penalty: (self.repetition_penalty)
                .map_or(model.repetition_penalty, |it| it.0),
            presence_penalty: penalty(self.presence_penalty, model.presence_penalty),
            frequency_penalty: penalty(self.frequency_penalty, model.frequency_penalty),
            bias,
            allowed,
            seed: 0,
        })
    }
}

/// Refuses ids outside the model's vocabulary.
pub fn check_ids(
    name: &str,
    mut ids: impl Iterator<Item = u32>,
    vocab: usize,
) -> Result<(), ApiError> {
    match ids.find(|id| *id as usize >= vocab) {
        None => Ok(()),
        Some(id) => {
            let message = format!(
                "`{name}` holds the id {id}; the model's {vocab} ids are from 0 to {}",
                vocab.saturating_sub(1)
            );
            Err(ApiError::invalid_value(name, message))
        }
    }
}
