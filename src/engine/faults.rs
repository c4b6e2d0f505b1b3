//! Faults that tests and self-tests plant in a real engine process, so that the gate can be seen to catch
//! them. All off by default.
//!
//! Main types: [`Faults`], the plain data, and `Planted`, which counts tokens and acts. Refuses to know:
//! how the faults were asked for, and what catches them.

use crate::fault_value::Delay;
use std::time::{Duration, Instant};

/// What goes wrong on purpose.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Every step that decodes takes longer, by a time each or a share of its own.
    pub decode_delay: Option<Delay>,
    /// Every step that prefills takes longer, by a time for each prompt token that it computes.
    pub prefill_delay: Option<Delay>,
    /// Every n-th generated token of the process is replaced by another valid id.
    pub wrong_token: Option<u32>,
    /// The prefix cache is not read: the history is prefilled again, and honestly reported as not cached.
    pub prefill_leak: bool,
    /// So many pages of the KV cache are lost with every request that ends.
    pub kv_leak: Option<u32>,
    /// A request that finds so many others running is answered with nothing.
    pub empty_beside: Option<u32>,
    /// A request that finds so many others running is answered with an end-of-sequence token, whatever it asks for.
    pub blank_beside: Option<u32>,
    /// Of two requests that wait together each gets the other's answer.
    pub swap_answers: bool,
    /// A request whose prompt the prefix cache knows goes on from the cached pages of the prompt admitted before it.
    pub swap_cache: bool,
    /// A request that resumes from a recurrent state gets another request's.
    pub swap_states: bool,
    /// A preempted request goes on from another last token than it has sent.
    pub wrong_resume: bool,
    /// Start-up takes longer.
    pub slow_start: Option<Duration>,
    /// Start-up fails after the configuration was read.
    pub die_at_start: bool,
    /// The engine stops answering for good after this many generated tokens in all.
    pub hang_after: Option<u32>,
}

/// The faults at work in one engine.
#[derive(Debug, Default)]
pub struct Planted {
    faults: Faults,
    generated: u64,
    /// The prompt admitted last, where it is needed.
    last_prompt: Vec<u32>,
}

impl Planted {
    pub fn new(faults: Faults) -> Self {
        Self {
            faults,
            generated: 0,
            last_prompt: Vec::new(),
        }
    }

    pub fn reads_cache(&self) -> bool {
        !self.faults.prefill_leak
    }

    /// The id to use for the next generated token instead of `id`, among `0..vocab`.
    pub fn token(&mut self, id: u32, vocab: usize) -> u32 {
        self.generated += 1;
        match self.faults.wrong_token {
            Some(n) if n > 0 && self.generated.is_multiple_of(u64::from(n)) => {
                (id + 1) % vocab as u32
            }
            _ => id,
        }
    }

    /// Never returns once the time to hang has come.
    pub fn hang_if_due(&self) {
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

    /// Pages that the request which ends now never gives back.
    pub fn lost_pages(&self) -> u32 {
        self.faults.kv_leak.unwrap_or(0)
    }

    /// Whether a request that finds `others` running gets no token.
    pub fn empties(&self, others: usize) -> bool {
        let from = self.faults.empty_beside;
        from.is_some_and(|from| others >= from as usize)
    }

    /// True if a request that finds `others` running is answered with an end-of-sequence token.
    pub fn blanks(&self, others: usize) -> bool {
        let from = self.faults.blank_beside;
        from.is_some_and(|from| others >= from as usize)
    }

    pub fn swaps_answers(&self) -> bool {
        self.faults.swap_answers
    }

    pub fn swaps_states(&self) -> bool {
        self.faults.swap_states
    }

    pub fn resumes_wrongly(&self) -> bool {
        self.faults.wrong_resume
    }

    /// The prompt whose cached pages are taken for those of the next one.
    pub fn stranger(&self) -> Option<&[u32]> {
        self.faults.swap_cache.then_some(&self.last_prompt)
    }

    /// A request with this prompt was admitted.
    pub fn admitted(&mut self, prompt: &[u32]) {
        if self.faults.swap_cache {
            self.last_prompt = prompt.to_vec();
        }
    }

    /// Lengthens a step that began at `start`; it decoded, or computed so many tokens of prompts, or both.
    pub fn delay(&self, start: Instant, decodes: bool, prefilled: usize) {
        let faults = &self.faults;
        let decode = faults.decode_delay.filter(|_| decodes).map(|it| (it, 1));
        let prefill = faults.prefill_delay.filter(|_| prefilled > 0);
        let prefill = prefill.map(|it| (it, prefilled));
        if decode.is_none() && prefill.is_none() {
            return;
        }
        let own = start.elapsed();
        let extra = |(delay, times): (Delay, usize)| delay.of(own, times);
        let extra: Duration = decode.into_iter().chain(prefill).map(extra).sum();
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
        let check = |faults: Faults, decodes: bool, prefilled: usize| {
            let start = Instant::now() - Duration::from_nanos(100);
            Planted::new(faults).delay(start, decodes, prefilled);
            assert!(start.elapsed() >= Duration::from_millis(2));
        };
        let decode = |delay| Faults {
            decode_delay: Some(delay),
            ..Faults::default()
        };
        check(decode(Delay::Time(Duration::from_millis(2))), true, 0);
        check(decode(Delay::Share(20_000.0)), true, 3);
        let prefill = |delay| Faults {
            prefill_delay: Some(delay),
            ..Faults::default()
        };
        let each = Duration::from_micros(20);
        check(prefill(Delay::Time(each)), false, 100);
        check(prefill(Delay::Share(20_000.0)), true, 1);
    }

    #[test]
    fn a_request_is_empty_only_beside_enough_others() {
        let planted = Planted::new(Faults {
            empty_beside: Some(2),
            ..Faults::default()
        });
        assert!(!planted.empties(1));
        assert!(planted.empties(2));
        assert!(!Planted::new(Faults::default()).empties(100));
        let planted = Planted::new(Faults {
            blank_beside: Some(2),
            ..Faults::default()
        });
        assert!(!planted.blanks(1) && planted.blanks(2));
    }
}
