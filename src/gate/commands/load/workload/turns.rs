//! Times and prompts by turn of conversations: what a longer history and a server's cache do.
//!
//! Main type: [`TurnTally`]. Refuses to know: how turns are sent, how this is shown.

use super::super::view::TurnReport;
use crate::figures::Distribution;
use std::collections::HashMap;
use verdict::metrics::{first_shared, ttft_ms};
use verdict::record::Sample;

/// What a report by turn needs of the samples; they need not be kept.
#[derive(Clone, Debug, Default)]
pub struct TurnTally {
    turns: Vec<TurnRow>,
    /// Numbers of the conversations.
    numbers: HashMap<String, u32>,
}

#[derive(Clone, Debug)]
struct TurnRow {
    conversation: u32,
    /// From 0.
    turn: u32,
    is_sound: bool,
    send_ns: u64,
    done_ns: Option<u64>,
    /// An upper bound, if the first event arrived together with the second.
    ttft_ms: Option<f64>,
    is_first_shared: bool,
    prompt: Option<u32>,
    cached: Option<u32>,
}

impl TurnTally {
    pub fn add(&mut self, sample: &Sample) {
        let (Some(conversation), Some(turn)) = (&sample.case, sample.turn) else {
            return;
        };
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        self.turns.push(TurnRow {
            conversation: match self.numbers.get(conversation) {
                Some(number) => *number,
                None => *self.numbers.entry(conversation.clone()).or_insert(next),
            },
            turn,
            is_sound: sample.may_enter(),
            send_ns: sample.stamps.send_ns,
            done_ns: sample.stamps.done_ns,
            ttft_ms: ttft_ms(sample).ok(),
            is_first_shared: first_shared(sample),
            prompt: sample.tokens.prompt,
            cached: sample.tokens.cached,
        });
    }

    /// Each of the first two turns, and then groups that are each twice as long as the last.
    pub fn by_turn(&self) -> Vec<TurnReport> {
        let turns = self.turns.iter().map(|row| row.turn).max();
        let ends = self.turns.iter();
        let ends = ends.filter_map(|row| Some(((row.conversation, row.turn), row.done_ns?)));
        let ends: Ends = ends.collect();
        let groups = groups(turns.map_or(0, |last| last + 1));
        let report = groups.into_iter().map(|(from, to)| {
            let is_in = |row: &&TurnRow| row.is_sound && (from..=to).contains(&(row.turn + 1));
            let sound: Vec<&TurnRow> = self.turns.iter().filter(is_in).collect();
            let distribution = |value: &dyn Fn(&TurnRow) -> Option<f64>| {
                let values: Vec<f64> = sound.iter().filter_map(|row| value(row)).collect();
                Distribution::of(&values)
            };
            TurnReport {
                pause_ms: distribution(&|row| pause_ms(&ends, row)),
                from,
                to,
                requests: sound.len(),
                ttft_ms: ttft(&sound),
                prompt_tokens: distribution(&|row| row.prompt.map(f64::from)),
                cached_share: cached_share(&sound),
            }
        });
        report.filter(|turns| turns.requests > 0).collect()
    }
}

fn ttft(sound: &[&TurnRow]) -> Distribution {
    let (shared, alone): (Vec<&TurnRow>, _) = sound.iter().partition(|row| row.is_first_shared);
    let values = |rows: Vec<&TurnRow>| -> Vec<f64> {
        rows.into_iter().filter_map(|row| row.ttft_ms).collect()
    };
    Distribution::of_known(&values(alone), &values(shared))
}

/// When each turn of each conversation was answered.
type Ends = HashMap<(u32, u32), u64>;

fn pause_ms(ends: &Ends, row: &TurnRow) -> Option<f64> {
    let before = row.turn.checked_sub(1)?;
    let answered_ns = ends.get(&(row.conversation, before))?;
    Some(row.send_ns.saturating_sub(*answered_ns) as f64 / 1e6)
}

fn groups(turns: u32) -> Vec<(u32, u32)> {
    let ends = std::iter::successors(Some(1_u32), |end| end.checked_mul(2));
    let begun = ends.map(|end| (end / 2 + 1, end));
    begun
        .take_while(|(from, _)| *from <= turns)
        .map(|(from, to)| (from, to.min(turns)))
        .collect()
}

fn cached_share(sound: &[&TurnRow]) -> Option<f64> {
    let counts = sound.iter().map(|row| row.prompt.zip(row.cached));
    let counts: Vec<(u32, u32)> = counts.collect::<Option<_>>()?;
    let sum = |of: fn(&(u32, u32)) -> u32| counts.iter().map(of).map(f64::from).sum::<f64>();
    let (prompt, cached) = (sum(|counts| counts.0), sum(|counts| counts.1));
    (prompt > 0.0).then(|| cached / prompt)
}

/// Turns that were not sent because an answer before them was void, of `planned` in all; `void` of those `sent` were.
pub fn unsent(void: u64, sent: u64, planned: u64) -> Option<String> {
    let unsent = planned.saturating_sub(sent);
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
