//! Histogram of lags with buckets that grow with the lag, in constant space.
//!
//! Main type: [`Lags`]. A bucket is a 32nd of its octave wide, so that a quantile is right to 1.6 %; the
//! greatest lag is kept as it is. Counting is one addition, from any thread.
//!
//! Refuses to know: what is late.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use verdict::record::Spread;

/// Bits of a value that a bucket tells apart, its leading one left out.
const BITS: u32 = 5;
const PER_OCTAVE: usize = 1 << BITS;
/// Values below [`PER_OCTAVE`] have a bucket each; every later octave of 64 bits has [`PER_OCTAVE`].
const BUCKETS: usize = (64 - BITS as usize + 1) * PER_OCTAVE;

/// A histogram of lags in nanoseconds.
#[derive(Debug)]
pub struct Lags {
    counts: Box<[AtomicU64]>,
    max_ns: AtomicU64,
}

impl Default for Lags {
    fn default() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            max_ns: AtomicU64::new(0),
        }
    }
}

impl Lags {
    pub fn note(&self, lag_ns: u64) {
        self.counts[bucket(lag_ns)].fetch_add(1, Relaxed);
        self.max_ns.fetch_max(lag_ns, Relaxed);
    }

    /// Adds what the other counted.
    pub fn absorb(&self, other: &Self) {
        for (mine, theirs) in self.counts.iter().zip(&other.counts) {
            mine.fetch_add(theirs.load(Relaxed), Relaxed);
        }
        self.max_ns.fetch_max(other.max_ns.load(Relaxed), Relaxed);
    }

    /// In milliseconds; quantiles by nearest rank, at the middle of their bucket.
    pub fn spread(&self) -> Spread {
        let counts: Vec<u64> = self
            .counts
            .iter()
            .map(|count| count.load(Relaxed))
            .collect();
        let n: u64 = counts.iter().sum();
        let max = self.max_ns.load(Relaxed) as f64;
        let at = |percent: u64| {
            let rank = (n * percent).div_ceil(100).max(1);
            let mut seen = 0;
            let reached = counts.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            reached.map_or(0.0, |bucket| middle(bucket).min(max)) / 1e6
        };
        Spread {
            p50: at(50),
            p99: at(99),
            max: max / 1e6,
            n,
        }
    }
}

fn bucket(ns: u64) -> usize {
    let Some(octave) = ns.checked_ilog2().filter(|octave| *octave >= BITS) else {
        return ns as usize;
    };
    let within = (ns >> (octave - BITS)) as usize - PER_OCTAVE;
    (octave - BITS + 1) as usize * PER_OCTAVE + within
}

fn middle(bucket: usize) -> f64 {
    let (octave, within) = (bucket / PER_OCTAVE, bucket % PER_OCTAVE);
    if octave == 0 {
        return within as f64;
    }
    ((PER_OCTAVE + within) as f64 + 0.5) * 2_f64.powi(octave as i32 - 1)
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Lags, bucket, middle};
    use verdict::record::Spread;

    #[test]
    fn buckets_rise_without_gap_and_hold_their_middle() {
        let mut last = 0;
        for shift in 0..64 {
            for add in [0, 1, 7] {
                let ns = (1_u64 << shift) + (add << shift >> 3);
                assert!(bucket(ns) >= last && bucket(ns) < BUCKETS, "{ns}");
                last = bucket(ns);
                let off = (middle(bucket(ns)) - ns as f64).abs() / ns as f64;
                assert!(off <= 1.0 / 63.0, "{ns}: {off}");
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        for ns in 0..100_000 {
            assert!(bucket(ns + 1) - bucket(ns) <= 1, "{ns}");
        }
    }

    #[test]
    fn nothing_is_all_zero_and_one_is_itself() {
        assert_eq!(Lags::default().spread(), Spread::default());
        let one = Lags::default();
        one.note(31);
        let Spread { p50, p99, max, n } = one.spread();
        for value in [p50, p99, max] {
            assert!((value - 31e-6).abs() < 1e-12);
        }
        assert_eq!(n, 1);
    }

    #[test]
    fn quantiles_of_two_halves_together() {
        let (even, odd) = (Lags::default(), Lags::default());
        for us in 1..=1_000 {
            let half = if us % 2 == 0 { &even } else { &odd };
            half.note(us * 1_000);
        }
        even.absorb(&odd);
        let Spread { p50, p99, max, n } = even.spread();
        assert!((p50 - 0.5).abs() < 0.01, "{p50}");
        assert!((p99 - 0.99).abs() < 0.02, "{p99}");
        assert!((max - 1.0).abs() < 1e-12);
        assert_eq!(n, 1_000);
    }
}
