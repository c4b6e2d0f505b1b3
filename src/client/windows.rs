//! Ends of a workload's measured requests, where counters are read.
//!
//! Refuses to know: what is read.

use super::workloads::request_plan::{Pace, Wave};
use std::time::Duration;
use verdict::record::Phase;

/// A wave whose warm-up requests come before its measured ones, as two: the second begins when every one of the first
/// was answered. Moments of the second count from its own start.
pub fn apart(wave: Wave) -> Vec<Wave> {
    let mut wave = wave.all_made();
    let is_measured = |phase| phase == Phase::Measured;
    let mut requests = wave.requests.iter();
    let first = requests.position(|planned| is_measured(planned.label.phase));
    let Some(first) = first.filter(|first| *first > 0) else {
        return vec![wave];
    };
    let measured = wave.requests.split_off(first);
    let pace = match &mut wave.pace {
        Pace::Slots(slots) => Pace::Slots(*slots),
        Pace::At(moments) => Pace::At(later(moments, first)),
        Pace::InTurn(moments) => Pace::InTurn(later(moments, first)),
    };
    let measured = Wave {
        until: wave.until,
        ..Wave::new(measured, pace)
    };
    vec![wave, measured]
}

/// Takes the moments from number `first` on away, counted from the earliest of them.
fn later(moments: &mut Vec<Duration>, first: usize) -> Vec<Duration> {
    let rest = moments.split_off(first.min(moments.len()));
    let origin = rest.first().copied().unwrap_or_default();
    rest.into_iter().map(|at| at - origin).collect()
}

/// Least and greatest index of a wave of measured requests; `None` of another.
pub fn measured(wave: &Wave) -> Option<(u32, u32)> {
    let labels = || wave.requests.iter().map(|planned| &planned.label);
    let is_measured = labels().all(|label| label.phase == Phase::Measured);
    let indices = || labels().map(|label| label.index);
    let ends = indices().min().zip(indices().max());
    ends.filter(|_| is_measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::connection::Ask;
    use crate::workloads::request_plan::{Expect, Label, Planned};
    use bytes::Bytes;

    fn wave(warmup: u32, all: u32, pace: Pace) -> Wave {
        let phase = |index| match index < warmup {
            true => Phase::Warmup,
            false => Phase::Measured,
        };
        let requests = (0..all).map(|index| Planned {
            label: Label::of(index, phase(index)),
            expect: Expect::default(),
            ask: Ask::post("/", Bytes::new()),
        });
        Wave::new(requests.collect(), pace)
    }

    #[test]
    fn warm_up_becomes_a_wave_of_its_own() {
        let at = |ms: &[u64]| Pace::At(ms.iter().map(|ms| Duration::from_millis(*ms)).collect());
        for (warmup, pace, expect) in [
            (
                2,
                Pace::Slots(3),
                vec![(None, Pace::Slots(3)), (Some((2, 4)), Pace::Slots(3))],
            ),
            (0, Pace::Slots(3), vec![(Some((0, 4)), Pace::Slots(3))]),
            (5, Pace::Slots(3), vec![(None, Pace::Slots(3))]),
            (
                2,
                at(&[0, 10, 25, 40, 60]),
                vec![(None, at(&[0, 10])), (Some((2, 4)), at(&[0, 15, 35]))],
            ),
            // Requests beyond the last moment are not sent.
            (2, at(&[0]), vec![(None, at(&[0])), (Some((2, 4)), at(&[]))]),
        ] {
            let waves = apart(wave(warmup, 5, pace));
            let found: Vec<_> = waves.into_iter().map(|w| (measured(&w), w.pace)).collect();
            assert_eq!(found, expect, "{warmup}");
        }
    }
}
