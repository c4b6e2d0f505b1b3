//! Prefill and generation of a workload's requests: their speeds, and whether one engine can have done both.
//!
//! Main types: [`Speed`]; [`Phases`], whose speeds are compared. Main function: [`held_back`](held_back()).

mod held_back;
mod implausible;

pub use held_back::{HeldBack, TOKENS_APART, held_back};
pub use implausible::{Phases, implausible, implausible_for};

use super::request::{prefilled, ttft_ms};
use crate::record::Sample;

/// Tokens per second, one value a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Speed {
    pub clock: Clock,
    pub tokens_per_s: Vec<f64>,
}

/// Who timed a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// This client, by the stream's events: queues and the network are in it.
    #[default]
    Stream,
    /// The server, by the `timings` of its answers.
    Server,
}

/// Prompt tokens computed per second by the server's timings, where the answer has them.
pub fn server_rate(sample: &Sample) -> Option<f64> {
    let timings = sample.timings.as_ref()?;
    rate(f64::from(timings.prompt_n), timings.prompt_ms)
}

/// Prompt tokens computed per second over TTFT. A prompt of which the server does not report cached tokens counts whole.
pub fn stream_rate(sample: &Sample) -> Option<f64> {
    let computed = prefilled(sample).ok().or(sample.tokens.prompt)?;
    rate(f64::from(computed), ttft_ms(sample).ok()?)
}

fn rate(tokens: f64, ms: f64) -> Option<f64> {
    (tokens > 0.0 && ms > 0.0).then(|| tokens / ms * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::run_numbers;
    use crate::metrics::testing::streamed;
    use crate::plan::Slo;
    use crate::record::ServerTimings;

    #[test]
    fn a_speed_is_by_the_server_or_by_the_stream() {
        let mut a = streamed("w", 0, 50.0, 10.0, 64);
        a.tokens.prompt = Some(100);
        let mut b = a.clone();
        b.timings = Some(ServerTimings {
            prompt_n: 100,
            prompt_ms: 40.0,
            predicted_n: 64,
            predicted_ms: 630.0,
        });
        let rates = |sample: &Sample| (server_rate(sample), stream_rate(sample));
        assert_eq!(rates(&a), (None, Some(2_000.0)));
        assert_eq!(rates(&b), (Some(2_500.0), Some(2_000.0)));
        // The server's clock, where each answer has it.
        let prefill = |samples: &[Sample]| run_numbers(samples, None, &Slo::default()).prefill;
        let speed = |clock, tokens_per_s| Speed {
            clock,
            tokens_per_s,
        };
        let mixed = prefill(&[a, b.clone()]);
        assert_eq!(mixed, speed(Clock::Stream, vec![2_000.0; 2]));
        assert_eq!(prefill(&[b]), speed(Clock::Server, vec![2_500.0]));
        assert_eq!(prefill(&[]), Speed::default());
    }
}
