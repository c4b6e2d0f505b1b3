//! Values of `gate load`'s arguments: read, or refused with what they must be.
//!
//! Refuses to know: what they are for.

use super::workload::lengths::Lengths;
use crate::session::Error;
use serde_json::{Map, Value};
use verdict::plan::REQUEST_KEYS;

pub fn lengths(of: &str, lengths: Lengths, stddev: Option<f64>) -> Result<Lengths, Error> {
    lengths.spread(stddev).ok_or_else(|| {
        Error::Usage(format!(
            "--{of}-tokens-stddev goes with one length in --{of}-tokens; a range has its own spread"
        ))
    })
}

pub fn extra_body(text: &str) -> Result<Map<String, Value>, Error> {
    let keys: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| Error::Usage(format!("--extra-body is no JSON object: {error}")))?;
    let own = |key: &&String| REQUEST_KEYS.contains(&key.as_str()) && *key != "temperature";
    match keys.keys().find(own) {
        None => Ok(keys),
        Some(key) => Err(Error::Usage(format!(
            "--extra-body: `{key}` is set by the other options; leave it out"
        ))),
    }
}

/// Bounded, so that no duration made of it is too long.
pub fn positive(text: &str) -> Result<f64, String> {
    between(text, 1e-6, 1e9)
}

pub fn shape(text: &str) -> Result<f64, String> {
    between(text, 0.01, 1e4)
}

fn between(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let fits = number.filter(|number| (least..=most).contains(number));
    fits.ok_or_else(|| format!("must be a number between {least} and {most}"))
}

pub fn ids(text: &str) -> Result<(u32, u32), String> {
    let ends = text.split_once("..").and_then(|(low, high)| {
        let ends = (low.parse().ok()?, high.parse().ok()?);
        (ends.0 < ends.1).then_some(ends)
    });
    ends.ok_or_else(|| "must be two rising numbers as in 3..384".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{extra_body, ids, positive};

    #[test]
    fn ranges_and_numbers_are_read_or_refused() {
        assert_eq!(ids("3..384"), Ok((3, 384)));
        for wrong in ["3", "3..3", "4..3", "a..b", "3..=4", ""] {
            assert!(ids(wrong).is_err(), "{wrong}");
        }
        assert!(positive("0.5").is_ok());
        for wrong in ["0", "-1", "nan", "inf", "1e12", "x"] {
            assert!(positive(wrong).is_err(), "{wrong}");
        }
        assert!(extra_body(r#"{"temperature": 0.7, "x": {"y": 1}}"#).is_ok());
        for wrong in ["1", "{", r#"{"stream": false}"#] {
            assert!(extra_body(wrong).is_err(), "{wrong}");
        }
    }
}
