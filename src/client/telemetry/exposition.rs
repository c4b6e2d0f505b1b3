//! Prometheus' text format, read: `name{label="value",…} number`, one sample a line.
//!
//! Tolerant, since every engine writes its own dialect: what is no sample (comments, exemplars, lines that
//! were cut) is passed over. Refuses to know: which names matter.

use super::missing::Missing;
use std::collections::BTreeMap;
use verdict::plan::EngineSeries;

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    pub name: &'a str,
    /// What stands between the braces, as it is written.
    labels: &'a str,
    /// May be NaN or infinite, as the format allows.
    pub value: f64,
}

/// Every sample of the text, in its order.
pub fn samples(text: &str) -> impl Iterator<Item = Sample<'_>> {
    text.lines().filter_map(sample)
}

/// The sum over the label sets of `name`; `None` where it has no finite value.
pub fn sum(text: &str, name: &str) -> Option<f64> {
    samples(text)
        .filter(|sample| sample.name == name && sample.value.is_finite())
        .map(|sample| sample.value)
        .reduce(|total, value| total + value)
}

/// The values of these series, by their names; a series without a finite value is left out, and noted.
pub fn named(text: &str, all: &[EngineSeries], missing: &mut Missing) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    for series in all {
        let name = series.to_string();
        match sum_of(text, series) {
            Some(value) => _ = values.insert(name, value),
            None => missing.note(&format!("series {name}"), || {
                format!("the engine's metrics have no value of `{name}`")
            }),
        }
    }
    values
}

/// The sum over the samples of the series' name that have all its labels.
fn sum_of(text: &str, series: &EngineSeries) -> Option<f64> {
    let has = |sample: &Sample<'_>, (label, value): &(String, String)| {
        sample.label(label).is_some_and(|found| found == *value)
    };
    samples(text)
        .filter(|sample| sample.name == series.name && sample.value.is_finite())
        .filter(|sample| series.labels.iter().all(|label| has(sample, label)))
        .map(|sample| sample.value)
        .reduce(|total, value| total + value)
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let name_end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(name_end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => {
            let end = labels_end(rest)?;
            (&rest[..end], &rest[end + 1..])
        }
        None => ("", rest),
    };
    // A timestamp or an exemplar may follow.
    let value = rest.split_whitespace().next()?.parse().ok()?;
    (!name.is_empty()).then_some(Sample {
        name,
        labels,
        value,
    })
}

/// Where the closing brace stands: not one within quotes.
fn labels_end(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '}' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

impl Sample<'_> {
    /// The label's value, its escapes undone.
    pub fn label(&self, name: &str) -> Option<String> {
        let mut rest = self.labels;
        loop {
            let (key, quoted) = rest.split_once('=')?;
            let (value, after) = unquote(quoted.trim_start().strip_prefix('"')?)?;
            if key.trim() == name {
                return Some(value);
            }
            rest = after.trim_start().trim_start_matches(',');
        }
    }
}

/// Text up to the closing quote, and what follows it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, name: &str, expect: Option<f64>) {
        let found = sum(text, name);
        assert_eq!(
            found.map(f64::to_bits),
            expect.map(f64::to_bits),
            "{name}: {found:?}"
        );
    }

    /// vLLM: a name with a colon, one label set an engine, an exponent.
    const VLLM: &str = r#"# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3-0.6B"} 3.0
vllm:num_requests_running{engine="1",model_name="Qwen/Qwen3-0.6B"} 4.0
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="Qwen/Qwen3-0.6B"} 1.048576e+06
vllm:prefix_cache_queries_created{engine="0",model_name="Qwen/Qwen3-0.6B"} 1.7461e+09
vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf",model_name="Qwen/Qwen3-0.6B"} 7.0
"#;

    /// SGLang: further labels with slashes and empty values.
    const SGLANG: &str = r#"# TYPE sglang:token_usage gauge
sglang:token_usage{engine_type="unified",model_name="/models/a{b}",pp_rank="0",tp_rank="0"} 0.25
# TYPE sglang:cache_hit_rate gauge
sglang:cache_hit_rate{model_name="",tp_rank="0"} NaN
sglang:num_queue_reqs{model_name="a \"b\" \\",tp_rank="0"} 2.0
"#;

    /// llama.cpp: no labels.
    const LLAMA_CPP: &str = "# HELP llamacpp:requests_processing Number of requests processing.\n\
        # TYPE llamacpp:requests_processing gauge\nllamacpp:requests_processing 1\n\
        llamacpp:kv_cache_usage_ratio 0.5 1746100000000\nllamacpp:requests_deferred";

    #[test]
    fn values_are_summed_over_label_sets() {
        check(VLLM, "vllm:num_requests_running", Some(7.0));
        check(VLLM, "vllm:prefix_cache_queries_total", Some(1_048_576.0));
        check(VLLM, "vllm:prefix_cache_queries", None);
        check(VLLM, "vllm:num_requests_waiting", None);
        check(SGLANG, "sglang:token_usage", Some(0.25));
        check(SGLANG, "sglang:cache_hit_rate", None);
        check(SGLANG, "sglang:num_queue_reqs", Some(2.0));
        check(LLAMA_CPP, "llamacpp:requests_processing", Some(1.0));
        check(LLAMA_CPP, "llamacpp:kv_cache_usage_ratio", Some(0.5));
        // Its line was cut before the value.
        check(LLAMA_CPP, "llamacpp:requests_deferred", None);
        check("a_total 4 # {trace=\"x\"} 0.67 1.5", "a_total", Some(4.0));
    }

    #[test]
    fn series_are_summed_over_samples_with_their_labels() {
        let series = |labels: &[(&str, &str)]| EngineSeries {
            name: "vllm:num_requests_running".into(),
            labels: labels
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        };
        let one = series(&[("engine", "1"), ("model_name", "Qwen/Qwen3-0.6B")]);
        let (all, none) = (series(&[]), series(&[("engine", "2")]));
        let mut missing = Missing::default();
        let found = named(VLLM, &[one.clone(), all.clone(), none], &mut missing);
        let expect = [(one.to_string(), 4.0), (all.to_string(), 7.0)];
        assert_eq!(found, expect.into());
        let sentence =
            "the engine's metrics have no value of `vllm:num_requests_running{engine=\"2\"}`";
        assert_eq!(missing.into_sentences(), [sentence]);
    }

    #[test]
    fn labels_are_read_with_their_escapes() {
        let found: Vec<Sample<'_>> = samples(SGLANG).collect();
        let label = |i: usize, name: &str| found[i].label(name);
        assert_eq!(label(0, "model_name").as_deref(), Some("/models/a{b}"));
        assert_eq!(label(0, "tp_rank").as_deref(), Some("0"));
        assert_eq!(label(0, "rank"), None);
        assert_eq!(label(1, "model_name").as_deref(), Some(""));
        assert_eq!(label(2, "model_name").as_deref(), Some("a \"b\" \\"));
        assert_eq!(label(2, "tp_rank").as_deref(), Some("0"));
    }

    #[test]
    fn no_text_is_too_strange() {
        for text in [
            "",
            "{",
            "x{",
            "x{a=\"b} 1",
            "}",
            "x{} ",
            "x{a} 1",
            "\u{feff}",
            "#",
        ] {
            for sample in samples(text) {
                assert_eq!(sample.label("a"), None, "{text}");
            }
        }
    }
}
