//! A judged session in every report format, with the numbers that these need.

use super::Error;
use crate::report::{self, CheckLaunches, Judged, Page, Past, Publication, State};
use verdict::judge;
use verdict::plan::{self, DEFAULT_NAME, Plan, Rule};
use verdict::record::{RunRecord, RunVerdict};

/// How a verdict is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Terminal,
    Json,
    Markdown,
    Html,
    Junit,
    /// As on a pull request, without what only GitHub knows.
    Comment,
}

/// The verdict in this form.
///
/// # Errors
/// The record's own gates cannot be read, where a form needs them.
pub fn rendered(record: &RunRecord, verdict: &RunVerdict, form: Form) -> Result<String, Error> {
    Ok(match form {
        Form::Terminal => report::terminal(record, verdict),
        Form::Json => report::verdict_json(record, verdict),
        Form::Markdown => report::markdown(record, verdict),
        Form::Junit => report::junit(record, verdict),
        Form::Html => {
            let plan = plan::from_record(record)?;
            html(&plan, record, verdict, None, &[])
        }
        Form::Comment => comment(record, verdict),
    })
}

/// The page of a judged session.
pub fn html(
    plan: &Plan,
    record: &RunRecord,
    verdict: &RunVerdict,
    past: Option<&Past>,
    notices: &[String],
) -> String {
    report::html(&Page {
        record,
        verdict,
        launches: &launches(plan, record),
        past,
        notices,
    })
}

/// Every check's value in every launch that has one.
fn launches(plan: &Plan, record: &RunRecord) -> Vec<CheckLaunches> {
    let checks = plan.gates.iter().flat_map(|gate| &gate.checks);
    let of = |check: &plan::Check| {
        let measures = judge::launch_measures(plan, record, &check.id);
        let values = measures.into_iter().filter_map(|(launch, measure)| {
            let value = measure.ok()?.value;
            Some((launch.position, launch.arm, value))
        });
        CheckLaunches {
            check: check.id.clone(),
            unit: check.metric.unit(),
            limit: match check.rule {
                Rule::Ceiling { limit } | Rule::Floor { limit } => Some(limit),
                Rule::Regression { .. } => None,
            },
            values: values.collect(),
        }
    };
    checks.map(of).collect()
}

fn comment(record: &RunRecord, verdict: &RunVerdict) -> String {
    let commit = |arm| {
        let build = verdict::record::Build::of(&record.builds, arm);
        build.and_then(|build| build.commit.clone())
    };
    let publication = Publication {
        name: DEFAULT_NAME.to_owned(),
        judged_by: None,
        head_sha: commit(verdict::record::Arm::Head).unwrap_or_default(),
        base_sha: commit(verdict::record::Arm::Base),
        profile: record.profile.clone(),
        gates: record.gates.clone(),
        state: State::Judged(Judged {
            record,
            verdict,
            past: None,
        }),
        notices: Vec::new(),
        moved_to: None,
        links: Vec::new(),
    };
    report::comment(&publication, None, &marker(DEFAULT_NAME))
}

/// First line of our comments.
pub fn marker(name: &str) -> String {
    match name {
        plan::DEFAULT_NAME => "<!-- infergate:gate -->".to_owned(),
        name => format!("<!-- infergate:gate {name} -->"),
    }
}
