//! Arrival processes as moments: the one place that knows how a named process spreads its requests.
//!
//! Everything is drawn before the first request is sent, from the session's seed alone, so both arms of
//! a block get the same moments.
//!
//! Refuses to know: clocks, requests.

use super::PromptSeed;
use super::planned::Pace;
use std::time::Duration;
use verdict::plan::Arrivals;

/// The pace of `count` requests of the workload `id`; an open loop sends none after `until`.
pub fn pace(
    arrivals: &Arrivals,
    id: &str,
    seed: PromptSeed,
    count: u32,
    until: Option<Duration>,
) -> Pace {
    let within = |at: &Duration| until.is_none_or(|until| *at <= until);
    let moments = match arrivals {
        Arrivals::Closed { concurrency } => return Pace::Slots(*concurrency),
        Arrivals::Poisson { rate } => poisson(seed.gaps(id), *rate, count),
        Arrivals::Constant { rate } => (0..count)
            .map(|index| Duration::from_secs_f64(f64::from(index) / rate))
            .collect(),
        Arrivals::Burst { size, every } => {
            (0..count).map(|index| *every * (index / size)).collect()
        }
        Arrivals::Recorded { at } => at.iter().copied().take(count as usize).collect::<Vec<_>>(),
    };
    Pace::At(moments.into_iter().take_while(within).collect())
}

/// Exponential gaps by inversion: −ln(1 − u) / rate.
fn poisson(uniform: impl Iterator<Item = f64>, rate: f64, count: u32) -> Vec<Duration> {
    let mut at = 0.0;
    uniform
        .take(count as usize)
        .map(|u| {
            at += -(-u).ln_1p() / rate;
            Duration::from_secs_f64(at)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Pace, PromptSeed, pace};
    use std::time::Duration;
    use verdict::plan::Arrivals;

    const SEED: PromptSeed = PromptSeed {
        session: 3,
        block: 1,
    };

    fn moments(arrivals: &Arrivals, count: u32, until: Option<Duration>) -> Vec<f64> {
        match pace(arrivals, "gate/w", SEED, count, until) {
            Pace::At(moments) => moments.iter().map(Duration::as_secs_f64).collect(),
            _ => panic!("an open loop has moments"),
        }
    }

    #[test]
    fn each_process_spreads_its_requests() {
        let constant = Arrivals::Constant { rate: 4.0 };
        assert_eq!(moments(&constant, 4, None), [0.0, 0.25, 0.5, 0.75]);
        let burst = Arrivals::Burst {
            size: 2,
            every: Duration::from_secs(3),
        };
        assert_eq!(moments(&burst, 5, None), [0.0, 0.0, 3.0, 3.0, 6.0]);
        let recorded = Arrivals::Recorded {
            at: [1, 2, 5].map(Duration::from_secs).to_vec(),
        };
        assert_eq!(moments(&recorded, 2, None), [1.0, 2.0]);
        assert_eq!(
            pace(&Arrivals::Closed { concurrency: 7 }, "w", SEED, 9, None),
            Pace::Slots(7)
        );
        let until = Some(Duration::from_millis(600));
        assert_eq!(moments(&constant, 4, until), [0.0, 0.25, 0.5]);
    }

    #[test]
    fn poisson_gaps_have_the_rate_and_the_spread_of_an_exponential() {
        let at = moments(&Arrivals::Poisson { rate: 50.0 }, 20_000, None);
        assert!(at.is_sorted());
        let gaps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
        // Standard errors: 0.7 % of the mean, 1.4 % of the deviation; five of each.
        assert!((mean * 50.0 - 1.0).abs() < 0.036, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.071, "{variance}");
        let again = moments(&Arrivals::Poisson { rate: 50.0 }, 20_000, None);
        assert_eq!(at, again);
    }
}
