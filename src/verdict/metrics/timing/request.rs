//! Numbers of one request: times in milliseconds, prompt tokens computed.

use crate::metrics::Why;
use crate::record::{Phase, Sample};
use crate::stats;

/// `to` − `from` in milliseconds; negative where the stamps are out of order, so that it is seen.
pub fn ms_between(from: u64, to: u64) -> f64 {
    let apart = to.abs_diff(from) as f64 / 1e6;
    if to < from { -apart } else { apart }
}

/// TTFT: first output event − the intended moment of sending, which in a closed loop is the moment of
/// sending. Undefined for an answer that was not streamed.
pub fn ttft_ms(sample: &Sample) -> Result<f64, Why> {
    if !sample.streamed {
        return Err(Why::NotStreamed);
    }
    let (first, _) = first_and_last(sample)?;
    Ok(ms_between(sample.stamps.intended_ns, first))
}

/// TPOT: (last − first output event) / (n − n_first), n by usage, n_first the tokens of the first event and of those that
/// arrived with it, as the stream tells or by estimate. Undefined where nothing follows the first event.
pub fn tpot_ms(sample: &Sample) -> Result<f64, Why> {
    if !sample.streamed {
        return Err(Why::NotStreamed);
    }
    let (first, last) = first_and_last(sample)?;
    let n = sample.tokens.completion.ok_or(Why::NoUsage)?;
    let at_first = sample.tokens.first_arrival(&sample.stamps.events_ns);
    let rest = f64::from(n) - at_first;
    if n >= 2 && rest > 0.0 {
        Ok(ms_between(first, last) / rest)
    } else {
        let at_first = sample.tokens.of_first_event().unwrap_or(1);
        Err(Why::TooFewTokens { n, at_first })
    }
}

/// TPOT where its tokens took any time: of an answer that arrived at one moment nobody knows it.
pub fn positive_tpot_ms(sample: &Sample) -> Result<f64, Why> {
    let tpot = tpot_ms(sample)?;
    if tpot > 0.0 {
        Ok(tpot)
    } else {
        Err(Why::NoPositiveTime("its tokens"))
    }
}

/// True if a streamed answer has at most one token, and so no time per token. One output of several tokens is none of these:
/// a server may hold tokens back.
pub fn has_one_token(sample: &Sample) -> bool {
    matches!(tpot_ms(sample), Err(Why::TooFewTokens { n: 0 | 1, .. }))
}

/// True if all tokens of an answer arrived at one moment.
pub fn came_at_once(sample: &Sample) -> bool {
    matches!(tpot_ms(sample), Ok(0.0))
}

/// Between which values TPOT lies, where the stream tells neither the first event's tokens nor, by one event a token, that
/// it has one: as if the first event had one token, and as if it had all that have no event of their own.
pub fn tpot_bounds_ms(sample: &Sample) -> Option<(f64, f64)> {
    let (first, last) = first_and_last(sample).ok()?;
    let (n, events) = (sample.tokens.completion?, sample.tokens.events);
    let is_untold = sample.streamed && sample.tokens.of_first_event().is_none();
    let span = ms_between(first, last);
    (is_untold && n > events && events >= 2 && span > 0.0)
        .then(|| (span / f64::from(n - 1), span / f64::from(events - 1)))
}

/// ICL: the gaps between output events; none for a single event.
pub fn icl_ms(sample: &Sample) -> Result<Vec<f64>, Why> {
    if !sample.streamed {
        return Err(Why::NotStreamed);
    }
    first_and_last(sample)?;
    let pairs = sample.stamps.events_ns.windows(2);
    Ok(pairs.map(|pair| ms_between(pair[0], pair[1])).collect())
}

/// E2E: last output − send. A late end of the stream is not decoding and stays out.
pub fn e2e_ms(sample: &Sample) -> Result<f64, Why> {
    Ok(ms_between(sample.stamps.send_ns, last_ns(sample)?))
}

/// Of streams in the middle: time from the last output to the stream's end, and from the request to that end, ms. `None` where
/// no answer was streamed to its end.
pub fn stream_end_ms(sound: &[&Sample]) -> Option<(f64, f64)> {
    let ends = sound.iter().filter(|sample| sample.streamed);
    let ends = ends.filter_map(|sample| {
        let (last, end) = (last_ns(sample).ok()?, sample.stamps.ended_ns()?);
        Some((
            ms_between(last, end),
            ms_between(sample.stamps.send_ns, end),
        ))
    });
    let (rest, whole): (Vec<f64>, Vec<f64>) = ends.unzip();
    Some((stats::median(&rest)?, stats::median(&whole)?))
}

/// Times of sound requests of a phase to their ends, ms.
pub fn times_ms<'a>(all: &'a [&Sample], phase: Phase) -> impl Iterator<Item = f64> + 'a {
    let sound = all
        .iter()
        .filter(move |sample| sample.phase == phase && sample.void.is_none());
    sound.filter_map(|s| Some(ms_between(s.stamps.send_ns, s.stamps.ended_ns()?)))
}

/// Of streams in the middle: the time between outputs that a client waits for, ms. Half of the time from a stream's first
/// output to its last lies in gaps of this length or more, so that short gaps within a burst do not count, nor does a pause of
/// less than half of the time.
pub fn pause_ms(sound: &[&Sample]) -> Option<f64> {
    let pauses = sound.iter().filter_map(|sample| {
        let events = sample.stamps.events_ns.windows(2);
        let mut gaps: Vec<u64> = events.map(|two| two[1].saturating_sub(two[0])).collect();
        gaps.sort_unstable_by(|a, b| b.cmp(a));
        let all: u64 = gaps.iter().sum();
        let mut longer = 0;
        let half = gaps.into_iter().find(|gap| {
            longer += gap;
            2 * longer >= all
        });
        half.filter(|_| all > 0).map(|gap| gap as f64 / 1e6)
    });
    stats::median(&pauses.collect::<Vec<f64>>())
}

/// When the last output arrived: the last output event of a stream, the end of an answer that came whole.
pub fn last_ns(sample: &Sample) -> Result<u64, Why> {
    if sample.streamed {
        first_and_last(sample).map(|(_, last)| last)
    } else {
        sample.stamps.done_ns.ok_or(Why::NoEnd)
    }
}

/// ITL: every gap shared out equally over the tokens of its later event. Undefined where it is not known
/// how many tokens each event carries.
pub fn itl_ms(sample: &Sample) -> Result<Vec<f64>, Why> {
    let gaps = icl_ms(sample)?;
    let per_event = &sample.tokens.per_event;
    let n = sample.tokens.completion.ok_or(Why::NoUsage)?;
    if per_event.is_empty() && n == sample.tokens.events {
        return Ok(gaps);
    }
    let told = per_event.iter().map(|tokens| u64::from(*tokens));
    if per_event.len() != gaps.len() + 1 || told.sum::<u64>() > u64::from(n) {
        return Err(Why::TokensPerEvent);
    }
    // An event that brought no token of its own belongs to the next one's gap.
    let mut shared = Vec::new();
    let mut open = 0.0;
    for (gap, &tokens) in gaps.iter().zip(&per_event[1..]) {
        open += gap;
        if tokens > 0 {
            let each = std::mem::take(&mut open) / f64::from(tokens);
            shared.extend(std::iter::repeat_n(each, tokens as usize));
        }
    }
    Ok(shared)
}

/// Output tokens per output event.
pub fn burst_factor(sample: &Sample) -> Result<f64, Why> {
    if !sample.streamed {
        return Err(Why::NotStreamed);
    }
    first_and_last(sample)?;
    let n = sample.tokens.completion.ok_or(Why::NoUsage)?;
    Ok(f64::from(n) / sample.stamps.events_ns.len() as f64)
}

/// Computed prompt tokens a second until the first token.
pub fn prefill_rate(sample: &Sample) -> Result<f64, Why> {
    let prefilled = f64::from(prefilled(sample)?);
    let ttft = ttft_ms(sample)?;
    if ttft > 0.0 {
        Ok(prefilled / ttft * 1e3)
    } else {
        Err(Why::NoPositiveTime("its first token"))
    }
}

/// Output tokens a second after the first: 1 / TPOT.
pub fn decode_rate(sample: &Sample) -> Result<f64, Why> {
    positive_tpot_ms(sample).map(|tpot| 1e3 / tpot)
}

/// The client's E2E over the server's own time (prompt and prediction) for the same request.
pub fn transport_overhead(sample: &Sample) -> Result<f64, Why> {
    let timings = sample.timings.as_ref().ok_or(Why::NoTimings)?;
    let server = timings.prompt_ms + timings.predicted_ms;
    if server > 0.0 {
        Ok(e2e_ms(sample)? / server)
    } else {
        Err(Why::NoPositiveTime("the server's own account"))
    }
}

/// What the client's TTFT holds beside the server's own prefill: queues, and the way between the two.
pub fn ttft_overhead(sample: &Sample) -> Result<f64, Why> {
    let timings = sample.timings.as_ref().ok_or(Why::NoTimings)?;
    Ok(ttft_ms(sample)? - timings.prompt_ms)
}

/// Prompt tokens that the engine computed: prompt − cached by usage, else as its own timings count them.
pub fn prefilled(sample: &Sample) -> Result<u32, Why> {
    if let (None, Some(timings)) = (sample.tokens.cached, &sample.timings) {
        return Ok(timings.prompt_n);
    }
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
    use super::*;
    use crate::metrics::testing::streamed;
    use crate::record::ServerTimings;

    #[test]
    fn the_worked_example_of_the_docs() {
        // Sent at 0, events at 50, 60, 80 and 110 ms, 7 tokens by usage.
        let mut s = streamed("w", 0, 50.0, 10.0, 2);
        s.stamps.events_ns = vec![50_000_000, 60_000_000, 80_000_000, 110_000_000];
        s.stamps.done_ns = Some(310_000_000);
        s.tokens.completion = Some(7);
        s.tokens.text_at_first = Some((4, 28));
        assert_eq!(ttft_ms(&s), Ok(50.0));
        assert_eq!(tpot_ms(&s), Ok(10.0));
        assert_eq!(icl_ms(&s), Ok(vec![10.0, 20.0, 30.0]));
        assert_eq!(e2e_ms(&s), Ok(110.0));
        s.tokens.per_event = vec![3, 1, 1, 2];
        assert_eq!(tpot_ms(&s), Ok(15.0));
        s.tokens.at_first_event = Some(4);
        assert_eq!(tpot_ms(&s), Ok(20.0));
    }

    /// 10 ms a token: `tokens` in events of `burst`, after a first event of `first`.
    fn bursts(tokens: u32, first: u32, burst: u32) -> Sample {
        let mut s = streamed("w", 0, 50.0, 10.0, 2);
        let ends = (0..).map(|event| first + event * burst);
        let ends = ends.take_while(|end| *end < tokens).chain([tokens]);
        let at = |end: u32| 50_000_000 + u64::from(end) * 10_000_000;
        s.stamps.events_ns = ends.map(at).collect();
        s.tokens.completion = Some(tokens);
        s.tokens.text_at_first = Some((5 * first, 5 * tokens));
        s
    }

    #[test]
    fn tpot_of_bursts_has_no_bias() {
        let check = |sample: &Sample, expect: f64| {
            let tpot = tpot_ms(sample).unwrap();
            assert!((tpot / expect - 1.0).abs() < 0.01, "{tpot} not {expect}");
        };
        // Four tokens an event from the first on, also where the last event has fewer.
        check(&bursts(64, 4, 4), 10.0);
        check(&bursts(62, 4, 4), 10.0);
        // Speculative decoding: the prefill gives one token, every step after it four.
        check(&bursts(65, 1, 4), 10.0);
        // A first word that is shorter or longer than others.
        for share in [(13, 320), (30, 320)] {
            let mut sample = bursts(64, 4, 4);
            sample.tokens.text_at_first = Some(share);
            check(&sample, 10.0);
        }
        // An older record says nothing of the text.
        let mut silent = bursts(64, 4, 4);
        silent.tokens.text_at_first = None;
        check(&silent, 10.0);
    }

    #[test]
    fn bounds_stand_where_nothing_tells_the_first_events_tokens() {
        let mut sample = streamed("w", 0, 50.0, 10.0, 61);
        assert_eq!(tpot_bounds_ms(&sample), None);
        sample.tokens.completion = Some(64);
        let (least, greatest) = tpot_bounds_ms(&sample).unwrap();
        assert!((least - 600.0 / 63.0).abs() < 1e-9 && (greatest - 10.0).abs() < 1e-9);
        sample.tokens.at_first_event = Some(4);
        assert_eq!(tpot_bounds_ms(&sample), None);
    }

    /// The reader was late, or the engine sent them at once: what is left of the stream tells the pace.
    #[test]
    fn tokens_that_arrived_with_the_first_are_not_of_the_time_after_it() {
        let check = |sample: &mut Sample, together: usize, expect: Result<f64, Why>| {
            let last = sample.stamps.events_ns[together - 1];
            sample.stamps.events_ns[..together].fill(last);
            assert_eq!(tpot_ms(sample), expect, "{together}");
        };
        for together in [1, 2, 9, 63] {
            check(&mut streamed("w", 0, 50.0, 10.0, 64), together, Ok(10.0));
            check(&mut bursts(256, 4, 4), together, Ok(10.0));
        }
        let mut told = streamed("w", 0, 50.0, 10.0, 4);
        told.tokens.per_event = vec![1, 4, 3, 2];
        told.tokens.completion = Some(10);
        check(&mut told, 2, Ok(4.0));
        check(&mut streamed("w", 0, 50.0, 10.0, 64), 64, Ok(0.0));
    }

    #[test]
    fn tpot_of_single_tokens_takes_one_for_the_first_event() {
        for (tokens, events) in [(2, 2), (64, 64), (64, 60)] {
            let mut sample = streamed("w", 0, 50.0, 10.0, events);
            let before = ms_between(sample.stamps.events_ns[0], last_ns(&sample).unwrap());
            sample.tokens.completion = Some(tokens);
            sample.tokens.text_at_first = Some((9, 100));
            assert_eq!(tpot_ms(&sample), Ok(before / f64::from(tokens - 1)));
        }
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
            // A usage of 0 counts nothing.
            (Some(5), Some(0), Ok(10.0)),
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
        assert_eq!(e2e_ms(&s), Err(Why::NoEnd));
        s.stamps.done_ns = Some(75_000_000);
        assert_eq!(e2e_ms(&s), Ok(75.0));
        s.streamed = true;
        assert_eq!(e2e_ms(&s), Ok(60.0));
        s.stamps.events_ns.clear();
        assert_eq!(e2e_ms(&s), Err(Why::NoEvents));
    }

    #[test]
    fn a_gap_is_shared_by_the_tokens_that_it_brought() {
        // Events at 50, 60, 80 and 110 ms with 1, 1, 2 and 3 tokens.
        let mut s = streamed("w", 0, 50.0, 10.0, 2);
        s.stamps.events_ns = vec![50_000_000, 60_000_000, 80_000_000, 110_000_000];
        s.tokens.completion = Some(7);
        s.tokens.events = 4;
        assert_eq!(itl_ms(&s), Err(Why::TokensPerEvent));
        s.tokens.per_event = vec![1, 1, 2, 3];
        assert_eq!(itl_ms(&s), Ok(vec![10.0, 10.0, 10.0, 10.0, 10.0, 10.0]));
        assert_eq!(burst_factor(&s), Ok(1.75));
        // An event without a token of its own leaves its gap to the next.
        s.tokens.per_event = vec![1, 0, 3, 3];
        assert_eq!(itl_ms(&s), Ok(vec![10.0; 6]));
        // More than the answer has are none that could be told apart.
        s.tokens.per_event = vec![1, 1, 1, u32::MAX];
        assert_eq!(itl_ms(&s), Err(Why::TokensPerEvent));
        // As many tokens as events: one each.
        s.tokens.per_event = vec![];
        s.tokens.completion = Some(4);
        assert_eq!(itl_ms(&s), Ok(vec![10.0, 20.0, 30.0]));
    }

    #[test]
    fn rates_and_the_server_s_share() {
        let mut s = streamed("w", 0, 50.0, 10.0, 6);
        s.tokens.prompt = Some(110);
        s.tokens.cached = Some(10);
        assert_eq!(prefill_rate(&s), Ok(2_000.0));
        assert_eq!(decode_rate(&s), Ok(100.0));
        assert_eq!(transport_overhead(&s), Err(Why::NoTimings));
        let mut timings = ServerTimings {
            prompt_n: 100,
            prompt_ms: 40.0,
            predicted_n: 6,
            predicted_ms: 40.0,
        };
        s.timings = Some(timings.clone());
        // Last event at 100 ms against 80 ms.
        assert_eq!(transport_overhead(&s), Ok(1.25));
        assert_eq!(ttft_overhead(&s), Ok(10.0));
        (timings.prompt_ms, timings.predicted_ms) = (0.0, 0.0);
        s.timings = Some(timings);
        assert!(matches!(
            transport_overhead(&s),
            Err(Why::NoPositiveTime(_))
        ));
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
            s.timings = Some(ServerTimings {
                prompt_n: 7,
                ..ServerTimings::default()
            });
            let by_timings = if cached.is_none() { Ok(7) } else { expect };
            assert_eq!(prefilled(&s), by_timings);
        }
    }
}
