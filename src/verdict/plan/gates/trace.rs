//! Recorded traffic: one request a line, `{"timestamp": s, "prompt_length": n, "output_length": m}`.
//!
//! The names of Mooncake's published traces (`timestamp` in ms, `input_length`, `output_length`) are read
//! too; a file must keep to one of the two.

use crate::plan::model::TraceEntry;
use serde::Deserialize;
use std::time::Duration;

/// Longest prompt or answer, in tokens.
const LONGEST: u32 = 1_000_000;

#[derive(Deserialize)]
#[serde(untagged)]
enum TraceLine {
    Ours {
        timestamp: f64,
        prompt_length: u32,
        output_length: u32,
    },
    Mooncake {
        timestamp: f64,
        input_length: u32,
        output_length: u32,
    },
}

/// Reads the text of a whole file; moments count from the first request's.
///
/// # Errors
/// What is wrong with which line.
pub fn entries(text: &str) -> Result<Vec<TraceEntry>, String> {
    let mut entries = Vec::<TraceEntry>::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let entry = entry(line).map_err(|reason| format!("line {number}: {reason}"))?;
        if entries.last().is_some_and(|last| entry.at < last.at) {
            return Err(format!(
                "line {number}: its timestamp lies before the last line's"
            ));
        }
        entries.push(entry);
    }
    // The replay begins with the first request, whatever clock the trace was taken by.
    let Some(first) = entries.first().map(|entry| entry.at) else {
        return Err("it holds no request".into());
    };
    for entry in &mut entries {
        entry.at -= first;
    }
    Ok(entries)
}

fn entry(line: &str) -> Result<TraceEntry, String> {
    let parsed = serde_json::from_str(line).map_err(|_| {
        "neither {\"timestamp\" (s), \"prompt_length\", \"output_length\"} nor {\"timestamp\" (ms), \
         \"input_length\", \"output_length\"}"
            .to_owned()
    })?;
    let (seconds, prompt_tokens, output_tokens) = match parsed {
        TraceLine::Ours {
            timestamp,
            prompt_length,
            output_length,
        } => (timestamp, prompt_length, output_length),
        TraceLine::Mooncake {
            timestamp,
            input_length,
            output_length,
        } => (timestamp / 1e3, input_length, output_length),
    };
    let at = Duration::try_from_secs_f64(seconds)
        .map_err(|_| format!("a timestamp of {seconds} s cannot be"))?;
    for length in [prompt_tokens, output_tokens] {
        if !(1..=LONGEST).contains(&length) {
            return Err(format!("a length of {length} tokens cannot be asked for"));
        }
    }
    Ok(TraceEntry {
        at,
        prompt_tokens,
        output_tokens,
    })
}

#[cfg(test)]
mod tests {
    use super::{TraceEntry, entries};
    use std::time::Duration;

    #[test]
    fn both_forms_are_read_from_their_first_moment() {
        let expect = [
            TraceEntry {
                at: Duration::ZERO,
                prompt_tokens: 10,
                output_tokens: 4,
            },
            TraceEntry {
                at: Duration::from_millis(250),
                prompt_tokens: 20,
                output_tokens: 5,
            },
        ];
        let ours = "{\"timestamp\":3.0,\"prompt_length\":10,\"output_length\":4}\n\n\
                    {\"timestamp\":3.25,\"prompt_length\":20,\"output_length\":5}\n";
        assert_eq!(entries(ours).unwrap(), expect);
        let mooncake = "{\"timestamp\":0,\"input_length\":10,\"output_length\":4,\"hash_ids\":[1]}\n\
                        {\"timestamp\":250,\"input_length\":20,\"output_length\":5,\"hash_ids\":[]}";
        assert_eq!(entries(mooncake).unwrap(), expect);
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        let good = r#"{"timestamp":1,"prompt_length":1,"output_length":1}"#;
        let table = [
            (String::new(), "no request"),
            (format!("{good}\nnot json"), "line 2: neither"),
            (
                format!("{good}\n{}", good.replace(":1,\"p", ":0.5,\"p")),
                "line 2: its timestamp",
            ),
            (
                good.replace("\"output_length\":1", "\"output_length\":0"),
                "0 tokens",
            ),
            (good.replace(":1,\"p", ":-1,\"p"), "cannot be"),
        ];
        for (text, expect) in table {
            let refusal = entries(&text).unwrap_err();
            assert!(refusal.contains(expect), "{text}: {refusal}");
        }
    }
}
