//! A load's samples, folded into what its report needs as they come: none is kept.
//!
//! Main type: [`LoadTally`]. Refuses to know: how the report is put together.

use super::super::notes::NoteTally;
use super::super::view::Requests;
use super::turns::TurnTally;
use std::collections::BTreeMap;
use verdict::metrics::{Phases, RunTally, ServerTimes};
use verdict::plan::Slo;
use verdict::record::{Phase, Sample};

/// Everything that a report is made of.
#[derive(Clone, Debug)]
pub struct LoadTally {
    pub run: RunTally,
    pub phases: Phases,
    pub server: ServerTimes,
    pub notes: NoteTally,
    pub turns: TurnTally,
    pub requests: Requests,
    /// Tokens of each sound request.
    pub prompt_tokens: Vec<u32>,
    pub output_tokens: Vec<u32>,
    /// Samples of all phases.
    pub all: u64,
    pub void: u64,
    /// The least and the greatest intended moment.
    pub moments_ns: (u64, u64),
    /// Whether any request got a status.
    pub has_status: bool,
    /// The number and the fault of the request that was sent first, and of the first that broke each rule.
    first: Option<(u32, String)>,
    firsts: BTreeMap<&'static str, u32>,
}

impl LoadTally {
    /// `streams`: how many a closed loop keeps in flight.
    pub fn new(streams: Option<u32>, slo: Slo) -> Self {
        Self {
            run: RunTally::new(streams, slo),
            phases: Phases::default(),
            server: ServerTimes::default(),
            notes: NoteTally::default(),
            turns: TurnTally::default(),
            requests: Requests::default(),
            prompt_tokens: Vec::new(),
            output_tokens: Vec::new(),
            all: 0,
            void: 0,
            moments_ns: (u64::MAX, 0),
            has_status: false,
            first: None,
            firsts: BTreeMap::new(),
        }
    }

    /// Adds a sample. They come in the order of their answers.
    pub fn add(&mut self, sample: &Sample) {
        self.run.add(sample);
        self.phases.add(sample);
        self.server.add(sample);
        self.turns.add(sample);
        self.count(sample);
        if sample.may_enter() {
            self.notes.add(sample);
            self.prompt_tokens.extend(sample.tokens.prompt);
            self.output_tokens.extend(sample.tokens.completion);
        }
    }

    fn count(&mut self, sample: &Sample) {
        let (index, at_ns) = (sample.index, sample.stamps.intended_ns);
        let (first_ns, last_ns) = self.moments_ns;
        self.moments_ns = (first_ns.min(at_ns), last_ns.max(at_ns));
        self.all += 1;
        self.void += u64::from(sample.void.is_some());
        self.has_status |= sample.stamps.headers_ns.is_some();
        if self.first.as_ref().is_none_or(|(first, _)| index < *first) {
            let fault = sample.void.as_ref().map(|void| void.detail.clone());
            self.first = Some((index, fault.unwrap_or_default()));
        }
        if sample.phase == Phase::Warmup {
            self.requests.warmup += 1;
            return;
        }
        self.requests.sent += 1;
        let Some(void) = &sample.void else {
            self.requests.ok += 1;
            return;
        };
        let name = void.rule.name();
        *self.requests.void.entry(name).or_default() += 1;
        let first = self.firsts.entry(name).or_insert(u32::MAX);
        if index < *first {
            *first = index;
            self.requests.details.insert(name, void.detail.clone());
        }
    }

    /// What was wrong with the request that was sent first; empty where nothing was. `None`: there is none.
    pub fn first_fault(&self) -> Option<&str> {
        self.first.as_ref().map(|(_, fault)| fault.as_str())
    }
}
