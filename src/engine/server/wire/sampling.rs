//! The parameters that say how tokens are chosen, each with its range.
//!
//! [`Choosing`] holds what a request says; what it leaves out is the model's own
//! (`generation_config.json`), as vLLM has it. Refuses to know: how a choice is made.

use super::error::ApiError;
use super::fields::{Fields, kind};
use super::shown::shorten;
use crate::request::Sampling;
use serde_json::Value;

pub const NAMES: &[&str] = &[
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "allowed_token_ids",
    "seed",
];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choosing {
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<u32>,
    min_p: Option<f32>,
    presence_penalty: Option<f32>,
    frequency_penalty: Option<f32>,
    repetition_penalty: Option<f32>,
    /// Ascending by id.
    bias: Vec<(u32, f32)>,
    /// Ascending, each once: below the vocabulary's size there are no more than that.
    allowed: Vec<u32>,
    /// `None`: fresh for each prompt.
    pub seed: Option<u64>,
}

/// A range of numbers, and how a message puts it.
struct Range {
    least: f64,
    least_is_in: bool,
    greatest: f64,
    words: &'static str,
}

impl Range {
    const fn closed(least: f64, greatest: f64, words: &'static str) -> Self {
        Self {
            least,
            least_is_in: true,
            greatest,
            words,
        }
    }

    const fn above_zero(greatest: f64, words: &'static str) -> Self {
        Self {
            least: 0.0,
            least_is_in: false,
            greatest,
            words,
        }
    }

    fn holds(&self, value: f64) -> bool {
        (value > self.least || self.least_is_in && value >= self.least) && value <= self.greatest
    }
}

const UP_TO_TWO: Range = Range::closed(0.0, 2.0, "from 0 to 2");
const SHARE: Range = Range::closed(0.0, 1.0, "from 0 to 1");
const SHARE_ABOVE_ZERO: Range = Range::above_zero(1.0, "above 0 and at most 1");
const PENALTY: Range = Range::closed(-2.0, 2.0, "from -2 to 2");
const FACTOR: Range = Range::above_zero(2.0, "above 0 and at most 2");
const BIAS: Range = Range::closed(-100.0, 100.0, "from -100 to 100");

impl Choosing {
    pub fn read(fields: &mut Fields) -> Result<Self, ApiError> {
        Ok(Self {
            temperature: within(fields, "temperature", &UP_TO_TWO)?,
            top_p: within(fields, "top_p", &SHARE_ABOVE_ZERO)?,
            top_k: top_k(fields)?,
            min_p: within(fields, "min_p", &SHARE)?,
            presence_penalty: within(fields, "presence_penalty", &PENALTY)?,
            frequency_penalty: within(fields, "frequency_penalty", &PENALTY)?,
            repetition_penalty: within(fields, "repetition_penalty", &FACTOR)?,
            bias: bias(fields)?,
            allowed: allowed(fields)?,
            seed: seed(fields)?,
        })
    }

    /// The engine's rules: what was said over what the model has. Ids must be below `vocab`.
    pub fn over(&self, model: &Sampling, vocab: usize, seed: u64) -> Result<Sampling, ApiError> {
        check_ids("logit_bias", self.bias.iter().map(|(id, _)| *id), vocab)?;
        check_ids("allowed_token_ids", self.allowed.iter().copied(), vocab)?;
        Ok(Sampling {
            temperature: self.temperature.unwrap_or(model.temperature),
            top_k: self.top_k.unwrap_or(model.top_k),
            top_p: self.top_p.unwrap_or(model.top_p),
            min_p: self.min_p.unwrap_or(model.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(model.repetition_penalty),
            presence_penalty: self.presence_penalty.unwrap_or(model.presence_penalty),
            frequency_penalty: self.frequency_penalty.unwrap_or(model.frequency_penalty),
            bias: self.bias.clone(),
            allowed: self.allowed.clone(),
            seed,
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

fn within(fields: &mut Fields, name: &str, range: &Range) -> Result<Option<f32>, ApiError> {
    match fields.number(name)? {
        None => Ok(None),
        Some(value) => in_range(name, value, range).map(Some),
    }
}

fn in_range(name: &str, value: f64, range: &Range) -> Result<f32, ApiError> {
    if range.holds(value) {
        return Ok(value as f32);
    }
    let message = format!("`{name}` must be {}, not {value}", range.words);
    Err(ApiError::invalid_value(name, message))
}

/// −1, as vLLM has it, and 0 take all tokens.
fn top_k(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    let top_k = fields.integer("top_k", -1..=i128::from(u32::MAX))?;
    Ok(top_k.map(|k| u32::try_from(k).unwrap_or(0)))
}

/// Any integer of 64 bits; −1 is none, as vLLM and llama.cpp have it.
fn seed(fields: &mut Fields) -> Result<Option<u64>, ApiError> {
    match fields.integer("seed", i64::MIN.into()..=u64::MAX.into())? {
        None | Some(-1) => Ok(None),
        // Below 0 by its two's complement: any number will do, if it is always the same.
        Some(value) => Ok(Some(value as u64)),
    }
}

/// An object whose names are ids.
fn bias(fields: &mut Fields) -> Result<Vec<(u32, f32)>, ApiError> {
    let Some(members) = fields.members("logit_bias")? else {
        return Ok(Vec::new());
    };
    let read = |(key, value): (String, Value)| {
        let key = shorten(&key);
        let path = format!("logit_bias.{key}");
        let id = key.parse().map_err(|_| {
            let message = format!("`{key}` in `logit_bias` is no token id");
            ApiError::invalid_value("logit_bias", message)
        })?;
        let number = value
            .as_f64()
            .ok_or_else(|| ApiError::invalid_type(&path, "a number", &kind(&value)))?;
        Ok((id, in_range(&path, number, &BIAS)?))
    };
    let mut bias = members
        .into_iter()
        .map(read)
        .collect::<Result<Vec<(u32, f32)>, ApiError>>()?;
    bias.sort_unstable_by_key(|(id, _)| *id);
    // Two spellings of an id, `5` and `05`.
    if let Some(pair) = bias.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let message = format!("`logit_bias` names the id {} twice", pair[0].0);
        return Err(ApiError::invalid_value("logit_bias", message));
    }
    Ok(bias)
}

fn allowed(fields: &mut Fields) -> Result<Vec<u32>, ApiError> {
    match fields.ids("allowed_token_ids")? {
        None => Ok(Vec::new()),
        Some(ids) if ids.is_empty() => {
            let message = "`allowed_token_ids` is empty: no token could be chosen";
            Err(ApiError::invalid_value("allowed_token_ids", message))
        }
        Some(ids) => Ok(ids),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: Value) -> Result<Choosing, ApiError> {
        let Value::Object(members) = body else {
            panic!("an object is needed");
        };
        Choosing::read(&mut Fields::new(members))
    }

    fn over(body: Value, model: &Sampling) -> Sampling {
        read(body).unwrap().over(model, 1000, 3).unwrap()
    }

    #[test]
    fn what_is_absent_is_the_models_own() {
        let model = Sampling {
            temperature: 0.5,
            top_k: 20,
            top_p: 0.75,
            ..Sampling::default()
        };
        let expect = Sampling {
            seed: 3,
            ..model.clone()
        };
        assert_eq!(over(json!({}), &model), expect);
        assert_eq!(over(json!({"temperature": null}), &model), expect);
        let said = json!({"temperature": 0, "top_k": -1, "top_p": 1});
        let expect = Sampling {
            seed: 3,
            ..Sampling::default()
        };
        assert_eq!(over(said, &model), expect);
    }

    #[test]
    fn every_parameter_arrives() {
        let said = json!({"temperature": 1.5, "top_p": 0.5, "top_k": 7, "min_p": 0.25, "presence_penalty": -2,
            "frequency_penalty": 2, "repetition_penalty": 1.25, "logit_bias": {"10": -100, "9": 0.5},
            "allowed_token_ids": [9, 10], "seed": 5});
        assert_eq!(read(said.clone()).unwrap().seed, Some(5));
        assert_eq!(
            over(said, &Sampling::default()),
            Sampling {
                temperature: 1.5,
                top_k: 7,
                top_p: 0.5,
                min_p: 0.25,
                repetition_penalty: 1.25,
                presence_penalty: -2.0,
                frequency_penalty: 2.0,
                bias: vec![(9, 0.5), (10, -100.0)],
                allowed: vec![9, 10],
                seed: 3,
            }
        );
    }

    #[test]
    fn ranges_hold_their_ends_and_nothing_beyond() {
        let check = |name: &str, good: &[f64], bad: &[f64], words: &str| {
            for value in good {
                assert!(read(json!({name: value})).is_ok(), "{name} = {value}");
            }
            for value in bad {
                let error = read(json!({name: value})).unwrap_err();
                assert_eq!(
                    (error.code, error.param.as_deref()),
                    ("invalid_value", Some(name))
                );
                let expect = format!("`{name}` must be {words}, not {value}");
                assert_eq!(error.message, expect);
            }
        };
        check("temperature", &[0.0, 2.0], &[-0.1, 2.1], "from 0 to 2");
        check("top_p", &[0.1, 1.0], &[0.0, 1.1], "above 0 and at most 1");
        check("min_p", &[0.0, 1.0], &[-0.1, 1.1], "from 0 to 1");
        let words = "above 0 and at most 2";
        check("repetition_penalty", &[0.1, 2.0], &[0.0, -1.5, 2.1], words);
        for name in ["presence_penalty", "frequency_penalty"] {
            check(name, &[-2.0, 2.0], &[-2.1, 2.1], "from -2 to 2");
        }
    }

    #[test]
    fn wrong_types_and_values_name_the_parameter() {
        let check = |body: Value, code: &str, param: &str| {
            let error = read(body).unwrap_err();
            assert_eq!((error.code, error.param.as_deref()), (code, Some(param)));
        };
        check(json!({"temperature": "1"}), "invalid_type", "temperature");
        check(json!({"top_k": 1.5}), "invalid_type", "top_k");
        check(json!({"top_k": -2}), "invalid_value", "top_k");
        check(
            json!({"top_k": 4_294_967_296_u64}),
            "invalid_value",
            "top_k",
        );
        check(json!({"seed": 1.5}), "invalid_type", "seed");
        let beyond = serde_json::from_str(r#"{"seed": 18446744073709551616}"#).unwrap();
        check(beyond, "invalid_value", "seed");
        check(json!({"logit_bias": [1]}), "invalid_type", "logit_bias");
        check(
            json!({"logit_bias": {"a": 1}}),
            "invalid_value",
            "logit_bias",
        );
        check(
            json!({"logit_bias": {"5": 1, "05": 1}}),
            "invalid_value",
            "logit_bias",
        );
        check(
            json!({"logit_bias": {"5": "1"}}),
            "invalid_type",
            "logit_bias.5",
        );
        check(
            json!({"logit_bias": {"5": 101}}),
            "invalid_value",
            "logit_bias.5",
        );
        let name = "allowed_token_ids";
        check(json!({name: []}), "invalid_value", name);
        check(json!({name: [-1]}), "invalid_type", name);
        check(json!({name: 5}), "invalid_type", name);
    }

    #[test]
    fn ids_outside_the_vocabulary_are_refused() {
        for (name, value) in [
            ("logit_bias", json!({"10": 1})),
            ("allowed_token_ids", json!([9, 10])),
        ] {
            let said = read(json!({name: value})).unwrap();
            assert!(said.over(&Sampling::default(), 11, 0).is_ok());
            let error = said.over(&Sampling::default(), 10, 0).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(name));
            assert!(error.message.contains("from 0 to 9"), "{}", error.message);
        }
    }

    #[test]
    fn a_seed_is_any_integer_of_64_bits_and_minus_one_is_none() {
        let check = |value: Value, expect: Option<u64>| {
            assert_eq!(read(json!({"seed": value})).unwrap().seed, expect);
        };
        check(json!(null), None);
        check(json!(-1), None);
        check(json!(0), Some(0));
        check(json!(u64::MAX), Some(u64::MAX));
        check(json!(-2), Some(u64::MAX - 1));
    }
}
