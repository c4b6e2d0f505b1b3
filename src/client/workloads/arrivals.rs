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

/// The same with a rate that rises from nothing in proportion to the time until `ramp_up`; none after `until`.
pub fn risen(pace: Pace, ramp_up: Option<Duration>, until: Option<Duration>) -> Pace {
    let Pace::At(moments) = pace else {
        return pace;
    };
    let rises_s = ramp_up.unwrap_or_default().as_secs_f64();
    // The integral of the rising rate is that of the whole rate: t² / 2S while it rises, then t − S / 2.
    let later = |at: Duration| match at.as_secs_f64() {
        _ if rises_s == 0.0 => at,
        at if at < rises_s / 2.0 => Duration::from_secs_f64((2.0 * rises_s * at).sqrt()),
        at => Duration::from_secs_f64(at + rises_s / 2.0),
    };
    let moments = moments.into_iter().map(later);
    let within = |at: &Duration| until.is_none_or(|until| *at <= until);
    Pace::At(moments.take_while(within).collect())
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
    use super::{Pace, PromptSeed, pace, risen};
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
    fn a_rate_rises_in_proportion_to_the_time() {
        let constant = pace(&Arrivals::Constant { rate: 100.0 }, "w", SEED, 1_000, None);
        let moments = |until| match risen(constant.clone(), Some(Duration::from_secs(4)), until) {
            Pace::At(moments) => moments
                .iter()
                .map(Duration::as_secs_f64)
                .collect::<Vec<_>>(),
            _ => panic!("an open loop has moments"),
        };
        let at = moments(None);
        let before = |end: f64| at.iter().filter(|at| **at < end - 1e-9).count();
        // Rates of 25, 50, 75 and 100 a second at the ends of four seconds, and then 100.
        let counts = [1.0, 2.0, 3.0, 4.0, 5.0].map(before);
        assert_eq!(counts, [13, 50, 113, 200, 300]);
        assert!(at.is_sorted());
        assert_eq!(moments(Some(Duration::from_secs(2))).len(), 51);
        assert_eq!(risen(constant.clone(), None, None), constant);
        let closed = Pace::Slots(3);
        assert_eq!(
            risen(closed.clone(), Some(Duration::from_secs(1)), None),
            closed
        );
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
