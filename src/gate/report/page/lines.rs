//! Two lines, base's and head's, in a drawing that needs no script; with dots, if they are fitted to some.

use super::figures::Series;
use minijinja::context;
use minijinja::value::Value;

const LEFT: f64 = 100.0;
const RIGHT: f64 = 680.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 168.0;

/// Paths, and ticks of both axes; `None` where there is nothing to draw.
pub fn drawing(
    base: &Series,
    head: &Series,
    ticks: &[(f64, String)],
    shown: &dyn Fn(f64) -> String,
) -> Option<Value> {
    let none = Series::new();
    with_dots([base, head], [&none, &none], ticks, shown)
}

/// The same with dots beside each line.
pub fn with_dots(
    [base, head]: [&Series; 2],
    dots: [&Series; 2],
    ticks: &[(f64, String)],
    shown: &dyn Fn(f64) -> String,
) -> Option<Value> {
    let is_finite = |(x, y): &&(f64, f64)| x.is_finite() && y.is_finite();
    let all = || {
        let dots = dots.into_iter().flatten();
        base.iter().chain(head).chain(dots).filter(is_finite)
    };
    let ends = |of: fn(&(f64, f64)) -> f64| {
        let values = all().map(of);
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
            (low.min(v), high.max(v))
        })
    };
    let (x_low, x_high) = ends(|p| p.0);
    let (y_low, y_high) = ends(|p| p.1);
    if all().count() < 2 || x_high <= x_low {
        return None;
    }
    let pad = ((y_high - y_low) * 0.1).max(y_high.abs() * 1e-3).max(1e-9);
    // A count has no part below nothing.
    let low = if y_low >= 0.0 {
        (y_low - pad).max(0.0)
    } else {
        y_low - pad
    };
    let high = y_high + pad;
    let round = |v: f64| (v * 10.0).round() / 10.0;
    let x = |v: f64| round(LEFT + (RIGHT - LEFT) * (v - x_low) / (x_high - x_low));
    let y = |v: f64| round(BOTTOM - (BOTTOM - TOP) * (v - low) / (high - low));
    let path = |series: &Series| {
        let points = series.iter().filter(is_finite);
        let points = points.map(|(at, value)| format!("{},{}", x(*at), y(*value)));
        points.collect::<Vec<_>>().join(" ")
    };
    let dots = dots.into_iter().zip([false, true]);
    let dots = dots.flat_map(|(series, is_head)| {
        series
            .iter()
            .filter(is_finite)
            .map(move |(at, value)| (*at, *value, is_head))
    });
    let rows = [0.1, 0.5, 0.9].map(|share| low + (high - low) * share);
    Some(context! {
        base => path(base),
        head => path(head),
        dots => dots.map(|(at, value, is_head)| context! {
            x => x(at), y => y(value), is_head => is_head, label => shown(value),
        }).collect::<Vec<_>>(),
        xs => ticks.iter().filter(|(at, _)| (x_low..=x_high).contains(at)).map(|(at, label)| context! { x => x(*at), label => label }).collect::<Vec<_>>(),
        ys => rows.map(|value| context! { y => y(value), label => shown(value) }),
    })
}
