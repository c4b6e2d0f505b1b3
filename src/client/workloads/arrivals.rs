//! Arrival processes as moments: the one place that knows how a named process spreads its requests.
//!
//! Everything is drawn before the first request is sent, from the session's seed alone, so both arms of
//! a block get the same moments.
//!
//! Refuses to know: clocks, requests.

use super::request_plan::Pace;
use crate::PromptSeed;
use std::time::Duration;
use verdict::plan::Arrivals;
use verdict::stats::gamma_quantile;

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
        // By inversion: −ln(1 − u) / rate.
        Arrivals::Poisson { rate } => spread(seed.gaps(id).map(|u| -(-u).ln_1p() / rate), count),
        Arrivals::Gamma { rate, shape } => {
            let gap = |u| gamma_quantile(u, *shape).unwrap_or(0.0) / rate;
            spread(seed.gaps(id).map(gap), count)
        }
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

/// Moments with these gaps, in seconds.
fn spread(gaps: impl Iterator<Item = f64>, count: u32) -> Vec<Duration> {
    let mut at = 0.0;
    let moments = gaps.take(count as usize).map(|gap| {
        at += gap;
        Duration::from_secs_f64(at)
    });
    moments.collect()
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

    /// `variation`: deviation of the gaps over their mean.
    #[track_caller]
    fn check_gaps(arrivals: &Arrivals, variation: f64) {
        let at = moments(arrivals, 20_000, None);
        assert!(at.is_sorted());
        let gaps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
        // Five standard errors of an exponential: 0.7 % of the mean, 1.4 % of the deviation.
        let bound = 5.0 / n.sqrt();
        assert!(
            (mean * 50.0 - 1.0).abs() < bound * variation.max(1.0),
            "{mean}"
        );
        let got = variance.sqrt() / mean;
        assert!(
            (got / variation - 1.0).abs() < 2.0 * bound * variation.max(1.0),
            "{got}"
        );
        assert_eq!(at, moments(arrivals, 20_000, None));
    }

    #[test]
    fn gaps_have_their_rate_and_their_spread() {
        let rate = 50.0;
        check_gaps(&Arrivals::Poisson { rate }, 1.0);
        // A gamma's variation is 1 / √shape.
        check_gaps(&Arrivals::Gamma { rate, shape: 1.0 }, 1.0);
        check_gaps(&Arrivals::Gamma { rate, shape: 0.25 }, 2.0);
        check_gaps(&Arrivals::Gamma { rate, shape: 16.0 }, 0.25);
    }
}
