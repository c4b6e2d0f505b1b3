//! Names and values as they stand in a reason's sentence.

use super::super::numbers::{bare, percent, uncut};
use verdict::record::{CheckVerdict, Metric, Statistic, Unit};

/// As [`label`]; of a counter or a gauge of the engine's, the series that is read.
pub fn name_of(check: &CheckVerdict) -> String {
    let Some(series) = &check.series else {
        return label(check.metric, check.statistic);
    };
    match (&check.over, check.metric, check.statistic) {
        (Some(over), ..) => format!("{series} / {over}"),
        (None, Metric::CounterIncrease, _) => format!("increase of {series}"),
        (None, _, Statistic::Median | Statistic::Single) => series.clone(),
        (None, _, statistic) => format!("{series} {statistic}"),
    }
}

/// The gate's name, which is that of its file.
pub fn gate_of(check: &CheckVerdict) -> &str {
    check
        .id
        .split_once('/')
        .map_or(check.id.as_str(), |(gate, _)| gate)
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

/// `20.64 → 21.9 ms`.
pub fn change(metric: Metric, base: f64, head: f64) -> String {
    match metric.unit() {
        Unit::Fraction => format!("{} → {}", percent(base), percent(head)),
        unit => format!("{} → {}", bare(base, unit), uncut(head, unit)),
    }
}

/// The text with a capital first.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_and_labels() {
        assert_eq!(change(Metric::Tpot, 20.64, 21.9), "20.64 → 21.9 ms");
        assert_eq!(change(Metric::Accuracy, 1.0, 0.5), "100 % → 50 %");
        assert_eq!(label(Metric::Ttft, Statistic::P95), "TTFT p95");
        assert_eq!(
            label(Metric::GoldenMismatches, Statistic::Single),
            "golden mismatches"
        );
    }
}
