//! Launches as dots in a drawing: in the order of time, and by arm beside that. Numbers for a template's SVG.
//!
//! Main function: [`drawing`]. Refuses to know: HTML, units, and what is good.

use minijinja::context;
use minijinja::value::Value;

/// The drawing's inner edges.
const LEFT: f64 = 100.0;
const TIME_END: f64 = 520.0;
const ARMS: [f64; 2] = [570.0, 640.0];
const TOP: f64 = 12.0;
const BOTTOM: f64 = 168.0;
/// Most dots that are drawn, evenly taken; of a session with more nobody sees single ones.
const MOST: usize = 2_000;

/// One launch.
pub struct Dot {
    pub position: u32,
    pub is_head: bool,
    pub value: f64,
    /// Shown where the pointer rests.
    pub label: String,
}

/// Places of dots, of each arm's value (base's, head's) as the verdict has it, of ticks and limits; `None` where there is
/// nothing finite to show.
pub fn drawing(
    dots: &[Dot],
    limits: &[(&'static str, f64)],
    means: [Option<f64>; 2],
    shown: &dyn Fn(f64) -> String,
) -> Option<Value> {
    let dots: Vec<&Dot> = dots.iter().filter(|dot| dot.value.is_finite()).collect();
    let dots: Vec<&Dot> = dots
        .iter()
        .step_by(dots.len().div_ceil(MOST).max(1))
        .copied()
        .collect();
    let axis = Axis::over(&dots, limits)?;
    let last = dots.iter().map(|dot| dot.position).max()?.max(1);
    let x = |position: u32| {
        round(LEFT + 10.0 + (TIME_END - LEFT - 20.0) * f64::from(position) / f64::from(last))
    };
    let arms = [false, true].into_iter().zip(means).filter_map(|(is_head, mean)| {
        let has_any = dots.iter().any(|dot| dot.is_head == is_head);
        let mean = mean.filter(|mean| has_any && axis.holds(*mean))?;
        let at = ARMS[usize::from(is_head)];
        Some(context! {
            is_head => is_head, x => at, from => at - 22.0, to => at + 22.0, y => axis.y(mean), mean => shown(mean),
        })
    });
    let (drawn, away): (Vec<_>, Vec<_>) = limits.iter().partition(|(_, limit)| axis.holds(*limit));
    let away = away
        .iter()
        .map(|(name, limit)| format!("the {name}, {}, is off this scale", shown(*limit)));
    Some(context! {
        dots => dots.iter().map(|dot| context! {
            x => x(dot.position), arm_x => ARMS[usize::from(dot.is_head)], y => axis.y(dot.value),
            is_head => dot.is_head, label => dot.label.clone(),
        }).collect::<Vec<_>>(),
        arms => arms.collect::<Vec<_>>(),
        ticks => axis.ticks().iter().map(|value| context! { y => axis.y(*value), label => shown(*value) }).collect::<Vec<_>>(),
        limits => drawn.iter().map(|(name, limit)| context! { y => axis.y(*limit), name => *name, label => shown(*limit) }).collect::<Vec<_>>(),
        away => away.collect::<Vec<_>>(),
    })
}

struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// Over all values, and over a margin and a ceiling, so that a change looks as great as it is; over a limit where that
    /// does not press the values together.
    fn over(dots: &[&Dot], limits: &[(&'static str, f64)]) -> Option<Self> {
        let values = dots.iter().map(|dot| dot.value);
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
            (l.min(v), h.max(v))
        });
        if low > high {
            return None;
        }
        let pad = ((high - low) * 0.12).max(high.abs() * 1e-3).max(1e-9);
        let mut axis = Self {
            low: low - pad,
            high: high + pad,
        };
        let reach = match limits {
            [_] => 3.0 * (axis.high - axis.low),
            _ => f64::INFINITY,
        };
        let (lowest, highest) = (axis.low - reach, axis.high + reach);
        for (_, limit) in limits.iter().filter(|(_, limit)| limit.is_finite()) {
            if (axis.high..highest).contains(limit) {
                axis.high = limit + pad;
            } else if *limit < axis.low && *limit > lowest {
                axis.low = limit - pad;
            }
        }
        Some(axis)
    }

    fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    fn y(&self, value: f64) -> f64 {
        round(BOTTOM - (BOTTOM - TOP) * (value - self.low) / (self.high - self.low))
    }

    fn ticks(&self) -> [f64; 3] {
        let at = |share: f64| self.low + (self.high - self.low) * share;
        [at(0.1), at(0.5), at(0.9)]
    }
}

/// A tenth of a pixel is all that anybody sees.
fn round(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(position: u32, is_head: bool, value: f64) -> Dot {
        Dot {
            position,
            is_head,
            value,
            label: String::new(),
        }
    }

    #[test]
    fn nothing_finite_is_no_drawing() {
        let shown = |value: f64| value.to_string();
        let of = |dots: &[Dot]| drawing(dots, &[("limit", 1.0)], [None, None], &shown);
        assert!(of(&[]).is_none());
        assert!(of(&[dot(0, true, f64::NAN)]).is_none());
        assert!(of(&[dot(0, true, 1.0)]).is_some());
    }

    #[test]
    fn every_dot_lies_within_the_drawing() {
        let check = |values: &[f64], limits: &[(&'static str, f64)]| {
            let dots: Vec<Dot> = values
                .iter()
                .zip(0..)
                .map(|(v, i)| dot(i, i % 2 == 1, *v))
                .collect();
            let drawing = drawing(&dots, limits, [None, None], &|v| v.to_string());
            let json = serde_json::to_value(drawing).unwrap_or_default();
            let dots = json["dots"].as_array().cloned().unwrap_or_default();
            assert_eq!(dots.len(), values.len());
            for dot in dots {
                let (x, y) = (dot["x"].as_f64(), dot["y"].as_f64());
                assert!(x.is_some_and(|x| (LEFT..=TIME_END).contains(&x)), "{dot}");
                assert!(y.is_some_and(|y| (TOP..=BOTTOM).contains(&y)), "{dot}");
            }
            let count = |name: &str| json[name].as_array().map_or(0, Vec::len);
            (count("limits"), count("away"))
        };
        assert_eq!(check(&[1.0, 1.0, 1.0], &[]), (0, 0));
        assert_eq!(check(&[1.0, 2.0, 3.0], &[("limit", 4.0)]), (1, 0));
        // A limit far away would press the launches together; a margin shows how small a change is.
        assert_eq!(check(&[1.0, 1.1, 1.2], &[("limit", 400.0)]), (0, 1));
        let both = [("margin", 1.01), ("ceiling", 1.05)];
        assert_eq!(check(&[1.0, 1.0001, 1.0002], &both), (2, 0));
    }
}
