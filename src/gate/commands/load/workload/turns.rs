//! Times and prompts by turn of conversations: what a longer history and a server's cache do.
//!
//! Main function: [`by_turn`]. Refuses to know: how turns are sent, how this is shown.

use super::super::view::TurnReport;
use crate::figures::Distribution;
use std::collections::HashMap;
use verdict::metrics::run_numbers;
use verdict::plan::Slo;
use verdict::record::Sample;

/// Each of the first two turns, and then groups that are each twice as long as the last.
pub fn by_turn(samples: &[Sample]) -> Vec<TurnReport> {
    let turns = samples.iter().filter_map(|sample| sample.turn).max();
    let ends: Ends = samples.iter().filter_map(ended).collect();
    let groups = groups(turns.map_or(0, |last| last + 1));
    let report = groups.into_iter().map(|(from, to)| {
        let is_in = |sample: &&Sample| {
            sample
                .turn
                .is_some_and(|turn| (from..=to).contains(&(turn + 1)))
        };
        let of_turns: Vec<Sample> = samples.iter().filter(is_in).cloned().collect();
        let sound: Vec<&Sample> = of_turns
            .iter()
            .filter(|sample| sample.may_enter())
            .collect();
        let prompts = sound.iter().filter_map(|sample| sample.tokens.prompt);
        let prompts: Vec<f64> = prompts.map(f64::from).collect();
        let pauses = sound.iter().filter_map(|sample| pause_ms(&ends, sample));
        TurnReport {
            pause_ms: Distribution::of(&pauses.collect::<Vec<f64>>()),
            from,
            to,
            requests: sound.len(),
            ttft_ms: Distribution::of(&run_numbers(&of_turns, None, &Slo::default()).ttft_ms),
            prompt_tokens: Distribution::of(&prompts),
            cached_share: cached_share(&sound),
        }
    });
    report.filter(|turns| turns.requests > 0).collect()
}

/// When each turn of each conversation was answered.
type Ends<'a> = HashMap<(&'a str, u32), u64>;

fn ended(sample: &Sample) -> Option<((&str, u32), u64)> {
    Some((
        (sample.case.as_deref()?, sample.turn?),
        sample.stamps.done_ns?,
    ))
}

fn pause_ms(ends: &Ends<'_>, sample: &Sample) -> Option<f64> {
    let before = sample.turn?.checked_sub(1)?;
    let answered_ns = ends.get(&(sample.case.as_deref()?, before))?;
    Some(sample.stamps.send_ns.saturating_sub(*answered_ns) as f64 / 1e6)
}

fn groups(turns: u32) -> Vec<(u32, u32)> {
    let ends = std::iter::successors(Some(1_u32), |end| end.checked_mul(2));
    let begun = ends.map(|end| (end / 2 + 1, end));
    begun
        .take_while(|(from, _)| *from <= turns)
        .map(|(from, to)| (from, to.min(turns)))
        .collect()
}

fn cached_share(sound: &[&Sample]) -> Option<f64> {
    let counts = sound
        .iter()
        .map(|sample| sample.tokens.prompt.zip(sample.tokens.cached));
    let counts: Vec<(u32, u32)> = counts.collect::<Option<_>>()?;
    let sum = |of: fn(&(u32, u32)) -> u32| counts.iter().map(of).map(f64::from).sum::<f64>();
    let (prompt, cached) = (sum(|counts| counts.0), sum(|counts| counts.1));
    (prompt > 0.0).then(|| cached / prompt)
}

/// Turns that were not sent because an answer before them was void, of `planned` in all.
pub fn unsent(samples: &[Sample], planned: u64) -> Option<String> {
    let void = samples
        .iter()
        .filter(|sample| sample.void.is_some())
        .count();
    let unsent = planned.saturating_sub(samples.len() as u64);
    (void > 0 && unsent > 0).then(|| {
        format!("{unsent} turns were not sent: a void answer ends its conversation, and {void} were void")
    })
}

#[cfg(test)]
mod tests {
    use super::groups;

    #[test]
    fn groups_grow_and_end_with_the_last_turn() {
        assert_eq!(groups(0), []);
        assert_eq!(groups(1), [(1, 1)]);
        assert_eq!(groups(3), [(1, 1), (2, 2), (3, 3)]);
        assert_eq!(groups(9), [(1, 1), (2, 2), (3, 4), (5, 8), (9, 9)]);
    }
}
