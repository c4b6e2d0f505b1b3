//! Labelled rows on one axis: dots, their intervals, bars. Places are per cent of the width, so that text keeps its size
//! on any screen.
//!
//! Main type: [`Bars`]. Refuses to know: HTML, what the values are.

use super::scale::{Scale, ScaleKind};
use super::tone::Tone;
use serde::Serialize;

/// Rows to draw.
pub struct Bars {
    pub title: String,
    /// What dots and bars are, below the rows.
    pub note: String,
    pub kind: ScaleKind,
    /// A tick's label.
    pub shown: fn(f64) -> String,
    /// Lines across all rows.
    pub marks: Vec<Mark>,
    pub rows: Vec<Bar>,
}

/// A line across all rows.
#[derive(Clone)]
pub struct Mark {
    pub at: f64,
    pub name: String,
    pub tone: Tone,
}

/// One row; with neither dots, interval nor bar it is a line of text.
#[derive(Default)]
pub struct Bar {
    pub label: String,
    /// The numbers, right of the drawing.
    pub value: String,
    pub tone: Tone,
    /// A row that stands out.
    pub is_marked: bool,
    /// Ends of a bar.
    pub bar: Option<(f64, f64)>,
    /// Ends of an interval.
    pub span: Option<(f64, f64)>,
    /// Values with their names.
    pub dots: Vec<(f64, String)>,
}

impl Bar {
    /// A line of text between rows.
    pub fn text(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            ..Self::default()
        }
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let pairs = self.bar.into_iter().chain(self.span);
        let pairs = pairs.flat_map(|(low, high)| [low, high]);
        pairs.chain(self.dots.iter().map(|(at, _)| *at))
    }
}

/// Rows in their places.
#[derive(Clone, Debug, Serialize)]
pub struct BarsDrawn {
    title: String,
    note: String,
    ticks: Vec<Tick>,
    marks: Vec<MarkDrawn>,
    rows: Vec<BarDrawn>,
}

#[derive(Clone, Debug, Serialize)]
struct Tick {
    at: f64,
    label: String,
    /// `text-anchor` of SVG: a label at an end stays within the drawing.
    anchor: &'static str,
}

#[derive(Clone, Debug, Serialize)]
struct MarkDrawn {
    at: f64,
    name: String,
    tone: Tone,
}

#[derive(Clone, Debug, Serialize)]
struct BarDrawn {
    label: String,
    value: String,
    tone: Tone,
    is_marked: bool,
    is_text: bool,
    bar: Option<Length>,
    span: Option<Length>,
    dots: Vec<DotDrawn>,
}

#[derive(Clone, Debug, Serialize)]
struct Length {
    x: f64,
    width: f64,
}

#[derive(Clone, Debug, Serialize)]
struct DotDrawn {
    at: f64,
    name: String,
}

impl Bars {
    /// `None` where no row has a value that can be drawn.
    pub fn drawn(self) -> Option<BarsDrawn> {
        self.rows.iter().find_map(|row| row.values().next())?;
        let values = self.rows.iter().flat_map(Bar::values);
        let scale = Scale::over(self.kind, values.chain(self.marks.iter().map(|m| m.at)))?;
        let at = |value: f64| scale.share(value).map(percent);
        let ticks = scale.ticks().into_iter().filter_map(|tick| {
            let at = at(tick)?;
            let anchor = match at {
                ..12.0 => "start",
                88.0.. => "end",
                _ => "middle",
            };
            let label = (self.shown)(tick);
            Some(Tick { at, label, anchor })
        });
        let marks = self.marks.iter().filter_map(|mark| {
            Some(MarkDrawn {
                at: at(mark.at)?,
                name: mark.name.clone(),
                tone: mark.tone,
            })
        });
        Some(BarsDrawn {
            ticks: ticks.collect(),
            marks: marks.collect(),
            rows: self.rows.iter().map(|row| drawn(row, &at)).collect(),
            title: self.title,
            note: self.note,
        })
    }
}

fn drawn(row: &Bar, at: &dyn Fn(f64) -> Option<f64>) -> BarDrawn {
    let length = |(from, to): (f64, f64)| {
        let (from, to) = (at(from)?, at(to)?);
        let width = ((from - to).abs() * 100.0).round() / 100.0;
        Some(Length {
            x: from.min(to),
            width,
        })
    };
    let dots = row.dots.iter().filter_map(|(value, name)| {
        let (at, name) = (at(*value)?, name.clone());
        Some(DotDrawn { at, name })
    });
    BarDrawn {
        label: row.label.clone(),
        value: row.value.clone(),
        tone: row.tone,
        is_marked: row.is_marked,
        is_text: row.values().next().is_none(),
        bar: row.bar.and_then(length),
        span: row.span.and_then(length),
        dots: dots.collect(),
    }
}

/// A hundredth of a per cent is all that anybody sees.
fn percent(share: f64) -> f64 {
    (share * 1e4).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(rows: Vec<Bar>) -> Bars {
        Bars {
            title: String::new(),
            note: String::new(),
            kind: ScaleKind::Log,
            shown: |value| value.to_string(),
            marks: vec![Mark {
                at: 1.0,
                name: "1 ×".into(),
                tone: Tone::Base,
            }],
            rows,
        }
    }

    #[test]
    fn a_row_without_a_place_is_text_and_no_row_is_no_drawing() {
        assert!(bars(Vec::new()).drawn().is_none());
        assert!(bars(vec![Bar::text("a")]).drawn().is_none());
        let row = Bar {
            span: Some((2.0, 0.5)),
            dots: vec![(1.0, String::new()), (f64::NAN, String::new())],
            ..Bar::default()
        };
        let drawn = bars(vec![Bar::text("a"), row]).drawn().unwrap();
        assert!(drawn.rows[0].is_text && !drawn.rows[1].is_text);
        let [_, row] = &drawn.rows[..] else { panic!() };
        assert_eq!(row.dots.len(), 1);
        let span = row.span.as_ref().unwrap();
        assert!((span.x + span.width / 2.0 - 50.0).abs() < 0.1, "{span:?}");
    }
}
