//! Numbers of one conversation: its cost must follow the tokens that a turn adds, not the history.

use super::request;
use crate::metrics::{LaunchMeasure, Place, Undefined, Why};
use crate::record::{Phase, Sample};
use crate::stats;
use std::collections::BTreeMap;

/// Ten minutes.
const BUCKET_NS: u64 = 600_000_000_000;

/// One measured turn.
struct Turn<'a> {
    number: u32,
    sample: &'a Sample,
    /// Prompt tokens of this turn − those of the turn before; the whole prompt for turn 0.
    added: i64,
}

/// Greatest over the measured turns of prefilled − added tokens, 0 where never more.
pub fn prefill_excess(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let turns = turns(at)?;
    let mut worst = (0_i64, 0_u32);
    for turn in &turns {
        let prefilled =
            request::prefilled(turn.sample).map_err(|why| at.undefined(why, Some(turn.sample)))?;
        worst = worst.max((i64::from(prefilled) - turn.added, turn.number));
    }
    let mut measure = LaunchMeasure::single(worst.0 as f64, turns.len());
    if worst.0 > 0 {
        measure.remarks.push(format!(
            "turn {} prefilled {} tokens more than it added",
            worst.1, worst.0
        ));
    }
    Ok(measure)
}

/// By how much a new token costs more in the last turn than in the first: exp(s × (measured turns − 1)) − 1,
/// with s the Theil–Sen slope over the turn's number of ln(TTFT / added tokens).
///
/// The divisor is what the turn added and not what the engine prefilled: an engine that computes its
/// history again has a steady time per prefilled token, and that is the fault to be found.
pub fn prefill_drift(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let turns = turns(at)?;
    let costs = turns
        .iter()
        .map(|turn| cost_per_token(turn).map_err(|why| at.undefined(why, Some(turn.sample))))
        .collect::<Result<Vec<f64>, Undefined>>()?;
    let numbers: Vec<f64> = turns.iter().map(|t| f64::from(t.number)).collect();
    let logs: Vec<f64> = costs.iter().map(|c| c.ln()).collect();
    let slope = stats::theil_sen_slope(&numbers, &logs)
        .ok_or_else(|| at.undefined(Why::TooFewTurns { n: turns.len() }, None))?;
    let mut measure =
        LaunchMeasure::single((slope * (turns.len() - 1) as f64).exp_m1(), turns.len());
    if let Some((head, tail)) = stats::head_tail_medians(&costs) {
        measure.remarks.push(format!(
            "TTFT per new token: {head:.4} ms in the first turns, {tail:.4} ms in the last"
        ));
    }
    measure.remarks.extend(by_bucket(&turns, &costs));
    Ok(measure)
}

/// Medians of every ten minutes of a session that takes longer than one such span: a step, a sawtooth and a
/// slope look alike in their ends.
fn by_bucket(turns: &[Turn<'_>], costs: &[f64]) -> Option<String> {
    let sent = |turn: &Turn<'_>| turn.sample.stamps.send_ns;
    let begin = sent(turns.first()?);
    let mut buckets: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (turn, cost) in turns.iter().zip(costs) {
        let bucket = sent(turn).saturating_sub(begin) / BUCKET_NS;
        buckets.entry(bucket).or_default().push(*cost);
    }
    let medians = buckets.values().filter_map(|costs| stats::median(costs));
    let medians: Vec<String> = medians.map(|ms| format!("{ms:.4}")).collect();
    (medians.len() > 1).then(|| {
        let all = medians.join(", ");
        format!("TTFT per new token, every 10 minutes in turn: {all} ms")
    })
}

/// TTFT in ms per token that the turn added.
fn cost_per_token(turn: &Turn<'_>) -> Result<f64, Why> {
    let ttft = request::ttft_ms(turn.sample)?;
    if turn.added <= 0 {
        return Err(Why::NothingAdded(turn.number));
    }
    if ttft <= 0.0 {
        return Err(Why::NoTime(turn.number));
    }
    Ok(ttft / turn.added as f64)
}

/// The measured turns in order; a warm-up turn lends its prompt count to the turn after it.
fn turns<'a>(at: &Place<'a>) -> Result<Vec<Turn<'a>>, Undefined> {
    at.measured()?;
    let mut by_number = BTreeMap::new();
    for sample in at.sound() {
        let number = sample
            .turn
            .ok_or_else(|| at.undefined(Why::NoTurn, Some(sample)))?;
        if by_number.insert(number, sample).is_some() {
            return Err(at.undefined(Why::TurnTwice(number), Some(sample)));
        }
    }
    let prompt = |s: &Sample| {
        let tokens = s.tokens.prompt.map(i64::from);
        tokens.ok_or_else(|| at.undefined(Why::NoPromptCount, Some(s)))
    };
    let mut turns = Vec::new();
    for (&number, &sample) in by_number.iter().filter(|(_, s)| s.phase == Phase::Measured) {
        let before = match number.checked_sub(1) {
            None => 0,
            Some(last) => prompt(
                by_number
                    .get(&last)
                    .copied()
                    .ok_or_else(|| at.undefined(Why::TurnMissing(last), Some(sample)))?,
            )?,
        };
        let added = prompt(sample)? - before;
        turns.push(Turn {
            number,
            sample,
            added,
        });
    }
    Ok(turns)
}

#[cfg(test)]
mod tests {
    use crate::metrics::testing::{check, launch, session, streamed};
    use crate::metrics::{LaunchMeasure, Undefined, Why, measure};
    use crate::record::{Metric, Phase, Sample, Statistic};

    /// A turn's prompt tokens, cached tokens and TTFT in ms.
    type Row = (u32, Option<u32>, f64);

    fn turns(table: &[Row]) -> Vec<Sample> {
        table
            .iter()
            .zip(0..)
            .map(|(&(prompt, cached, ttft), turn)| {
                let mut s = streamed("drift/chat", turn, ttft, 1.0, 3);
                s.turn = Some(turn);
                s.tokens.prompt = Some(prompt);
                s.tokens.cached = cached;
                s
            })
            .collect()
    }

    fn of(metric: Metric, samples: Vec<Sample>) -> Result<LaunchMeasure, Undefined> {
        let c = check(metric, Statistic::Single);
        measure(&c, &session("drift/chat"), &launch(0, samples))
    }

    #[test]
    fn a_long_session_is_told_by_ten_minutes() {
        let minutes = |each: u64| {
            let mut samples = turns(&[
                (10, None, 10.0),
                (20, None, 20.0),
                (30, None, 40.0),
                (40, None, 80.0),
            ]);
            for (sample, turn) in samples.iter_mut().zip(0..) {
                let later = turn * each * 60_000_000_000;
                sample.stamps.send_ns += later;
                sample.stamps.intended_ns += later;
                sample
                    .stamps
                    .events_ns
                    .iter_mut()
                    .for_each(|at| *at += later);
            }
            of(Metric::PrefillDrift, samples).unwrap().remarks
        };
        let expected = "TTFT per new token, every 10 minutes in turn: 1.5000, 6.0000 ms";
        assert!(minutes(5).iter().any(|r| r == expected), "{:?}", minutes(5));
        assert!(!minutes(3).iter().any(|r| r.contains("10 minutes")));
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "whole numbers are held exactly")]
    fn excess_is_what_was_computed_beyond_what_was_added() {
        let table: [(&[Row], f64); 4] = [
            // Each turn prefills what it added.
            (
                &[(10, Some(0), 5.0), (30, Some(10), 5.0), (50, Some(30), 5.0)],
                0.0,
            ),
            // The reply was cached too: fewer than added is no debt.
            (&[(10, Some(0), 5.0), (30, Some(22), 5.0)], 0.0),
            // Pages: eight tokens computed again in turn 1.
            (
                &[(10, Some(0), 5.0), (30, Some(2), 5.0), (50, Some(30), 5.0)],
                8.0,
            ),
            // The whole history again.
            (
                &[(10, Some(0), 5.0), (30, Some(0), 5.0), (50, Some(0), 5.0)],
                30.0,
            ),
        ];
        for (samples, expect) in table {
            assert_eq!(
                of(Metric::PrefillExcess, turns(samples)).unwrap().value,
                expect
            );
        }
    }

    #[test]
    fn a_warm_up_turn_lends_its_prompt_but_not_its_excess() {
        let mut samples = turns(&[(10, Some(0), 5.0), (30, Some(0), 5.0), (50, Some(30), 5.0)]);
        samples[0].phase = Phase::Warmup;
        samples[1].phase = Phase::Warmup;
        let m = of(Metric::PrefillExcess, samples).unwrap();
        assert_eq!((m.value, m.samples), (0.0, 1));
    }

    #[test]
    fn missing_counts_have_a_name() {
        let no_cached = turns(&[(10, Some(0), 5.0), (30, None, 5.0)]);
        let undefined = of(Metric::PrefillExcess, no_cached.clone()).unwrap_err();
        assert_eq!(
            (undefined.why, undefined.sample),
            (Why::NoCachedTokens, Some(1))
        );
        // Drift does without: it needs the prompt's length alone.
        assert!(of(Metric::PrefillDrift, no_cached).is_ok());
        let mut gap = turns(&[(10, Some(0), 5.0), (30, Some(0), 5.0), (50, Some(0), 5.0)]);
        gap.remove(1);
        assert_eq!(
            of(Metric::PrefillExcess, gap).unwrap_err().why,
            Why::TurnMissing(1)
        );
        let mut twice = turns(&[(10, Some(0), 5.0), (30, Some(0), 5.0)]);
        twice[1].turn = Some(0);
        assert_eq!(
            of(Metric::PrefillExcess, twice).unwrap_err().why,
            Why::TurnTwice(0)
        );
        let same = turns(&[(10, Some(0), 5.0), (10, Some(0), 5.0)]);
        assert_eq!(
            of(Metric::PrefillDrift, same).unwrap_err().why,
            Why::NothingAdded(1)
        );
        let one = turns(&[(10, Some(0), 5.0)]);
        assert_eq!(
            of(Metric::PrefillDrift, one).unwrap_err().why,
            Why::TooFewTurns { n: 1 }
        );
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "whole numbers are held exactly")]
    fn drift_follows_the_cost_of_a_new_token() {
        // 20 tokens a turn, 1 ms a token, growing by e^0.1 a turn over 4 turns: e^0.3 − 1.
        let growing: Vec<Row> = (0..4)
            .map(|k: u32| {
                (
                    20 * (k + 1),
                    Some(20 * k),
                    20.0 * (0.1 * f64::from(k)).exp(),
                )
            })
            .collect();
        let drift = of(Metric::PrefillDrift, turns(&growing)).unwrap().value;
        assert!((drift - 0.349_858_8).abs() < 1e-6, "{drift}");
        let steady: Vec<Row> = (0..4).map(|k| (20 * (k + 1), Some(20 * k), 20.0)).collect();
        assert_eq!(of(Metric::PrefillDrift, turns(&steady)).unwrap().value, 0.0);
    }

    #[test]
    fn an_engine_that_prefills_its_history_drifts() {
        // 1 ms per prefilled token, everything prefilled: time per added token grows with the turn.
        let leaking: Vec<Row> = (1..=6)
            .map(|k| (20 * k, Some(0), 20.0 * f64::from(k)))
            .collect();
        assert!(of(Metric::PrefillDrift, turns(&leaking)).unwrap().value > 1.0);
    }
}
