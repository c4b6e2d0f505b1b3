//! An explanation for people: sections of a few lines each, and the pictures.
//!
//! An engine's words are escaped before anything else: no control character of theirs reaches a terminal.

use super::picture::{self, PictureRow};
use crate::explanation::{AnswerRow, Explanation, FirstBad, RequestSpread, Stalls};
use crate::report::markdown::{code_line, escape};
use crate::report::numbers;
use crate::report::terminal::{WIDTH, columns, wrap};
use crate::report::two_modes;
use std::fmt::Write;
use std::iter;
use verdict::plural::count;

/// Most wrong answers that are shown, and most characters of a quoted text.
const ANSWERS: usize = 5;
const QUOTED: usize = 64;

/// Characters of an answer that is shown beside others.
const ANSWER: usize = 400;

/// What stands under one heading.
enum Section {
    Lines(Vec<String>),
    /// Lines, and items below them.
    List(Vec<String>, Vec<String>),
    Table(Vec<String>, Vec<Vec<String>>),
    Picture(String),
    Crashes(Vec<String>),
}

/// For a terminal of 80 columns.
pub fn explanation_text(explanation: &Explanation) -> String {
    let mut out = String::new();
    for (heading, section) in sections(explanation) {
        if !out.is_empty() {
            out.push('\n');
        }
        put(&mut out, &heading, 0);
        match section {
            Section::Lines(lines) => {
                for line in lines {
                    put(&mut out, &line, 2);
                }
            }
            Section::List(lines, items) => {
                for line in lines {
                    put(&mut out, &line, 2);
                }
                for item in items {
                    put_item(&mut out, &item);
                }
            }
            Section::Table(header, rows) => {
                let _ = writeln!(out, "{}", columns(header, rows));
            }
            Section::Picture(text) => out.push_str(&text),
            Section::Crashes(crashes) => {
                for crash in crashes {
                    put_crash(&mut out, &crash);
                }
            }
        }
    }
    out
}

pub fn explanation_markdown(explanation: &Explanation) -> String {
    let mut out = format!("# {}\n", escape(&explanation.check));
    for (heading, section) in sections(explanation) {
        let _ = writeln!(out, "\n**{}**\n", escape(&heading));
        match section {
            Section::Lines(lines) => {
                for line in lines {
                    let _ = writeln!(out, "- {}", escape(&line));
                }
            }
            Section::List(lines, items) => {
                for line in lines.iter().chain(&items) {
                    let _ = writeln!(out, "- {}", escape(line));
                }
            }
            Section::Table(header, rows) => {
                let _ = writeln!(out, "| {} |", header.join(" | "));
                let _ = writeln!(out, "|{}", "---|".repeat(header.len()));
                for row in rows {
                    let cells: Vec<String> = row.iter().map(|cell| escape(cell)).collect();
                    let _ = writeln!(out, "| {} |", cells.join(" | "));
                }
            }
            Section::Picture(text) => {
                for line in text.lines() {
                    let _ = writeln!(out, "    {line}");
                }
            }
            Section::Crashes(crashes) => {
                for crash in crashes {
                    list_crash(&mut out, &crash);
                }
            }
        }
    }
    out
}

/// Everything that there is to say, in order; what is not known has no section.
fn sections(e: &Explanation) -> Vec<(String, Section)> {
    let mut all = vec![what(e)];
    if !e.crashes.is_empty() {
        let heading = "failed launches".to_owned();
        all.push((heading, Section::Crashes(e.crashes.clone())));
    }
    all.extend(answers(e));
    all.extend(request(e));
    all.extend(facets(e));
    all.extend(first_bad(e));
    all.extend(modes(e).into_iter().flatten());
    all.extend(readings(e));
    all.extend(launches(e));
    all.extend(requests(e));
    all
}

fn what(e: &Explanation) -> (String, Section) {
    let mut lines = vec![e.reason.clone()];
    if !e.others.is_empty() {
        let failed = match e.verdict {
            "fail" => "also failed",
            _ => "failed",
        };
        lines.push(format!("{failed}: {}", e.others.join(", ")));
    }
    // A section of its own shows where an answer leaves its golden.
    let items = if e.answers.iter().all(|row| row.sent.is_some()) {
        e.examples.clone()
    } else {
        Vec::new()
    };
    let heading = format!("{}: {}", e.check, e.verdict);
    (heading, Section::List(lines, items))
}

/// The command stays one line, so that it can be copied.
fn request(e: &Explanation) -> Option<(String, Section)> {
    let request = e.request.as_ref()?;
    let heading = "the request of the first of them, to an engine that listens on $PORT".to_owned();
    Some((heading, Section::Picture(format!("{request}\n"))))
}

fn facets(e: &Explanation) -> Option<(String, Section)> {
    if e.facets.is_empty() {
        return None;
    }
    let mut header = vec!["part", "base", "head", "change [95 % CI]"];
    // A check that was decided early has fewer.
    let is_alike = e
        .facets
        .windows(2)
        .all(|two| two[0].launches == two[1].launches);
    header.extend((!is_alike).then_some("launches"));
    let rows = e.facets.iter().map(|row| {
        let mut cells = vec![
            row.name.clone(),
            numbers::optional(row.base, row.unit),
            numbers::optional(row.head, row.unit),
            numbers::interval(row.change, row.interval),
        ];
        let (base, head) = row.launches;
        cells.extend((!is_alike).then(|| format!("{base} + {head}")));
        cells
    });
    let heading = match &e.sits {
        Some(sits) => format!("slower part: {sits}"),
        None => "parts of the time".to_owned(),
    };
    let header = header.into_iter().map(str::to_owned).collect();
    Some((heading, Section::Table(header, rows.collect())))
}

fn first_bad(e: &Explanation) -> Option<(String, Section)> {
    let FirstBad {
        launch,
        value,
        bound,
        rule,
        beyond,
        of,
        ..
    } = e.first_bad.as_ref()?;
    if *of == 1 && e.requests.is_none() {
        // The only one: the reason says it.
        return None;
    }
    let value = numbers::value(*value, e.unit);
    let bound = numbers::value(*bound, e.unit);
    let mut lines = vec![
        format!("{value}; {rule} {bound}"),
        format!("{beyond} of {of} head launches are beyond that"),
    ];
    lines.extend(e.requests.as_ref().map(|requests| slow(requests, e)));
    let stalls = e.requests.as_ref().and_then(|it| it.stalls.as_ref());
    lines.extend(stalls.map(beside));
    let heading = format!("first bad launch: launch {launch} (head)");
    Some((heading, Section::Lines(lines)))
}

/// Whether all requests of the launch are slow, or a mode of some.
fn slow(requests: &RequestSpread, e: &Explanation) -> String {
    let RequestSpread {
        threshold,
        beyond,
        of,
        ..
    } = requests;
    let share = *beyond as f64 / (*of).max(1) as f64;
    let words = if beyond == of {
        "all of them"
    } else if share >= 0.9 {
        "nearly all of them"
    } else if share >= 0.5 {
        "most of them"
    } else if share > 0.05 {
        "some of them: a slow mode"
    } else {
        "no slow mode: if anything moved, all of them did"
    };
    let threshold = numbers::value(*threshold, e.unit);
    format!("{beyond} of its {of} values are beyond base's p99, {threshold}: {words}")
}

/// `38 of these 42 fall while another request waits for its first token (prompts of 404 tokens); of the others 12 of 790`.
fn beside(stalls: &Stalls) -> String {
    let Stalls {
        long: (long, of),
        other: (other, others),
        prompt_tokens,
    } = stalls;
    let prompts = prompt_tokens.map_or_else(String::new, |tokens| {
        format!(" (prompts of {tokens:.0} tokens)")
    });
    format!(
        "{long} of these {of} lie beside another request's wait for its first token{prompts}; of the others {other} of {others}"
    )
}

/// The launches' two modes with what differs between them, and what only one of them logged.
fn modes(e: &Explanation) -> Option<Vec<(String, Section)>> {
    let split = e.modes.as_ref()?;
    let two = two_modes(split, e.unit);
    let of = count(split.compared, "reading");
    let mut all = Vec::new();
    if split.readings.is_empty() {
        let none = format!("{two}; of {of} none differs between them (p ≤ 0.05)");
        all.push((none, Section::Lines(Vec::new())));
    } else {
        let header = ["differs", "lower mode", "upper mode", "p"].map(str::to_owned);
        let header = [
            header.to_vec(),
            vec![format!("p, any of {}", split.compared)],
        ]
        .concat();
        let rows = split.readings.iter().map(|row| {
            vec![
                row.name.clone(),
                numbers::number(row.low),
                numbers::number(row.high),
                numbers::p(row.p),
                numbers::p(row.p_of_all),
            ]
        });
        let heading =
            format!("{two}; what differs between them may be the cause, or follow from it");
        all.push((heading, Section::Table(header, rows.collect())));
    }
    if !split.logged.is_empty() {
        let lines = split.logged.iter().map(|line| {
            let mode = if line.is_high { "upper" } else { "lower" };
            format!("{mode}: {}", quoted(&line.text))
        });
        let heading = "logged by every launch of one mode and by none of the other".to_owned();
        all.push((heading, Section::Lines(lines.collect())));
    }
    Some(all)
}

fn readings(e: &Explanation) -> Option<(String, Section)> {
    let told: Vec<_> = e.readings.iter().collect();
    if told.is_empty() {
        return None;
    }
    let launch = e
        .first_bad
        .as_ref()
        .map(|bad| format!("launch {} (head)", bad.launch));
    let mut header = vec!["reading".to_owned(), "base".to_owned(), "head".to_owned()];
    header.extend(launch.clone());
    let shown = |value: Option<f64>| value.map_or_else(|| "–".into(), numbers::number);
    let rows = told.into_iter().map(|row| {
        let mut cells = vec![row.name.to_owned(), shown(row.base), shown(row.head)];
        cells.extend(launch.as_ref().map(|_| shown(row.launch)));
        cells
    });
    let heading = "readings during the launches (median of each arm)".to_owned();
    Some((heading, Section::Table(header, rows.collect())))
}

fn launches(e: &Explanation) -> Option<(String, Section)> {
    let known = e.points.iter().filter(|point| point.value.is_some());
    if known.count() < 3 {
        return None;
    }
    let shown: Vec<String> = e
        .points
        .iter()
        .map(|point| numbers::optional(point.value, e.unit))
        .collect();
    let rows: Vec<PictureRow<'_>> = e
        .points
        .iter()
        .zip(&shown)
        .map(|(point, shown)| PictureRow {
            label: format!("{:>4} {}", point.launch, point.arm),
            is_head: point.arm == "head",
            value: point.value,
            shown,
        })
        .collect();
    let limit = e.limit.as_ref();
    let line = limit.map_or(String::new(), |limit| {
        let value = numbers::value(limit.value, e.unit);
        format!(", │ the {} ({value})", limit.name)
    });
    let heading = format!("launches in order: ○ base, ● head{line}");
    let drawn = picture::launches(&rows, limit.map(|limit| limit.value));
    Some((heading, Section::Picture(drawn)))
}

fn requests(e: &Explanation) -> Option<(String, Section)> {
    let requests = e.requests.as_ref()?;
    let label = match &e.first_bad {
        Some(bad) => format!("launch {}", bad.launch),
        None => "head".to_owned(),
    };
    let shown = |value| numbers::value(value, e.unit);
    let drawn = picture::distributions(&requests.base, &requests.head, ["base", &label], shown);
    let heading = format!("distribution of {} within launches", e.metric);
    Some((heading, Section::Picture(drawn)))
}

fn answers(e: &Explanation) -> Option<(String, Section)> {
    if e.answers.is_empty() {
        return None;
    }
    if e.answers.iter().all(|row| row.sent.is_some()) {
        let heading = "these answers, base's, and what head gave the same prompt alone".to_owned();
        let lines = e.answers.iter().flat_map(compared).collect();
        return Some((heading, Section::Lines(lines)));
    }
    let count = e.answers.len();
    let lost = e
        .answers
        .iter()
        .filter(|row| row.is_right_in_base == Some(true))
        .count();
    let mut lines: Vec<String> = e.answers.iter().take(ANSWERS).flat_map(answer).collect();
    if count > ANSWERS {
        lines.push(format!("… and {} more", count - ANSWERS));
    }
    let heading = format!("wrong answers of head: {count}; base answers {lost} of them right");
    Some((heading, Section::Lines(lines)))
}

/// An answer beside base's and that to the same prompt alone.
fn compared(row: &AnswerRow) -> Vec<String> {
    let texts = [
        ("base      ", row.expected.as_ref()),
        ("head      ", Some(&row.said)),
        ("head alone", row.alone.as_ref()),
    ];
    let texts = texts
        .into_iter()
        .filter_map(|(whose, text)| Some((whose, text?)));
    let texts = texts.map(|(whose, text)| format!("  {whose}  {}", quoted_to(text, ANSWER)));
    let name = format!("{}:", quoted(&row.case).trim_matches('"'));
    iter::once(name).chain(texts).collect()
}

fn answer(row: &AnswerRow) -> Vec<String> {
    let word = |text: &Option<String>| match text {
        Some(text) => quoted(text),
        None => "the end".to_owned(),
    };
    let token = match &row.token {
        Some((place, said, expected)) => {
            format!(
                ", token {place}: {} instead of {}",
                word(said),
                word(expected)
            )
        }
        None => String::new(),
    };
    let base = match row.is_right_in_base {
        Some(true) => "; right in base",
        Some(false) => "; wrong in base too",
        None => "",
    };
    vec![
        format!("{}{token}{base}", quoted(&row.case).trim_matches('"')),
        format!(
            "expected {}",
            quoted(row.expected.as_deref().unwrap_or_default())
        ),
        format!("got {}", quoted(&row.said)),
    ]
}

/// Escaped as Rust writes a string, so that nothing in it is a control character, and cut.
fn quoted(text: &str) -> String {
    quoted_to(text, QUOTED)
}

fn quoted_to(text: &str, most: usize) -> String {
    let escaped: Vec<char> = text.escape_debug().collect();
    let mut shown: String = escaped.iter().take(most).collect();
    if escaped.len() > most {
        shown.push('…');
    }
    format!("\"{shown}\"")
}

fn put(out: &mut String, line: &str, indent: usize) {
    for line in wrap(line, usize::from(WIDTH) - indent) {
        let _ = writeln!(out, "{:indent$}{line}", "");
    }
}

fn put_item(out: &mut String, item: &str) {
    for (i, line) in wrap(item, usize::from(WIDTH) - 4).into_iter().enumerate() {
        let mark = if i == 0 { '·' } else { ' ' };
        let _ = writeln!(out, "  {mark} {line}");
    }
}

/// What happened to a launch, and below it its engine's log as the run's report shows it.
fn put_crash(out: &mut String, crash: &str) {
    let (what, tail) = crash.split_once('\n').unwrap_or((crash, ""));
    put(out, what, 2);
    for line in wrap(tail, usize::from(WIDTH) - 6) {
        let _ = writeln!(out, "    | {line}");
    }
}

/// The same as an item of a list with a block of code, which nothing in the log can end.
fn list_crash(out: &mut String, crash: &str) {
    let (what, tail) = crash.split_once('\n').unwrap_or((crash, ""));
    let _ = writeln!(out, "- {}", escape(what));
    if tail.is_empty() {
        return;
    }
    out.push('\n');
    for line in tail.lines() {
        let _ = writeln!(out, "      {}", code_line(line));
    }
    out.push('\n');
}
