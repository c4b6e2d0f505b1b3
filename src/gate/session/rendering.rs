//! A judged session in every report format, with the numbers that these need.

use super::{Error, figures};
use crate::explanation;
use crate::report::{self, Judged, Page, Past, Publication, State};
use verdict::plan::{self, DEFAULT_NAME, Plan};
use verdict::record::{
    Arm, CheckVerdict, Comparison, Extent, RunRecord, RunVerdict, Verdict, is_ignorable,
};

/// How a verdict is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Terminal(report::View),
    Json,
    Markdown,
    Html,
    Junit,
    /// As on a pull request, without what only GitHub knows.
    Comment,
    /// A row for each check of a launch.
    Csv,
    RequestsCsv,
    OpenMetrics,
}

/// The verdict in this form.
///
/// # Errors
/// The record's own gates cannot be read, where a form needs them.
pub fn rendered(record: &RunRecord, verdict: &RunVerdict, form: Form) -> Result<String, Error> {
    Ok(match form {
        Form::Terminal(view) => report::terminal(record, verdict, view),
        Form::Json => report::verdict_json(record, verdict),
        Form::Markdown => {
            let plan = plan::from_record(record).ok();
            let again = plan.as_ref().and_then(|plan| again(plan, record));
            markdown(plan.as_ref(), record, verdict, again.as_deref())
        }
        Form::Junit => report::junit(record, verdict),
        Form::Csv => figures::launches_csv(record)?,
        Form::RequestsCsv => figures::requests_csv(record),
        Form::OpenMetrics => report::openmetrics(record, verdict),
        Form::Html => {
            let plan = plan::from_record(record)?;
            html(
                &plan,
                record,
                verdict,
                (None, &[]),
                again(&plan, record).as_deref(),
            )
        }
        Form::Comment => {
            let plan = plan::from_record(record).ok();
            comment(plan.as_ref(), record, verdict)
        }
    })
}

/// The report as Markdown; `again` measures it again. Only a plan tells the slower part.
pub fn markdown(
    plan: Option<&Plan>,
    record: &RunRecord,
    verdict: &RunVerdict,
    again: Option<&str>,
) -> String {
    let cause = plan.and_then(|plan| cause(plan, record, verdict));
    report::markdown(record, verdict, (cause.as_deref(), again))
}

/// Checks that are taken apart on the page: those that failed or stayed open, up to so many.
const EXPLAINED: usize = 12;

/// The page of a judged session; `again` measures it again.
pub fn html(
    plan: &Plan,
    record: &RunRecord,
    verdict: &RunVerdict,
    (past, notices): (Option<&Past>, &[String]),
    again: Option<&str>,
) -> String {
    let is_told =
        |check: &&CheckVerdict| matches!(check.verdict, Verdict::Fail | Verdict::Inconclusive);
    let red = explanation::checks(verdict).filter(is_told);
    let explanations = red.take(EXPLAINED).filter_map(|check| {
        explanation::explain(
            plan,
            record,
            verdict,
            check,
            report::sentence_and_examples(check),
        )
    });
    report::html(&Page {
        record,
        verdict,
        figures: &figures::of_checks(plan, record, verdict),
        readings: &figures::readings(record),
        starts: &figures::starts(plan, record),
        explanations: &explanations.collect::<Vec<_>>(),
        cause: cause(plan, record, verdict).as_deref(),
        again,
        past,
        notices,
    })
}

/// The command that measures the same again: commits, gates and further arguments of both arms; `None` where another tool
/// measured, or several machines did, and where a part of it cannot be shown.
pub fn again(plan: &Plan, record: &RunRecord) -> Option<String> {
    if record.is_imported() || matches!(record.extent, Extent::Merged { .. }) {
        return None;
    }
    if record.comparison.is_recording() {
        return Some(format!(
            "gate baseline record --profile {}",
            report::shell_word(&record.profile)
        ));
    }
    let mut words = vec![
        "gate".to_owned(),
        "check".into(),
        "--profile".into(),
        record.profile.clone(),
    ];
    for gate in &record.gates {
        words.extend(["--gate".to_owned(), gate.clone()]);
    }
    if let Extent::Shard { together, .. } = &record.extent {
        let names = together.iter();
        words.extend(names.flat_map(|name| ["--together".to_owned(), name.clone()]));
    }
    words.extend(["--seed".to_owned(), record.seed.to_string()]);
    if record.comparison == Comparison::SameBuild {
        words.push("--same-build".into());
    }
    if record.comparison == Comparison::Stored {
        words.extend(["--base".to_owned(), "stored".into()]);
    }
    for build in &record.builds {
        let arm = build.arm.name();
        let is_named = match record.comparison {
            Comparison::Interleaved => true,
            _ => build.arm == Arm::Head,
        };
        if is_named && !build.dirty {
            let commit = build.commit.iter();
            words.extend(commit.flat_map(|commit| [format!("--{arm}"), commit.clone()]));
        }
        let command = report::secrets::hidden(&build.command);
        let further = command.iter().skip(plan.engine.serve.len());
        words.extend(further.map(|word| format!("--{arm}-arg={word}")));
    }
    let words = words.iter().map(|word| report::shell_word(word));
    let command = words.collect::<Vec<_>>().join(" ");
    // What is left out of a command, a secret or what nobody sees, may end its quotes.
    let is_shown_whole = report::redact(&command) == command;
    let is_seen = |c: char| !c.is_control() && !is_ignorable(c);
    (is_shown_whole && command.chars().all(is_seen)).then_some(command)
}

/// Where the failure sits that the headline names, in a sentence; `None` where nothing failed, or its parts do not tell.
pub fn cause(plan: &Plan, record: &RunRecord, verdict: &RunVerdict) -> Option<String> {
    if verdict.verdict != Verdict::Fail {
        return None;
    }
    // That of the headline.
    let judged = report::decisive(verdict)?;
    let reason = report::sentence_and_examples(judged);
    let explained = explanation::explain(plan, record, verdict, judged, reason)?;
    // What is not shown to be slower stands in the explanation.
    let mut parts = explained.facets.iter();
    let is_shown = parts.any(|row| row.interval.is_some_and(|(low, _)| low > 0.0));
    let sits = explained.sits.filter(|_| is_shown)?;
    let sits = sits.split(';').next().unwrap_or_default();
    let spread = explained.requests;
    let is_alike = spread.is_some_and(|spread| spread.beyond * 10 > spread.of * 9);
    let alike = if is_alike {
        ", in nearly every request"
    } else {
        ""
    };
    Some(format!("{sits}{alike}"))
}

fn comment(plan: Option<&Plan>, record: &RunRecord, verdict: &RunVerdict) -> String {
    let cause = plan.and_then(|plan| cause(plan, record, verdict));
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
        // An empty one is left out.
        again: plan.map(|plan| again(plan, record).unwrap_or_default()),
        state: State::Judged(Judged {
            record,
            verdict,
            past: None,
            cause: cause.as_deref(),
        }),
        notices: Vec::new(),
        moved_to: None,
        links: Vec::new(),
        repository: None,
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
