//! The Prometheus text format, version 0.0.4: a writer for families of gauges, counters and histograms.
//!
//! [`Exposition`] writes each family's HELP and TYPE lines before its samples, and labels in one order, so
//! that the text is valid by construction. Refuses to know: what the metrics mean.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A growing text, with the label that every sample carries.
pub struct Exposition {
    text: String,
    model_name: String,
}

#[derive(Clone, Copy)]
pub enum Kind {
    Counter,
    Gauge,
}

impl Exposition {
    pub fn new(model_name: &str) -> Self {
        Self {
            text: String::new(),
            model_name: escape(model_name),
        }
    }

    /// A family of one sample.
    pub fn single(&mut self, kind: Kind, name: &str, help: &str, value: f64) {
        self.family(kind, name, help);
        self.sample(name, "", "", value);
    }

    /// A family with one sample a value of `label`.
    pub fn labelled<'a>(
        &mut self,
        kind: Kind,
        name: &str,
        help: &str,
        label: &str,
        samples: impl Iterator<Item = (&'a str, f64)>,
    ) {
        self.family(kind, name, help);
        for (value_of_label, value) in samples {
            self.sample(name, label, value_of_label, value);
        }
    }

    pub fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head("histogram", name, help);
        let (counts, sum_s) = histogram.snapshot();
        let mut below = 0;
        for (bound, count) in histogram.bounds_s.iter().zip(&counts) {
            below += count;
            self.sample(
                &format!("{name}_bucket"),
                "le",
                &bound.to_string(),
                below as f64,
            );
        }
        let total: u64 = counts.iter().sum();
        self.sample(&format!("{name}_bucket"), "le", "+Inf", total as f64);
        self.sample(&format!("{name}_sum"), "", "", sum_s);
        self.sample(&format!("{name}_count"), "", "", total as f64);
    }

    pub fn finish(self) -> String {
        self.text
    }

    fn family(&mut self, kind: Kind, name: &str, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        self.head(kind, name, help);
    }

    fn head(&mut self, kind: &str, name: &str, help: &str) {
        let lines = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        self.text.push_str(&lines);
    }

    fn sample(&mut self, name: &str, label: &str, value_of_label: &str, value: f64) {
        let model = &self.model_name;
        let extra = match label {
            "" => String::new(),
            _ => format!(",{label}=\"{}\"", escape(value_of_label)),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{name}{{model_name=\"{model}\"{extra}}} {value}");
    }
}

/// A label's value with backslash, quote and line feed escaped.
fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Durations counted by upper bound. Shared between threads; a reader may see a count before its sum.
pub struct Histogram {
    bounds_s: &'static [f64],
    /// One count a bound, and one for what is above all of them.
    counts: Vec<AtomicU64>,
    sum_ns: AtomicU64,
}

impl Histogram {
    /// `bounds_s`: upper bounds in seconds, inclusive, ascending.
    pub fn new(bounds_s: &'static [f64]) -> Self {
        Self {
            bounds_s,
            counts: (0..=bounds_s.len()).map(|_| AtomicU64::new(0)).collect(),
            sum_ns: AtomicU64::new(0),
        }
    }

    pub fn record(&self, value: Duration) {
        let seconds = value.as_secs_f64();
        let place = self.bounds_s.partition_point(|bound| *bound < seconds);
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        self.sum_ns
            .fetch_add(value.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Counts by place (not cumulated), and the sum in seconds.
    fn snapshot(&self) -> (Vec<u64>, f64) {
        let counts = self
            .counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        let sum_s = self.sum_ns.load(Ordering::Relaxed) as f64 / 1e9;
        (counts.collect(), sum_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_its_head_and_labels() {
        let mut text = Exposition::new("a\"b\\c");
        text.single(Kind::Gauge, "x:y", "Help.", 1.5);
        let samples = [("stop", 2.0), ("length", 3.0)];
        text.labelled(
            Kind::Counter,
            "z_total",
            "More.",
            "reason",
            samples.into_iter(),
        );
        assert_eq!(
            text.finish(),
            "# HELP x:y Help.\n\
             # TYPE x:y gauge\n\
             x:y{model_name=\"a\\\"b\\\\c\"} 1.5\n\
             # HELP z_total More.\n\
             # TYPE z_total counter\n\
             z_total{model_name=\"a\\\"b\\\\c\",reason=\"stop\"} 2\n\
             z_total{model_name=\"a\\\"b\\\\c\",reason=\"length\"} 3\n"
        );
    }

    #[test]
    fn a_histogram_is_cumulative_and_its_bounds_inclusive() {
        let histogram = Histogram::new(&[0.5, 1.0]);
        for milliseconds in [250, 500, 750, 2000] {
            histogram.record(Duration::from_millis(milliseconds));
        }
        let mut text = Exposition::new("m");
        text.histogram("h", "Help.", &histogram);
        let samples: Vec<_> = text.finish().lines().skip(2).map(str::to_owned).collect();
        assert_eq!(
            samples,
            [
                "h_bucket{model_name=\"m\",le=\"0.5\"} 2",
                "h_bucket{model_name=\"m\",le=\"1\"} 3",
                "h_bucket{model_name=\"m\",le=\"+Inf\"} 4",
                "h_sum{model_name=\"m\"} 3.5",
                "h_count{model_name=\"m\"} 4",
            ]
        );
    }
}
