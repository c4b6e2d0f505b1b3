//! One check with its launches: what is told of them beside the parts of the time and the first bad one.
//!
//! Main type: [`Case`].

use super::model::{
    AnswerRow, EXPLANATION_FORMAT, Explanation, FacetRow, Limit, Point, ReadingRow, RequestSpread,
};
use std::collections::BTreeSet;
use verdict::metrics::{self, Facet, LaunchMeasure, Work};
use verdict::plan::{Check, Plan, Rule, Workload};
use verdict::record::{
    Arm, CheckVerdict, Condition, Direction, Exit, Launch, Metric, MetricKind, RunRecord,
    RunVerdict, Sample, Verdict,
};
use verdict::{judge, stats};

/// The share of base's requests that are faster than a slow one.
const SLOW: f64 = 0.99;

/// One launch that ran the check's workload.
pub struct Ran<'a> {
    pub launch: &'a Launch,
    pub measure: Option<LaunchMeasure>,
}

/// Everything that one explanation reads.
pub struct Case<'a> {
    pub check: &'a Check,
    pub workload: &'a Workload,
    pub ran: Vec<Ran<'a>>,
    /// Values of base's and head's launches of each comparison of the workload, by the check's id.
    pub compared: Vec<(&'a str, [Vec<f64>; 2])>,
}

/// The launches that ran a check's workload.
fn ran<'a>(plan: &'a Plan, record: &'a RunRecord, check: &Check) -> Vec<Ran<'a>> {
    let measures = judge::launch_measures(plan, record, &check.id).into_iter();
    let ran = measures.map(|(launch, measure)| Ran {
        launch,
        measure: measure.ok().filter(|_| launch.exit.is_clean()),
    });
    ran.collect()
}

fn values(ran: &[Ran<'_>], arm: Arm) -> Vec<f64> {
    let of_arm = ran.iter().filter(|ran| ran.launch.arm == arm);
    let measured = of_arm.filter_map(|ran| ran.measure.as_ref());
    measured.map(|measure| measure.value).collect()
}

impl<'a> Case<'a> {
    pub fn new(
        plan: &'a Plan,
        record: &'a RunRecord,
        check: &'a Check,
        workload: &'a Workload,
    ) -> Self {
        let checks = plan.gates.iter().flat_map(|gate| &gate.checks);
        let compared = checks.filter(|other| {
            let is_latency = other.metric.kind() == MetricKind::Latency;
            let is_compared = matches!(other.rule, Rule::Regression { .. });
            other.workload == check.workload && is_latency && is_compared
        });
        let compared = compared.map(|other| {
            let ran = ran(plan, record, other);
            let values = [Arm::Base, Arm::Head].map(|arm| values(&ran, arm));
            (other.id.as_str(), values)
        });
        Self {
            check,
            workload,
            ran: ran(plan, record, check),
            compared: compared.collect(),
        }
    }

    pub fn explain(
        &self,
        verdict: &RunVerdict,
        judged: &CheckVerdict,
        (reason, examples): (String, Vec<String>),
    ) -> Explanation {
        let metric = self.check.metric;
        let facets = self.facets(verdict);
        let first_bad = self.first_bad();
        let others = verdict.gates.iter().flat_map(|gate| &gate.checks);
        let others = others
            .filter(|other| other.verdict == Verdict::Fail && other.id != judged.id)
            .map(|other| other.id.clone());
        Explanation {
            format: EXPLANATION_FORMAT,
            check: judged.id.clone(),
            verdict: judged.verdict.name(),
            reason,
            examples,
            metric: metric.name(),
            unit: metric.unit(),
            others: others.collect(),
            sits: sits(&facets),
            readings: self.readings(first_bad.as_ref().map(|(place, _)| *place)),
            facets: facets.into_iter().map(|(_, row)| row).collect(),
            crashes: self.crashes(),
            modes: self.modes(),
            points: self.points(),
            limit: self.limit(judged),
            requests: self.requests(first_bad.as_ref().map(|(place, _)| *place)),
            first_bad: first_bad.map(|(_, bad)| bad),
            answers: self.answers(),
            request: None,
        }
    }

    pub fn of(&self, arm: Arm) -> impl Iterator<Item = &Ran<'a>> {
        self.ran.iter().filter(move |ran| ran.launch.arm == arm)
    }

    pub fn values(&self, arm: Arm) -> Vec<f64> {
        values(&self.ran, arm)
    }

    /// +1 where a loss is a rise of the metric, −1 where it is a fall.
    pub fn sign(&self) -> f64 {
        self.check.metric.direction().sign()
    }

    /// What was read beside a launch, and what is usual in either arm.
    fn readings(&self, bad: Option<usize>) -> Vec<ReadingRow> {
        let rows: Vec<Vec<(&str, f64)>> = self
            .ran
            .iter()
            .map(|ran| metrics::beside(ran.launch, &self.workload.id))
            .collect();
        let mut names: Vec<&'static str> = Vec::new();
        for (name, _) in rows.iter().flatten() {
            if !names.contains(name) {
                names.push(name);
            }
        }
        let of = |place: usize, name: &str| {
            let mut row = rows[place].iter();
            row.find(|(of, _)| *of == name).map(|(_, value)| *value)
        };
        let usual = |arm: Arm, name: &str| {
            let places = (0..self.ran.len()).filter(|place| self.ran[*place].launch.arm == arm);
            stats::median(
                &places
                    .filter_map(|place| of(place, name))
                    .collect::<Vec<f64>>(),
            )
        };
        let row = |name: &'static str| ReadingRow {
            name,
            base: usual(Arm::Base, name),
            head: usual(Arm::Head, name),
            launch: bad.and_then(|place| of(place, name)),
        };
        names.into_iter().map(row).collect()
    }

    fn points(&self) -> Vec<Point> {
        let point = |ran: &Ran<'_>| Point {
            launch: ran.launch.position,
            arm: ran.launch.arm.name(),
            value: ran.measure.as_ref().map(|measure| measure.value),
        };
        self.ran.iter().map(point).collect()
    }

    /// The value beyond which head fails.
    fn limit(&self, judged: &CheckVerdict) -> Option<Limit> {
        let (value, name) = match self.check.rule {
            Rule::Regression { margin, .. } => {
                let base = judged.base?;
                let worst = match self.check.metric.direction() {
                    Direction::LowerIsBetter => base * (1.0 + margin),
                    Direction::HigherIsBetter => base * (1.0 - margin),
                };
                (worst, "margin")
            }
            Rule::Ceiling { limit } => (limit, "ceiling"),
            Rule::Floor { limit } => (limit, "floor"),
        };
        Some(Limit { value, name })
    }

    /// The single requests of base, and of head's first bad launch, or of all its launches where none is.
    fn requests(&self, bad: Option<usize>) -> Option<RequestSpread> {
        let series = |ran: &Ran<'_>| ran.measure.as_ref().map(|measure| measure.series.to_vec());
        let base: Vec<f64> = self.of(Arm::Base).filter_map(series).flatten().collect();
        let head: Vec<f64> = match bad {
            Some(place) => series(&self.ran[place])?,
            None => self.of(Arm::Head).filter_map(series).flatten().collect(),
        };
        if base.len() < 2 || head.len() < 2 {
            return None;
        }
        let slow = match self.check.metric.direction() {
            Direction::LowerIsBetter => SLOW,
            Direction::HigherIsBetter => 1.0 - SLOW,
        };
        let threshold = stats::quantile(&base, slow)?.value;
        let sign = self.sign();
        let beyond = head
            .iter()
            .filter(|value| sign * (**value - threshold) > 0.0);
        Some(RequestSpread {
            stalls: bad.and_then(|place| self.stalls(place, threshold)),
            threshold,
            beyond: beyond.count(),
            of: head.len(),
            base,
            head,
        })
    }

    /// Launches that did not end as they should, each with all that the record keeps of its log: the last line is
    /// rarely the cause.
    fn crashes(&self) -> Vec<String> {
        let failed = self.ran.iter().filter_map(|ran| {
            let (Exit::NeverReady { detail, log_tail }
            | Exit::Crashed { detail, log_tail }
            | Exit::Hung { detail, log_tail }) = &ran.launch.exit
            else {
                return None;
            };
            let (position, arm) = (ran.launch.position, ran.launch.arm.name());
            let said = match log_tail.trim_end() {
                "" => String::new(),
                tail => format!("; its log ends:\n{tail}"),
            };
            Some(format!("launch {position} ({arm}): {detail}{said}"))
        });
        failed.collect()
    }

    /// The answers that the worst launch of head quotes, beside base's and head's own to the same prompt alone.
    fn compared_answers(&self) -> Vec<AnswerRow> {
        let measured = self
            .of(Arm::Head)
            .filter_map(|ran| Some((ran.launch, ran.measure.as_ref()?)));
        let quoting = measured.filter(|(_, measure)| !measure.quoted.is_empty());
        // Of equal ones the first, as in the reason.
        let Some((head, measure)) = quoting.min_by(|(_, a), (_, b)| b.value.total_cmp(&a.value))
        else {
            return Vec::new();
        };
        let mut of_base = self.of(Arm::Base).filter(|ran| ran.launch.exit.is_clean());
        let base = of_base.find(|ran| ran.launch.block == head.block);
        let samples = |launch: &'a Launch| {
            let of_workload = launch.samples.iter();
            of_workload.filter(|sample| sample.workload == self.workload.id)
        };
        let of = |launch: &'a Launch, index: u32| samples(launch).find(|s| s.index == index);
        let row = |index: &u32| {
            let sample = of(head, *index)?;
            let of_base = base.and_then(|base| of(base.launch, *index));
            let is_greedy = !matches!(
                sample.condition(),
                Some(Condition::Drawn | Condition::Stopped)
            );
            let is_alone = |s: &&Sample| {
                s.condition() == Some(Condition::Alone) && s.case == sample.case && s.void.is_none()
            };
            let alone = samples(head).find(is_alone).filter(|_| is_greedy);
            let alone = alone.filter(|alone| alone.text_sha256 != sample.text_sha256);
            Some(AnswerRow {
                case: metrics::request_name(sample),
                is_right_in_base: None,
                token: None,
                said: sample.text.clone().unwrap_or_default(),
                expected: of_base.and_then(|of_base| of_base.text.clone()),
                alone: alone.and_then(|alone| alone.text.clone()),
                sent: Some((head.block, *index)),
            })
        };
        let mut rows: Vec<AnswerRow> = measure.quoted.iter().filter_map(row).collect();
        // Of others head's answer alone is the odd one.
        rows.sort_by_key(|row| row.expected.as_ref() == Some(&row.said));
        rows
    }

    /// Wrong answers of head's first launch, those that base gets right first.
    fn answers(&self) -> Vec<AnswerRow> {
        if self.check.metric == Metric::AnswerMismatches {
            return self.compared_answers();
        }
        let wrong = |arm| {
            let first = self.of(arm).find(|ran| ran.launch.exit.is_clean())?;
            Some(metrics::differences(
                self.check,
                self.workload,
                first.launch,
            ))
        };
        let base = wrong(Arm::Base);
        let wrong_in_base: Option<BTreeSet<String>> =
            base.map(|all| all.into_iter().map(|d| d.case).collect());
        let mut rows: Vec<AnswerRow> = wrong(Arm::Head)
            .unwrap_or_default()
            .into_iter()
            .map(|difference| AnswerRow {
                is_right_in_base: wrong_in_base
                    .as_ref()
                    .map(|wrong| !wrong.contains(&difference.case)),
                token: difference.token,
                case: difference.case,
                said: difference.said,
                expected: Some(difference.expected),
                alone: None,
                sent: None,
            })
            .collect();
        rows.sort_by_key(|row| row.is_right_in_base != Some(true));
        rows
    }
}

/// True if one slower step of decoding, which the first token takes too, may explain all of its delay: prefill is then not shown to
/// be slower. False if the server reports its own prefill time, which decides by itself.
fn takes_a_step(facets: &[(Facet, FacetRow)]) -> bool {
    if facets
        .iter()
        .any(|(facet, _)| *facet == Facet::ServerPrefill)
    {
        return false;
    }
    let later = |wanted: Facet| {
        let (_, row) = facets.iter().find(|(facet, _)| *facet == wanted)?;
        let (low, high) = row.interval?;
        Some((row.base? * low, row.base? * high))
    };
    let (Some((first, _)), Some((_, token))) = (later(Facet::Ttft), later(Facet::Tpot)) else {
        return false;
    };
    first > 0.0 && first <= token
}

/// In one sentence: which work takes longer, which does not.
fn sits(facets: &[(Facet, FacetRow)]) -> Option<String> {
    let told = |(_, row): &(Facet, FacetRow)| {
        let change = row.change.unwrap_or_default() * 100.0;
        // No -0.0.
        let change = (10.0 * change).round() / 10.0 + 0.0;
        format!("{} {change:+.1} %", row.name)
    };
    let is_step = takes_a_step(facets);
    let of = |works: &dyn Fn(Work) -> bool, moved: bool| -> Vec<String> {
        let rows = facets.iter().filter(|(facet, row)| {
            let is_slower = row.interval.is_some_and(|(low, _)| low > 0.0);
            let is_other = !(is_step && *facet == Facet::Ttft);
            works(facet.work()) && row.interval.is_some() && is_slower == moved && is_other
        });
        rows.map(told).collect()
    };
    let any = |_: Work| true;
    let slower = of(&any, true);
    let not = of(&any, false);
    if slower.is_empty() && not.is_empty() {
        return None;
    }
    if slower.is_empty() {
        return Some(format!("none is shown by itself ({})", not.join(", ")));
    }
    let works: Vec<&str> = [
        (Work::Start, "the start"),
        (Work::Prefill, "prefill"),
        (Work::Decode, "decoding"),
        (Work::Transport, "transport"),
    ]
    .into_iter()
    .filter(|(work, _)| !of(&|w| w == *work, true).is_empty())
    .map(|(_, name)| name)
    .collect();
    let rest = match not.is_empty() {
        true => String::new(),
        false => format!("; not shown in {}", not.join(", ")),
    };
    let first = facets
        .iter()
        .find(|(facet, _)| is_step && *facet == Facet::Ttft);
    let first = first.map_or_else(String::new, |row| {
        format!(
            "; {}, which the slower decoding step in it may explain",
            told(row)
        )
    });
    Some(format!(
        "{} ({}){first}{rest}",
        works.join(" and "),
        slower.join(", ")
    ))
}
