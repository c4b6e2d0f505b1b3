//! Output tokens while as many requests as asked for were in flight.
//!
//! Main type: [`Timeline`]. A token costs about 4 bytes, so that a run of a million requests can be kept.

use super::request;
use crate::metrics::Why;
use crate::record::Sample;

/// Requests with the moments of their output, packed: each number is as long as it needs to be (LEB128).
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    packed: Vec<u8>,
    requests: usize,
}

impl Timeline {
    /// Adds a request, in flight from its send to its last output.
    ///
    /// # Errors
    /// Nothing tells when it ended, or how many tokens it had.
    pub fn add(&mut self, sample: &Sample) -> Result<(), Why> {
        // An answer that came whole has one event: its end.
        let whole = [request::last_ns(sample)?];
        let n = sample.tokens.completion.ok_or(Why::NoUsage)?;
        let events = match sample.streamed {
            true => sample.stamps.events_ns.as_slice(),
            false => &whole,
        };
        let told = &sample.tokens.per_event;
        let is_told = told.len() == events.len();
        self.requests += 1;
        self.put(sample.stamps.send_ns);
        self.put(u64::from(n));
        self.put((events.len() as u64) << 1 | u64::from(is_told));
        let mut before = sample.stamps.send_ns;
        for (place, at) in events.iter().enumerate() {
            self.put(zigzag(at.wrapping_sub(before).cast_signed()));
            before = *at;
            if is_told {
                self.put(u64::from(told[place]));
            }
        }
        Ok(())
    }

    /// Output tokens while `wanted` of the requests were in flight, and how long that was, in nanoseconds. The tokens of
    /// an event count where the stream tells them; otherwise an answer's tokens are shared out over its events.
    pub fn while_full(&self, wanted: u32) -> (f64, u64) {
        let windows = self.full_windows(wanted);
        let is_within = |at: u64| {
            let next = windows.partition_point(|(_, end)| *end < at);
            windows.get(next).is_some_and(|(begin, _)| *begin <= at)
        };
        let mut tokens = 0.0;
        self.each(|_, events| {
            let counted = events.iter().filter(|(at, _)| is_within(*at));
            tokens += counted.map(|(_, tokens)| tokens).sum::<f64>();
        });
        let ns = windows.iter().map(|(begin, end)| end - begin).sum();
        (tokens, ns)
    }

    /// The stretches of time in which at least `wanted` of the requests were in flight, in order.
    fn full_windows(&self, wanted: u32) -> Vec<(u64, u64)> {
        let mut begins = Vec::with_capacity(self.requests);
        let mut ends = Vec::with_capacity(self.requests);
        self.each(|send_ns, events| {
            begins.push(send_ns);
            ends.extend(events.last().map(|(at, _)| *at));
        });
        begins.sort_unstable();
        ends.sort_unstable();
        let (mut begins, mut ends) = (begins.into_iter().peekable(), ends.into_iter().peekable());
        let (mut in_flight, mut since, mut windows) = (0_i64, None, Vec::new());
        loop {
            // A slot's next request begins when its last has ended: begins come first at one moment.
            let moment = match (begins.peek(), ends.peek()) {
                (Some(begin), end) if end.is_none_or(|end| begin <= end) => {
                    in_flight += 1;
                    begins.next()
                }
                _ => {
                    in_flight -= 1;
                    ends.next()
                }
            };
            let Some(moment) = moment else {
                return windows;
            };
            match (in_flight >= i64::from(wanted), since) {
                (true, None) => since = Some(moment),
                (false, Some(begin)) => {
                    windows.push((begin, moment));
                    since = None;
                }
                _ => {}
            }
        }
    }

    /// Each request's send, and its events with their tokens.
    fn each(&self, mut take: impl FnMut(u64, &[(u64, f64)])) {
        let mut left = self.packed.as_slice();
        let mut events = Vec::new();
        for _ in 0..self.requests {
            let (send_ns, n, kind) = (number(&mut left), number(&mut left), number(&mut left));
            let (all, is_told) = (kind >> 1, kind & 1 == 1);
            let even = n as f64 / all as f64;
            let mut at = send_ns;
            events.clear();
            events.extend((0..all).map(|_| {
                at = at.wrapping_add_signed(unzigzag(number(&mut left)));
                let tokens = match is_told {
                    true => number(&mut left) as f64,
                    false => even,
                };
                (at, tokens)
            }));
            take(send_ns, &events);
        }
    }

    fn put(&mut self, mut number: u64) {
        while number > 0x7f {
            self.packed.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.packed.push(number as u8);
    }
}

/// Takes the first number.
fn number(packed: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let Some((byte, rest)) = packed.split_first() else {
            break;
        };
        *packed = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

/// Small numbers of either sign as small ones without: 0, −1, 1, −2 become 0, 1, 2, 3.
fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::streamed;
    use proptest::prelude::*;

    /// As it was once written: each event against each window.
    fn plainly(samples: &[Sample], wanted: u32) -> (f64, u64) {
        let last = |s: &Sample| *s.stamps.events_ns.last().unwrap();
        let mut steps: Vec<(u64, i64)> = samples
            .iter()
            .flat_map(|s| [(s.stamps.send_ns, 1), (last(s), -1)])
            .collect();
        steps.sort_by_key(|(moment, step)| (*moment, -step));
        let (mut in_flight, mut since, mut windows) = (0, None, Vec::new());
        for (moment, step) in steps {
            in_flight += step;
            match (in_flight >= i64::from(wanted), since) {
                (true, None) => since = Some(moment),
                (false, Some(begin)) => {
                    windows.push((begin, moment));
                    since = None;
                }
                _ => {}
            }
        }
        let mut tokens = 0.0;
        for sample in samples {
            let (events, told) = (&sample.stamps.events_ns, &sample.tokens.per_event);
            let even = f64::from(sample.tokens.completion.unwrap()) / events.len() as f64;
            let is_within = |at: u64| windows.iter().any(|(b, e)| (*b..=*e).contains(&at));
            for (place, _) in events.iter().enumerate().filter(|(_, at)| is_within(**at)) {
                let told = told.get(place).filter(|_| told.len() == events.len());
                tokens += told.map_or(even, |tokens| f64::from(*tokens));
            }
        }
        (tokens, windows.iter().map(|(b, e)| e - b).sum())
    }

    /// Sent at a moment of few, so that begins and ends meet; gaps up to beyond 32 bits.
    fn request() -> impl Strategy<Value = Sample> {
        let gap = prop_oneof![4 => 0..4_u64, 1 => 0..6_000_000_000_u64];
        let events = prop::collection::vec((gap, 0..9_u32), 1..7);
        (0..40_u64, events, 0..50_u32, any::<bool>()).prop_map(|(send, events, n, is_told)| {
            let mut sample = streamed("w", 0, 0.0, 0.0, n);
            let mut at = send;
            let (moments, told): (Vec<u64>, Vec<u32>) = events
                .into_iter()
                .map(|(gap, tokens)| {
                    at += gap;
                    (at, tokens)
                })
                .unzip();
            sample.stamps.send_ns = send;
            sample.stamps.events_ns = moments;
            sample.tokens.per_event = if is_told { told } else { Vec::new() };
            sample
        })
    }

    proptest! {
        #[test]
        fn the_sweep_gives_what_comparing_all_with_all_gives(
            samples in prop::collection::vec(request(), 0..30),
            wanted in 1..6_u32,
        ) {
            let mut timeline = Timeline::default();
            for sample in &samples {
                timeline.add(sample).unwrap();
            }
            let (tokens, ns) = timeline.while_full(wanted);
            let (expect, expect_ns) = plainly(&samples, wanted);
            prop_assert_eq!(ns, expect_ns);
            prop_assert!((tokens - expect).abs() <= 1e-9 * expect.max(1.0), "{} {}", tokens, expect);
        }

        #[test]
        fn numbers_are_read_as_they_were_put(numbers in prop::collection::vec(any::<i64>(), 0..20)) {
            let mut timeline = Timeline::default();
            for number in &numbers {
                timeline.put(zigzag(*number));
            }
            let mut left = timeline.packed.as_slice();
            let read: Vec<i64> = numbers.iter().map(|_| unzigzag(number(&mut left))).collect();
            prop_assert_eq!(read, numbers);
            prop_assert!(left.is_empty());
        }
    }

    #[test]
    fn what_cannot_be_placed_is_no_part() {
        let mut timeline = Timeline::default();
        let mut sample = streamed("w", 0, 1.0, 1.0, 3);
        sample.tokens.completion = None;
        assert_eq!(timeline.add(&sample), Err(Why::NoUsage));
        sample.stamps.events_ns.clear();
        assert_eq!(timeline.add(&sample), Err(Why::NoEvents));
        assert_eq!(timeline.while_full(1), (0.0, 0));
        // An answer that came whole counts where it ends.
        let mut whole = streamed("w", 0, 1.0, 1.0, 3);
        whole.streamed = false;
        whole.stamps.done_ns = Some(7);
        timeline.add(&whole).unwrap();
        assert_eq!(timeline.while_full(1), (3.0, 7));
    }
}
