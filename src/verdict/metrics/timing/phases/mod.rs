//! Prefill and generation of a workload's requests: their speeds, and whether one engine can have done both.
//!
//! Main functions: [`prefill_speed`], [`generation_speed`], [`implausible`](implausible()), [`held_back`](held_back()).

mod held_back;
mod implausible;

pub use held_back::{TOKENS_APART, held_back};
pub use implausible::{implausible, implausible_for};

use super::request::{decode_rate, prefilled, ttft_ms};
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

/// Prompt tokens computed per second: by the server's timings where every answer has them, else computed tokens over
/// TTFT. A prompt of which the server does not report cached tokens counts whole.
pub fn prefill_speed(sound: &[&Sample]) -> Speed {
    let by_server: Vec<f64> = sound.iter().filter_map(|s| server_rate(s)).collect();
    if !sound.is_empty() && by_server.len() == sound.len() {
        return Speed {
            clock: Clock::Server,
            tokens_per_s: by_server,
        };
    }
    let by_stream = sound.iter().filter_map(|sample| {
        let computed = prefilled(sample).ok().or(sample.tokens.prompt)?;
        rate(f64::from(computed), ttft_ms(sample).ok()?)
    });
    Speed {
        clock: Clock::Stream,
        tokens_per_s: by_stream.collect(),
    }
}

/// Output tokens per second of one stream after its first event: 1 / TPOT.
pub fn generation_speed(sound: &[&Sample]) -> Speed {
    let rates = sound.iter().filter_map(|sample| decode_rate(sample).ok());
    Speed {
        clock: Clock::Stream,
        tokens_per_s: rates.collect(),
    }
}

fn server_rate(sample: &Sample) -> Option<f64> {
    let timings = sample.timings.as_ref()?;
    rate(f64::from(timings.prompt_n), timings.prompt_ms)
}

fn rate(tokens: f64, ms: f64) -> Option<f64> {
    (tokens > 0.0 && ms > 0.0).then(|| tokens / ms * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::streamed;
    use crate::record::ServerTimings;

    #[test]
    fn speeds_say_whose_clock_they_are_by() {
        let mut a = streamed("w", 0, 50.0, 10.0, 64);
        a.tokens.prompt = Some(100);
        let mut b = a.clone();
        b.timings = Some(ServerTimings {
            prompt_n: 100,
            prompt_ms: 40.0,
            predicted_n: 64,
            predicted_ms: 630.0,
        });
        let speed = prefill_speed(&[&a, &b]);
        assert_eq!(
            (speed.clock, speed.tokens_per_s),
            (Clock::Stream, vec![2_000.0; 2])
        );
        let speed = prefill_speed(&[&b]);
        assert_eq!(
            (speed.clock, speed.tokens_per_s),
            (Clock::Server, vec![2_500.0])
        );
        assert_eq!(generation_speed(&[&a]).tokens_per_s, [100.0]);
        assert_eq!(prefill_speed(&[]), Speed::default());
    }
}
