//! Numbers for people: units, signs, as many digits as mean something.

use verdict::plural::count;
use verdict::record::{CheckVerdict, Unit};

/// Digits shown of a measured value.
const DIGITS: i32 = 4;

/// `0.2514 ms`, `16 tokens`, `98.5 %`.
pub fn value(x: f64, unit: Unit) -> String {
    match unit {
        Unit::Milliseconds => format!("{} ms", digits(x)),
        Unit::MillisecondsPerToken => format!("{} ms", digits(x)),
        Unit::Tokens => counted(x, "token"),
        Unit::Cases => counted(x, "case"),
        Unit::Fraction => format!("{} %", digits(x * 100.0)),
        Unit::Nats => format!("{} nats", digits(x)),
        Unit::Bytes => bytes(x),
        Unit::MicrosecondsPerToken => format!("{} µs", digits(x)),
        Unit::TokensPerSecond => format!("{} tok/s", digits(x)),
        Unit::Ratio => format!("{} ×", digits(x)),
        // A perplexity may be gated to its fifth digit.
        Unit::Number => significant(x, 6),
        Unit::PerToken => format!("{} per token", digits(x)),
        Unit::PerRequest => format!("{} per request", digits(x)),
        Unit::JoulesPerToken => format!("{} J/token", digits(x)),
    }
}

/// A count as [`count`] says it; a median of counts may be no whole number.
fn counted(x: f64, thing: &str) -> String {
    match digits(x).as_str() {
        "1" => count(1_u8, thing),
        many => format!("{many} {thing}s"),
    }
}

/// `+9.9 % [+8.2, +11.5]`; for an absolute rule the interval of head's own value.
pub fn change(check: &CheckVerdict) -> String {
    let percent = |x: f64| format!("{:+.1}", x * 100.0);
    match (check.change, check.interval) {
        (Some(change), Some((low, high))) => {
            format!(
                "{} % [{}, {}]",
                percent(change),
                percent(low),
                percent(high)
            )
        }
        (Some(change), None) => format!("{} %", percent(change)),
        (None, _) => "–".into(),
    }
}

/// Twelve characters of a commit's id.
pub fn commit(id: &str) -> String {
    id.chars().take(12).collect()
}

/// A p-value: one digit where it is small.
pub fn p(p: f64) -> String {
    if p < 0.01 {
        format!("{p:.0e}")
    } else {
        format!("{p:.2}")
    }
}

/// The text at the right end of so many columns.
pub fn right(text: &str, width: usize) -> String {
    let blank = width.saturating_sub(text.chars().count());
    format!("{}{text}", " ".repeat(blank))
}

pub fn optional(x: Option<f64>, unit: Unit) -> String {
    x.map_or_else(|| "–".into(), |x| value(x, unit))
}

fn bytes(x: f64) -> String {
    const MIB: f64 = 1_048_576.0;
    if x.abs() >= MIB {
        format!("{} MiB", digits(x / MIB))
    } else {
        format!("{} B", digits(x))
    }
}

/// About [`DIGITS`] significant digits; whole numbers as they are; very small ones with an exponent.
pub fn digits(x: f64) -> String {
    significant(x, DIGITS)
}

fn significant(x: f64, digits: i32) -> String {
    if !x.is_finite() {
        return x.to_string();
    }
    if x.fract().abs() < f64::EPSILON && x.abs() < 1e9 {
        return format!("{x:.0}");
    }
    if x.abs() < 1e-3 {
        return format!("{x:.1e}");
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "log10 of a finite f64 lies within ±324"
    )]
    let before_point = x.abs().log10().floor() as i32 + 1;
    let after_point = usize::try_from(digits - before_point.max(0)).unwrap_or(0);
    format!("{x:.after_point$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_means_something() {
        let check = |x, unit, expect: &str| assert_eq!(value(x, unit), expect);
        check(0.251_43, Unit::Milliseconds, "0.2514 ms");
        check(12.345_67, Unit::MillisecondsPerToken, "12.35 ms");
        check(123_456.7, Unit::Milliseconds, "123457 ms");
        check(16.0, Unit::Tokens, "16 tokens");
        check(0.985, Unit::Fraction, "98.50 %");
        check(1.0, Unit::Fraction, "100 %");
        check(0.0, Unit::Cases, "0 cases");
        check(1.0, Unit::Cases, "1 case");
        check(2.0, Unit::Cases, "2 cases");
        check(1.0, Unit::Tokens, "1 token");
        check(1.5, Unit::Tokens, "1.500 tokens");
        check(0.000_004_1, Unit::Nats, "4.1e-6 nats");
        check(2_097_152.0, Unit::Bytes, "2 MiB");
        check(16.591_44, Unit::Number, "16.5914");
        check(62.0, Unit::PerToken, "62 per token");
        check(0.351_23, Unit::JoulesPerToken, "0.3512 J/token");
        check(f64::NAN, Unit::Tokens, "NaN tokens");
    }
}
