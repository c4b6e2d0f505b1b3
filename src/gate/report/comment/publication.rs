//! Publication of a commit's result, as plain data: the comment, the check run, the step
//! summary and the HTML report are made of it.
//!
//! Main type: [`Publication`]. Refuses to know: GitHub's API, files, and whom to trust: what it holds has been
//! settled by then, but for texts, which may hold anything.

use crate::report::main_values::has_no_base;
use verdict::record::{Comparison, RuleId, RunRecord, RunVerdict, Unit, Verdict};

/// All that is said of one commit.
#[derive(Clone, Debug)]
pub struct Publication<'a> {
    /// Name of the check run.
    pub name: String,
    /// Main's commit whose gates and program judge; `None`: unknown.
    pub judged_by: Option<String>,
    /// Full commit ids; head's is empty where it has none, such as an engine that is not built here.
    pub head_sha: String,
    pub base_sha: Option<String>,
    pub profile: String,
    /// Gates that were asked for; empty: those of the profile.
    pub gates: Vec<String>,
    /// The command that measures the same again; `None`: it is made of the fields above.
    pub again: Option<String>,
    pub state: State<'a>,
    /// Sentences that stand right below the verdict: what an artifact claimed, what was not taken from it.
    pub notices: Vec<String>,
    /// The pull request's head by now, where it is another one.
    pub moved_to: Option<String>,
    pub links: Vec<Link>,
    /// Address of the repository on GitHub, for links to commits; of the server's address and the repository's name alone.
    pub repository: Option<String>,
}

/// A name and an address of our own making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub name: String,
    /// Made of the server's address, the repository and a run's number; nothing of it is an artifact's.
    pub url: String,
}

/// How far it came.
#[derive(Clone, Debug)]
pub enum State<'a> {
    /// It is being measured.
    Pending,
    Judged(Judged<'a>),
    /// There is no record: a build failed, a machine was not fit. `said`: standard error's end.
    NotMeasured {
        said: &'a str,
    },
    /// There is an artifact, and it is not believed.
    Refused {
        why: &'a str,
    },
    /// It was not allowed to run.
    NotRun {
        why: &'a str,
    },
    /// A newer commit, or a person, ended it.
    Cancelled,
    /// No path of the pull request needs a run.
    NotNeeded,
}

/// A verdict with what it was made of.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    pub record: &'a RunRecord,
    pub verdict: &'a RunVerdict,
    /// Of the decisive check; `None`: nobody looked.
    pub past: Option<&'a Past>,
    /// Where a failure sits, from the launches' parts; it may quote an engine.
    pub cause: Option<&'a str>,
}

/// Main's last sessions on this machine by one check.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// `gate/check`.
    pub check: String,
    pub unit: Unit,
    /// One value a session in the metric's unit, oldest first; empty: main has none on this machine.
    pub main: Vec<f64>,
    /// This head's.
    pub head: Option<f64>,
}

/// How a check run ends ("Create a check run", `conclusion`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    Success,
    Failure,
    Neutral,
    Cancelled,
    ActionRequired,
    /// Satisfies a required check, as nothing was to be shown.
    Skipped,
}

impl Conclusion {
    /// GitHub's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Neutral => "neutral",
            Self::Cancelled => "cancelled",
            Self::ActionRequired => "action_required",
            Self::Skipped => "skipped",
        }
    }
}

impl Publication<'_> {
    /// `None` while it is being measured. `inconclusive` is what the project wants of a result that says nothing.
    pub fn conclusion(&self, inconclusive: Conclusion) -> Option<Conclusion> {
        Some(match &self.state {
            State::Pending => return None,
            State::Judged(judged) => match judged.verdict.verdict {
                // Nothing was compared.
                Verdict::Pass if judged.record.comparison == Comparison::SameBuild => {
                    Conclusion::Neutral
                }
                Verdict::Pass => Conclusion::Success,
                // A slow engine would be a way to choose this ending.
                Verdict::Inconclusive if is_cut_short(judged.verdict) => Conclusion::Failure,
                Verdict::Inconclusive => inconclusive,
                // A broken measurement has shown nothing, and must not look as if it had.
                Verdict::Fail | Verdict::Invalid => Conclusion::Failure,
            },
            State::NotMeasured { .. } | State::Refused { .. } => Conclusion::Failure,
            State::NotRun { .. } => Conclusion::ActionRequired,
            State::Cancelled => Conclusion::Cancelled,
            State::NotNeeded => Conclusion::Skipped,
        })
    }

    /// One or two words: the verdict, or how far it came.
    pub fn word(&self) -> &'static str {
        match &self.state {
            State::Pending => "measuring",
            State::Judged(judged) if has_no_base(judged.verdict) => "no baseline",
            State::Judged(judged) => crate::report::word(judged.record, judged.verdict),
            State::NotMeasured { .. } => "not measured",
            State::Refused { .. } => "result refused",
            State::NotRun { .. } => "not run",
            State::Cancelled => "cancelled",
            State::NotNeeded => "not needed",
        }
    }

    /// The sentence after [`word`](Self::word) and a colon. It may hold text from outside.
    pub fn sentence(&self) -> String {
        match &self.state {
            State::Pending => {
                let gates = match self.gates.is_empty() {
                    true => format!("the gates of the profile {}", self.profile),
                    false => self.gates.join(", "),
                };
                format!("{gates}; the result will appear here")
            }
            State::Judged(judged) => {
                crate::report::headline_and_limits(judged.record, judged.verdict)
            }
            State::NotMeasured { .. } => "a build, a launch or the machine failed".into(),
            State::Refused { why } | State::NotRun { why } => (*why).to_owned(),
            State::Cancelled => "the run has no result".into(),
            State::NotNeeded => "no path of this pull request needs a gate run".into(),
        }
    }

    /// The command that measures the same again.
    pub fn command(&self) -> String {
        if let Some(again) = &self.again {
            return again.clone();
        }
        let mut command = "gate check".to_owned();
        if !self.head_sha.is_empty() {
            command.push_str(&format!(" --head {}", self.head_sha));
        }
        if let Some(base) = &self.base_sha {
            command.push_str(&format!(" --base {base}"));
        }
        command.push_str(&format!(" --profile {}", self.profile));
        for gate in &self.gates {
            command.push_str(&format!(" --gate {gate}"));
        }
        command
    }
}

/// True if the session ended before the last look, by its budget or by somebody.
fn is_cut_short(verdict: &RunVerdict) -> bool {
    let mut checks = verdict.gates.iter().flat_map(|gate| &gate.checks);
    checks.any(|check| matches!(check.reason.rule, RuleId::Budget | RuleId::Interrupted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(state: State<'_>) -> Publication<'_> {
        Publication {
            name: "infergate".into(),
            judged_by: None,
            head_sha: "a".repeat(40),
            base_sha: Some("b".repeat(40)),
            profile: "full".into(),
            gates: vec!["tpot".into(), "e2e".into()],
            again: None,
            state,
            notices: Vec::new(),
            moved_to: None,
            links: Vec::new(),
            repository: None,
        }
    }

    #[test]
    fn nothing_but_a_pass_is_a_success() {
        let check = |state, word, conclusion| {
            let publication = of(state);
            assert_eq!(publication.word(), word);
            assert_eq!(publication.conclusion(Conclusion::Failure), conclusion);
        };
        check(State::Pending, "measuring", None);
        let said = "make: *** [engine] Error 2";
        check(
            State::NotMeasured { said },
            "not measured",
            Some(Conclusion::Failure),
        );
        let why = "why";
        check(
            State::Refused { why },
            "result refused",
            Some(Conclusion::Failure),
        );
        check(
            State::NotRun { why },
            "not run",
            Some(Conclusion::ActionRequired),
        );
        check(State::Cancelled, "cancelled", Some(Conclusion::Cancelled));
        check(State::NotNeeded, "not needed", Some(Conclusion::Skipped));
        let verdict = |verdict| RunVerdict {
            verdict,
            gates: Vec::new(),
            blocks: 0,
            launches: 0,
            saved_s: 0.0,
            decision: verdict::record::Decision::Stop,
            not_run: Vec::new(),
        };
        let record = include_str!("../../../../tests/data/run-v1.json");
        let mut record: RunRecord = serde_json::from_str(record).unwrap();
        record.comparison = Comparison::Interleaved;
        let table = [
            (Verdict::Pass, Conclusion::Success, Conclusion::Success),
            (Verdict::Fail, Conclusion::Failure, Conclusion::Failure),
            (Verdict::Invalid, Conclusion::Failure, Conclusion::Failure),
            (
                Verdict::Inconclusive,
                Conclusion::Failure,
                Conclusion::Neutral,
            ),
        ];
        for (got, strict, lenient) in table {
            let verdict = verdict(got);
            let judged = of(State::Judged(Judged {
                record: &record,
                verdict: &verdict,
                past: None,
                cause: None,
            }));
            assert_eq!(judged.conclusion(Conclusion::Failure), Some(strict));
            assert_eq!(judged.conclusion(Conclusion::Neutral), Some(lenient));
        }
    }

    #[test]
    fn one_command_measures_it_again() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        assert_eq!(
            of(State::Cancelled).command(),
            format!("gate check --head {a} --base {b} --profile full --gate tpot --gate e2e")
        );
        // An engine that is not built has no commit that could be named.
        let not_built = Publication {
            head_sha: String::new(),
            base_sha: None,
            ..of(State::Cancelled)
        };
        assert_eq!(
            not_built.command(),
            "gate check --profile full --gate tpot --gate e2e"
        );
    }
}
