//! Numbers of one request: times in milliseconds, prompt tokens computed.

use super::Why;
use crate::record::Sample;

/// `to` − `from` in milliseconds; negative where the stamps are out of order, so that it is seen.
pub(super) fn ms_between(from: u64, to: u64) -> f64 {
    (i128::from(to) - i128::from(from)) as f64 / 1e6
}

/// TTFT: first output event − the intended moment of sending, which in a closed loop is the moment of
/// sending. Undefined for an answer that was not streamed.
pub(super) fn ttft_ms(sample: &Sample) -> Result<f64, Why> {
    if !sample.streamed {
        return Err(Why::NotStreamed);
    }
    let (first, _) = first_and_last(sample)?;
    Ok(ms_between(sample.stamps.intended_ns, first))
}

/// TPOT: (last − first output event) / (n − n_first), n by usage, n_first by cumulative usage at the
/// first event where there is one, else 1. Undefined where nothing follows the first event.
pub(super) fn tpot_ms(sample: &Sample) -> Result<f64, Why> {
    if !sample.streamed {
        return Err(Why::NotStreamed);
    }
    let (first, last) = first_and_last(sample)?;
    let n = sample.tokens.completion.ok_or(Why::NoUsage)?;
    let at_first = sample.tokens.at_first_event.unwrap_or(1);
    match n.checked_sub(at_first) {
        Some(rest) if n >= 2 && rest > 0 => Ok(ms_between(first, last) / f64::from(rest)),
        _ => Err(Why::TooFewTokens { n, at_first }),
    }
}

/// ICL: the gaps between output events; none for a single event.
pub(super) fn icl_ms(sample: &Sample) -> Result<Vec<f64>, Why> {
    if !sample.streamed {
        return Err(Why::NotStreamed);
    }
    first_and_last(sample)?;
    let pairs = sample.stamps.events_ns.windows(2);
    Ok(pairs.map(|pair| ms_between(pair[0], pair[1])).collect())
}

/// E2E: last output event − send. A late end of the stream is not decoding and stays out.
pub(super) fn e2e_ms(sample: &Sample) -> Result<f64, Why> {
    let (_, last) = first_and_last(sample)?;
    Ok(ms_between(sample.stamps.send_ns, last))
}

/// Prompt tokens that the engine computed: prompt − cached.
pub(super) fn prefilled(sample: &Sample) -> Result<u32, Why> {
    let prompt = sample.tokens.prompt.ok_or(Why::NoPromptCount)?;
    let cached = sample.tokens.cached.ok_or(Why::NoCachedTokens)?;
    prompt
        .checked_sub(cached)
        .ok_or(Why::CachedBeyondPrompt { prompt, cached })
}

fn first_and_last(sample: &Sample) -> Result<(u64, u64), Why> {
    let events = &sample.stamps.events_ns;
    events
        .first()
        .copied()
        .zip(events.last().copied())
        .ok_or(Why::NoEvents)
}

#[cfg(test)]
mod tests {
    use super::super::testing::streamed;
    use super::*;

    #[test]
    fn the_worked_example_of_the_docs() {
        // Sent at 0, events at 50, 60, 80 and 110 ms, 7 tokens by usage.
        let mut s = streamed("w", 0, 50.0, 10.0, 2);
        s.stamps.events_ns = vec![50_000_000, 60_000_000, 80_000_000, 110_000_000];
        s.stamps.done_ns = Some(310_000_000);
        s.tokens.completion = Some(7);
        assert_eq!(ttft_ms(&s), Ok(50.0));
        assert_eq!(tpot_ms(&s), Ok(10.0));
        assert_eq!(icl_ms(&s), Ok(vec![10.0, 20.0, 30.0]));
        assert_eq!(e2e_ms(&s), Ok(110.0));
        s.tokens.at_first_event = Some(4);
        assert_eq!(tpot_ms(&s), Ok(20.0));
    }

    #[test]
    fn a_late_client_is_seen_in_ttft_alone() {
        let mut s = streamed("w", 0, 50.0, 10.0, 2);
        s.stamps.send_ns = 20_000_000;
        assert_eq!(ttft_ms(&s), Ok(50.0));
        assert_eq!(e2e_ms(&s), Ok(40.0));
    }

    #[test]
    fn tpot_is_undefined_never_zero() {
        let table = [
            (Some(1), None, Err(Why::TooFewTokens { n: 1, at_first: 1 })),
            (Some(0), None, Err(Why::TooFewTokens { n: 0, at_first: 1 })),
            (
                Some(4),
                Some(4),
                Err(Why::TooFewTokens { n: 4, at_first: 4 }),
            ),
            (
                Some(4),
                Some(5),
                Err(Why::TooFewTokens { n: 4, at_first: 5 }),
            ),
            (None, None, Err(Why::NoUsage)),
            (Some(5), None, Ok(10.0)),
        ];
        for (completion, at_first, expect) in table {
            let mut s = streamed("w", 0, 50.0, 10.0, 5);
            s.tokens.completion = completion;
            s.tokens.at_first_event = at_first;
            assert_eq!(tpot_ms(&s), expect);
        }
    }

    #[test]
    fn stamps_out_of_order_come_out_negative() {
        let mut s = streamed("w", 0, 50.0, 10.0, 2);
        s.stamps.events_ns.reverse();
        assert_eq!(tpot_ms(&s), Ok(-10.0));
    }

    #[test]
    fn no_stream_no_first_token() {
        let mut s = streamed("w", 0, 50.0, 10.0, 2);
        s.streamed = false;
        assert_eq!(ttft_ms(&s), Err(Why::NotStreamed));
        assert_eq!(tpot_ms(&s), Err(Why::NotStreamed));
        assert_eq!(icl_ms(&s), Err(Why::NotStreamed));
        assert_eq!(e2e_ms(&s), Ok(60.0));
        s.stamps.events_ns.clear();
        assert_eq!(e2e_ms(&s), Err(Why::NoEvents));
    }

    #[test]
    fn prefilled_needs_both_counts() {
        let table = [
            (Some(100), Some(60), Ok(40)),
            (Some(100), Some(0), Ok(100)),
            (Some(100), None, Err(Why::NoCachedTokens)),
            (None, Some(0), Err(Why::NoPromptCount)),
            (
                Some(5),
                Some(6),
                Err(Why::CachedBeyondPrompt {
                    prompt: 5,
                    cached: 6,
                }),
            ),
        ];
        for (prompt, cached, expect) in table {
            let mut s = streamed("w", 0, 50.0, 10.0, 2);
            s.tokens.prompt = prompt;
            s.tokens.cached = cached;
            assert_eq!(prefilled(&s), expect);
        }
    }
}
