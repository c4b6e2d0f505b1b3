use super::*;
use crate::commands::bisect::step::looks;
use verdict::stats;

const ERRORS: Errors = Errors {
    alpha: 0.02,
    beta: 0.05,
    looks: 9,
};

/// Plays a search in which every commit's finding is known; gives the order of trials and the conclusion.
fn play(last: usize, finding: impl Fn(usize) -> Finding) -> (Vec<usize>, Conclusion) {
    let mut search = Search::new(last, 0.0, ERRORS);
    let mut order = Vec::new();
    while let Some(commit) = search.next() {
        order.push(commit);
        search.take(commit, finding(commit), None);
    }
    (order, search.conclusion())
}

#[test]
fn a_search_without_noise_halves() {
    for last in 1..40 {
        for culprit in 1..=last {
            let (order, conclusion) = play(last, |commit| match commit >= culprit {
                true => Finding::Bad,
                false => Finding::Good,
            });
            let commit = culprit as u32;
            assert_eq!(conclusion, Conclusion::Culprit { commit }, "{last}");
            assert!(1 << order.len() <= 2 * last, "{last} {culprit}: {order:?}");
        }
    }
}

#[test]
fn skipped_commits_widen_the_answer_only_where_they_lie_at_the_border() {
    let among = |skipped: &[usize], culprit: usize| {
        let (order, conclusion) = play(16, |commit| match commit {
            c if skipped.contains(&c) => Finding::Skipped,
            c if c >= culprit => Finding::Bad,
            _ => Finding::Good,
        });
        let mut distinct = order.clone();
        distinct.dedup();
        assert_eq!(order, distinct, "a commit was tried twice");
        conclusion
    };
    let culprit = |commit| Conclusion::Culprit { commit };
    assert_eq!(among(&[8], 3), culprit(3));
    assert_eq!(among(&[2, 3], 9), culprit(9));
    assert_eq!(among(&[2], 3), Conclusion::Among { first: 2, last: 3 });
    assert_eq!(among(&[3], 3), Conclusion::Among { first: 3, last: 4 });
    assert_eq!(
        among(&[6, 7, 8, 9, 10], 8),
        Conclusion::Among { first: 6, last: 11 }
    );
    let all: Vec<usize> = (1..16).collect();
    assert_eq!(among(&all, 5), Conclusion::Among { first: 1, last: 16 });
}

#[test]
fn skips_lead_away_from_a_broken_stretch() {
    let (order, _) = play(64, |commit| match commit {
        20..=40 => Finding::Skipped,
        c if c >= 50 => Finding::Bad,
        _ => Finding::Good,
    });
    let in_stretch = order.iter().filter(|c| (20..=40).contains(*c)).count();
    assert!(in_stretch <= 7, "{order:?}");
}

#[test]
fn all_shares_together_stay_within_the_whole() {
    // Always the least that a step can narrow.
    let mut search = Search::new(30, 0.03, ERRORS);
    let tiny = Estimate {
        est: 0.0,
        se: 1e-9,
        df: 30.0,
    };
    let mut spent = 0.0;
    for commit in 1..30 {
        spent += search.test().below_error;
        search.take(commit, Finding::Good, Some(tiny));
    }
    assert!(spent < ERRORS.beta, "{spent}");
    // Halving, every step gets the same.
    let mut search = Search::new(32, 0.03, ERRORS);
    let mut shares = Vec::new();
    while let Some(commit) = search.next() {
        shares.push(search.test().above_error);
        search.take(commit, Finding::Good, Some(tiny));
    }
    assert_eq!(shares.len(), 5);
    assert!(
        shares
            .iter()
            .all(|s| (s - ERRORS.alpha / 6.0).abs() < 1e-12)
    );
}

/// Normal deviates by Box and Muller on Knuth's linear congruential generator: simulated noise needs no better.
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    fn below(&mut self, n: usize) -> usize {
        ((self.uniform() * n as f64) as usize).min(n - 1)
    }
}

/// Standard deviation of a launch's ln(median), by verdict.md: 0.7 % between launches; and 0.65 % for the median
/// of 100 requests that vary by 3 % with autocorrelation 0.5 (3 % × 1.25 × √(3 / 100)).
const LAUNCH_SD: f64 = 0.009_55;
const MARGIN: f64 = 0.01;

/// Cumulated losses of commits 0 to n.
type History = Vec<f64>;

struct Played {
    conclusion: Conclusion,
    launches: u32,
}

/// A whole search on a simulated history; `None` where the regression is not confirmed.
fn simulate(history: &History, noise: &mut Noise) -> Option<Played> {
    let profile = [4, 6, 8, 12, 16];
    let mut launches = 0;
    let mut session =
        |commit: usize, looks: &[u32], ends: &mut dyn FnMut(&Estimate, bool) -> bool| {
            let (mut base, mut head) = (Vec::new(), Vec::new());
            for &look in looks {
                while base.len() < look as usize {
                    base.push(LAUNCH_SD * noise.normal());
                    head.push(history[commit] + LAUNCH_SD * noise.normal());
                    launches += 2;
                }
                let estimate = stats::welch(&head, &base).unwrap();
                if ends(&estimate, Some(&look) == looks.last()) {
                    return;
                }
            }
        };
    let mut loss = None;
    let last = history.len() - 1;
    session(last, &profile, &mut |e, _| {
        let p = e.p_greater(MARGIN.ln_1p()) * profile.len() as f64;
        if p <= ERRORS.alpha {
            loss = Some(e.est);
        }
        loss.is_some()
    });
    let looks = looks(&profile);
    let errors = Errors {
        looks: looks.len() as u32,
        ..ERRORS
    };
    let mut search = Search::new(last, loss?, errors);
    while let Some(commit) = search.next() {
        let mut found = None;
        session(commit, &looks, &mut |e, is_last| {
            found = search.finding(e, is_last).map(|finding| (finding, *e));
            found.is_some()
        });
        let (finding, estimate) = found.unwrap();
        search.take(commit, finding, Some(estimate));
    }
    Some(Played {
        conclusion: search.conclusion(),
        launches,
    })
}

/// Plays searches over histories of 2 to 40 commits with regressions of these sizes at random places; the shares
/// that end at one of them, and at another commit; the rest names a range.
fn shares(sizes: &[f64]) -> (f64, f64) {
    const SEARCHES: usize = 400;
    let mut noise = Noise(20_251);
    let (mut right, mut wrong, mut all, mut launches) = (0, 0, 0, 0);
    while all < SEARCHES {
        let last = sizes.len().max(2) + noise.below(39);
        let mut jumps = vec![0.0; last + 1];
        for size in sizes {
            let at = 1 + noise.below(last);
            jumps[at] += size;
        }
        let mut level = 0.0;
        let history = jumps.iter().map(|jump| {
            level += jump;
            level
        });
        let Some(played) = simulate(&history.collect(), &mut noise) else {
            continue;
        };
        all += 1;
        launches += played.launches;
        match played.conclusion {
            Conclusion::Culprit { commit } if jumps[commit as usize] > 0.0 => right += 1,
            Conclusion::Culprit { .. } => wrong += 1,
            Conclusion::Among { first, last } => {
                // A range is no error where it holds one of them.
                let range = first as usize..=last as usize;
                wrong += usize::from(!range.into_iter().any(|c| jumps[c] > 0.0));
            }
            other => panic!("{other:?}"),
        }
    }
    let share = |n: usize| n as f64 / all as f64;
    let mean = f64::from(launches) / all as f64;
    println!(
        "{sizes:?}: right {}, wrong {}, launches {mean:.0}",
        share(right),
        share(wrong)
    );
    (share(right), share(wrong))
}

#[test]
fn simulated_regressions_are_found() {
    let table: [&[f64]; 5] = [
        &[0.05],
        &[0.03],
        &[0.04, 0.02],
        // Neither is the larger, and what lies between is exactly half.
        &[0.03, 0.03],
        &[0.06, -0.02],
    ];
    for sizes in table {
        let (right, wrong) = shares(sizes);
        assert!(right >= 0.95, "{sizes:?}: found {right}");
        assert!(wrong <= 0.05, "{sizes:?}: wrong {wrong}");
    }
}

#[test]
fn what_is_too_small_to_be_told_apart_gives_a_range_and_no_wrong_commit() {
    let table: [&[f64]; 2] = [&[0.02], &[0.02, 0.02, 0.02]];
    for sizes in table {
        let (_, wrong) = shares(sizes);
        assert!(wrong <= 0.05, "{sizes:?}: wrong {wrong}");
    }
}
