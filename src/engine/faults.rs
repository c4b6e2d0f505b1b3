//! Faults that tests and self-tests plant in a real engine process, so that the gate can be seen to catch
//! them. All off by default.
//!
//! Main types: [`Faults`], the plain data, and `Planted`, which counts tokens and acts. Refuses to know:
//! how the faults were asked for, and what catches them.

use std::time::{Duration, Instant};

/// What goes wrong on purpose.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Every decode step takes longer.
    pub decode_delay: Option<DecodeDelay>,
    /// Every n-th generated token of the process is replaced by another valid id.
    pub wrong_token: Option<u32>,
    /// The prefix cache is not read: the history is prefilled again, and honestly reported as not cached.
    pub prefill_leak: bool,
    /// Start-up fails after the configuration was read.
    pub die_at_start: bool,
    /// The engine stops answering for good after this many generated tokens in all.
    pub hang_after: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DecodeDelay {
    Absolute(Duration),
    /// Of the step's own time: 0.1 makes decoding 10 % slower.
    Share(f64),
}

/// The faults at work in one engine.
#[derive(Debug, Default)]
pub(crate) struct Planted {
    faults: Faults,
    generated: u64,
}

impl Planted {
    pub(crate) fn new(faults: Faults) -> Self {
        Self {
            faults,
            generated: 0,
        }
    }

    pub(crate) fn reads_cache(&self) -> bool {
        !self.faults.prefill_leak
    }

    /// The id to use for the next generated token instead of `id`, among `0..vocab`.
    pub(crate) fn token(&mut self, id: u32, vocab: usize) -> u32 {
        self.generated += 1;
        match self.faults.wrong_token {
            Some(n) if n > 0 && self.generated.is_multiple_of(u64::from(n)) => {
                (id + 1) % vocab as u32
            }
            _ => id,
        }
    }

    /// Never returns once the time to hang has come.
    pub(crate) fn hang_if_due(&self) {
        if self
            .faults
            .hang_after
            .is_some_and(|n| self.generated >= u64::from(n))
        {
            loop {
                std::thread::park();
            }
        }
    }

    /// Lengthens a decode step that began at `start`.
    pub(crate) fn delay(&self, start: Instant) {
        let own = start.elapsed();
        let extra = match self.faults.decode_delay {
            None => return,
            Some(DecodeDelay::Absolute(delay)) => delay,
            Some(DecodeDelay::Share(share)) => own.mul_f64(share.max(0.0)),
        };
        wait_until(start + own + extra);
    }
}

/// Sleeps for most of it and spins for the rest: a sleep alone is late by more than a short delay.
fn wait_until(end: Instant) {
    const SPIN: Duration = Duration::from_millis(1);
    let left = end.saturating_duration_since(Instant::now());
    if left > SPIN {
        std::thread::sleep(left - SPIN);
    }
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_nth_token_is_another_valid_id() {
        let mut planted = Planted::new(Faults {
            wrong_token: Some(3),
            ..Faults::default()
        });
        let ids: Vec<u32> = (0..6).map(|_| planted.token(9, 10)).collect();
        assert_eq!(ids, [9, 9, 0, 9, 9, 0]);
        let mut sound = Planted::new(Faults::default());
        assert_eq!(sound.token(9, 10), 9);
    }

    #[test]
    fn a_delay_is_at_least_what_was_asked() {
        for delay in [
            DecodeDelay::Absolute(Duration::from_millis(2)),
            DecodeDelay::Share(20_000.0),
        ] {
            let planted = Planted::new(Faults {
                decode_delay: Some(delay),
                ..Faults::default()
            });
            let start = Instant::now() - Duration::from_nanos(100);
            planted.delay(start);
            assert!(start.elapsed() >= Duration::from_millis(2));
        }
    }
}
