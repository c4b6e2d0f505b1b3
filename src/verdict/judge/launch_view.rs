//! One launch as checks read it. Its samples are gone through once for each part of a workload, whatever number
//! of checks is about it.
//!
//! Main types: [`LaunchView`], [`LaunchCache`]. Refuses to know: other launches.

use super::answer_counts::AnswerCounts;
use crate::metrics::{
    self, HeldBack, LaunchMeasure, Moved, OtherAnswers, Requests, Undefined, WrongAnswers,
};
use crate::plan::{Check, Workload};
use crate::record::{Launch, Phase, Sample};
use std::cell::OnceCell;

/// A launch with what one check measures in it.
pub struct LaunchView<'r, 'a> {
    pub check: &'a Check,
    pub workload: &'a Workload,
    pub launch: &'a Launch,
    pub measure: Result<LaunchMeasure, Undefined>,
    pub answers: &'r LaunchAnswers<'a>,
}

impl<'r, 'a> LaunchView<'r, 'a> {
    pub fn new(check: &'a Check, answers: &'r LaunchAnswers<'a>) -> Self {
        Self {
            check,
            workload: answers.requests.workload,
            launch: answers.requests.launch,
            measure: metrics::measure_among(&answers.requests, check),
            answers,
        }
    }

    /// The requests that the value may stand on: measured and sound.
    pub fn sound(&self) -> &'r [&'a Sample] {
        &self.answers.requests.measured
    }
}

/// What came back for one part of a workload.
pub struct LaunchAnswers<'a> {
    requests: Requests<'a>,
    /// Measured ones, void or not.
    pub sent: usize,
    /// Those that the engine failed to answer, warm-up included: it was asked.
    pub unanswered: Vec<&'a Sample>,
    /// [`Requests::lost_elsewhere`].
    pub lost_elsewhere: Vec<&'a Sample>,
    /// Measured ones that are void by another rule.
    pub untrusted: Vec<&'a Sample>,
    /// Wrong ones, beside what their prompts got alone or in base.
    pub wrong: Option<WrongAnswers>,
    /// Beside base's.
    pub other: OtherAnswers,
    /// [`metrics::moved`].
    pub moved: Option<Moved>,
    /// Time of the slowest warm-up request, ms.
    pub warm_up_ms: Option<f64>,
    pub tally: AnswerCounts,
    /// [`metrics::stream_end_ms`] of the sound requests.
    pub stream_end_ms: Option<(f64, f64)>,
    /// [`metrics::pause_ms`] of the sound requests.
    pub pause_ms: Option<f64>,
    /// Share of the sound requests soon after an answer for which a connection was opened all the same; `None`: none was sent
    /// so soon.
    pub reconnected: Option<f64>,
    at_once: OnceCell<usize>,
    with_first: OnceCell<(usize, usize)>,
    contradiction: OnceCell<Option<String>>,
    implausible: [OnceCell<Option<String>>; 2],
    held_back: OnceCell<Option<HeldBack>>,
}

/// A connection that was left open longer than this, its server may have closed as idle.
const IDLE_NS: u64 = 1_000_000_000;

fn reconnected(sound: &[&Sample]) -> Option<f64> {
    let ends = sound.iter().filter_map(|sample| sample.stamps.ended_ns());
    let mut ends: Vec<u64> = ends.collect();
    ends.sort_unstable();
    let is_soon = |sample: &&&Sample| {
        let stamps = &sample.stamps;
        let begin = stamps.connect_ns.map_or(stamps.send_ns, |(asked, _)| asked);
        let before = ends.partition_point(|end| *end <= begin);
        before > 0 && begin - ends[before - 1] <= IDLE_NS
    };
    let soon: Vec<_> = sound.iter().filter(is_soon).collect();
    let opened = soon.iter().filter(|s| s.stamps.connect_ns.is_some());
    (!soon.is_empty()).then(|| opened.count() as f64 / soon.len() as f64)
}

impl<'a> LaunchAnswers<'a> {
    fn new(requests: Requests<'a>) -> Self {
        let mut tally = AnswerCounts::default();
        tally.add(&requests.measured);
        let (mut unanswered, mut untrusted) = (Vec::new(), Vec::new());
        for &sample in &requests.all {
            match &sample.void {
                Some(void) if void.rule.blames_engine() => unanswered.push(sample),
                Some(_) if sample.phase == Phase::Measured => untrusted.push(sample),
                _ => {}
            }
        }
        let measured = |s: &&&Sample| s.phase == Phase::Measured;
        Self {
            sent: requests.all.iter().filter(measured).count(),
            wrong: metrics::wrong_answers(&requests),
            other: OtherAnswers::of(&requests),
            moved: metrics::moved(&requests),
            warm_up_ms: metrics::times_ms(&requests.all, Phase::Warmup).reduce(f64::max),
            stream_end_ms: metrics::stream_end_ms(&requests.measured),
            pause_ms: metrics::pause_ms(&requests.measured),
            reconnected: reconnected(&requests.measured),
            lost_elsewhere: requests.lost_elsewhere(),
            requests,
            unanswered,
            untrusted,
            tally,
            at_once: OnceCell::new(),
            with_first: OnceCell::new(),
            contradiction: OnceCell::new(),
            implausible: Default::default(),
            held_back: OnceCell::new(),
        }
    }

    /// Sound answers that arrived at one moment.
    pub fn at_once(&self) -> usize {
        let sound = self.requests.measured.iter();
        *self
            .at_once
            .get_or_init(|| sound.filter(|s| metrics::came_at_once(s)).count())
    }

    /// [`metrics::with_first`] of the sound requests.
    pub fn with_first(&self) -> (usize, usize) {
        *self
            .with_first
            .get_or_init(|| metrics::with_first(&self.requests.measured))
    }

    /// [`metrics::contradiction`] of the sound requests.
    pub fn contradiction(&self) -> Option<&str> {
        let sound = || self.requests.measured.iter().copied();
        let found = self
            .contradiction
            .get_or_init(|| metrics::contradiction(sound()));
        found.as_deref()
    }

    /// [`metrics::implausible_for`], for checks that read medians and for the others.
    pub fn implausible(&self, reads_medians: bool) -> Option<&str> {
        let found = self.implausible[usize::from(reads_medians)]
            .get_or_init(|| metrics::implausible_for(&self.requests, reads_medians));
        found.as_deref()
    }

    /// [`metrics::held_back`].
    pub fn held_back(&self) -> Option<HeldBack> {
        *self
            .held_back
            .get_or_init(|| metrics::held_back(&self.requests))
    }
}

/// The answers of a block's launches, for as long as its checks read them.
#[derive(Default)]
pub struct LaunchCache<'a>(Vec<LaunchAnswers<'a>>);

impl<'a> LaunchCache<'a> {
    pub fn answers(
        &mut self,
        check: &'a Check,
        workload: &'a Workload,
        launch: &'a Launch,
        base: Option<&'a Launch>,
    ) -> &LaunchAnswers<'a> {
        let is_it = |answers: &LaunchAnswers<'_>| {
            let requests = &answers.requests;
            std::ptr::eq(requests.launch, launch) && requests.are_of(check, workload)
        };
        let at = self.0.iter().position(is_it).unwrap_or_else(|| {
            let requests = Requests::of(check, workload, launch).beside(check, base);
            self.0.push(LaunchAnswers::new(requests));
            self.0.len() - 1
        });
        &self.0[at]
    }
}
