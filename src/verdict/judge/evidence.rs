//! Evidence of one arm of a check so far. Each launch is read once, when its block is over:
//! its findings, sums and value are kept, and its samples are not read again.
//!
//! Main type: [`Evidence`]. Refuses to know: what follows from it.

use super::Rules;
use super::answer_counts::AnswerCounts;
use super::launch_view::{LaunchAnswers, LaunchView};
use super::rules::finding::{Finding, LaunchRule};
use crate::metrics::{LaunchMeasure, Moved, OtherAnswers, Undefined};
use crate::plan::WorkloadKind;
use crate::record::{Launch, Sample, Statistic, VoidRule};
use std::sync::Arc;

/// A launch that counts.
pub struct Reading<'a> {
    pub launch: &'a Launch,
    /// Without its series, which has been looked through.
    pub measure: Result<LaunchMeasure, Undefined>,
    /// By how much the last third lies above the first, in logarithms, where both are there.
    pub drift: Option<f64>,
    /// The same once the users of a closed loop, who begin at once, are spread: for a median, and for a mean, of which the
    /// first ones are as great a part in both arms.
    pub later_drift: Option<f64>,
    /// Measured requests, void ones too.
    pub sent: usize,
    /// [`LaunchAnswers::stream_end_ms`](super::launch_view::LaunchAnswers).
    pub stream_end_ms: Option<(f64, f64)>,
    /// [`LaunchAnswers::reconnected`](super::launch_view::LaunchAnswers).
    pub reconnected: Option<f64>,
    /// [`LaunchAnswers::pause_ms`](super::launch_view::LaunchAnswers).
    pub pause_ms: Option<f64>,
    /// [`LaunchAnswers::moved`](super::launch_view::LaunchAnswers).
    pub moved: Option<Moved>,
    /// [`LaunchAnswers::warm_up_ms`](super::launch_view::LaunchAnswers).
    pub warm_up_ms: Option<f64>,
}

impl<'a> Reading<'a> {
    fn new(
        launch: &'a Launch,
        measure: Result<LaunchMeasure, Undefined>,
        (drift, later_drift): (Option<f64>, Option<f64>),
        answers: &LaunchAnswers<'_>,
    ) -> Self {
        Self {
            launch,
            measure,
            drift,
            later_drift,
            sent: answers.sent,
            stream_end_ms: answers.stream_end_ms,
            reconnected: answers.reconnected,
            pause_ms: answers.pause_ms,
            moved: answers.moved,
            warm_up_ms: answers.warm_up_ms,
        }
    }
}

fn may_be_lost_in_dropped_block(sample: &Sample) -> bool {
    let void = sample.void.as_ref();
    void.is_some_and(|void| void.rule != VoidRule::Timeout)
}

#[derive(Default)]
pub struct Evidence<'a> {
    /// Launches that were to run the workload, and those of them outside of dropped blocks.
    pub launched: u32,
    pub ran: u32,
    /// The first of them that did not end well.
    pub failed: Option<&'a Launch>,
    /// Those that count: clean ones, and for a metric by the clock outside dropped blocks.
    pub kept: Vec<Reading<'a>>,
    /// Which of those belong to sound blocks, and how many of these the latest look reads.
    sound: Vec<usize>,
    looked: usize,
    /// Clean launches in dropped blocks.
    pub dropped: Vec<Reading<'a>>,
    pub values: Values,
    /// Those of the launches that the latest look reads.
    seen: Values,
    /// Launches gave different cases as right.
    pub differs: bool,
    pub tally: AnswerCounts,
    /// Answers beside base's.
    pub other: OtherAnswers,
    /// Requests that the engine did not answer, and others that measured nothing.
    pub unanswered: Vec<(&'a Launch, &'a Sample)>,
    /// Of other parts of the workload, where base answered them.
    pub lost_elsewhere: Vec<(&'a Launch, &'a Sample)>,
    pub untrusted: Vec<(&'a Launch, &'a Sample)>,
    /// For each rule on a launch by itself, the first launch that breaks it.
    broken: Vec<Option<Finding>>,
}

impl<'a> Evidence<'a> {
    pub fn keep(
        &mut self,
        rules: &Rules<'_>,
        of_a_launch: &[LaunchRule],
        launch_view: LaunchView<'_, 'a>,
        in_sound_block: bool,
    ) {
        self.broken.resize(of_a_launch.len(), None);
        for (rule, broken) in of_a_launch.iter().zip(&mut self.broken) {
            if broken.is_none() {
                *broken = rule(rules, &launch_view);
            }
        }
        let (launch, answers) = (launch_view.launch, launch_view.answers);
        self.tally.join(&answers.tally);
        self.other.join(&answers.other);
        self.lose(&launch_view, |_| true);
        self.untrusted
            .extend(answers.untrusted.iter().map(|s| (launch, *s)));
        let mut measure = launch_view.measure;
        let mut drifts = (None, None);
        if let Ok(measure) = &mut measure {
            let (lead, drain) = match &launch_view.workload.kind {
                WorkloadKind::Steady(steady) => (steady.lead(), steady.drain()),
                _ => (0.0, 0.0),
            };
            let drift = measure.series.drift(drain);
            let statistic = launch_view.check.statistic;
            let is_spread = lead > 0.0 && matches!(statistic, Statistic::Median | Statistic::Mean);
            let later = || measure.series.drift_after(lead, drain).or(drift);
            drifts = (drift, if is_spread { later() } else { drift });
            measure.series = Arc::default();
            self.differs |= differs(&self.kept, measure);
            self.values.add(measure.value);
        }
        if in_sound_block {
            self.sound.push(self.kept.len());
        }
        self.kept
            .push(Reading::new(launch, measure, drifts, answers));
    }

    /// Takes in a launch whose times do not count. Unanswered requests do, except time-outs, which a slow machine may cause.
    pub fn keep_losses(&mut self, launch_view: LaunchView<'_, 'a>) {
        self.lose(&launch_view, may_be_lost_in_dropped_block);
        let (launch, answers) = (launch_view.launch, launch_view.answers);
        let reading = Reading::new(launch, launch_view.measure, (None, None), answers);
        self.dropped.push(reading);
    }

    fn lose(&mut self, launch_view: &LaunchView<'_, 'a>, counts: fn(&Sample) -> bool) {
        let (launch, answers) = (launch_view.launch, launch_view.answers);
        let of = |lost: &[&'a Sample]| -> Vec<(&'a Launch, &'a Sample)> {
            let counted = lost.iter().filter(|sample| counts(sample));
            counted.map(|sample| (launch, *sample)).collect()
        };
        self.unanswered.extend(of(&answers.unanswered));
        self.lost_elsewhere.extend(of(&answers.lost_elsewhere));
    }

    /// Launches of blocks that count, and of those that do not.
    pub fn launches(&self) -> impl Iterator<Item = &'a Launch> {
        let readings = self.kept.iter().chain(&self.dropped);
        readings.map(|reading| reading.launch)
    }

    /// Samples of all launches that its engine did not answer, of whichever part of the workload.
    pub fn lost(&self) -> impl Iterator<Item = &'a Sample> {
        let of = |readings: &[Reading<'a>]| -> Vec<&'a Sample> {
            let launches = readings.iter().map(|reading| reading.launch);
            launches.flat_map(|launch| &launch.samples).collect()
        };
        let dropped = of(&self.dropped).into_iter();
        let dropped = dropped.filter(|sample| may_be_lost_in_dropped_block(sample));
        let all = of(&self.kept).into_iter().chain(dropped);
        all.filter(|sample| sample.void.as_ref().is_some_and(|v| v.rule.blames_engine()))
    }

    /// A look reads what is there.
    pub fn look(&mut self) {
        self.looked = self.sound.len();
        let measured = self.looked_at().filter_map(|r| r.measure.as_ref().ok());
        self.seen = measured.map(|measure| measure.value).collect();
    }

    pub fn looked_at(&self) -> impl Iterator<Item = &Reading<'a>> {
        let looked = &self.sound[..self.looked];
        looked.iter().map(|&i| &self.kept[i])
    }

    pub fn looked(&self) -> usize {
        self.looked
    }

    /// What the rule of this number found first.
    pub fn broken(&self, rule: usize) -> Option<Finding> {
        self.broken.get(rule)?.clone()
    }

    /// The values that a comparison reads: up to the latest look, or all there are where none saw any.
    pub fn tested(&self) -> &Values {
        if self.looked > 0 {
            &self.seen
        } else {
            &self.values
        }
    }
}

/// Whether the launch gives other cases as right than the first one did.
fn differs(kept: &[Reading<'_>], measure: &LaunchMeasure) -> bool {
    let first = kept.iter().find_map(|r| r.measure.as_ref().ok());
    first.is_some_and(|first| first.successes != measure.successes)
}

/// The launches' values, folded as they come.
#[derive(Default)]
pub struct Values {
    pub n: usize,
    first: Option<f64>,
    varies: bool,
    /// One is not above zero; one is not zero.
    touches_zero: bool,
    leaves_zero: bool,
    pub least: Option<f64>,
    pub greatest: Option<f64>,
}

impl Values {
    fn add(&mut self, value: f64) {
        self.n += 1;
        let first = *self.first.get_or_insert(value);
        self.varies |= value.to_bits() != first.to_bits();
        let is_positive = value > 0.0;
        self.touches_zero |= !is_positive;
        self.leaves_zero |= value.abs() > 0.0;
        if self.least.is_none_or(|v| value.total_cmp(&v).is_lt()) {
            self.least = Some(value);
        }
        if self.greatest.is_none_or(|v| value.total_cmp(&v).is_gt()) {
            self.greatest = Some(value);
        }
    }

    /// The value that all have; `None` where they differ, or none is there.
    pub fn constant(&self) -> Option<f64> {
        self.first.filter(|_| !self.varies)
    }

    pub fn are_positive(&self) -> bool {
        !self.touches_zero
    }

    pub fn are_zero(&self) -> bool {
        !self.leaves_zero
    }
}

impl FromIterator<f64> for Values {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut folded = Self::default();
        values.into_iter().for_each(|value| folded.add(value));
        folded
    }
}
