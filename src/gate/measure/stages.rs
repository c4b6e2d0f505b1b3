//! The engine's own start-up stages, read from its Prometheus metrics.

use client::telemetry::samples;
use verdict::record::Stage;

/// Gauges `NAME{stage="…"} seconds` of the exposition text, in its order.
pub fn parse(exposition: &str, metric: &str) -> Vec<Stage> {
    samples(exposition)
        .filter(|sample| sample.name == metric && sample.value.is_finite())
        .filter_map(|sample| {
            Some(Stage {
                name: sample.label("stage")?,
                ms: sample.value * 1e3,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stages_and_ignores_the_rest() {
        let text = "# TYPE up gauge\nup 1\nboot{model_name=\"m\",stage=\"config\"} 0.002\n\
                    boot{stage=\"weights\"} 1.5\nboot_total 3\nboot{stage=\"bad\"} NaN\n";
        let stages = parse(text, "boot");
        let shown: Vec<_> = stages.iter().map(|s| (s.name.as_str(), s.ms)).collect();
        assert_eq!(shown, [("config", 2.0), ("weights", 1500.0)]);
    }
}
