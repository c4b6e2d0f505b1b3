//! The comment on a pull request, from a template: ours, or the repository's own.
//!
//! Every value that a template is given is text that GitHub shows and does nothing with (`github_escape.rs`), so that a
//! template cannot forget to escape. docs/publish.md lists the values. Main function: [`comment`]. Refuses to know:
//! GitHub's API, and how a comment is found again.

pub mod chart;
pub mod cut;
pub mod publication;

use self::chart::{mermaid, sparkline};
use self::cut::{MOST_BYTES, cut, marked};
use self::publication::{Judged, Publication, State};
use super::github_escape::{code, code_span, inert, inert_html, inert_within};
use super::reasons::capital;
use super::row::{self, Row};
use super::{cells, numbers, reasons, redact};
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, context};
use verdict::plural::count;
use verdict::record::{CheckVerdict, GateVerdict, RunRecord, RunVerdict, Verdict, is_ignorable};

const TEMPLATE: &str = include_str!("../templates/comment.md.j2");

/// Rows of the table; of a longer one the checks that passed are only counted.
const ROWS: usize = 40;
/// Characters of a reason in the table; whole it stands below.
const REASON: usize = 240;
/// Characters of the first line, and of a commit's subject.
const TITLE: usize = 240;
const SUBJECT: usize = 72;

/// The comment's text in at most `MOST_BYTES` bytes with `marker` as its first line. `own`: the repository's own
/// template, in whose place ours is taken if it is broken, which the comment then says.
pub fn comment(publication: &Publication<'_>, own: Option<&str>, marker: &str) -> String {
    let values = values(publication);
    let rendered = match own.map(|template| render(template, &values)) {
        None => ours(&values),
        Some(Ok(text)) => text,
        Some(Err(error)) => format!(
            "> [!CAUTION]\n> gates/comment.md.j2 is broken, and the built-in template is used: {}\n\n{}",
            inert(&error),
            ours(&values)
        ),
    };
    let whereabouts = whereabouts(publication);
    let room = MOST_BYTES - marker.len() - 1;
    format!(
        "{marker}\n{}",
        cut(rendered.trim_start(), room, &whereabouts)
    )
}

fn ours(values: &Value) -> String {
    render(TEMPLATE, values)
        .unwrap_or_else(|error| format!("the comment's template failed: {}\n", inert(&error)))
}

fn render(template: &str, values: &Value) -> Result<String, String> {
    let mut environment = Environment::new();
    // Escaping is Markdown's and done before; HTML's would double it.
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    let rendered = environment.render_str(&marked(template), values);
    rendered.map_err(|error| {
        format!("{error:#}")
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    })
}

fn whereabouts(publication: &Publication<'_>) -> String {
    let links: Vec<String> = publication
        .links
        .iter()
        .map(|link| format!("[{}]({})", inert(&link.name), link.url))
        .collect();
    match links.as_slice() {
        [] => "Full report: report.html.".to_owned(),
        links => format!("Full report: report.html ({}).", links.join(", ")),
    }
}

/// The mark before a verdict.
fn mark(word: &str) -> &'static str {
    match word {
        "pass" => "✅",
        "fail" => "❌",
        "inconclusive" | "no baseline" | "waived" | super::ONE_BUILD => "⚠️",
        "measuring" => "⏳",
        "not run" => "✋",
        "cancelled" => "⏹️",
        _ => "🚫",
    }
}

fn values(publication: &Publication<'_>) -> Value {
    let judged = match &publication.state {
        State::Judged(judged) => Some(judged),
        _ => None,
    };
    let failure = match &publication.state {
        State::NotMeasured { said } if !said.trim().is_empty() => Some(code(said)),
        _ => None,
    };
    let wants_command = !matches!(
        publication.state,
        State::NotRun { .. } | State::Pending | State::NotNeeded
    );
    let common = context! {
        name => inert(&publication.name),
        mark => mark(publication.word()),
        word => publication.word(),
        sentence => inert(&publication.sentence()),
        title => title(publication),
        head => code_span(&publication.head_sha),
        moved_to => publication.moved_to.as_deref().map(code_span),
        notices => publication.notices.iter().map(|notice| inert(notice)).collect::<Vec<_>>(),
        failure => failure,
        command => wants_command.then(|| command(publication)),
        links => publication.links.iter().map(|link| context! {
            name => inert(&link.name), url => link.url.clone(),
        }).collect::<Vec<_>>(),
        is_judged => judged.is_some(),
    };
    match judged {
        Some(judged) => {
            context! { ..common, ..of_verdict(judged, publication) }
        }
        None => context! {
            ..common,
            ..context! {
                rows => (), passed => (), cause => (), arms => Vec::<Value>::new(), gates => Vec::<Value>::new(), logs => Vec::<Value>::new(), chart => (),
                has_no_past => false, waivers => (), facts => Vec::<Value>::new(),
            }
        },
    }
}

fn of_verdict(judged: &Judged<'_>, publication: &Publication<'_>) -> Value {
    let Judged {
        record,
        verdict,
        past,
        cause,
    } = judged;
    let judged_by = publication.judged_by.as_deref();
    let (rows, passed) = rows(verdict);
    let chart = past.and_then(|past| {
        Some(context! {
            check => code_span(&past.check), sparkline => sparkline(past)?, mermaid => mermaid(past),
        })
    });
    context! {
        rows => rows,
        passed => passed,
        cause => cause.map(inert),
        arms => arms(record, publication),
        gates => gates(verdict),
        logs => super::failed_logs(record).iter().map(|(what, tail)| context! {
            what => inert_html(what), code => code(tail),
        }).collect::<Vec<_>>(),
        chart => chart,
        has_no_past => past.is_some_and(|past| past.main.is_empty()),
        waivers => waivers(verdict),
        facts => facts(record, verdict, judged_by),
    }
}

/// The command as the inside of a code span.
fn command(publication: &Publication<'_>) -> String {
    let command = publication.command();
    let is_kept = |c: &char| !c.is_control() && *c != '`' && !is_ignorable(*c);
    redact(&command).chars().filter(is_kept).collect()
}

/// The comment's first line: the verdict and its sentence, after the check run's name where a project has several.
fn title(publication: &Publication<'_>) -> String {
    let word = capital(publication.word());
    let sentence = inert_within(&publication.sentence(), TITLE);
    match publication.name == "infergate" {
        true => format!("{word}: {sentence}"),
        false => format!("{}: {word}: {sentence}", inert(&publication.name)),
    }
}

/// Both arms' commits, the branch and the subject where they are known.
fn arms(record: &RunRecord, publication: &Publication<'_>) -> Vec<String> {
    if record.builds.iter().all(|build| build.commit.is_none()) {
        return Vec::new();
    }
    let builds = record.builds.iter().map(|build| {
        let Some(commit) = &build.commit else {
            return format!("{} {}", build.arm.name(), super::without_commit(build));
        };
        let short = code_span(&numbers::commit(commit));
        let is_id = commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        let linked = match publication.repository.as_ref().filter(|_| is_id) {
            Some(url) => format!("[{short}]({url}/commit/{commit})"),
            None => short,
        };
        let subject = build
            .subject
            .as_deref()
            .map(|subject| format!(" “{}”", inert_within(subject, SUBJECT)));
        format!(
            "{} {linked}{}{}",
            build.arm.name(),
            subject.unwrap_or_default(),
            if build.dirty {
                " + uncommitted changes"
            } else {
                ""
            }
        )
    });
    let gates = super::changed_gates(record).map(|line| inert(&line));
    builds.chain(gates).collect()
}

/// The table's rows, the worst first, and a sentence on those that are only counted.
fn rows(verdict: &RunVerdict) -> (Vec<Value>, Option<String>) {
    let checks = row::worst_first(verdict);
    let is_short = checks.len() <= ROWS;
    let shown = checks.iter();
    let shown = shown.filter(|check| is_short || check.verdict != Verdict::Pass);
    let shown: Vec<Value> = shown.map(|check| of_row(check)).collect();
    let greens = checks.len() - shown.len();
    let passed = (greens > 0).then(|| format!("{} passed.", count(greens, "further check")));
    (shown, passed)
}

fn of_row(check: &CheckVerdict) -> Value {
    let row = Row::of(check);
    context! {
        mark => mark(row.verdict),
        word => row.verdict,
        id => code_span(&row.check),
        base => row.base,
        head => row.head,
        change => inert(&row.change),
        fails => row.fails,
        passes => row.passes,
        why => inert_within(&reasons::sentence(check), REASON),
    }
}

fn gates(verdict: &RunVerdict) -> Vec<Value> {
    let is_red = |gate: &GateVerdict| gate.verdict != Verdict::Pass;
    let values = row::gates_worst_first(verdict).into_iter().map(|gate| {
        context! {
            name => inert(&gate.gate),
            title => inert_html(&gate.title),
            mark => mark(gate.verdict.name()),
            verdict => gate.verdict.name(),
            is_red => is_red(gate),
            // What passed goes first where room is short.
            importance => if is_red(gate) { 6 } else { 9 },
            checks => gate.checks.iter().map(check).collect::<Vec<_>>(),
        }
    });
    values.collect()
}

fn check(check: &CheckVerdict) -> Value {
    context! {
        id => code_span(&check.id),
        word => check.word(),
        metric => check.metric.name().replace('_', "\\_"),
        rule => check.reason.rule.name(),
        reason => inert(&reasons::sentence(check)),
        notes => reasons::notes(check).iter().map(|note| inert(note)).collect::<Vec<_>>(),
        grid => cells::for_template(check),
    }
}

fn waivers(verdict: &RunVerdict) -> Option<Vec<String>> {
    let checks = verdict.gates.iter().flat_map(|gate| &gate.checks);
    let lines: Vec<String> = checks
        .filter_map(|check| {
            let waiver = check.waiver.as_ref();
            let waiver = waiver.filter(|it| it.is_expired || check.is_waived())?;
            let until = match waiver.is_expired {
                true => format!("**expired** on {}", inert(&waiver.expires)),
                false => format!("until {}", inert(&waiver.expires)),
            };
            Some(format!(
                "{} {until}, owner {}: {} ({})",
                code_span(&check.id),
                inert(&waiver.owner),
                inert(&waiver.reason),
                inert(&waiver.issue),
            ))
        })
        .collect();
    (!lines.is_empty()).then_some(lines)
}

/// Both arms, time, calibration and machine, a line each.
fn facts(record: &RunRecord, verdict: &RunVerdict, judged_by: Option<&str>) -> Vec<String> {
    let mut lines: Vec<String> = record
        .builds
        .iter()
        .map(|build| {
            let commit = super::commit_or_why(build);
            format!("{} {}", build.arm.name(), code_span(commit))
        })
        .collect();
    lines.extend(judged_by.map(|commit| format!("judged by main at {}", code_span(commit))));
    lines.push(format!(
        "profile {}, {}; {}",
        inert(&record.profile),
        super::extent(record, verdict),
        inert(&super::ending(record, verdict))
    ));
    lines.push(cost(record, verdict));
    lines.extend(super::cooling(record));
    let cited = super::citation::citations(record);
    if cited.is_empty() {
        lines.push(
            "this machine's false alarms and smallest effects are not known: `gate calibrate`"
                .to_owned(),
        );
    }
    lines.extend(cited.iter().map(|line| inert(line)));
    lines.push(inert(&record.machine.fingerprint));
    lines.extend(super::isolation(record).iter().map(|line| inert(line)));
    lines.push(format!(
        "seed {}, {}, {}",
        record.seed,
        inert(&record.created),
        inert(&record.tool)
    ));
    lines
}

/// What the machine's time was spent on; builds apart, since they need no GPU.
pub fn cost(record: &RunRecord, verdict: &RunVerdict) -> String {
    let minutes = |seconds: f64| match seconds < 120.0 {
        true => format!("{seconds:.0} s"),
        false => format!("{:.1} min", seconds / 60.0),
    };
    let what = if record.machine.gpus.is_empty() {
        "of the machine's time"
    } else {
        "of GPU time"
    };
    let built: f64 = record.builds.iter().map(|build| build.build_s).sum();
    let mut text = format!("{} {what}", minutes(record.elapsed_s));
    if let Some(saved) = super::saved(verdict) {
        text.push_str(&format!("; {saved}"));
    }
    if built >= 1.0 {
        text.push_str(&format!("; builds took {} more", minutes(built)));
    }
    text
}
