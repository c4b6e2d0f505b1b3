//! A comparison as one HTML page: each figure's ratio to the first result.
//!
//! Main function: [`page`]. Refuses to know: measuring, HTML.

use super::view;
use crate::figures::{Cell, Line, Part, Row, Table};
use crate::report::numbers::number;
use crate::report::sheet::{self, Bar, Bars, Mark, Picture, ScaleKind, Sheet, SheetTable, Tone};
use crate::session::project::tool;
use verdict::record::{Direction, Verdict};

/// Figures that a headline names, as far as they are there.
const FIRST: [Row; 4] = [
    Row::TtftMedian,
    Row::TpotMedian,
    Row::Throughput,
    Row::ColdToken,
];

/// `command`: the command line that compared.
pub fn page(table: &Table, command: String) -> String {
    let parts = [Part::Cold, Part::Warm];
    let held = |is_passed: bool| {
        let held = table.held.iter();
        let held = held.filter(move |held| (held.verdict == Verdict::Pass) == is_passed);
        held.map(|held| format!("{}: {}", held.verdict.name(), view::limit(held)))
    };
    let invalid = table.invalid().into_iter();
    let caveats = table.names.iter().zip(&table.caveats);
    let caveats = caveats
        .flat_map(|(name, caveats)| caveats.iter().map(move |text| format!("{name}: {text}")));
    let mut tables: Vec<SheetTable> = parts.iter().filter_map(|part| rows(table, *part)).collect();
    tables.extend(stages(table));
    sheet::page(&Sheet {
        title: "gate compare".to_owned(),
        badge: badge(table),
        headline: headline(table),
        about: vec![table.names.join(", ")],
        notices: invalid
            .map(|reason| format!("Invalid: {reason}"))
            .chain(held(false))
            .collect(),
        pictures: parts
            .iter()
            .filter_map(|part| ratios(table, *part))
            .collect(),
        tables,
        notes: held(true)
            .chain(view::rounds_note(table))
            .chain(view::paired(table))
            .chain(caveats)
            .collect(),
        command,
        tool: tool(),
        ..Sheet::default()
    })
}

/// A word only where a limit was tested, or a ratio must not be read.
fn badge(table: &Table) -> Option<(Tone, String)> {
    let of = |verdict| table.held.iter().any(|held| held.verdict == verdict);
    let (tone, word) = if of(Verdict::Fail) {
        (Tone::Fail, "fail")
    } else if of(Verdict::Invalid) || !table.invalid().is_empty() {
        (Tone::Invalid, "invalid")
    } else if of(Verdict::Inconclusive) {
        (Tone::Inconclusive, "inconclusive")
    } else if of(Verdict::Pass) {
        (Tone::Pass, "pass")
    } else {
        return None;
    };
    Some((tone, word.to_owned()))
}

/// The most important ratios of two results; the first ratio of each where there are more.
fn headline(table: &Table) -> String {
    let Some((first, others)) = table.names.split_first().filter(|(_, o)| !o.is_empty()) else {
        let name = table.names.first().map_or("nothing", String::as_str);
        return format!("{name}: nothing to compare it with");
    };
    let line = |row: &Row| table.lines.iter().find(|line| line.row == *row);
    let told = FIRST.iter().filter_map(line).filter_map(|line| {
        let cells = line.cells.iter().skip(1).zip(others);
        let ratios = cells.filter_map(|(cell, name)| Some((name, valid(cell.as_ref()?)?)));
        let ratios: Vec<(&String, f64)> = ratios.collect();
        (!ratios.is_empty()).then(|| (line.row.title(), ratios))
    });
    let told: Vec<(&str, Vec<(&String, f64)>)> = told.collect();
    match (&told[..], others) {
        ([], _) => format!("No figure can be compared with those of {first}"),
        (told, [other]) => {
            let each = told.iter();
            let each = each.map(|(title, of)| format!("{title} {:.2} ×", of[0].1));
            let each: Vec<String> = each.collect();
            format!("{other} against {first}: {}", each.join(", "))
        }
        ([(title, of), ..], _) => {
            let each = of
                .iter()
                .map(|(name, ratio)| format!("{name} {ratio:.2} ×"));
            let each: Vec<String> = each.collect();
            format!("{title} against {first}: {}", each.join(", "))
        }
    }
}

/// A ratio that may be read.
fn valid(cell: &Cell) -> Option<f64> {
    cell.ratio.filter(|_| cell.invalid.is_none())
}

/// A row for each figure and each result but the first.
fn ratios(table: &Table, part: Part) -> Option<Picture> {
    let is_pair = table.names.len() == 2;
    let rows = view::of_part(table, part).into_iter().flat_map(|line| {
        let better = match line.row.direction() {
            Direction::HigherIsBetter => " (higher is better)",
            Direction::LowerIsBetter => "",
        };
        let title = format!("{}{better}", line.row.title());
        let heading = (!is_pair).then(|| Bar::text(title.clone()));
        let cells = table.names.iter().zip(&line.cells).skip(1);
        let rows = cells.map(|(name, cell)| {
            let label = if is_pair { &title } else { name };
            ratio(label, line, cell.as_ref())
        });
        heading.into_iter().chain(rows).collect::<Vec<Bar>>()
    });
    let first = table.names.first().map_or("", String::as_str);
    let purple = match table.invalid().is_empty() {
        true => "",
        false => " Purple: not the same work, so the ratio says nothing.",
    };
    let bars = Bars {
        title: match is_pair {
            true => format!("{}: ratio of {} to {first}", capital(part), table.names[1]),
            false => format!("{}: ratio to {first}", capital(part)),
        },
        note: format!(
            "Dot: the ratio; line: least and greatest ratio of the rounds. Below 1 × is better, of throughput above it. \
             Equal ratios are equally far apart.{purple}"
        ),
        kind: ScaleKind::Log,
        shown: |ratio| format!("{} ×", number(ratio)),
        marks: vec![Mark {
            at: 1.0,
            name: format!("{first}, 1 ×"),
            tone: Tone::Base,
        }],
        rows: rows.collect(),
    };
    bars.drawn().map(Picture::Bars)
}

fn ratio(label: &str, line: &Line, cell: Option<&Cell>) -> Bar {
    let is_invalid = cell.is_some_and(|cell| cell.invalid.is_some());
    let ratio = cell.and_then(|cell| cell.ratio);
    let name = ratio.map(|ratio| format!("{ratio:.3} ×"));
    Bar {
        label: label.to_owned(),
        value: view::shown(line, cell),
        tone: if is_invalid {
            Tone::Invalid
        } else {
            Tone::Head
        },
        bar: ratio.map(|ratio| (1.0, ratio)),
        span: cell.and_then(|cell| spread(cell, line.cells.first()?.as_ref()?)),
        dots: ratio.zip(name).into_iter().collect(),
        ..Bar::default()
    }
}

/// Least and greatest ratio of the rounds that both have; `None` for fewer than two.
fn spread(cell: &Cell, first: &Cell) -> Option<(f64, f64)> {
    let rounds = cell.rounds.iter();
    let ratios = rounds.filter_map(|(round, value)| Some(value / first.rounds.get(round)?));
    let ratios: Vec<f64> = ratios.collect();
    let ends = || ratios.iter().copied();
    let ends = ends().reduce(f64::min).zip(ends().reduce(f64::max));
    ends.filter(|_| ratios.len() > 1)
}

fn capital(part: Part) -> &'static str {
    match part {
        Part::Cold => "Cold start",
        Part::Warm => "Steady state",
    }
}

fn rows(table: &Table, part: Part) -> Option<SheetTable> {
    let rows = view::of_part(table, part).into_iter().map(|line| {
        let cells = line
            .cells
            .iter()
            .map(|cell| view::shown(line, cell.as_ref()));
        let title = line.row.title().to_owned();
        std::iter::once(title).chain(cells).collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    (!rows.is_empty()).then(|| SheetTable {
        title: capital(part).to_owned(),
        header: header(table),
        rows,
    })
}

fn stages(table: &Table) -> Option<SheetTable> {
    (!table.stages.is_empty()).then(|| SheetTable {
        title: "Start-up stages".to_owned(),
        header: header(table),
        rows: view::stage_rows(table),
    })
}

fn header(table: &Table) -> Vec<String> {
    let names = table.names.iter().cloned();
    std::iter::once(String::new()).chain(names).collect()
}
