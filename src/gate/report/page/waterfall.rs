//! Requests of one launch an arm as bars over time: waiting to be sent, to the first event, and the rest of the answer.

use super::figures::Bar;
use crate::report::numbers;
use minijinja::context;
use minijinja::value::Value;
use verdict::record::Unit;

const LEFT: f64 = 100.0;
const RIGHT: f64 = 740.0;
/// A request's row, and the space between the arms.
const ROW: f64 = 7.0;
const BETWEEN: f64 = 12.0;

/// Base's bars above head's on one axis of time; `None` where neither has any.
pub fn drawing(arms: &[Vec<Bar>; 2]) -> Option<Value> {
    let last = arms
        .iter()
        .flatten()
        .map(|bar| bar.done)
        .fold(0.0, f64::max);
    if last <= 0.0 {
        return None;
    }
    let x = |ms: f64| ((LEFT + (RIGHT - LEFT) * ms / last) * 10.0).round() / 10.0;
    let time = |ms: f64| numbers::value(ms, Unit::Milliseconds);
    let mut y = 8.0;
    let mut bars = Vec::new();
    let mut labels = Vec::new();
    for (arm, name) in arms.iter().zip(["base", "head"]) {
        let from = y;
        for bar in arm {
            let Bar {
                index,
                due,
                sent,
                first,
                done,
            } = *bar;
            bars.push(context! {
                arm => name, y => y, due => x(due), sent => x(sent), first => x(first), done => x(done),
                label => format!(
                    "request {index} ({name}): sent at {}, first event after {}, whole after {}",
                    time(sent), time(first - sent), time(done - sent)
                ),
            });
            y += ROW;
        }
        if !arm.is_empty() {
            labels.push(context! { name => name, y => (from + y) / 2.0 + 4.0 });
            y += BETWEEN;
        }
    }
    let ticks = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| {
        context! { x => x(last * share), label => time(last * share) }
    });
    Some(
        context! { height => y + 16.0, bottom => y, bars => bars, labels => labels, ticks => ticks },
    )
}
