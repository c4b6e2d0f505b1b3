//! The JSON of `gate load`, which `gate dev import` writes too: read leniently, so that a later version's further
//! fields do not matter.

use super::distribution::LEAST_FOR_P99;
use super::{Column, Distribution, Origin, Row};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What one load run brought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// Name and version of the program that measured.
    #[serde(default)]
    pub tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What was asked for, by the names of the command line; empty in a result of another tool.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
    pub ttft_ms: Distribution,
    pub tpot_ms: Distribution,
    pub itl_ms: Distribution,
    pub icl_ms: Distribution,
    pub e2e_ms: Distribution,
    #[serde(default)]
    pub throughput: Throughput,
    /// Prompt tokens computed per second, and output tokens per second of one stream.
    #[serde(default)]
    pub prefill: Speed,
    #[serde(default)]
    pub generation: Speed,
    pub requests: Requests,
    /// Tokens of a sound request; left out by a result that does not say them.
    #[serde(default)]
    pub prompt_tokens: Distribution,
    #[serde(default)]
    pub output_tokens: Distribution,
    /// False: interrupted, so the figures are of what was done until then.
    #[serde(default = "yes")]
    pub complete: bool,
    /// In which ways the client was not good enough for these figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_beyond_limit: Vec<String>,
    /// Why not everything was sent, where the server itself was the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// How the server's own timings contradict its streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_contradicts: Option<String>,
    /// Why prefill and generation cannot both have been that fast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub implausible: Option<String>,
    /// What could not be measured although the requests are sound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Present in a result of another tool alone: its name, and what it lacks with the consequence of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported_from: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// Output tokens a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Over the whole run.
    #[serde(default)]
    pub output_tokens_per_s: Option<f64>,
    /// Over the time in which as many streams as asked for were in flight.
    #[serde(default)]
    pub output_tokens_per_s_full: Option<f64>,
}

/// Tokens a second of single requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Who timed the phase: `server`, by the `timings` of its answers, or `stream`, this client.
    #[serde(default)]
    pub clock: String,
    #[serde(default)]
    pub tokens_per_s: Distribution,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    pub sent: u64,
    pub ok: u64,
    /// Void ones by the name of the rule.
    #[serde(default)]
    pub void: BTreeMap<String, u64>,
}

fn yes() -> bool {
    true
}

impl Default for LoadResult {
    fn default() -> Self {
        Self {
            tool: String::new(),
            date: None,
            model: None,
            parameters: Map::new(),
            ttft_ms: Distribution::default(),
            tpot_ms: Distribution::default(),
            itl_ms: Distribution::default(),
            icl_ms: Distribution::default(),
            e2e_ms: Distribution::default(),
            throughput: Throughput::default(),
            prefill: Speed::default(),
            generation: Speed::default(),
            requests: Requests::default(),
            prompt_tokens: Distribution::default(),
            output_tokens: Distribution::default(),
            complete: true,
            client_beyond_limit: Vec::new(),
            stopped: None,
            server_contradicts: None,
            implausible: None,
            notes: Vec::new(),
            imported_from: None,
            missing: Vec::new(),
        }
    }
}

impl LoadResult {
    /// Why the figures are no measurement, by what the result says of itself; empty for a sound one.
    pub fn unsound(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if !self.complete {
            let why = self.stopped.as_deref().unwrap_or("interrupted");
            reasons.push(format!("{why}: of the requests that were done until then"));
        }
        if self.requests.ok == 0 {
            reasons.push("every request failed".to_owned());
        }
        let late = self.client_beyond_limit.iter();
        reasons.extend(late.map(|how| format!("its client was not good enough: {how}")));
        reasons.extend(self.server_contradicts.clone());
        reasons.extend(self.implausible.clone());
        reasons
    }

    /// The column of this result.
    pub fn column(&self, name: String) -> Column {
        let origin = match &self.imported_from {
            Some(tool) => Origin::Imported { tool: tool.clone() },
            None => Origin::Load(1),
        };
        let mut column = Column::new(name, origin);
        column.sent = self.requests.sent;
        column.void = self.requests.sent.saturating_sub(self.requests.ok);
        column.model.clone_from(&self.model);
        column.prompt_tokens = self.prompt_tokens.mean;
        column.output_tokens = self.output_tokens.mean;
        column.unsound = self.unsound();
        column.remarks.extend(self.notes.iter().cloned());
        column.remarks.extend(self.missing.iter().cloned());
        for (row, of, number, least) in [
            (Row::TtftMedian, self.ttft_ms, self.ttft_ms.p50, 1),
            (Row::TtftP99, self.ttft_ms, self.ttft_ms.p99, LEAST_FOR_P99),
            (Row::TpotMedian, self.tpot_ms, self.tpot_ms.p50, 1),
        ] {
            column.put(row, number);
            // Another tool may not tell it at all.
            if self.imported_from.is_none() && number.is_none() && of.n >= least as u64 {
                column.withheld.insert(row);
            }
        }
        column.put(Row::ItlP99, self.itl_ms.p99);
        column.put(Row::E2eMedian, self.e2e_ms.p50);
        column.put(Row::Throughput, self.throughput.output_tokens_per_s);
        column
    }
}
