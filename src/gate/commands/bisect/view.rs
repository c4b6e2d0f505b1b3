//! A search over commits as text: a line for each step while it runs, and the answer with all steps at its end.
//!
//! Refuses to know: how a step was decided. Words of commits come from somebody else and are stripped of what
//! could steer a terminal.

use crate::report::markdown::escape;
use crate::report::numbers;
use crate::report::terminal::{WIDTH, columns, wrap};
use anstyle::{AnsiColor, Style};
use std::fmt::Write;
use verdict::plural::count;
use verdict::record::{Bisection, Change, Commit, Conclusion, Finding, Metric, Step, Trial, short};

/// Most characters of a commit's subject in a line or a cell.
const SUBJECT: usize = 18;
/// Most characters of a reason, which stands where numbers are missing.
pub const REASON: usize = 36;
/// Where text stands that belongs to the word before it.
const INDENT: usize = 14;

/// `good     1a2b3c4d5e6f +0.3 % [-0.9, +1.5], 16 launches: Cache the rotary tables`.
pub fn bisection_line(bisection: &Bisection, trial: &Trial) -> String {
    let commit = &bisection.commits[trial.commit as usize];
    let numbers = match (trial.change, trial.reason.is_empty()) {
        (Some(change), _) => percents(&change),
        (None, true) => values(bisection, trial).unwrap_or_default(),
        (None, false) => cut(&trial.reason, REASON),
    };
    let launches = match trial.launches {
        0 => String::new(),
        n => format!(", {}", count(n, "launch")),
    };
    let line = format!(
        "{:<10}{} {numbers}{launches}: {}",
        trial.finding.name(),
        short(&commit.id),
        cut(&commit.subject, SUBJECT)
    );
    cut(&line, usize::from(WIDTH))
}

/// The whole report; with ANSI styles, which the caller strips where they are not wanted.
pub fn bisection_text(bisection: &Bisection) -> String {
    let mut out = String::new();
    for line in about(bisection) {
        put(&mut out, &line, 0);
    }
    if !bisection.trials.is_empty() {
        let header = ["", "commit", "change [interval]", "launches", "subject"];
        let rows = bisection.trials.iter().map(|trial| row(bisection, trial));
        let header = header.map(str::to_owned).to_vec();
        let _ = writeln!(out, "\n{}\n", columns(header, rows.collect()));
    }
    let style = style(&bisection.conclusion);
    let name = title(&bisection.conclusion);
    let mut lines = answer(bisection).into_iter();
    let first = lines.next().unwrap_or_default();
    let mut first = wrap(&first, usize::from(WIDTH) - INDENT).into_iter();
    let begin = first.next().unwrap_or_default();
    let _ = writeln!(out, "{style}{name:<12}{style:#}  {begin}");
    for line in first {
        let _ = writeln!(out, "{:INDENT$}{line}", "");
    }
    for line in lines {
        put(&mut out, &line, INDENT);
    }
    out
}

/// The same as Markdown.
pub fn bisection_markdown(bisection: &Bisection) -> String {
    let mut out = format!(
        "# Bisection: {}\n\n",
        title(&bisection.conclusion).to_lowercase()
    );
    for line in answer(bisection) {
        let _ = writeln!(out, "- {}", escape(&line));
    }
    let _ = writeln!(out);
    for line in about(bisection) {
        let _ = writeln!(out, "{}  ", escape(&line));
    }
    out.push_str("\n| | commit | change | launches | subject |\n|---|---|---|---|---|\n");
    for trial in &bisection.trials {
        let cells: Vec<String> = row(bisection, trial).iter().map(|c| escape(c)).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out
}

/// What was searched, and at what cost.
pub fn about(bisection: &Bisection) -> Vec<String> {
    let commits = &bisection.commits;
    let ends = commits.first().zip(commits.last());
    let (launches, seconds) = bisection.cost();
    let mut lines = Vec::new();
    if let Some((good, bad)) = ends {
        lines.push(format!("GOOD {} {}", short(&good.id), good.subject));
        lines.push(format!("BAD  {} {}", short(&bad.id), bad.subject));
    }
    lines.push(format!(
        "{}, gate {}, profile {}; {}, {:.1} min of measuring",
        count(commits.len() - 1, "commit"),
        bisection.gate,
        bisection.profile,
        count(launches, "launch"),
        seconds / 60.0
    ));
    if let Some(check) = &bisection.check {
        lines.push(format!(
            "By the check {check}, which BAD fails most clearly"
        ));
    }
    lines
}

fn row(bisection: &Bisection, trial: &Trial) -> Vec<String> {
    let commit = &bisection.commits[trial.commit as usize];
    let change = match trial.change {
        Some(change) => percents(&change),
        None => values(bisection, trial).unwrap_or_else(|| unmeasured(trial).to_owned()),
    };
    let subject = match (trial.step, trial.finding) {
        (Step::Confirm, _) => "BAD against GOOD".to_owned(),
        (Step::Jump, _) => "against its parent".to_owned(),
        (Step::Search, Finding::Skipped | Finding::Invalid) => cut(&trial.reason, REASON),
        (Step::Search, _) => cut(&commit.subject, SUBJECT),
    };
    vec![
        trial.finding.name().to_owned(),
        short(&commit.id).to_owned(),
        change,
        trial.launches.to_string(),
        subject,
    ]
}

/// What stands in the place of numbers: of a commit that was measured and is bad without any, the engine fails.
pub fn unmeasured(trial: &Trial) -> &'static str {
    match trial.finding {
        Finding::Bad if trial.launches > 0 => "engine fails",
        _ => "–",
    }
}

/// What is known, line by line.
pub fn answer(bisection: &Bisection) -> Vec<String> {
    let check = bisection.check.as_deref().unwrap_or(&bisection.gate);
    let confirmed = bisection.confirmation().map(|trial| trial.reason.clone());
    let confirmed = confirmed.unwrap_or_default();
    match &bisection.conclusion {
        Conclusion::NoRegression => vec![format!("no regression between them: {confirmed}")],
        Conclusion::Unshown => vec![format!("not shown to be a regression: {confirmed}")],
        Conclusion::Invalid => {
            let last = bisection.trials.last();
            let why = last.map_or("", |trial| trial.reason.as_str());
            vec![
                format!("the last measurement is broken: {why}"),
                "--resume tries that commit again".to_owned(),
            ]
        }
        Conclusion::Culprit { commit } => culprit(bisection, *commit, check),
        Conclusion::Among { first, last } => among(bisection, *first, *last, check),
        Conclusion::Unfinished { first, last } => {
            let mut lines = range(bisection, *first, *last);
            lines.push("--resume goes on from here".to_owned());
            lines
        }
    }
}

fn culprit(bisection: &Bisection, place: u32, check: &str) -> Vec<String> {
    let commit = &bisection.commits[place as usize];
    let parent = &bisection.commits[place as usize - 1];
    let mut lines = vec![
        commit.id.clone(),
        format!("{}, {}", commit.author, commit.date),
        commit.subject.clone(),
    ];
    let jump = bisection.measured(place as usize - 1, place as usize);
    lines.extend(jump.map(|trial| beside_parent(bisection, trial, short(&parent.id), check)));
    if let Some(jump) = jump.filter(|jump| jump.finding != Finding::Bad) {
        lines.push(format!(
            "by itself it does not fail the gate: {}",
            jump.reason
        ));
    }
    if commit.is_merge {
        lines.push("a merge counts as all commits that it brought".to_owned());
    }
    lines.extend(jump.and_then(|jump| remainder(bisection, place, jump)));
    lines
}

/// The numbers of the culprit and of its parent, or why there are none.
fn beside_parent(bisection: &Bisection, trial: &Trial, parent: &str, check: &str) -> String {
    let change = trial.change.map(|change| percents(&change));
    let what: Vec<String> = values(bisection, trial).into_iter().chain(change).collect();
    match what.is_empty() {
        true => format!("{check} against its parent {parent}: {}", trial.reason),
        false => format!("{check}: {} against its parent {parent}", what.join(", ")),
    }
}

/// Where the culprit does not have all of the change, what else there is and how to find it.
fn remainder(bisection: &Bisection, place: u32, jump: &Trial) -> Option<String> {
    let whole = bisection.confirmation()?.change?;
    let part = jump.change?;
    // Between the ends of the two intervals there is room for something else.
    let apart = part.interval.1 < whole.relative || part.interval.0 > whole.relative;
    if !apart || bisection.commits.len() <= 2 {
        return None;
    }
    let bad = bisection.commits.last()?;
    let culprit = &bisection.commits[place as usize];
    Some(format!(
        "GOOD to BAD it is {}: the rest lies in other commits; `gate bisect {} {}` searches those after it",
        percents(&whole),
        short(&culprit.id),
        short(&bad.id)
    ))
}

fn among(bisection: &Bisection, first: u32, last: u32, check: &str) -> Vec<String> {
    let mut lines = range(bisection, first, last);
    let inside = |trial: &&Trial| (first..last).contains(&trial.commit);
    let open = |finding| {
        let trials = bisection.trials.iter().filter(inside);
        trials.filter(|trial| trial.finding == finding).count()
    };
    let (skipped, undecided) = (open(Finding::Skipped), open(Finding::Undecided));
    if skipped > 0 {
        lines.push(format!("{skipped} of them cannot be built or started"));
    }
    if undecided > 0 {
        lines.push(format!(
            "{undecided} of them could not be told from either side by {check}: measure more with a larger profile"
        ));
    }
    lines
}

fn range(bisection: &Bisection, first: u32, last: u32) -> Vec<String> {
    const SHOWN: usize = 8;
    let commits = &bisection.commits[first as usize..=last as usize];
    let mut lines = vec![format!(
        "the first bad commit is one of these {}:",
        commits.len()
    )];
    if let [only] = commits {
        lines[0] =
            "the first bad commit can only be this one, which was not measured alone:".to_owned();
        lines.push(format!("{} {}", short(&only.id), only.subject));
        return lines;
    }
    let named = |commit: &Commit| format!("{} {}", short(&commit.id), commit.subject);
    lines.extend(commits.iter().take(SHOWN).map(named));
    if commits.len() > SHOWN {
        lines.push(format!("… and {} more", commits.len() - SHOWN));
    }
    lines
}

/// The answer in a word.
pub fn title(conclusion: &Conclusion) -> &'static str {
    match conclusion {
        Conclusion::NoRegression => "PASS",
        Conclusion::Unshown => "INCONCLUSIVE",
        Conclusion::Invalid => "INVALID",
        Conclusion::Culprit { .. } => "CULPRIT",
        Conclusion::Among { .. } => "CANDIDATES",
        Conclusion::Unfinished { .. } => "UNFINISHED",
    }
}

fn style(conclusion: &Conclusion) -> Style {
    let color = match conclusion {
        Conclusion::NoRegression => AnsiColor::Green,
        Conclusion::Culprit { .. } => AnsiColor::Red,
        Conclusion::Invalid => AnsiColor::Magenta,
        _ => AnsiColor::Yellow,
    };
    Style::new().bold().fg_color(Some(color.into()))
}

/// `+6.1 % [+4.8, +7.4]`; without an interval where the values are exact.
pub fn percents(change: &Change) -> String {
    let (low, high) = change.interval;
    let is_exact = low.to_bits() == high.to_bits();
    numbers::interval(Some(change.relative), (!is_exact).then_some((low, high)))
}

/// `0.2514 ms → 0.5021 ms`.
pub fn values(bisection: &Bisection, trial: &Trial) -> Option<String> {
    let (base, head) = trial.values?;
    let metric = metric(bisection);
    let shown = |value| match metric {
        Some(metric) => numbers::value(value, metric.unit()),
        None => numbers::number(value),
    };
    Some(format!("{} → {}", shown(base), shown(head)))
}

/// The metric of the trials' values, as far as it is known.
pub fn metric(bisection: &Bisection) -> Option<Metric> {
    let name = bisection.metric.as_deref()?;
    Metric::ALL.into_iter().find(|metric| metric.name() == name)
}

/// At most so many characters, none of which steers a terminal.
pub fn cut(text: &str, width: usize) -> String {
    let clean: Vec<char> = text.chars().filter(|c| !c.is_control()).collect();
    if clean.len() <= width {
        return clean.into_iter().collect();
    }
    let kept = clean.into_iter().take(width - 1);
    kept.chain(['…']).collect()
}

fn put(out: &mut String, line: &str, indent: usize) {
    for line in wrap(line.trim_end(), usize::from(WIDTH) - indent) {
        let _ = writeln!(out, "{:indent$}{line}", "");
    }
}
