//! A check's interval on an axis that all checks share: its limit is at one place in every row.

use crate::report::row;
use minijinja::context;
use minijinja::value::Value;
use verdict::record::{CheckVerdict, Rule, Unit};

const WIDTH: f64 = 200.0;
/// Room for a dot.
const EDGE: f64 = 5.0;
/// Places of base's own value and of the ceiling (or of the limit).
const NOTHING: f64 = 70.0;
const CEILING: f64 = 130.0;

/// Places of the interval, the estimate and the limits; worse is to the right. `None`: nothing was estimated.
pub fn drawing(check: &CheckVerdict) -> Option<Value> {
    let sign = check.metric.direction().sign();
    let (point, (low, high), margin) = match check.rule {
        Rule::Regression { .. } => {
            let (margin, ceiling) = row::limits(check)?;
            let change = check.change?;
            let (low, high) = check.interval.unwrap_or((change, change));
            let at = |change: f64| sign * change / ceiling;
            (at(change), (at(low), at(high)), Some(margin / ceiling))
        }
        Rule::Ceiling { limit } | Rule::Floor { limit } => {
            let head = check.head?;
            let (low, high) = check.interval.unwrap_or((head, head));
            // Of a share of right answers its distance from all counts, and no count of errors is within a limit of none.
            let at = |value: f64| match check.rule {
                Rule::Floor { .. } if check.metric.unit() == Unit::Fraction && limit < 1.0 => {
                    (1.0 - value) / (1.0 - limit)
                }
                Rule::Floor { .. } => 1.0 - (value - limit) / limit.abs(),
                _ if limit == 0.0 => 2.0 * value,
                _ => 1.0 + (value - limit) / limit.abs(),
            };
            (at(head), (at(low), at(high)), None)
        }
    };
    let x = |share: f64| {
        let place = NOTHING + (CEILING - NOTHING) * share;
        (place.clamp(EDGE, WIDTH - 3.0 * EDGE) * 10.0).round() / 10.0
    };
    if ![point, low, high].iter().all(|share| share.is_finite()) {
        return None;
    }
    let (left, right) = (x(low.min(high)), x(low.max(high)));
    Some(context! {
        left => left,
        width => ((right - left).max(1.0) * 10.0).round() / 10.0,
        point => x(point),
        nothing => NOTHING,
        margin => margin.map_or(CEILING, x),
        ceiling => CEILING,
        is_beyond => x(low.max(high)) >= WIDTH - 3.0 * EDGE,
        is_relative => margin.is_some(),
    })
}
