//! Numbers for people: the same digits for a value wherever it is shown.

use verdict::record::{CheckVerdict, Unit};

/// Significant digits of a value.
const DIGITS: i32 = 4;

/// `0.2514 ms`, `16 tokens`, `98.5 %`, `3.5 MiB`.
pub fn value(x: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => bytes(x),
        unit => uncut(x, unit),
    }
}

/// As [`value`], with bytes counted one by one: where they are compared, two that differ look different.
pub fn uncut(x: f64, unit: Unit) -> String {
    if unit == Unit::Fraction {
        return percent(x);
    }
    let (number, symbol) = (shown(x, unit), symbol(unit));
    let counted = matches!(unit, Unit::Tokens | Unit::Cases | Unit::Bytes);
    match symbol.strip_suffix('s') {
        Some(one) if counted && number == "1" => format!("1 {one}"),
        _ => format!("{number} {symbol}").trim_end().to_owned(),
    }
}

/// A value whose unit stands beside it already.
pub fn bare(x: f64, unit: Unit) -> String {
    match unit {
        Unit::Fraction => number((x * 1e8).round() / 1e6),
        unit => shown(x, unit),
    }
}

/// A plain number may be gated to its fifth digit, as a perplexity is.
fn shown(x: f64, unit: Unit) -> String {
    match unit {
        Unit::Number => significant(x, 6),
        _ => number(x),
    }
}

fn symbol(unit: Unit) -> &'static str {
    match unit {
        Unit::Milliseconds | Unit::MillisecondsPerToken => "ms",
        Unit::Tokens => "tokens",
        Unit::Cases => "cases",
        Unit::Fraction => "",
        Unit::Nats => "nats",
        Unit::Bytes => "bytes",
        Unit::MicrosecondsPerToken => "µs/token",
        Unit::TokensPerSecond => "tokens/s",
        Unit::Ratio => "×",
        Unit::Number => "",
        Unit::PerToken => "per token",
        Unit::PerRequest => "per request",
        Unit::JoulesPerToken => "J/token",
    }
}

fn bytes(x: f64) -> String {
    const MIB: f64 = 1_048_576.0;
    if x.abs() >= MIB {
        format!("{} MiB", number(x / MIB))
    } else {
        uncut(x, Unit::Bytes)
    }
}

/// Four significant digits without trailing zeros; whole numbers whole; very small ones with an exponent.
pub fn number(x: f64) -> String {
    significant(x, DIGITS)
}

fn significant(x: f64, digits: i32) -> String {
    if !x.is_finite() {
        return "undefined".to_owned();
    }
    if (x - x.round()).abs() < 1e-9 && x.abs() < 1e15 {
        return format!("{:.0}", x.round() + 0.0);
    }
    if x.abs() < 1e-4 {
        return format!("{x:.1e}");
    }
    let digits = (f64::from(digits - 1) - x.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    trimmed(&format!("{x:.digits$}"))
}

/// A fraction as percent without a sign: `1 %`, `0.25 %`, `97.5 %`.
pub fn percent(fraction: f64) -> String {
    format!("{} %", bare(fraction, Unit::Fraction))
}

/// The smallest change that could be found, to a tenth of a percent.
pub fn effect(fraction: f64) -> String {
    percent((fraction * 1e3).round() / 1e3)
}

/// A relative change: `+3 %`.
pub fn signed_percent(change: f64) -> String {
    format!("{}{}", if change < 0.0 { "" } else { "+" }, percent(change))
}

/// A check's relative change without its sign: `6.1 % [4.8, 7.4]`, with the digits of [`signed_percents`]; without its
/// interval where that holds 0.
pub fn size(check: &CheckVerdict) -> String {
    let change = check.change.unwrap_or(f64::NAN);
    let digits = check.interval.map_or(1, digits);
    let one = |x: f64| format!("{:.digits$}", x.abs() * 100.0);
    match check.interval {
        Some((low, high)) if low > 0.0 => {
            format!("{} % [{}, {}]", one(change), one(low), one(high))
        }
        Some((low, high)) if high < 0.0 => {
            format!("{} % [{}, {}]", one(change), one(high), one(low))
        }
        _ => format!("{} %", one(change)),
    }
}

/// Decimals of percentages in an interval.
fn digits((low, high): (f64, f64)) -> usize {
    match high - low {
        narrow if narrow < 0.01 => 2,
        wide if wide >= 1.0 => 0,
        _ => 1,
    }
}

/// A relative change with its interval: `+6.1 % [+4.8, +7.4]`.
pub fn signed_percents(change: f64, (low, high): (f64, f64)) -> String {
    let digits = digits((low, high));
    let one = |x: f64| signed(100.0 * x, digits);
    format!("{} % [{}, {}]", one(change), one(low), one(high))
}

/// With its sign; what is written as 0 has no minus.
fn signed(x: f64, digits: usize) -> String {
    let scale = 10_f64.powi(digits as i32);
    // The sum makes 0 of -0.
    format!("{:+.digits$}", (x * scale).round() / scale + 0.0)
}

/// A check's change with its interval; for an absolute rule the interval of head's own value.
pub fn change(check: &CheckVerdict) -> String {
    interval(check.change, check.interval)
}

/// A relative change with its interval, as far as they are known.
pub fn interval(change: Option<f64>, interval: Option<(f64, f64)>) -> String {
    match (change, interval) {
        (Some(change), Some(interval)) => signed_percents(change, interval),
        (Some(change), None) => format!("{} %", signed(100.0 * change, 1)),
        (None, _) => "–".into(),
    }
}

/// A p-value: `0.013`, `2e-5`.
pub fn p(p: f64) -> String {
    if p >= 0.0995 {
        format!("{p:.2}")
    } else if p >= 0.000_95 {
        trimmed(&format!("{p:.4}"))
    } else if p > 0.0 {
        format!("{p:.0e}")
    } else if p.is_nan() {
        "undefined".to_owned()
    } else {
        "0".to_owned()
    }
}

/// Twelve characters of a commit's id.
pub fn commit(id: &str) -> String {
    id.chars().take(12).collect()
}

/// The text at the right end of so many columns.
pub fn right(text: &str, width: usize) -> String {
    let blank = width.saturating_sub(text.chars().count());
    format!("{}{text}", " ".repeat(blank))
}

pub fn optional(x: Option<f64>, unit: Unit) -> String {
    x.map_or_else(|| "–".into(), |x| value(x, unit))
}

fn trimmed(decimal: &str) -> String {
    if decimal.contains('.') {
        decimal
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned()
    } else {
        decimal.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_wrong() {
        let table = [
            (0.0, "0"),
            (-0.0, "0"),
            (-1e-10, "0"),
            (20.64, "20.64"),
            (21.904, "21.9"),
            (12_345.678, "12346"),
            (1_080_033.0, "1080033"),
            (0.012_346, "0.01235"),
            (0.000_002, "2.0e-6"),
            (-3.5, "-3.5"),
            (f64::NAN, "undefined"),
        ];
        for (x, expect) in table {
            assert_eq!(number(x), expect);
        }
    }

    #[test]
    fn percents_and_p() {
        assert_eq!(percent(0.01), "1 %");
        assert_eq!(percent(0.975), "97.5 %");
        assert_eq!(
            signed_percents(0.0612, (0.048, 0.0741)),
            "+6.1 % [+4.8, +7.4]"
        );
        assert_eq!(
            signed_percents(-0.001, (-0.004, 0.002)),
            "-0.10 % [-0.40, +0.20]"
        );
        assert_eq!(
            signed_percents(27.473, (25.0, 30.126)),
            "+2747 % [+2500, +3013]"
        );
        for (x, expect) in [
            (1.0, "1.00"),
            (0.5, "0.50"),
            (0.013, "0.013"),
            (2e-5, "2e-5"),
            (0.0, "0"),
            (f64::NAN, "undefined"),
        ] {
            assert_eq!(p(x), expect);
        }
    }

    #[test]
    fn values_carry_their_unit() {
        let check = |x, unit, expect: &str| assert_eq!(value(x, unit), expect);
        check(0.251_43, Unit::Milliseconds, "0.2514 ms");
        check(12.345_67, Unit::MillisecondsPerToken, "12.35 ms");
        check(123_456.7, Unit::Milliseconds, "123457 ms");
        check(16.0, Unit::Tokens, "16 tokens");
        check(0.985, Unit::Fraction, "98.5 %");
        check(1.0, Unit::Fraction, "100 %");
        check(0.0, Unit::Cases, "0 cases");
        check(1.0, Unit::Cases, "1 case");
        check(1.5, Unit::Tokens, "1.5 tokens");
        check(0.000_004_1, Unit::Nats, "4.1e-6 nats");
        check(2_097_152.0, Unit::Bytes, "2 MiB");
        check(512.0, Unit::Bytes, "512 bytes");
        check(16.595_04, Unit::Number, "16.595");
        check(62.0, Unit::PerToken, "62 per token");
        check(0.351_23, Unit::JoulesPerToken, "0.3512 J/token");
        check(f64::NAN, Unit::Tokens, "undefined tokens");
        assert_eq!(uncut(2_097_153.0, Unit::Bytes), "2097153 bytes");
    }
}
