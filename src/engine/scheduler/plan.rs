//! What the next step computes: a pure decision over numbers.
//!
//! Main functions: [`admit`] and [`step`]. They are written for many running sequences; [`Limits`] says
//! how many there are (one, until batching is switched on). Refuses to know: tokens, pages by name, time.

/// Bounds on what is computed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Sequences that run at the same time.
    pub(crate) running: usize,
    /// Rows of one step. Cancellations are seen between steps.
    pub(crate) rows: usize,
}

pub(crate) const LIMITS: Limits = Limits {
    running: 1,
    rows: 512,
};

/// Whether the oldest waiting request may begin: a sequence's place, and pages for its longest possible
/// course beside what the running ones may still take. So a sequence that runs never lacks a page.
/// `reserved`: pages that the running sequences may come to hold.
pub(crate) fn admit(
    running: usize,
    reserved: usize,
    needed: usize,
    pages: usize,
    limits: Limits,
) -> bool {
    running < limits.running && reserved + needed <= pages
}

/// Rows for each running sequence, given the tokens that each has yet to compute (1: it decodes).
/// Sequences that decode go first, so that a long prompt never stalls them; prompts share the rest in
/// order of arrival.
pub(crate) fn step(pending: &[usize], limits: Limits) -> Vec<usize> {
    let mut left = limits.rows;
    let mut take = |wanted: usize| {
        let rows = wanted.min(left);
        left -= rows;
        rows
    };
    let decoding: Vec<usize> = pending
        .iter()
        .map(|count| if *count == 1 { take(1) } else { 0 })
        .collect();
    pending
        .iter()
        .zip(decoding)
        .map(|(count, rows)| if *count > 1 { take(*count) } else { rows })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decoding_goes_first_and_prompts_share_the_rest_in_order() {
        let limits = Limits {
            running: 8,
            rows: 10,
        };
        for (pending, expect) in [
            (vec![], vec![]),
            (vec![1], vec![1]),
            (vec![25], vec![10]),
            (vec![25, 1, 1], vec![8, 1, 1]),
            (vec![4, 1, 9], vec![4, 1, 5]),
            (vec![20, 3], vec![10, 0]),
        ] {
            assert_eq!(step(&pending, limits), expect, "{pending:?}");
        }
    }

    #[test]
    fn admission_needs_a_place_and_pages() {
        let limits = Limits {
            running: 2,
            rows: 10,
        };
        assert!(admit(1, 4, 4, 8, limits));
        assert!(!admit(1, 5, 4, 8, limits));
        assert!(!admit(2, 0, 1, 8, limits));
    }

    proptest! {
        #[test]
        fn a_step_is_within_bounds_and_gets_on(pending in proptest::collection::vec(1usize..2000, 1..20)) {
            let limits = Limits { running: 20, rows: 512 };
            let rows = step(&pending, limits);
            prop_assert!(rows.iter().zip(&pending).all(|(rows, pending)| rows <= pending));
            prop_assert!(rows.iter().sum::<usize>() <= limits.rows);
            prop_assert!(rows.iter().sum::<usize>() > 0);
            prop_assert!(pending.iter().zip(&rows).all(|(pending, rows)| *pending > 1 || *rows == 1));
        }
    }
}
