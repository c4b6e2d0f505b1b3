//! Parameters of a run under the command line's names, so that it can be repeated.
//!
//! Main function: [`parameters`]. Refuses to know: what came of it.

use super::LoadOptions;
use super::traffic::Prompts;
use serde_json::{Map, Value, json};
use verdict::plan::Arrivals;

/// What was asked for, by the names of the command line; what stands at its default is named too, but for
/// what would say nothing.
pub fn parameters(options: &LoadOptions) -> Map<String, Value> {
    let mut named = Map::new();
    let mut name = |name: &str, value: Value| {
        let silent = value.is_null() || value == json!(false);
        if !silent {
            named.insert(name.to_owned(), value);
        }
    };
    let traffic = &options.traffic;
    match &traffic.prompts {
        Prompts::File(path) if traffic.pace.is_none() => {
            name("trace", json!(path.display().to_string()));
        }
        Prompts::File(path) => name("prompts", json!(path.display().to_string())),
        Prompts::Drawn { tokens } => {
            let (tokens, stddev) = tokens.named();
            name("prompt_tokens", tokens);
            name("prompt_tokens_stddev", json!(stddev));
        }
    }
    name("multi_turn", json!(traffic.multi_turn));
    for (key, value) in traffic.pace.iter().flat_map(pace) {
        name(key, value);
    }
    name("requests", json!(traffic.requests));
    name("ramp_up", json!(traffic.ramp_up.map(|of| of.as_secs_f64())));
    name(
        "duration",
        json!(traffic.duration.map(|of| of.as_secs_f64())),
    );
    let (tokens, stddev) = traffic.output_tokens.named();
    name("output_tokens", tokens);
    name("output_tokens_stddev", json!(stddev));
    name("warmup", json!(traffic.warmup));
    name("chat", json!(options.chat));
    let headers = options.headers.names();
    if !headers.is_empty() {
        name("header", json!(headers.join(", ")));
    }
    if !options.extra_body.is_empty() {
        name("extra_body", json!(options.extra_body));
    }
    let ids = options.prompt_ids;
    name(
        "prompt_ids",
        json!(ids.map(|(low, high)| format!("{low}..{high}"))),
    );
    let tokenizer = options.tokenizer.as_ref();
    name(
        "tokenizer",
        json!(tokenizer.map(|path| path.display().to_string())),
    );
    name("slo_ttft", json!(options.slo.ttft_ms));
    name("slo_tpot", json!(options.slo.tpot_ms));
    name("slo_e2e", json!(options.slo.e2e_ms));
    name("tpot_floor", json!(options.plausible.tpot_floor_ms));
    name("prefill_floor", json!(options.plausible.prefill_floor_us));
    name("seed", json!(options.seed));
    name("timeout", json!(options.timeout.as_secs_f64()));
    name("no_ignore_eos", json!(!options.forces_length));
    name("no_stream_usage", json!(!options.stream_usage));
    name("no_keep_alive", json!(!options.keep_alive));
    name("return_token_ids", json!(options.return_token_ids));
    named
}

fn pace(arrivals: &Arrivals) -> Vec<(&'static str, Value)> {
    let rate = |process: &str, rate: f64| vec![("rate", json!(rate)), ("arrivals", json!(process))];
    match arrivals {
        Arrivals::Closed { concurrency } => vec![("concurrency", json!(concurrency))],
        Arrivals::Poisson { rate: of } => rate("poisson", *of),
        Arrivals::Gamma { rate: of, shape } => {
            let mut named = rate("gamma", *of);
            named.push(("shape", json!(shape)));
            named
        }
        Arrivals::Constant { rate: of } => rate("constant", *of),
        Arrivals::Burst { size, every } => {
            let mut named = rate("burst", f64::from(*size) / every.as_secs_f64());
            named.push(("burst_size", json!(size)));
            named
        }
        Arrivals::Recorded { at } => vec![("recorded", json!(at.len()))],
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrivals, pace};
    use serde_json::json;
    use std::time::Duration;

    fn check(arrivals: &Arrivals, expect: serde_json::Value) {
        let named: serde_json::Map<_, _> = pace(arrivals)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        assert_eq!(serde_json::Value::from(named), expect);
    }

    #[test]
    fn a_pace_has_the_command_lines_names() {
        check(
            &Arrivals::Closed { concurrency: 3 },
            json!({"concurrency": 3}),
        );
        check(
            &Arrivals::Poisson { rate: 2.5 },
            json!({"rate": 2.5, "arrivals": "poisson"}),
        );
        check(
            &Arrivals::Burst {
                size: 8,
                every: Duration::from_secs(2),
            },
            json!({"rate": 4.0, "arrivals": "burst", "burst_size": 8}),
        );
    }
}
