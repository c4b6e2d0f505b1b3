//! The question of one session: is this commit as good as GOOD or as bad as BAD?
//!
//! Main type: [`Question`], asked of a session's record after each block. A clock's numbers are weighed at looks
//! alone, those of the profile and beyond them up to four times its cap: a step must end with a side, where a
//! check may end undecided. Values that are the same in every launch decide after one block.

use super::search::{Errors, Search};
use crate::report;
use verdict::judge::{self, Contrast, Unsound};
use verdict::plan::{Check, Plan, Rule};
use verdict::record::{Change, Finding, RunRecord, Sought, Verdict};

/// Looks after a profile's last, in its caps.
const FURTHER: [f64; 4] = [1.5, 2.0, 3.0, 4.0];
/// How many times a profile's time for measuring a step may take.
pub const BUDGETS: u32 = 4;
/// Blocks that an engine must survive to be called sound, where what is sought is one that fails.
const SURVIVED: u32 = 2;

/// The looks of a step, by those of the profile.
pub fn looks(profile: &[u32]) -> Vec<u32> {
    let cap = profile.last().copied().unwrap_or_default();
    let further = FURTHER.map(|caps| (f64::from(cap) * caps).round() as u32);
    profile.iter().copied().chain(further).collect()
}

/// What is asked of every commit.
pub struct Question {
    plan: Plan,
    check: Check,
    sought: Sought,
    /// Numbers of blocks after which a clock's numbers are weighed.
    looks: Vec<u32>,
}

/// What a session says of its commit.
pub struct TrialAnswer {
    pub finding: Finding,
    pub reason: String,
    pub contrast: Option<Contrast>,
    pub change: Option<Change>,
}

impl TrialAnswer {
    fn of(finding: Finding, reason: String) -> Self {
        Self {
            finding,
            reason,
            contrast: None,
            change: None,
        }
    }
}

impl Question {
    /// `plan` is that of the step's own sessions, with [`looks`]; `None` where it has no such check.
    pub fn new(plan: &Plan, check: &str, sought: Sought) -> Option<Self> {
        let gates = plan.gates.iter();
        let (gate, found) = gates
            .flat_map(|gate| gate.checks.iter().map(move |check| (gate, check)))
            .find(|(_, of)| of.id == check)?;
        let workload = gate.workloads.iter().find(|w| w.id == found.workload);
        let mut looks = plan.design.looks.clone();
        // A workload that only the first launches run has its last look with them.
        if let Some(limit) = workload.and_then(|workload| workload.launches) {
            looks.retain(|look| *look < limit);
            looks.push(limit);
        }
        Some(Self {
            check: found.clone(),
            plan: plan.clone(),
            sought,
            looks,
        })
    }

    /// The errors that the whole search may make, with this question's looks.
    pub fn errors(&self) -> Errors {
        let design = &self.plan.design;
        Errors {
            alpha: design.alpha,
            beta: design.beta,
            looks: u32::try_from(self.looks.len()).unwrap_or(u32::MAX),
        }
    }

    /// The most sound blocks that an answer takes, whatever the checks of the gate would take for a verdict.
    pub fn most_blocks(&self) -> u32 {
        match self.sought {
            Sought::Loss { .. } => self.looks.last().copied().unwrap_or_default(),
            Sought::Value { .. } => 1,
            Sought::Failure => SURVIVED,
        }
    }

    /// The loss of BAD, for the search's threshold.
    pub fn loss(&self) -> f64 {
        match self.sought {
            Sought::Loss { loss } => loss,
            Sought::Value { .. } | Sought::Failure => 0.0,
        }
    }

    /// The answer of what was measured so far; `None`: there is none yet. `is_over`: nothing more will be.
    pub fn answer(
        &self,
        search: &Search,
        record: &RunRecord,
        is_over: bool,
    ) -> Option<TrialAnswer> {
        let blocks = judge::sound_blocks(record);
        let is_by_clock = matches!(self.sought, Sought::Loss { .. });
        if is_by_clock && !is_over && !self.looks.contains(&blocks) {
            return None;
        }
        let contrast = match judge::contrast(&self.plan, record, &self.check.id) {
            Ok(contrast) => contrast,
            Err(Unsound::By(check)) => {
                return Some(self.unsound(check.verdict, report::sentence(&check)));
            }
            Err(Unsound::NoTest(why)) => {
                return Some(self.unsound(Verdict::Invalid, why.to_string()));
            }
            Err(Unsound::TooFew) => {
                let text = "too few launches".to_owned();
                return is_over.then(|| TrialAnswer::of(Finding::Undecided, text));
            }
        };
        let (finding, change) = match self.sought {
            Sought::Failure => {
                let finding = match blocks >= SURVIVED {
                    true => Finding::Good,
                    false if is_over => Finding::Undecided,
                    false => return None,
                };
                (finding, None)
            }
            Sought::Value { threshold } => self.by_value(&contrast, threshold),
            Sought::Loss { .. } => self.by_loss(search, &contrast, blocks, is_over)?,
        };
        let reason = match finding {
            Finding::Undecided => format!("undecided after {blocks} blocks"),
            _ => String::new(),
        };
        Some(TrialAnswer {
            finding,
            reason,
            contrast: Some(contrast),
            change,
        })
    }

    /// An engine that does not answer is what is sought, or says nothing about what is.
    fn unsound(&self, verdict: Verdict, text: String) -> TrialAnswer {
        match (verdict, self.sought) {
            (Verdict::Fail, Sought::Failure) => TrialAnswer::of(Finding::Bad, text),
            (Verdict::Fail, _) => TrialAnswer::of(Finding::Skipped, text),
            _ => TrialAnswer::of(Finding::Invalid, text),
        }
    }

    fn by_value(&self, contrast: &Contrast, threshold: f64) -> (Finding, Option<Change>) {
        let finding = match is_beyond(&self.check, contrast, threshold) {
            true => Finding::Bad,
            false => Finding::Good,
        };
        let change = (contrast.base > 0.0).then(|| {
            let relative = contrast.head / contrast.base - 1.0;
            Change {
                relative,
                interval: (relative, relative),
                loss: None,
            }
        });
        (finding, change)
    }

    fn by_loss(
        &self,
        search: &Search,
        contrast: &Contrast,
        blocks: u32,
        is_over: bool,
    ) -> Option<(Finding, Option<Change>)> {
        // A metric that is exact in both builds has no variance to weigh.
        let Some(loss) = contrast.loss else {
            let sign = contrast.sign;
            let exact = sign * (contrast.head / contrast.base).ln();
            let half = self.loss() / 2.0;
            let finding = [Finding::Good, Finding::Bad][usize::from(exact > half)];
            return Some((finding, None));
        };
        let is_last = is_over || self.looks.last() <= Some(&blocks);
        let finding = search.finding(&loss, is_last)?;
        let (low, high) = search.test().interval(&loss);
        let relative = |loss: f64| (contrast.sign * loss).exp_m1();
        let (a, b) = (relative(low), relative(high));
        let change = Change {
            relative: relative(loss.est),
            interval: (a.min(b), a.max(b)),
            loss: Some((loss.est, loss.se, loss.df)),
        };
        Some((finding, Some(change)))
    }
}

/// Whether head's exact value lies on the bad side.
fn is_beyond(check: &Check, contrast: &Contrast, threshold: f64) -> bool {
    match check.rule {
        Rule::Ceiling { .. } => contrast.head > threshold,
        Rule::Floor { .. } => contrast.head < threshold,
        Rule::Regression { .. } => contrast.sign * (contrast.head - threshold) > 0.0,
    }
}

/// What is sought where BAD failed this check, or why it cannot be.
pub fn sought(check: &Check, contrast: &Contrast) -> Result<Sought, String> {
    let of_good = Contrast {
        head: contrast.base,
        ..*contrast
    };
    let threshold = match (check.rule, contrast.loss) {
        // What BAD lost has to be shown against GOOD too, not against the limit alone.
        (_, Some(loss)) => {
            let (low, _) = loss.interval(0.95);
            return match low > 0.0 {
                true => Ok(Sought::Loss { loss: loss.est }),
                false => {
                    Err("BAD is not shown to be worse than GOOD, which fares alike".to_owned())
                }
            };
        }
        (Rule::Ceiling { limit } | Rule::Floor { limit }, None) => limit,
        (Rule::Regression { .. }, None) => f64::midpoint(contrast.base, contrast.head),
    };
    match is_beyond(check, &of_good, threshold) {
        true => Err("GOOD fails this check too: name an older one".to_owned()),
        false => Ok(Sought::Value { threshold }),
    }
}
