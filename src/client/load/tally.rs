//! Tokens of each event of a stream, by whatever in the stream tells them.
//!
//! Three sources, the surest first: token ids, log-probabilities, differences of cumulative usage. Tokens
//! whose text is held back until a character is whole arrive with a later event's text and count there.
//!
//! Main type: [`Tally`]. Refuses to know: time, text.

/// What the events with output said of their tokens, so far.
#[derive(Debug, Default)]
pub struct Tally {
    events: usize,
    ids: Vec<u32>,
    scored: Vec<u32>,
    /// Scored tokens since the last event with output.
    pending: u32,
    /// Cumulative.
    usage: Vec<u32>,
}

impl Tally {
    /// An event, with output or without, scored so many tokens. Comes before [`Self::event`].
    pub fn scored(&mut self, tokens: usize) {
        self.pending += count(tokens);
    }

    /// An event with output named so many token ids and this usage so far.
    pub fn event(&mut self, ids: Option<usize>, usage: Option<u32>) {
        self.events += 1;
        self.ids.extend(ids.filter(|ids| *ids > 0).map(count));
        self.usage.extend(usage);
        self.scored.push(std::mem::take(&mut self.pending));
    }

    /// All token ids, if every event with output named its own.
    pub fn ids(&self) -> Option<u32> {
        let all = self.events > 0 && self.ids.len() == self.events;
        all.then(|| self.ids.iter().sum())
    }

    /// Tokens of each event, by the first source that gives each at least one and all together as many as
    /// the final usage, where there is one. Empty where none does.
    pub fn per_event(&self, completion: Option<u32>) -> Vec<u32> {
        let by_usage = [0].iter().chain(&self.usage).zip(&self.usage);
        let by_usage = by_usage.map(|(before, now)| now.saturating_sub(*before));
        let scored = match self.pending {
            0 => self.scored.clone(),
            // Some came after the last event with output.
            _ => Vec::new(),
        };
        let whole = |tokens: &Vec<u32>| {
            tokens.len() == self.events
                && tokens.iter().all(|tokens| *tokens > 0)
                && completion.is_none_or(|all| tokens.iter().sum::<u32>() == all)
        };
        let sources = [self.ids.clone(), scored, by_usage.collect()];
        sources.into_iter().find(whole).unwrap_or_default()
    }
}

fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::Tally;

    /// Events as (token ids, scored tokens, cumulative usage), then scored tokens after the last.
    fn tally(events: &[(Option<usize>, usize, Option<u32>)], after: usize) -> Tally {
        let mut tally = Tally::default();
        for (ids, scored, usage) in events {
            tally.scored(*scored);
            tally.event(*ids, *usage);
        }
        tally.scored(after);
        tally
    }

    fn check(
        events: &[(Option<usize>, usize, Option<u32>)],
        after: usize,
        completion: Option<u32>,
        expect: &[u32],
    ) {
        assert_eq!(
            tally(events, after).per_event(completion),
            expect,
            "{events:?}"
        );
    }

    #[test]
    fn each_source_tells_and_ids_come_first() {
        check(
            &[(Some(2), 0, None), (Some(1), 0, None)],
            0,
            Some(3),
            &[2, 1],
        );
        check(&[(None, 1, None), (None, 3, None)], 0, Some(4), &[1, 3]);
        check(
            &[(None, 0, Some(2)), (None, 0, Some(5))],
            0,
            Some(5),
            &[2, 3],
        );
        check(
            &[(Some(2), 1, Some(3)), (Some(1), 1, Some(4))],
            0,
            None,
            &[2, 1],
        );
        check(&[(Some(1), 1, Some(1))], 0, Some(1), &[1]);
    }

    #[test]
    fn a_source_with_a_gap_tells_nothing() {
        check(&[], 0, None, &[]);
        check(&[(None, 0, None)], 0, Some(1), &[]);
        check(&[(Some(1), 0, None), (None, 0, None)], 0, Some(2), &[]);
        check(&[(Some(1), 0, None), (Some(0), 0, None)], 0, Some(2), &[]);
        check(&[(None, 1, None), (None, 0, None)], 0, Some(2), &[]);
        check(&[(None, 0, Some(3)), (None, 0, Some(2))], 0, None, &[]);
        // The end's tokens belong to no event.
        check(&[(None, 1, None), (None, 1, None)], 1, Some(3), &[]);
        check(&[(None, 0, Some(1)), (None, 0, Some(2))], 0, Some(3), &[]);
    }

    #[test]
    fn ids_are_counted_only_where_every_event_has_them() {
        assert_eq!(
            tally(&[(Some(2), 0, None), (Some(1), 0, None)], 0).ids(),
            Some(3)
        );
        assert_eq!(tally(&[(Some(2), 0, None), (None, 0, None)], 0).ids(), None);
        assert_eq!(tally(&[], 0).ids(), None);
    }
}
