//! Plan of the next step: a pure decision over numbers.
//!
//! Main functions: [`step`], rows for each running sequence and how many of them are preempted; [`fits`],
//! whether one more may begin. Refuses to know: tokens, pages by name, time.
//!
//! The rules: sequences that decode go first, so that no prompt stalls them; prompts share what is left of
//! the step evenly, so that a short one is not behind a long one; pages go to the oldest first, and where
//! they run out the youngest is preempted, so that the oldest always proceeds and none starves.

use crate::kv::PAGE_TOKENS;

/// Bounds on what is computed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sequences that run at the same time; fewer than `step_tokens`.
    pub running: usize,
    /// Rows of one step. Cancellations are seen between steps.
    pub step_tokens: usize,
    /// Rows of one sequence in a step.
    pub chunk_tokens: usize,
}

/// A running sequence as the decision sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Tokens that it has yet to compute, at least one; 1: it decodes.
    pub pending: usize,
    /// Tokens that it could compute in the pages that it holds.
    pub room: usize,
    /// Pages that would be free if it were preempted.
    pub own_pages: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// For each sequence that stays, oldest first; 0: it waits for this step.
    pub rows: Vec<usize>,
    /// Number of the youngest to preempt: their pages are released, and they start again later.
    pub preempted: usize,
}

/// Decides on a step. `running`: oldest first; `available`: pages that could be taken.
pub fn step(running: &[Candidate], available: usize, limits: Limits) -> Step {
    let mut available = available;
    let mut stay = running.len();
    loop {
        let staying = &running[..stay];
        let rows = within_pages(staying, &shares(staying, limits), available);
        if stay <= 1 || gets_on(staying, &rows) {
            let preempted = running.len() - stay;
            return Step { rows, preempted };
        }
        stay -= 1;
        available += running[stay].own_pages;
    }
}

/// The most pages that a step can take: no rule is asked for where so many are available.
pub fn most_pages(running: usize, limits: Limits) -> usize {
    // Each may begin a page with its first row.
    running + limits.step_tokens.div_ceil(PAGE_TOKENS)
}

/// Whether the oldest waiting sequence may begin: a place among the running, and pages. `needed`: what it
/// and the running ones have yet to take to compute their tokens and one more; beside that, a page for each
/// of these, so that who is let in is not sent away at once.
pub fn fits(running: usize, available: usize, needed: usize, limits: Limits) -> bool {
    running == 0 || (running < limits.running && needed + running <= available)
}

/// Nobody who decodes is left out, and the oldest gets on.
fn gets_on(running: &[Candidate], rows: &[usize]) -> bool {
    let waits = |(candidate, rows): (&Candidate, &usize)| *rows == 0 && candidate.pending == 1;
    rows[0] > 0 && !running.iter().zip(rows).any(waits)
}

/// Rows by the step's budget alone.
fn shares(running: &[Candidate], limits: Limits) -> Vec<usize> {
    let mut rows: Vec<usize> = running
        .iter()
        .map(|c| usize::from(c.pending == 1))
        .collect();
    let mut left = limits.step_tokens.saturating_sub(rows.iter().sum());
    let wanted = |at: usize| running[at].pending.min(limits.chunk_tokens);
    let mut prompts: Vec<usize> = (0..running.len()).filter(|at| rows[*at] == 0).collect();
    // Whoever wants least is served first and leaves the rest of an even share to the others; a remainder
    // goes to the oldest.
    prompts.sort_by_key(|at| (wanted(*at), *at));
    for (served, at) in prompts.iter().enumerate() {
        let share = left.div_ceil(prompts.len() - served);
        rows[*at] = wanted(*at).min(share);
        left -= rows[*at];
    }
    rows
}

/// Cuts the rows to the pages there are: those who decode first, then prompts, each oldest first.
fn within_pages(running: &[Candidate], rows: &[usize], mut available: usize) -> Vec<usize> {
    let mut granted = vec![0; rows.len()];
    for decoding in [true, false] {
        for (at, candidate) in running.iter().enumerate() {
            if (candidate.pending == 1) == decoding {
                let most = candidate.room + available * PAGE_TOKENS;
                granted[at] = rows[at].min(most);
                let missing = granted[at].saturating_sub(candidate.room);
                available -= missing.div_ceil(PAGE_TOKENS);
            }
        }
    }
    granted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits {
        running: 8,
        step_tokens: 10,
        chunk_tokens: 8,
    };

    fn candidates(of: &[(usize, usize, usize)]) -> Vec<Candidate> {
        let candidate = |&(pending, room, own_pages)| Candidate {
            pending,
            room,
            own_pages,
        };
        of.iter().map(candidate).collect()
    }

    #[test]
    fn decoding_goes_first_and_prompts_share_the_rest() {
        let check = |pending: &[usize], expect: &[usize]| {
            let running: Vec<_> = pending.iter().map(|pending| (*pending, 100, 9)).collect();
            let step = step(&candidates(&running), 0, LIMITS);
            assert_eq!(
                (step.rows.as_slice(), step.preempted),
                (expect, 0),
                "{pending:?}"
            );
        };
        check(&[], &[]);
        check(&[1], &[1]);
        check(&[25], &[8]);
        check(&[25, 1, 1], &[8, 1, 1]);
        check(&[25, 25], &[5, 5]);
        check(&[25, 3], &[7, 3]);
        check(&[25, 1, 25], &[5, 1, 4]);
        check(&[2, 25, 3, 25], &[2, 3, 3, 2]);
    }

    #[test]
    fn where_pages_run_out_the_youngest_gives_way() {
        let check = |running: &[(usize, usize, usize)], available, expect: (&[usize], usize)| {
            let step = step(&candidates(running), available, LIMITS);
            assert_eq!(
                (step.rows.as_slice(), step.preempted),
                expect,
                "{running:?} {available}"
            );
        };
        // One page is missing for the second, who decodes: the third gives its own.
        check(&[(1, 3, 2), (1, 0, 2), (1, 5, 1)], 0, (&[1, 1], 1));
        // A page is there.
        check(&[(1, 3, 2), (1, 0, 2), (1, 5, 1)], 1, (&[1, 1, 1], 0));
        // The youngest itself is the one who lacks it.
        check(&[(1, 3, 2), (1, 0, 1)], 0, (&[1], 1));
        // A prompt without pages waits, unless it is the oldest.
        check(&[(1, 3, 2), (20, 0, 2)], 0, (&[1, 0], 0));
        check(&[(20, 2, 2), (1, 1, 1)], 0, (&[2, 1], 0));
        check(&[(20, 0, 2), (20, 5, 1)], 0, (&[8], 1));
        // Shared pages free nothing: the next youngest is preempted too.
        check(&[(1, 0, 2), (1, 3, 4), (1, 3, 0)], 0, (&[1], 2));
    }

    #[test]
    fn admission_needs_a_place_and_pages() {
        let fits = |running, available, needed| fits(running, available, needed, LIMITS);
        assert!(fits(1, 5, 4) && !fits(1, 4, 4));
        assert!(!fits(8, 100, 1));
        assert!(
            fits(0, 0, 4),
            "alone it always fits: its length was checked"
        );
    }

    fn running() -> impl Strategy<Value = Vec<Candidate>> {
        let pending = prop_oneof![Just(1usize), 2usize..2000];
        let candidate =
            (pending, 0usize..40, 0usize..9).prop_map(|(pending, room, own_pages)| Candidate {
                pending,
                room,
                own_pages,
            });
        proptest::collection::vec(candidate, 1..30)
    }

    proptest! {
        #[test]
        fn a_step_is_within_its_bounds_and_gets_on(
            running in running(), available in 0usize..20, step_tokens in 31usize..600, chunk in 1usize..600,
        ) {
            let limits = Limits { running: 30, step_tokens, chunk_tokens: chunk };
            let step = step(&running, available, limits);
            prop_assert_eq!(step.rows.len() + step.preempted, running.len());
            prop_assert!(!step.rows.is_empty(), "the oldest is never preempted");
            prop_assert!(step.rows.iter().sum::<usize>() <= step_tokens);
            let freed: usize = running[step.rows.len()..].iter().map(|c| c.own_pages).sum();
            let mut taken = 0;
            for (candidate, rows) in running.iter().zip(&step.rows) {
                prop_assert!(*rows <= candidate.pending.min(chunk.max(1)));
                taken += rows.saturating_sub(candidate.room).div_ceil(PAGE_TOKENS);
            }
            prop_assert!(taken <= available + freed);
            prop_assert!(taken <= most_pages(running.len(), limits));
            if step.rows.len() > 1 {
                prop_assert!(gets_on(&running[..step.rows.len()], &step.rows));
            }
            // Nobody is sent away who could have stayed.
            if step.preempted > 0 {
                let one_more = &running[..=step.rows.len()];
                let freed: usize = running[one_more.len()..].iter().map(|c| c.own_pages).sum();
                let rows = within_pages(one_more, &shares(one_more, limits), available + freed);
                prop_assert!(!gets_on(one_more, &rows));
            }
        }
    }
}
