//! Long gaps between two tokens beside the prefill of other requests.

use super::case::{Case, Ran};
use super::model::Stalls;
use verdict::record::{Metric, Sample};
use verdict::{metrics, stats};

impl Case<'_> {
    /// Counts the gaps of head's launch at `place` that exceed `threshold` (ms), and those of them that overlap another request's
    /// wait for its first token. `None` for another metric, and if no gap is so long.
    pub fn stalls(&self, place: usize, threshold: f64) -> Option<Stalls> {
        // Between events: of several tokens in one, `itl` has no gap of its own.
        (self.check.metric == Metric::Icl).then_some(())?;
        let Ran { launch, .. } = self.ran.get(place)?;
        let is_own = |sample: &&Sample| sample.workload == self.workload.id;
        let own: Vec<&Sample> = launch.samples.iter().filter(is_own).collect();
        let is_read = |sample: &Sample| metrics::is_in_part(&self.check.part, sample);
        stalls(&own, threshold, is_read)
    }
}

fn stalls(
    samples: &[&Sample],
    threshold: f64,
    is_read: impl Fn(&Sample) -> bool,
) -> Option<Stalls> {
    // Each request's wait, and the tokens of its prompt; of those sent before, the one that ended last.
    let mut waits: Vec<(u64, u64, Option<u32>)> = samples
        .iter()
        .filter_map(|sample| {
            let first = *sample.stamps.events_ns.first()?;
            Some((sample.stamps.send_ns, first, sample.tokens.prompt))
        })
        .collect();
    waits.sort_unstable();
    let mut last: Option<(u64, Option<u32>)> = None;
    for (_, first, prompt) in &mut waits {
        let (end, tokens) = last
            .filter(|(end, _)| end > first)
            .unwrap_or((*first, *prompt));
        (*first, *prompt) = (end, tokens);
        last = Some((end, tokens));
    }
    // A request's own wait has ended where its gaps begin.
    let beside = |gap: &[u64]| {
        let sent_before = waits.partition_point(|(sent, ..)| *sent < gap[1]);
        let (_, end, prompt) = waits.get(sent_before.checked_sub(1)?)?;
        (*end > gap[0]).then_some(*prompt)
    };
    let (mut long, mut other) = ((0, 0), (0, 0));
    let mut prompts = Vec::new();
    let measured = samples
        .iter()
        .filter(|sample| sample.may_enter() && is_read(sample));
    for gap in measured.flat_map(|sample| sample.stamps.events_ns.windows(2)) {
        let beside = beside(gap);
        let is_long = gap[1].saturating_sub(gap[0]) as f64 / 1e6 > threshold;
        let counts = if is_long { &mut long } else { &mut other };
        counts.0 += usize::from(beside.is_some());
        counts.1 += 1;
        prompts.extend(beside.flatten().filter(|_| is_long).map(f64::from));
    }
    (long.1 > 0).then(|| Stalls {
        long,
        other,
        prompt_tokens: stats::median(&prompts),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdict::record::{Launch, Phase, RunRecord};

    #[test]
    fn long_gaps_are_beside_prompts() {
        let record = include_str!("../../../tests/data/run-v1.json");
        let record: RunRecord = serde_json::from_str(record).unwrap();
        let launch: &Launch = &record.launches[0];
        let sample = |send_ns, events_ns: &[u64], prompt| {
            let mut sample = launch.samples[0].clone();
            sample.phase = Phase::Measured;
            sample.void = None;
            sample.stamps.send_ns = send_ns;
            sample.stamps.events_ns = events_ns.to_vec();
            sample.tokens.prompt = Some(prompt);
            sample
        };
        let ms = |at: u64| at * 1_000_000;
        // The second request's prompt is computed from 15 to 60 ms.
        let short = sample(0, &[ms(5), ms(10), ms(60), ms(65)], 64);
        let long = sample(ms(15), &[ms(60), ms(65)], 500);
        let found = stalls(&[&short, &long], 20.0, |_| true).unwrap();
        assert_eq!((found.long, found.other), ((1, 1), (0, 3)));
        assert_eq!(found.prompt_tokens, Some(500.0));
        assert!(stalls(&[&short, &long], 50.0, |_| true).is_none());
        let alone = stalls(&[&short], 20.0, |_| true).unwrap();
        assert_eq!((alone.long, alone.prompt_tokens), ((0, 1), None));
    }
}
