//! One result in a comparison: its figures, and what a reader must know before trusting a ratio.

use super::Row;
use std::collections::{BTreeMap, BTreeSet};
use verdict::stats;

/// A probe that takes so many times as long as the first request's TTFT, and so many ms more, paid for something that
/// happens once.
const PROBE_TIMES: f64 = 2.0;
const PROBE_MS: f64 = 50.0;

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// What stands above it.
    pub name: String,
    pub origin: Origin,
    /// Fingerprint of the machine, where the result says it.
    pub machine: Option<String>,
    /// The model's name in requests, where the result says it.
    pub model: Option<String>,
    /// How the weights are quantised, and the precision that it computes in, where the configuration says it.
    pub quantised: Option<String>,
    pub precision: Option<String>,
    /// Further remarks of the configuration, and of the result about itself.
    pub remarks: Vec<String>,
    /// Why its figures are no measurement: none of its ratios is read then.
    pub unsound: Vec<String>,
    /// Measured requests that were sent, and how many of them are void.
    pub sent: u64,
    pub void: u64,
    /// Mean prompt and output tokens of a measured request; `None`: the result does not say.
    pub prompt_tokens: Option<f64>,
    pub output_tokens: Option<f64>,
    /// Mean output tokens of the first request after the start.
    pub first_output_tokens: Option<f64>,
    /// In each row's unit; what is not there is not known.
    pub values: BTreeMap<Row, f64>,
    /// Rows whose value the result does not show although it measured requests for it.
    pub withheld: BTreeSet<Row>,
    /// The same by round, where several launches stand behind a value.
    pub rounds: BTreeMap<Row, BTreeMap<u32, f64>>,
    /// What its prompts are made from; equal ones are the same prompts, request for request.
    pub prompts: Option<String>,
    /// Single requests' values, by round and number of the request.
    pub requests: BTreeMap<Row, BTreeMap<(u32, u32), f64>>,
    /// The engine's own start-up stages, ms, in its order.
    pub stages: Vec<(String, f64)>,
}

/// Where a result comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// So many launches that this gate started.
    Launches(u32),
    /// So many runs of `gate load` against a server that already ran.
    Load(usize),
    /// Another tool's result.
    Imported { tool: String },
}

impl Column {
    /// A result without figures.
    pub fn new(name: String, origin: Origin) -> Self {
        Self {
            name,
            origin,
            machine: None,
            model: None,
            quantised: None,
            precision: None,
            remarks: Vec::new(),
            unsound: Vec::new(),
            sent: 0,
            void: 0,
            prompt_tokens: None,
            output_tokens: None,
            first_output_tokens: None,
            values: BTreeMap::new(),
            withheld: BTreeSet::new(),
            rounds: BTreeMap::new(),
            prompts: None,
            requests: BTreeMap::new(),
            stages: Vec::new(),
        }
    }

    /// Puts every text that came with the result through `shown`.
    pub fn map_texts(&mut self, shown: impl Fn(&str) -> String) {
        let named = [&mut self.machine, &mut self.model];
        let described = [&mut self.quantised, &mut self.precision];
        let tool = match &mut self.origin {
            Origin::Imported { tool } => Some(tool),
            Origin::Launches(_) | Origin::Load(_) => None,
        };
        let texts = named.into_iter().chain(described).flatten();
        let texts = texts.chain(&mut self.remarks).chain(&mut self.unsound);
        let stages = self.stages.iter_mut().map(|(name, _)| name);
        for text in texts.chain(stages).chain(tool).chain([&mut self.name]) {
            *text = shown(text);
        }
    }

    /// Puts a value in its row; a number that is none or not positive is not known.
    pub fn put(&mut self, row: Row, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite() && *value > 0.0) {
            self.values.insert(row, value);
        }
    }

    /// Puts the median of all launches in its row, and keeps the median of each round. `values`: round, value.
    pub fn put_rounds(&mut self, row: Row, values: Vec<(u32, f64)>) {
        let all: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        self.put(row, stats::median(&all));
        let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (round, value) in values {
            rounds.entry(round).or_default().push(value);
        }
        let medians = rounds.into_iter();
        let medians = medians.filter_map(|(round, values)| Some((round, stats::median(&values)?)));
        self.rounds.insert(row, medians.collect());
    }

    /// The longest start-up stage, and its share of all stages' time; `None` where the engine names fewer than two.
    pub fn dominant_stage(&self) -> Option<(&str, f64)> {
        let total: f64 = self.stages.iter().map(|(_, ms)| ms).sum();
        let longest = self.stages.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        (self.stages.len() > 1 && total > 0.0).then(|| (longest.0.as_str(), longest.1 / total))
    }

    /// Launches in which nothing was asked beside the first request.
    fn is_of_starts_alone(&self) -> bool {
        matches!(self.origin, Origin::Launches(_)) && self.sent == 0
    }

    /// What the first request did not pay, since the readiness probe had.
    fn paid_by_the_probe(&self) -> Option<String> {
        let probe = *self.values.get(&Row::FirstGeneration)?;
        let first = *self.values.get(&Row::FirstTtft)?;
        (probe > PROBE_TIMES * first && probe - first > PROBE_MS).then(|| {
            format!(
                "its first generation, the readiness probe, took {probe:.0} ms, and the first request after it \
                 {first:.0} ms to its first token: what a first generation costs once is not in the first request"
            )
        })
    }

    /// What a reader must know, beside `first`, in one line each.
    pub fn caveats(&self, first: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.origin {
            Origin::Imported { tool } => lines.push(format!(
                "imported from {tool}: its client's own delays are unknown, and no launches"
            )),
            Origin::Load(1) => lines.push("one run against a server that already ran".to_owned()),
            Origin::Load(runs) => lines.push(format!(
                "{runs} runs against one server that already ran: two starts of it may differ more"
            )),
            Origin::Launches(1) => lines.push("a single launch".to_owned()),
            Origin::Launches(_) => {}
        }
        if let Some(how) = &self.quantised {
            lines.push(format!("quantised ({how})"));
        }
        lines.extend(self.unlike(first));
        if self.void > 0 {
            lines.push(format!("{} of {} requests void", self.void, self.sent));
        }
        if self.output_tokens.is_none() && !self.is_of_starts_alone() {
            lines.push("length of its answers unknown".to_owned());
        }
        lines.extend(self.paid_by_the_probe());
        lines.extend(self.remarks.iter().cloned());
        lines
    }

    /// In what it differs from the first result.
    fn unlike(&self, first: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        if let (Some(own), Some(other)) = (&self.model, &first.model)
            && own != other
        {
            lines.push(format!("another model's name ({own} against {other})"));
        }
        if self.precision != first.precision {
            let said = |column: &Self| column.precision.clone().unwrap_or("unsaid".to_owned());
            lines.push(format!(
                "different precision ({} against {})",
                said(self),
                said(first)
            ));
        }
        match (&self.machine, &first.machine) {
            (Some(own), Some(other)) if own != other => {
                lines.push(format!("different hardware ({own})"));
            }
            (Some(_), Some(_)) => {}
            (None, None) if std::ptr::eq(self, first) => {}
            _ => lines.push("hardware not known to be the same".to_owned()),
        }
        if differ(self.prompt_tokens, first.prompt_tokens) {
            lines.push(format!(
                "different prompt tokens ({} against {})",
                tokens(self.prompt_tokens),
                tokens(first.prompt_tokens)
            ));
        }
        lines
    }
}

/// Means of token counts that are not the same work: more than 1 % apart.
pub fn differ(a: Option<f64>, b: Option<f64>) -> bool {
    const SAME: f64 = 0.01;
    a.zip(b)
        .is_some_and(|(a, b)| (a - b).abs() > SAME * a.max(b))
}

/// A mean count as people read it.
pub fn tokens(count: Option<f64>) -> String {
    count.map_or_else(
        || "unknown".to_owned(),
        |count| {
            let text = format!("{count:.1}");
            text.strip_suffix(".0").unwrap_or(&text).to_owned()
        },
    )
}
