//! Numbers as they stand in a reason's sentence.

use crate::plan::Check;
use crate::record::{Metric, Statistic, Unit};

/// As [`label`]; of a counter or a gauge of the engine's, the series that is read.
pub fn name_of(check: &Check) -> String {
    let Some(named) = &check.part.named else {
        return label(check.metric, check.statistic);
    };
    let series = &named.series;
    match (&named.over, check.metric, check.statistic) {
        (Some(over), ..) => format!("{series} / {over}"),
        (None, Metric::CounterIncrease, _) => format!("increase of {series}"),
        (None, _, Statistic::Median | Statistic::Single) => series.to_string(),
        (None, _, statistic) => format!("{series} {statistic}"),
    }
}

/// `TPOT`, `TTFT p95`, `golden mismatches`.
pub fn label(metric: Metric, statistic: Statistic) -> String {
    let name = match metric {
        Metric::Ttft | Metric::Tpot | Metric::Icl | Metric::Itl | Metric::E2e => {
            metric.name().to_uppercase()
        }
        Metric::KvBytes => "KV bytes".to_owned(),
        Metric::KvGrowth => "KV growth".to_owned(),
        Metric::RssGrowth => "RSS growth".to_owned(),
        Metric::WallTtft => "TTFT from wall start".to_owned(),
        Metric::KlDivergence => "KL divergence".to_owned(),
        Metric::KlFromBase => "KL divergence from base".to_owned(),
        Metric::GpuMemory => "GPU memory".to_owned(),
        _ => metric.name().replace('_', " "),
    };
    match statistic {
        Statistic::Median | Statistic::Single => name,
        other => format!("{name} {other}"),
    }
}

/// A value with its unit.
pub fn value(metric: Metric, v: f64) -> String {
    match metric.unit() {
        Unit::Fraction => percent(v),
        unit => match (shown(unit, v).as_str(), symbol(unit).strip_suffix('s')) {
            ("1", Some(one)) if matches!(unit, Unit::Tokens | Unit::Cases | Unit::Bytes) => {
                format!("1 {one}")
            }
            (number, _) => format!("{number} {}", symbol(unit)).trim_end().to_owned(),
        },
    }
}

/// A value whose unit stands beside it already.
pub fn bare(metric: Metric, v: f64) -> String {
    match metric.unit() {
        Unit::Fraction => number((v * 1e8).round() / 1e6),
        unit => shown(unit, v),
    }
}

/// `20.64 → 21.9 ms`.
pub fn change(metric: Metric, base: f64, head: f64) -> String {
    match metric.unit() {
        Unit::Fraction => format!("{} → {}", percent(base), percent(head)),
        unit => format!("{} → {}", shown(unit, base), value(metric, head)),
    }
}

/// A plain number may be gated to its fifth digit, as a perplexity is.
fn shown(unit: Unit, v: f64) -> String {
    match unit {
        Unit::Number => significant(v, 6),
        _ => number(v),
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

/// Four significant digits without trailing zeros; whole numbers whole.
pub fn number(v: f64) -> String {
    significant(v, 4)
}

fn significant(v: f64, digits: i32) -> String {
    if !v.is_finite() {
        return "undefined".to_owned();
    }
    if (v - v.round()).abs() < 1e-9 && v.abs() < 1e15 {
        return format!("{:.0}", v + 0.0);
    }
    if v.abs() < 1e-4 {
        return format!("{v:.2e}");
    }
    let digits = (f64::from(digits - 1) - v.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    trimmed(&format!("{v:.digits$}"))
}

/// A fraction as percent without a sign: `1 %`, `0.25 %`, `97.5 %`.
pub fn percent(fraction: f64) -> String {
    format!("{} %", number((fraction * 1e8).round() / 1e6))
}

/// A relative change: `+3 %`.
pub fn signed_percent(change: f64) -> String {
    format!("{}{}", if change < 0.0 { "" } else { "+" }, percent(change))
}

/// A relative change with its interval: `+6.1 % [+4.8, +7.4]`.
pub fn signed_percents(change: f64, (low, high): (f64, f64)) -> String {
    let digits = if high - low < 0.01 { 2 } else { 1 };
    let one = |v: f64| format!("{:+.digits$}", v * 100.0);
    format!("{} % [{}, {}]", one(change), one(low), one(high))
}

/// `0.013`, `2e-5`.
pub fn p(p: f64) -> String {
    if p >= 0.0995 {
        format!("{p:.2}")
    } else if p >= 0.000_95 {
        trimmed(&format!("{p:.4}"))
    } else if p > 0.0 {
        format!("{p:.0e}")
    } else {
        "0".to_owned()
    }
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
            (20.64, "20.64"),
            (21.904, "21.9"),
            (12_345.678, "12346"),
            (1_080_033.0, "1080033"),
            (0.012_346, "0.01235"),
            (0.000_002, "2.00e-6"),
            (-3.5, "-3.5"),
            (f64::NAN, "undefined"),
        ];
        for (v, expect) in table {
            assert_eq!(number(v), expect);
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
        for (v, expect) in [
            (1.0, "1.00"),
            (0.5, "0.50"),
            (0.013, "0.013"),
            (2e-5, "2e-5"),
            (0.0, "0"),
        ] {
            assert_eq!(p(v), expect);
        }
    }

    #[test]
    fn values_carry_their_unit() {
        assert_eq!(value(Metric::Tpot, 20.64), "20.64 ms");
        assert_eq!(value(Metric::Accuracy, 0.98), "98 %");
        assert_eq!(value(Metric::Perplexity, 16.595_04), "16.595");
        assert_eq!(value(Metric::CounterPerToken, 62.0), "62 per token");
        assert_eq!(change(Metric::Tpot, 20.64, 21.9), "20.64 → 21.9 ms");
        assert_eq!(change(Metric::Accuracy, 1.0, 0.5), "100 % → 50 %");
        assert_eq!(label(Metric::Ttft, Statistic::P95), "TTFT p95");
        assert_eq!(
            label(Metric::GoldenMismatches, Statistic::Single),
            "golden mismatches"
        );
    }
}
