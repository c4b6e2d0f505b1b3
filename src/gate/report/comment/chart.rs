//! Main's last sessions as characters and as a Mermaid chart, which a comment shows where it strips pictures.
//!
//! Mermaid's `xychart-beta` refuses exponents, NaN, empty lists and raw quotes: numbers are plain decimals, texts are
//! of harmless characters alone. Refuses to know: where the values come from.

use super::publication::Past;
use crate::report::numbers;

/// Fewer sessions make no chart.
const CHARTED: usize = 4;
/// Main and head, on a light ground and a dark one; the theme's own are hardly seen.
const COLOURS: &str = "#218bff, #bf8700";
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The sessions in a line: `▂▃▂▅ 0.2514 ms → head 0.2601 ms`.
pub fn sparkline(past: &Past) -> Option<String> {
    let values = finite(&past.main);
    let last = *values.last()?;
    let (low, high) = ends(values.iter().copied().chain(past.head));
    let bar = |value: f64| {
        let share = if high > low {
            (value - low) / (high - low)
        } else {
            0.5
        };
        BARS[((share * 7.0).round() as usize).min(7)]
    };
    let drawn: String = values.iter().copied().map(bar).collect();
    let shown = |value| numbers::value(value, past.unit);
    Some(match past.head {
        Some(head) if head.is_finite() => {
            format!(
                "{drawn} {} → this head {} {}",
                shown(last),
                bar(head),
                shown(head)
            )
        }
        _ => format!("{drawn} {}", shown(last)),
    })
}

/// A chart of the sessions with head's value as a level line; `None` where there are too few.
pub fn mermaid(past: &Past) -> Option<String> {
    let values = finite(&past.main);
    if values.len() < CHARTED {
        return None;
    }
    let head = past.head.filter(|head| head.is_finite());
    let (low, high) = ends(values.iter().copied().chain(head));
    let pad = ((high - low) * 0.1).max(high.abs() * 1e-3).max(1e-6);
    let list = |values: &[f64]| {
        values
            .iter()
            .map(|v| decimal(*v))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let level = head.map(|head| format!("\n    line [{}]", list(&vec![head; values.len()])));
    let sessions: Vec<String> = (1..=values.len()).map(|n| n.to_string()).collect();
    let lowest = if low >= 0.0 { 0.0 } else { f64::NEG_INFINITY };
    let lines = [
        "```mermaid".to_owned(),
        format!(
            "%%{{init: {{\"themeVariables\": {{\"xyChart\": {{\"plotColorPalette\": \"{COLOURS}\"}}}}}}}}%%"
        ),
        "xychart-beta".to_owned(),
        format!(
            "    title \"{}: main{}\"",
            plain(&past.check),
            level
                .as_ref()
                .map_or("", |_| ", and this head as a level line")
        ),
        format!(
            "    x-axis \"sessions of main, oldest first\" [{}]",
            sessions.join(", ")
        ),
        format!(
            "    y-axis \"{}\" {} --> {}",
            plain(&unit(past)),
            decimal((low - pad).max(lowest)),
            decimal(high + pad)
        ),
        format!("    line [{}]{}", list(&values), level.unwrap_or_default()),
        "```".to_owned(),
    ];
    Some(lines.join("\n"))
}

/// The unit's own name: what stands behind a number.
fn unit(past: &Past) -> String {
    let shown = numbers::value(1.0, past.unit);
    let name = shown.split_once(' ').map_or("", |(_, name)| name);
    // A fraction and bytes are charted as they are.
    match name {
        "%" => "fraction".to_owned(),
        name => name.to_owned(),
    }
}

fn finite(values: &[f64]) -> Vec<f64> {
    values.iter().copied().filter(|v| v.is_finite()).collect()
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let values = values.filter(|v| v.is_finite());
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
        (low.min(v), high.max(v))
    })
}

/// A decimal of about five digits, without an exponent and without noughts at its end.
fn decimal(value: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the exponent of an f64 lies within ±324, and is clamped"
    )]
    let places = (4.0 - value.abs().max(1e-12).log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn plain(text: &str) -> String {
    let is_plain = |c: &char| c.is_alphanumeric() || " /-_.%×µ".contains(*c);
    text.chars().filter(is_plain).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdict::record::Unit;

    fn past(main: &[f64], head: Option<f64>) -> Past {
        Past {
            check: "tpot/\"regression\"]".into(),
            unit: Unit::Milliseconds,
            main: main.to_vec(),
            head,
        }
    }

    #[test]
    fn sessions_in_a_line() {
        let check = |main: &[f64], head, expect: Option<&str>| {
            assert_eq!(sparkline(&past(main, head)).as_deref(), expect);
        };
        check(&[], Some(1.0), None);
        check(&[f64::NAN], None, None);
        check(&[1.0, 2.0], None, Some("▁█ 2 ms"));
        check(&[1.0, 1.0], None, Some("▅▅ 1 ms"));
        check(&[1.0, 1.5], Some(2.0), Some("▁▅ 1.5 ms → this head █ 2 ms"));
    }

    #[test]
    fn mermaid_gets_what_it_understands() {
        assert_eq!(mermaid(&past(&[1.0, 2.0, 3.0], None)), None);
        assert_eq!(mermaid(&past(&[1.0, 2.0, 3.0, f64::NAN], None)), None);
        let chart = mermaid(&past(&[1e-5, 2e-5, 1e-5, 3e-5], Some(2e-5))).unwrap_or_default();
        let expect = "```mermaid
%%{init: {\"themeVariables\": {\"xyChart\": {\"plotColorPalette\": \"#218bff, #bf8700\"}}}}%%
xychart-beta
    title \"tpot/regression: main, and this head as a level line\"
    x-axis \"sessions of main, oldest first\" [1, 2, 3, 4]
    y-axis \"ms\" 0.000008 --> 0.000032
    line [0.00001, 0.00002, 0.00001, 0.00003]
    line [0.00002, 0.00002, 0.00002, 0.00002]
```";
        assert_eq!(chart, expect);
        let check = |value: f64, expect: &str| assert_eq!(decimal(value), expect);
        check(0.0, "0");
        check(-1.5, "-1.5");
        check(123_456.7, "123457");
        check(1e-20, "0");
        check(1e20, "100000000000000000000");
    }
}
