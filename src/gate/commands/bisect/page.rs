//! A search over commits as one HTML page: the commits in their order, with what was measured of each.
//!
//! Main function: [`page`]. Refuses to know: decisions of the search, HTML.

use super::view;
use crate::report::numbers::{number, signed_percent};
use crate::report::sheet::{self, Bar, Bars, Mark, Picture, ScaleKind, Sheet, SheetTable, Tone};
use verdict::plural::count;
use verdict::record::{Bisection, Commit, Conclusion, Finding, Step, Trial, short};

/// Neighbouring commits that were not measured share one line from this number on.
const MANY: usize = 3;

/// `command`: the command line that searched.
pub fn page(bisection: &Bisection, command: String) -> String {
    let tone = match &bisection.conclusion {
        Conclusion::NoRegression => Tone::Pass,
        Conclusion::Culprit { .. } => Tone::Fail,
        Conclusion::Invalid => Tone::Invalid,
        Conclusion::Among { .. } | Conclusion::Unshown | Conclusion::Unfinished { .. } => {
            Tone::Inconclusive
        }
    };
    let word = view::title(&bisection.conclusion).to_lowercase();
    sheet::page(&Sheet {
        title: "gate bisect".to_owned(),
        badge: Some((tone, word)),
        headline: headline(bisection),
        about: view::about(bisection)
            .into_iter()
            .chain([bisection.created.clone(), bisection.machine.clone()])
            .collect(),
        notices: vec![view::answer(bisection).join("\n")],
        pictures: line_of_commits(bisection).into_iter().collect(),
        tables: vec![trials(bisection)],
        command,
        tool: bisection.tool.clone(),
        ..Sheet::default()
    })
}

fn headline(bisection: &Bisection) -> String {
    let Conclusion::Culprit { commit } = bisection.conclusion else {
        let first = view::answer(bisection).into_iter().next();
        return first.unwrap_or_default();
    };
    let of = &bisection.commits[commit as usize];
    let jump = bisection.measured(commit.saturating_sub(1) as usize, commit as usize);
    let numbers = jump.and_then(|jump| measured(bisection, jump));
    let numbers = numbers.map_or(String::new(), |numbers| format!(" ({numbers})"));
    format!("First bad commit: {}{numbers}", named(of))
}

fn named(commit: &Commit) -> String {
    format!("{} {}", short(&commit.id), commit.subject)
}

/// The change, or the values where there is none.
fn measured(bisection: &Bisection, trial: &Trial) -> Option<String> {
    let change = trial.change.map(|change| view::percents(&change));
    change.or_else(|| view::values(bisection, trial))
}

/// The commits, oldest first, each with its last session; the first bad one stands out.
fn line_of_commits(bisection: &Bisection) -> Option<Picture> {
    let has_changes = bisection.trials.iter().any(|trial| trial.change.is_some());
    let mut rows = Vec::new();
    let mut unknown = Vec::new();
    for (place, commit) in bisection.commits.iter().enumerate() {
        let against = bisection.trials.iter().rev();
        let mut of_it = against.filter(|trial| trial.commit as usize == place);
        let trial = of_it.find(|trial| trial.step != Step::Jump);
        match (trial, place) {
            (None, 1..) => unknown.push(commit),
            _ => {
                rows.extend(unmeasured(&unknown));
                unknown.clear();
                rows.push(match trial {
                    Some(trial) => row(bisection, trial, named(commit), has_changes),
                    None => good(bisection, commit, has_changes),
                });
            }
        }
        let jump = bisection.trials.iter().rev();
        let mut jump = jump.filter(|trial| trial.step == Step::Jump);
        if let Some(jump) = jump.find(|trial| trial.commit as usize == place) {
            let label = "against its parent".to_owned();
            rows.push(row(bisection, jump, label, has_changes));
        }
    }
    rows.extend(unmeasured(&unknown));
    let what = bisection.check.as_ref().unwrap_or(&bisection.gate);
    let bars = Bars {
        title: match has_changes {
            true => format!("{what}: change against GOOD, oldest commit first"),
            false => format!("{what}: {}, oldest commit first", unit(bisection)),
        },
        note: match has_changes {
            true => "Dot: the change; line: its interval, which holds at all looks together.",
            false => "Dot: the commit's value, the same in every launch.",
        }
        .to_owned(),
        kind: match has_changes {
            true => ScaleKind::Linear,
            false => ScaleKind::FromZero,
        },
        shown: match has_changes {
            true => signed_percent,
            false => number,
        },
        marks: match has_changes {
            true => vec![Mark {
                at: 0.0,
                name: "GOOD".to_owned(),
                tone: Tone::Base,
            }],
            false => Vec::new(),
        },
        rows,
    };
    bars.drawn().map(Picture::Bars)
}

/// The metric's name and unit.
fn unit(bisection: &Bisection) -> String {
    let name = bisection.metric.clone().unwrap_or_default();
    match view::metric(bisection) {
        Some(metric) => format!("{name} in {:?}", metric.unit()).to_lowercase(),
        None => name,
    }
}

/// GOOD: what the others were measured against.
fn good(bisection: &Bisection, commit: &Commit, has_changes: bool) -> Bar {
    let value = bisection.confirmation().and_then(|trial| trial.values);
    let at = match has_changes {
        true => Some(0.0),
        false => value.map(|(base, _)| base),
    };
    Bar {
        label: named(commit),
        value: "GOOD".to_owned(),
        tone: Tone::Base,
        dots: at.map(|at| (at, "GOOD".to_owned())).into_iter().collect(),
        ..Bar::default()
    }
}

fn row(bisection: &Bisection, trial: &Trial, label: String, has_changes: bool) -> Bar {
    let numbers = measured(bisection, trial);
    let at = match has_changes {
        true => trial.change.map(|change| change.relative),
        false => trial.values.map(|(_, head)| head),
    };
    let why = || match trial.reason.is_empty() {
        true => view::unmeasured(trial).to_owned(),
        false => trial.reason.clone(),
    };
    let is_marked = match bisection.conclusion {
        Conclusion::Culprit { commit } => commit == trial.commit,
        _ => false,
    };
    let text = numbers.clone().unwrap_or_else(why);
    let finding = match is_marked && trial.step != Step::Jump {
        true => "first bad",
        false => trial.finding.name(),
    };
    Bar {
        label,
        value: format!("{finding}: {text}"),
        tone: tone(trial.finding),
        is_marked,
        span: trial.change.map(|change| change.interval),
        dots: at.map(|at| (at, text)).into_iter().collect(),
        ..Bar::default()
    }
}

fn tone(finding: Finding) -> Tone {
    match finding {
        Finding::Good => Tone::Pass,
        Finding::Bad => Tone::Fail,
        Finding::Partly | Finding::Undecided => Tone::Inconclusive,
        Finding::Skipped | Finding::Invalid => Tone::Invalid,
    }
}

/// Neighbours that no session measured.
fn unmeasured(commits: &[&Commit]) -> Vec<Bar> {
    if commits.len() > MANY {
        let text = format!("{}, not measured", count(commits.len(), "commit"));
        return vec![Bar::text(text)];
    }
    let line = |commit: &&Commit| Bar::text(format!("{}, not measured", named(commit)));
    commits.iter().map(line).collect()
}

/// Every session in its order.
fn trials(bisection: &Bisection) -> SheetTable {
    let row = |trial: &Trial| {
        let commit = &bisection.commits[trial.commit as usize];
        let against = &bisection.commits[trial.against as usize];
        let text = match measured(bisection, trial) {
            Some(text) => text,
            None if trial.reason.is_empty() => view::unmeasured(trial).to_owned(),
            None => view::cut(&trial.reason, view::REASON),
        };
        vec![
            named(commit),
            short(&against.id).to_owned(),
            trial.finding.name().to_owned(),
            text,
            trial.launches.to_string(),
        ]
    };
    let header = [
        "commit",
        "against",
        "finding",
        "change [interval]",
        "launches",
    ];
    SheetTable {
        title: "Sessions".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: bisection.trials.iter().map(row).collect(),
    }
}
