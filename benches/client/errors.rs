//! Reported minus true, in microseconds.
//!
//! Main type: [`Errors`]. Refuses to know: who reported.

use fixture::truth::Truth;
use infergate::figures::Distribution;
use verdict::stats::quantile;

/// Values of requests (TTFT, TPOT; `None`: left out) and of gaps between events (ITL, a token each), in order.
pub(crate) struct Numbers {
    pub(crate) ttft_ms: Vec<Option<f64>>,
    pub(crate) tpot_ms: Vec<Option<f64>>,
    pub(crate) itl_ms: Vec<f64>,
    /// Upper bounds of what is left out.
    pub(crate) ttft_at_most_ms: Vec<f64>,
    pub(crate) tpot_at_most_ms: Vec<f64>,
}

/// What was reported, and the server's record of the same, value by value.
pub(crate) struct Seen {
    pub(crate) reported: Numbers,
    pub(crate) truly: Numbers,
}

/// In µs; `None`: not reported, or too few values for the quantile.
#[derive(Clone, Copy, Default)]
pub(crate) struct Errors {
    pub(crate) ttft_mean: Option<f64>,
    pub(crate) ttft_p99: Option<f64>,
    pub(crate) tpot_mean: Option<f64>,
    pub(crate) tpot_p99: Option<f64>,
    pub(crate) itl_p99: Option<f64>,
}

impl Numbers {
    /// By the server's record: from the request's arrival to the first write, from write to write.
    pub(crate) fn of(truths: &[Truth]) -> Self {
        let ms = |from: u64, to: u64| (to as f64 - from as f64) / 1e6;
        let mut numbers = Self {
            ttft_ms: Vec::new(),
            tpot_ms: Vec::new(),
            itl_ms: Vec::new(),
            ttft_at_most_ms: Vec::new(),
            tpot_at_most_ms: Vec::new(),
        };
        for truth in truths {
            let writes: Vec<u64> = truth.writes.iter().map(|write| write.from_ns).collect();
            let [first, .., last] = writes[..] else {
                continue;
            };
            numbers.ttft_ms.push(Some(ms(truth.arrived_ns, first)));
            let tpot_ms = ms(first, last) / (writes.len() - 1) as f64;
            numbers.tpot_ms.push(Some(tpot_ms));
            let gaps = writes.windows(2).map(|pair| ms(pair[0], pair[1]));
            numbers.itl_ms.extend(gaps);
        }
        numbers
    }

    /// The same five figures that the errors have, in ms.
    pub(crate) fn figures(&self) -> Errors {
        let known = |values: &[Option<f64>], at_most: &[f64]| {
            let known: Vec<f64> = values.iter().flatten().copied().collect();
            Distribution::of_known(&known, at_most)
        };
        let ttft_ms = known(&self.ttft_ms, &self.ttft_at_most_ms);
        let tpot_ms = known(&self.tpot_ms, &self.tpot_at_most_ms);
        Errors {
            ttft_mean: ttft_ms.mean,
            ttft_p99: ttft_ms.p99,
            tpot_mean: tpot_ms.mean,
            tpot_p99: tpot_ms.p99,
            itl_p99: p99(&self.itl_ms),
        }
    }

    /// Shares of requests whose TTFT, and whose TPOT, is left out.
    pub(crate) fn left_out(&self) -> [f64; 2] {
        [&self.ttft_ms, &self.tpot_ms].map(|values| {
            let unknown = values.iter().filter(|value| value.is_none());
            unknown.count() as f64 / values.len() as f64
        })
    }
}

impl Seen {
    /// Mean minus mean, quantile minus quantile, as all tools can be compared.
    pub(crate) fn overall(&self) -> Errors {
        self.reported.figures().minus(&self.truly.figures())
    }

    /// Of the single values' errors, without their sign: nothing cancels out.
    pub(crate) fn single(&self) -> Errors {
        let apart = |reported: &[Option<f64>], truly: &[Option<f64>]| -> Vec<Option<f64>> {
            let pairs = reported.iter().zip(truly);
            pairs.map(|(a, b)| Some(((*a)? - (*b)?).abs())).collect()
        };
        let gaps = self.reported.itl_ms.iter().zip(&self.truly.itl_ms);
        let (reported, truly) = (&self.reported, &self.truly);
        let errors = Numbers {
            ttft_ms: apart(&reported.ttft_ms, &truly.ttft_ms),
            tpot_ms: apart(&reported.tpot_ms, &truly.tpot_ms),
            itl_ms: gaps.map(|(a, b)| (a - b).abs()).collect(),
            ttft_at_most_ms: Vec::new(),
            tpot_at_most_ms: Vec::new(),
        };
        // From ms to µs.
        errors.figures().minus(&Errors::ZERO)
    }
}

impl Errors {
    const ZERO: Self = Self {
        ttft_mean: Some(0.0),
        ttft_p99: Some(0.0),
        tpot_mean: Some(0.0),
        tpot_p99: Some(0.0),
        itl_p99: Some(0.0),
    };

    /// From figures in ms to their difference in µs.
    pub(crate) fn minus(&self, truly: &Self) -> Self {
        let of = |a: Option<f64>, b: Option<f64>| Some((a? - b?) * 1e3);
        Self {
            ttft_mean: of(self.ttft_mean, truly.ttft_mean),
            ttft_p99: of(self.ttft_p99, truly.ttft_p99),
            tpot_mean: of(self.tpot_mean, truly.tpot_mean),
            tpot_p99: of(self.tpot_p99, truly.tpot_p99),
            itl_p99: of(self.itl_p99, truly.itl_p99),
        }
    }

    pub(crate) fn array(&self) -> [Option<f64>; 5] {
        let Self {
            ttft_mean,
            ttft_p99,
            tpot_mean,
            tpot_p99,
            itl_p99,
        } = *self;
        [ttft_mean, ttft_p99, tpot_mean, tpot_p99, itl_p99]
    }
}

/// Of a hundred values or more.
fn p99(values: &[f64]) -> Option<f64> {
    let found = quantile(values, 0.99)?;
    (values.len() >= 100).then_some(found.value)
}
