//! What a run could not measure although its requests are sound.
//!
//! Main function: [`notes`]. Refuses to know: how the numbers are made, exit codes.

use crate::figures::Distribution;
use crate::judge::{AMBIGUOUS_MIDDLE, AMBIGUOUS_TAIL};
use crate::metrics::RunNumbers;

/// In one sentence each.
pub(super) fn notes(numbers: &RunNumbers) -> Vec<String> {
    [at_once(numbers), gaps(numbers)]
        .into_iter()
        .flatten()
        .collect()
}

/// A span of 0 is no time that tokens took.
fn at_once(numbers: &RunNumbers) -> Option<String> {
    let at_once = numbers.at_once;
    let all = numbers.tpot_ms.len() + at_once;
    (at_once > 0).then(|| {
        format!(
            "{at_once} of {all} answers of several tokens arrived at one moment, held back by the server or a proxy \
             or read by a starved client: their TPOT is not known, and left out"
        )
    })
}

/// The bounds are the judge's (`ambiguous-events`): a tail bears less than a middle.
fn gaps(numbers: &RunNumbers) -> Option<String> {
    let has_tail = |gaps: &[f64]| Distribution::of(gaps).p99.is_some();
    let bearable = if has_tail(&numbers.icl_ms) || has_tail(&numbers.itl_ms) {
        AMBIGUOUS_TAIL
    } else {
        AMBIGUOUS_MIDDLE
    };
    (numbers.ambiguous_share > bearable).then(|| {
        "many events arrived together with a later one, so the ITL and ICL of single tokens are not known: a gap is \
         too long and the next too short by as much"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_bears_fewer_ambiguous_events_than_a_middle() {
        let check = |gaps: usize, ambiguous_share, expect| {
            let numbers = RunNumbers {
                icl_ms: vec![1.0; gaps],
                ambiguous_share,
                ..RunNumbers::default()
            };
            assert_eq!(notes(&numbers).len(), expect, "{gaps} {ambiguous_share}");
        };
        check(100, 0.01, 0);
        check(100, 0.02, 1);
        check(99, 0.02, 0);
        check(99, 0.11, 1);
    }
}
