//! Events whose time is an upper bound only.
//!
//! Main functions: [`ambiguous`], [`with_first`], [`first_shared`]. Refuses to know: how many a result can bear.

use crate::record::Sample;

/// Events that arrived together with a later one, and all. One a stream is borne: many engines send the stream's end
/// (finish reason, usage, `[DONE]`) in one segment with the last token.
pub fn ambiguous(samples: &[&Sample]) -> (usize, usize) {
    let shared = |s: &&Sample| (s.stamps.ambiguous_events as usize).saturating_sub(1);
    let events = samples.iter().map(|s| s.stamps.events_ns.len()).sum();
    (samples.iter().map(shared).sum(), events)
}

/// Events after a stream's first that arrived together with it, and all after the first. TPOT is about the rest of the
/// stream.
pub fn with_first(samples: &[&Sample]) -> (usize, usize) {
    let (mut shared, mut all) = (0, 0);
    for sample in samples {
        let mut events = sample.stamps.events_ns.iter();
        let Some(first) = events.next() else {
            continue;
        };
        all += events.len();
        shared += events.take_while(|at| *at == first).count();
    }
    (shared, all)
}

/// True if the stream's first event arrived together with the second, so that its TTFT is an upper bound.
pub fn first_shared(sample: &Sample) -> bool {
    matches!(sample.stamps.events_ns[..], [first, second, ..] if first == second)
}
