//! How often the interval of a trend holds the true slope, where values resemble their neighbours.

use fixture::random::Random;
use verdict::stats;

/// `n` values of an AR(1) process with a slope of 0.01 a step.
fn series(random: &mut Random, n: usize, rho: f64) -> Vec<f64> {
    let mut noise = 0.0;
    let mut next = || {
        noise = rho * noise + random.normal();
        noise
    };
    for _ in 0..30 {
        next();
    }
    (0..n).map(|i| next() + 0.01 * i as f64).collect()
}

#[test]
fn the_interval_of_a_trend_holds_what_it_promises() {
    const SERIES: u64 = 1_000;
    for n in [10, 20, 40, 80] {
        for rho in [-0.3, 0.0, 0.3, 0.6] {
            let (mut held, mut widths) = (0, Vec::new());
            for seed in 0..SERIES {
                let mut random = Random(seed * 7_919 + n as u64);
                let trend = stats::trend(&series(&mut random, n, rho)).unwrap();
                held += usize::from((trend.low..=trend.high).contains(&0.01));
                widths.push((trend.high - trend.low).min(1e9));
            }
            let share = held as f64 / SERIES as f64;
            println!(
                "trend of {n} values, rho {rho:+.1}: {:.1} % held, width {:.3} in the middle",
                100.0 * share,
                stats::median(&widths).unwrap()
            );
            // 95 % less three standard errors of a thousand series.
            assert!(share >= 0.929, "n {n}, rho {rho}: {share}");
        }
    }
}
