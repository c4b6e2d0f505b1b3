//! Values against a load, a run or a time: lines with their points, in the units of an SVG of 400 × 200.
//!
//! Main type: [`Chart`]. Refuses to know: HTML, what the values are.

use super::scale::{Scale, ScaleKind};
use super::tone::Tone;
use serde::Serialize;

const LEFT: f64 = 58.0;
const RIGHT: f64 = 388.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 158.0;
/// Labels of the x axis nearer than this, as a share of its length, would touch.
const APART: f64 = 0.1;

/// Lines to draw.
pub struct Chart {
    pub title: String,
    /// Name of the x axis.
    pub x: String,
    pub kinds: (ScaleKind, ScaleKind),
    /// A label of the y axis; the x axis has numbers.
    pub shown: fn(f64) -> String,
    pub lines: Vec<ChartLine>,
    /// A level with the ends of its interval.
    pub level: Option<(f64, f64, f64)>,
    /// A place on the x axis with its name.
    pub mark: Option<(f64, String)>,
}

pub struct ChartLine {
    pub name: String,
    pub tone: Tone,
    /// Points of the line's own tone are joined.
    pub points: Vec<Point>,
    pub is_joined: bool,
}

pub struct Point {
    pub x: f64,
    pub y: f64,
    pub tone: Tone,
    pub label: String,
}

/// Lines in their places.
#[derive(Clone, Debug, Serialize)]
pub struct ChartDrawn {
    title: String,
    x: String,
    xs: Vec<Tick>,
    ys: Vec<Tick>,
    lines: Vec<LineDrawn>,
    level: Option<ChartLevel>,
    mark: Option<Tick>,
}

#[derive(Clone, Debug, Serialize)]
struct Tick {
    at: f64,
    label: String,
}

#[derive(Clone, Debug, Serialize)]
struct LineDrawn {
    name: String,
    tone: Tone,
    /// Points of a polyline.
    path: String,
    dots: Vec<DotDrawn>,
}

#[derive(Clone, Debug, Serialize)]
struct DotDrawn {
    x: f64,
    y: f64,
    tone: Tone,
    label: String,
}

#[derive(Clone, Debug, Serialize)]
struct ChartLevel {
    y: f64,
    top: f64,
    height: f64,
}

impl Chart {
    /// `None` where there is no point that can be drawn.
    pub fn drawn(self) -> Option<ChartDrawn> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let sound = || points().filter(|point| point.x.is_finite() && point.y.is_finite());
        let levels = self
            .level
            .iter()
            .flat_map(|(y, low, high)| [*y, *low, *high]);
        let xs = Scale::over(self.kinds.0, sound().map(|point| point.x))?;
        let ys = Scale::over(self.kinds.1, sound().map(|point| point.y).chain(levels))?;
        let x = |value| Some(round(LEFT + (RIGHT - LEFT) * xs.share(value)?));
        let y = |value| Some(round(BOTTOM - (BOTTOM - TOP) * ys.share(value)?));
        let level = self.level.and_then(|(value, low, high)| {
            let (y, top, bottom) = (y(value)?, y(high)?, y(low)?);
            let height = round((bottom - top).max(1.0));
            Some(ChartLevel { y, top, height })
        });
        let mark = self.mark.as_ref().and_then(|(at, name)| {
            let (at, label) = (x(*at)?, name.clone());
            Some(Tick { at, label })
        });
        let y_ticks = ys.ticks().into_iter().filter_map(|value| {
            let (at, label) = (y(value)?, (self.shown)(value));
            Some(Tick { at, label })
        });
        let mut known: Vec<f64> = sound().map(|point| point.x).collect();
        known.sort_by(f64::total_cmp);
        let mut x_ticks: Vec<Tick> = Vec::new();
        for value in known {
            let Some(at) = x(value) else { continue };
            let far = (RIGHT - LEFT) * APART;
            if x_ticks.last().is_none_or(|last| at - last.at >= far) {
                let label = crate::report::numbers::number(value);
                x_ticks.push(Tick { at, label });
            }
        }
        let lines = self.lines.iter().map(|line| line.drawn(&x, &y));
        Some(ChartDrawn {
            lines: lines.collect(),
            ys: y_ticks.collect(),
            xs: x_ticks,
            title: self.title,
            x: self.x,
            level,
            mark,
        })
    }
}

/// A value's place.
type Place<'a> = &'a dyn Fn(f64) -> Option<f64>;

impl ChartLine {
    fn drawn(&self, x: Place<'_>, y: Place<'_>) -> LineDrawn {
        let dots: Vec<DotDrawn> = self
            .points
            .iter()
            .filter_map(|point| {
                Some(DotDrawn {
                    x: x(point.x)?,
                    y: y(point.y)?,
                    tone: point.tone,
                    label: point.label.clone(),
                })
            })
            .collect();
        let joined = dots
            .iter()
            .filter(|dot| self.is_joined && dot.tone == self.tone);
        let path: Vec<String> = joined.map(|dot| format!("{},{}", dot.x, dot.y)).collect();
        LineDrawn {
            name: self.name.clone(),
            tone: self.tone,
            path: path.join(" "),
            dots,
        }
    }
}

/// A tenth of a pixel is all that anybody sees.
fn round(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_lie_within_and_those_of_another_tone_are_not_joined() {
        let point = |x: f64, y: f64, tone| Point {
            x,
            y,
            tone,
            label: String::new(),
        };
        let chart = |points| Chart {
            title: String::new(),
            x: String::new(),
            kinds: (ScaleKind::Log, ScaleKind::FromZero),
            shown: |value| value.to_string(),
            lines: vec![ChartLine {
                name: String::new(),
                tone: Tone::Head,
                points,
                is_joined: true,
            }],
            level: None,
            mark: Some((4.0, "knee".into())),
        };
        assert!(chart(Vec::new()).drawn().is_none());
        let nothing = vec![point(1.0, f64::NAN, Tone::Head)];
        assert!(chart(nothing).drawn().is_none());
        let points = vec![
            point(1.0, 10.0, Tone::Head),
            point(4.0, 30.0, Tone::Head),
            point(64.0, 90.0, Tone::Invalid),
        ];
        let drawn = chart(points).drawn().unwrap();
        let [line] = &drawn.lines[..] else { panic!() };
        assert_eq!((line.dots.len(), line.path.split(' ').count()), (3, 2));
        for dot in &line.dots {
            assert!((LEFT..=RIGHT).contains(&dot.x) && (TOP..=BOTTOM).contains(&dot.y));
        }
        assert_eq!(drawn.mark.unwrap().at.to_bits(), line.dots[1].x.to_bits());
    }
}
