//! E-divisive (Matteson and James 2014, "A nonparametric approach for multiple change point analysis of
//! multivariate data") beside our change points, on the same series at the same level.

use super::machine::{TYPICAL, ratios};
use fixture::random::Random;
use verdict::stats::change_points;

/// Fewest values of a segment, as ours.
const SHORTEST: usize = 4;
const PERMUTATIONS: usize = 99;
const ALPHA: f64 = 0.01;

/// Divides where the energy distance between neighbouring pieces is greatest, as long as permutations of a
/// piece seldom reach it.
fn e_divisive(values: &[f64], offset: usize, found: &mut Vec<usize>) {
    let n = values.len();
    if n < 2 * SHORTEST {
        return;
    }
    let distances: Vec<Vec<f64>> = values
        .iter()
        .map(|a| values.iter().map(|b| (a - b).abs()).collect())
        .collect();
    let mut order: Vec<usize> = (0..n).collect();
    let (cut, greatest) = best_cut(&distances, &order);
    let mut random = Random(n as u64);
    let mut reached = 0;
    for _ in 0..PERMUTATIONS {
        for i in (1..n).rev() {
            order.swap(i, (random.uniform() * (i + 1) as f64) as usize);
        }
        reached += usize::from(best_cut(&distances, &order).1 >= greatest);
        if (reached + 1) as f64 > ALPHA * (PERMUTATIONS + 1) as f64 {
            return;
        }
    }
    e_divisive(&values[..cut], offset, found);
    found.push(offset + cut);
    e_divisive(&values[cut..], offset + cut, found);
}

/// The cut, and the end of the piece behind it, at which the scaled energy distance is greatest.
fn best_cut(distances: &[Vec<f64>], order: &[usize]) -> (usize, f64) {
    let n = order.len();
    let mut best = (0, f64::NEG_INFINITY);
    let mut within_left = 0.0;
    for cut in 1..=n - SHORTEST {
        let new = &distances[order[cut - 1]];
        within_left += order[..cut - 1].iter().map(|&j| new[j]).sum::<f64>();
        if cut < SHORTEST {
            continue;
        }
        let (mut within_right, mut across) = (0.0, 0.0);
        for end in cut + 1..=n {
            let row = &distances[order[end - 1]];
            within_right += order[cut..end - 1].iter().map(|&j| row[j]).sum::<f64>();
            across += order[..cut].iter().map(|&j| row[j]).sum::<f64>();
            if end - cut < SHORTEST {
                continue;
            }
            let (a, b) = (cut as f64, (end - cut) as f64);
            let energy = 2.0 * across / (a * b)
                - 2.0 * within_left / (a * (a - 1.0))
                - 2.0 * within_right / (b * (b - 1.0));
            let scaled = a * b / (a + b) * energy;
            if scaled > best.1 {
                best = (cut, scaled);
            }
        }
    }
    best
}

/// Counts, over all series, the true cuts found to within two nights, and the false ones.
#[test]
fn ours_finds_what_e_divisive_does() {
    let series: u64 = if fixture::is_nightly() { 100 } else { 15 };
    let stairs = |night: usize| 0.009 * (night / 12) as f64;
    let bump = |night: usize| if (30..40).contains(&night) { 0.02 } else { 0.0 };
    let step = |night: usize| if night < 30 { 0.0 } else { 0.01 };
    type Level<'a> = &'a dyn Fn(usize) -> f64;
    let kinds: [(&str, Level<'_>, &[usize]); 4] = [
        ("no change", &|_| 0.0, &[]),
        ("one step of 1 %", &step, &[30]),
        ("four steps of 0.9 %", &stairs, &[12, 24, 36, 48]),
        ("2 % for ten nights", &bump, &[30, 40]),
    ];
    for (name, level, truth) in kinds {
        let (mut ours, mut peers) = ((0, 0), (0, 0));
        for seed in 0..series {
            let levels: Vec<f64> = (0..60).map(|night| level(night).ln_1p()).collect();
            let values = ratios(seed, TYPICAL, &levels);
            let found = change_points(&values, ALPHA);
            count(
                &mut ours,
                truth,
                &found.iter().map(|p| p.at).collect::<Vec<_>>(),
            );
            let mut found = Vec::new();
            e_divisive(&values, 0, &mut found);
            count(&mut peers, truth, &found);
        }
        println!(
            "{name}: E-divisive {} of {} true cuts, {} others; here {}, {} others",
            peers.0,
            truth.len() * series as usize,
            peers.1,
            ours.0,
            ours.1
        );
        // Two standard errors of what E-divisive found.
        let slack = 2.0 * f64::from(peers.0).sqrt();
        assert!(f64::from(ours.0) >= f64::from(peers.0) - slack, "{name}");
    }
}

fn count(into: &mut (i32, i32), truth: &[usize], found: &[usize]) {
    let is_near = |a: usize, b: usize| a.abs_diff(b) <= 2;
    let hit = |&&cut: &&usize| found.iter().any(|&at| is_near(at, cut));
    let wrong = |&&at: &&usize| !truth.iter().any(|&cut| is_near(at, cut));
    into.0 += truth.iter().filter(hit).count() as i32;
    into.1 += found.iter().filter(wrong).count() as i32;
}
