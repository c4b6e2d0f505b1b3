//! Answers that are well formed and cannot be true: faster than the machine allows, at odds with the
//! state that its cache must have, or without a word.

use super::{Seen, because};
use verdict::record::{CacheState, Phase, Setting, Void, VoidRule, is_blank};

/// Share of a prompt that a cache may know although the prompt is new: a common beginning.
const COLD_SHARE: f64 = 0.1;

/// So many tokens of the shortest prompt it may know: a token that begins every text, and one or two that
/// are alike by chance.
const COLD_TOKENS: u32 = 4;

/// Prompts shorter than this may be too short for an engine's cache, which keeps whole pages.
const CACHEABLE: u32 = 256;

/// Forced tokens from which a text of nothing but white space is no answer, even at its full length.
const WORDY: u32 = 8;

impl Seen<'_> {
    /// Faster than the configured bounds.
    pub fn implausible(&self) -> Option<Void> {
        let detail = self.too_fast_decode().or_else(|| self.too_fast_prefill())?;
        because(VoidRule::Implausible, detail)
    }

    fn too_fast_decode(&self) -> Option<String> {
        let floor = self.endpoint.plausible.tpot_floor_ms?;
        let at_first = self.tokens.first_event(self.stamps.events_ns.len());
        let after_first = f64::from(self.tokens.completion?) - at_first;
        let tpot = self.span_ms()? / after_first;
        (self.expect.streamed && after_first > 0.0 && tpot < floor).then(|| {
            format!("{tpot:.4} ms a token, below the floor of {floor} ms (plausible, TPOT)")
        })
    }

    fn too_fast_prefill(&self) -> Option<String> {
        let floor = self.endpoint.plausible.prefill_floor_us?;
        let prompt = self.tokens.prompt.or(self.expect.prompt)?;
        let cached = match self.tokens.cached {
            Some(cached) => cached,
            None if self.is_new() => 0,
            None => return None,
        };
        let computed = prompt.saturating_sub(cached);
        let least_ms = f64::from(computed) * floor / 1e3;
        // A whole answer comes no sooner than its first token.
        let taken_ms = self.ttft_ms().or_else(|| {
            let done_ns = self.stamps.done_ns?;
            Some(ms(self.stamps.send_ns, done_ns))
        })?;
        (taken_ms < least_ms).then(|| {
            format!(
                "{computed} prompt tokens computed in {taken_ms:.3} ms, below the floor of {least_ms:.3} ms \
                 ({floor} µs a token)"
            )
        })
    }

    /// What the engine's cache knew of the prompt, against what it was to know.
    pub fn cache_state(&self) -> Option<Void> {
        if self.label.phase != Phase::Measured {
            return None;
        }
        let Some(Setting::Cell { cache, .. }) = self.label.setting else {
            return None;
        };
        let cached = self.tokens.cached?;
        let prompt = self.tokens.prompt.or(self.expect.prompt)?;
        let detail = match cache {
            CacheState::Cold if f64::from(cached) > cold_bound(prompt) => {
                format!("the prompt was new, yet {cached} of its {prompt} tokens were cached")
            }
            CacheState::Hot if cached == 0 && prompt >= CACHEABLE => {
                format!(
                    "the prompt of {prompt} tokens was sent before, yet none was cached: is there room for all prompts of a batch?"
                )
            }
            CacheState::Cold | CacheState::Warm | CacheState::Hot => return None,
        };
        because(VoidRule::CacheState, detail)
    }

    /// An answer without a word: white space alone where the engine stopped before its forced length, or where a
    /// cell's prompt was cached whole; or a cell's tokens that only usage counts. Where no length is forced the end may
    /// be the model's own, and `metrics` holds such an answer against the prompt's others.
    pub fn degenerate(&self) -> Option<Void> {
        let forced = self.expect.forced?;
        let is_judged_by_its_case = self.label.case.is_some() && self.label.setting.is_none();
        if forced < 2 || self.expect.echoed || is_judged_by_its_case {
            return None;
        }
        let [reasoning, content] = self.transcript.texts();
        let texts = [reasoning, content, self.transcript.calls.as_str()];
        let characters: usize = texts.iter().map(|text| text.chars().count()).sum();
        let is_wordless = texts.iter().all(|text| is_blank(text));
        let has_stopped = self.transcript.finish_reason.as_deref() != Some("length");
        let wrong = (is_wordless && has_stopped)
            || self.is_wordless_cell(forced, is_wordless, characters == 0);
        wrong.then(|| {
            let detail = format!(
                "{forced} tokens were asked for, and nothing but white space came ({characters} characters)"
            );
            because(VoidRule::Degenerate, detail)
        })?
    }

    /// A cell whose cached prompt is answered with blanks to the end, or with tokens that only usage counts.
    fn is_wordless_cell(&self, forced: u32, is_wordless: bool, is_empty: bool) -> bool {
        let Some(Setting::Cell { cache, .. }) = self.label.setting else {
            return false;
        };
        let only_usage = self.transcript.token_ids.is_none() && self.tokens.by_logprobs.is_none();
        forced >= WORDY && ((is_wordless && cache == CacheState::Hot) || (is_empty && only_usage))
    }

    /// Whether no request of the launch had sent any of the prompt before.
    fn is_new(&self) -> bool {
        let known = matches!(
            self.label.setting,
            Some(Setting::Cell {
                cache: CacheState::Warm | CacheState::Hot,
                ..
            })
        );
        !known && self.label.turn.is_none() && self.label.case.is_none()
    }

    /// Send to first output, of a stream.
    fn ttft_ms(&self) -> Option<f64> {
        let first = self.stamps.events_ns.first()?;
        Some(ms(self.stamps.send_ns, *first))
    }

    /// First output to last.
    fn span_ms(&self) -> Option<f64> {
        let events = &self.stamps.events_ns;
        Some(ms(*events.first()?, *events.last()?))
    }
}

fn cold_bound(prompt: u32) -> f64 {
    (COLD_SHARE * f64::from(prompt)).max(f64::from(COLD_TOKENS))
}

fn ms(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e6
}
