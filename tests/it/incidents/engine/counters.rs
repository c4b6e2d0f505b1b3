//! What the engine counts of its own work, and says in its metrics.
//!
//! Main type: [`Counted`]. Refuses to know: what is asked and answered.

use super::Engine;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Since the start, or since it last began anew.
#[derive(Debug, Default)]
pub(super) struct Counted(Mutex<(usize, usize)>);

impl Engine {
    /// Counts a request with so many output tokens, after its answer was sent.
    pub(super) fn count(&self, tokens: usize) {
        thread::sleep(self.knobs.ms("late"));
        let mut counted = self
            .counted
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        counted.0 += 1;
        counted.1 += tokens;
        if self.knobs.is_on("restarts") && counted.0.is_multiple_of(12) {
            *counted = (0, 0);
        }
    }

    pub(super) fn counters(&self) -> String {
        if !self.knobs.is_on("counters") {
            return String::new();
        }
        let counted = self
            .counted
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (requests, tokens) = (counted.0 as f64, counted.1 as f64);
        let each = |knob: &str| self.knobs.get(knob);
        let us = each("host");
        let unknown = match self.knobs.is_on("unknown") {
            true => "dispatches_total{kind=\"other\"} NaN\n",
            false => "",
        };
        let within = if us <= 200.0 { tokens } else { 0.0 };
        [
            (
                "dispatches_total{kind=\"compute\"}",
                tokens * each("dispatches"),
            ),
            ("dispatches_total{kind=\"copy\"}", tokens),
            ("command_buffers_total", tokens * each("buffers")),
            ("step_host_seconds_sum", tokens * us / 1e6),
            ("step_host_seconds_bucket{le=\"0.0002\"}", within),
            ("step_host_seconds_bucket{le=\"+Inf\"}", tokens),
            ("step_host_seconds_count", tokens),
            ("graph_captures_total", each("captures")),
            ("preemptions_total", requests * each("preempts")),
            ("kv_layout_ok", each("layout")),
        ]
        .map(|(name, value)| format!("{name} {value}\n"))
        .concat()
            + unknown
    }
}
