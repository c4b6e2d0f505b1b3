//! The parameters that say how tokens are chosen; what a request leaves out is the model's own
//! (`generation_config.json`), as vLLM has it.
//!
//! Refuses to know: how a choice is made.

use super::common::Parameters;
use super::error::ApiError;
use super::json::{Real, Whole};
use super::shown::shorten;
use crate::request::Sampling;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// Any integer of 64 bits; −1 is none, as vLLM and llama.cpp have it.
pub type Seed = Whole<{ i64::MIN as i128 }, { u64::MAX as i128 }>;

/// `logit_bias`: an object whose names are ids; here ascending by id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bias(Vec<(u32, f32)>);

impl<'de> Deserialize<'de> for Bias {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let mut bias = Vec::new();
        for (name, Real(value)) in BTreeMap::<String, Real<-100, 100>>::deserialize(source)? {
            let id: u32 = name.parse().map_err(|_| {
                let name = shorten(&name);
                D::Error::custom(format_args!("must have token ids as names, not `{name}`"))
            })?;
            bias.push((id, value));
        }
        bias.sort_unstable_by_key(|(id, _)| *id);
        // Two spellings of an id, `5` and `05`.
        match bias.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            None => Ok(Self(bias)),
            Some(pair) => Err(D::Error::custom(format_args!(
                "must name the id {} once, not twice",
                pair[0].0
            ))),
        }
    }
}

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
