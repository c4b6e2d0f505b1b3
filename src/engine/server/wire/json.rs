//! A JSON object → a request type, by serde; serde's errors in the API's words.
//!
//! Main function: [`read`]. [`Whole`], [`Real`] and [`Ids`] check their range as they are read.

use super::error::ApiError;
use super::neutral;
use super::truncate::{kind, shorten};
use crate::request::ascending;
use serde::de::{DeserializeOwned, Error as _, Unexpected};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};
use serde_path_to_error::{Path, Segment};

/// Reads an object. `within` is its path in the body, empty for the body itself.
pub fn read<T: DeserializeOwned>(members: Map<String, Value>, within: &str) -> Result<T, ApiError> {
    let read = serde_path_to_error::deserialize(Value::Object(members));
    read.map_err(|error| refusal(within, error.path(), &error.inner().to_string()))
}

/// Reads one member of the body; null counts as absent.
pub fn read_one<T: DeserializeOwned>(
    name: &str,
    value: Option<Value>,
) -> Result<Option<T>, ApiError> {
    let read = value.map(serde_path_to_error::deserialize).transpose();
    read.map_err(|error| refusal(name, error.path(), &error.inner().to_string()))
}

/// `name` in the object at `within`, as an error names it: `messages.1.role`.
pub fn join(within: &str, name: &str) -> String {
    match within {
        "" => shorten(name).into_owned(),
        _ => format!("{within}.{}", shorten(name)),
    }
}

/// Serde's message in the API's words, with the code that fits.
fn refusal(within: &str, path: &Path, message: &str) -> ApiError {
    let path = path
        .iter()
        .fold(within.to_owned(), |path, part| match part {
            Segment::Seq { index } => join(&path, &index.to_string()),
            Segment::Map { key } => join(&path, key),
            Segment::Enum { .. } | Segment::Unknown => path,
        });
    let (kind, rest) = message.split_once(' ').unwrap_or_default();
    let (subject, rest) = rest.split_once(' ').unwrap_or_default();
    let (found, expected) = rest.rsplit_once(", expected ").unwrap_or((rest, ""));
    let name = found.strip_prefix('`').and_then(|it| it.strip_suffix('`'));
    let name = name.unwrap_or(found);
    match (kind, subject) {
        ("invalid", "type:") => {
            ApiError::invalid_type(&path, json_word(expected), &shorten(json_word(found)))
        }
        ("missing", "field") => ApiError::missing(&join(&path, name)),
        ("unknown", "field") => {
            let of_body = neutral::names().filter(|_| within.is_empty());
            let known = expected.split('`').skip(1).step_by(2).chain(of_body);
            unknown(&path, nearest(name, known))
        }
        ("must", _) => ApiError::invalid_value(&path, format!("`{path}` {message}")),
        _ => ApiError::invalid_type(&path, message, "what was sent"),
    }
}

/// JSON's word for what serde calls by Rust's.
fn json_word(word: &str) -> &str {
    match word {
        "a map" | "map" => "an object",
        "a sequence" | "sequence" => "an array",
        "a JSON number" => "a number",
        _ => word,
    }
}

/// The refusal of a name that no parameter has; `path` ends with it.
fn unknown(path: &str, nearest: Option<&str>) -> ApiError {
    let hint = nearest.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    let message = format!("`{path}` is not a parameter of this API{hint}");
    ApiError::unknown(path, message)
}

/// The name most like `name`, if one is like it enough to be worth saying.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LIKE_ENOUGH: f64 = 0.85;
    /// The comparison's time grows with the square of the length.
    const LONGEST_BYTES: usize = 64;
    known
        .filter(|_| name.len() <= LONGEST_BYTES)
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKE_ENOUGH)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// A whole number within a range, ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<const LEAST: i128, const GREATEST: i128>(pub i128);

/// A count, or a token id.
pub type Count = Whole<0, { u32::MAX as i128 }>;

impl Count {
    pub fn get(self) -> u32 {
        self.0 as u32
    }
}

impl<'de, const LEAST: i128, const GREATEST: i128> Deserialize<'de> for Whole<LEAST, GREATEST> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(source)?;
        let decimal = Unexpected::Float(number.as_f64().unwrap_or(f64::NAN));
        let whole =
            whole(&number).ok_or_else(|| D::Error::invalid_type(decimal, &"a whole number"))?;
        match (LEAST..=GREATEST).contains(&whole) {
            true => Ok(Self(whole)),
            false => Err(D::Error::custom(format_args!(
                "must be from {LEAST} to {GREATEST}, not {number}"
            ))),
        }
    }
}

/// A whole number; one that JSON's reader could hold in no 64 bits, and made a decimal of, is beyond every range.
fn whole(number: &Number) -> Option<i128> {
    const BEYOND: f64 = 18_446_744_073_709_551_616.0;
    number.as_i128().or_else(|| match number.as_f64()? {
        great if great >= BEYOND => Some(i128::MAX),
        small if small <= -BEYOND / 2.0 => Some(i128::MIN),
        _ => None,
    })
}

/// A number from `LEAST` to `GREATEST`; `LEAST` itself is not among them where `IS_ABOVE`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Real<const LEAST: i8, const GREATEST: i8, const IS_ABOVE: bool = false>(pub f32);

impl<'de, const LEAST: i8, const GREATEST: i8, const IS_ABOVE: bool> Deserialize<'de>
    for Real<LEAST, GREATEST, IS_ABOVE>
{
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(source)?.as_f64().unwrap_or(f64::NAN);
        let (least, greatest) = (f64::from(LEAST), f64::from(GREATEST));
        let is_above = number > least || !IS_ABOVE && number >= least;
        match (is_above && number <= greatest, IS_ABOVE) {
            (true, _) => Ok(Self(number as f32)),
            (false, true) => Err(D::Error::custom(format_args!(
                "must be above {LEAST} and at most {GREATEST}, not {number}"
            ))),
            (false, false) => Err(D::Error::custom(format_args!(
                "must be from {LEAST} to {GREATEST}, not {number}"
            ))),
        }
    }
}

/// Token ids, ascending, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids(pub Vec<u32>);

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let ids = token_ids(&Vec::<Value>::deserialize(source)?);
        let ids =
            ids.map_err(|found| D::Error::invalid_type(Unexpected::Other(&found), &TOKEN_IDS))?;
        Ok(Self(ascending(ids)))
    }
}

pub const TOKEN_IDS: &str = "an array of token ids";

/// The ids of an array, or the one that is none in words.
pub fn token_ids(items: &[Value]) -> Result<Vec<u32>, String> {
    let id = |item: &Value| item.as_u64().and_then(|id| u32::try_from(id).ok());
    let ids = items
        .iter()
        .map(|item| id(item).ok_or_else(|| format!("one with {}", kind(item))));
    ids.collect()
}
