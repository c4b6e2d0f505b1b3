//! Token counts that disagree: usage against events, ids, log-probabilities, what was asked for, and the
//! client's own tokenizer.

use super::{Seen, because};
use crate::response::sanitize::brief;
use verdict::record::{Void, VoidRule};

/// By how much usage and what the client's tokenizer finds in the text may exceed each other: decoding and
/// encoding again changes a text's length a little, and special tokens have no text.
const TOLERANCE: f64 = 1.5;
const TOLERANCE_TOKENS: f64 = 8.0;

impl Seen<'_> {
    pub fn token_counts(&self) -> Option<Void> {
        let detail = self.prompt_count().or_else(|| {
            if self.expect.echoed {
                self.echo_count()
            } else {
                self.output_count()
                    .or_else(|| self.unknown_output())
                    .or_else(|| self.text_count())
            }
        })?;
        because(VoidRule::TokenCounts, detail)
    }

    fn prompt_count(&self) -> Option<String> {
        if let Some((wanted, has)) = self.expect.unfit {
            return Some(format!(
                "a text of {wanted} tokens was asked for and the nearest has {has}: choose another length, or \
                 prompts of token ids (prompt_ids)"
            ));
        }
        let (sent, counted) = (self.expect.prompt?, self.transcript.prompt_tokens?);
        (sent != counted).then(|| format!("{sent} prompt tokens were sent, usage says {counted}"))
    }

    fn echo_count(&self) -> Option<String> {
        let (sent, scored) = (self.expect.prompt?, self.tokens.by_logprobs?);
        let generated = self.transcript.completion_tokens.unwrap_or(0);
        (!each_scored_once(sent, generated, scored)).then(|| {
            format!("{sent} tokens were sent and {generated} generated, {scored} came back scored")
        })
    }

    fn output_count(&self) -> Option<String> {
        match self.transcript.completion_tokens {
            Some(usage) => self.against_usage(usage),
            None if self.expect.streamed && !self.endpoint.stream_usage => self.without_usage(),
            None => self.unexpectedly_without_usage(),
        }
    }

    /// Engines that look for stop strings may send the text that they held back in a further event.
    fn against_usage(&self, usage: u32) -> Option<String> {
        let transcript = self.transcript;
        let events = transcript.events_ns.len();
        let forced = self.expect.forced.filter(|forced| *forced != usage);
        let most = self.expect.most.filter(|most| *most < usage);
        let by_logprobs = self.tokens.by_logprobs;
        let scored = by_logprobs.filter(|scored| !self.scored_agrees(*scored, usage));
        let ids = transcript.token_ids.filter(|ids| *ids != usage);
        if let Some(forced) = forced {
            Some(unlike_forced(forced, usage, &format!("usage says {usage}")))
        } else if let Some(most) = most {
            Some(format!(
                "at most {most} tokens were asked for, usage says {usage}"
            ))
        } else if events > usage as usize && !self.expect.stopped {
            Some(format!(
                "{events} events carried output, usage says {usage} tokens"
            ))
        } else if let Some(scored) = scored {
            Some(format!(
                "{scored} tokens came with log-probabilities, usage says {usage}"
            ))
        } else if let Some(ids) = ids {
            Some(format!("{ids} token ids came, usage says {usage}"))
        } else {
            transcript
                .usage_fell
                .then(|| "usage went down within the stream".to_owned())
        }
    }

    /// Tokens that no known event accounts for, beside text that no known field has.
    fn unknown_output(&self) -> Option<String> {
        let transcript = self.transcript;
        let (field, usage) = transcript
            .unknown_field
            .as_deref()
            .zip(transcript.completion_tokens)?;
        let events = transcript.events_ns.len();
        (transcript.per_event.is_empty() && events < usage as usize).then(|| {
            format!(
                "{}, and usage counts {usage} tokens where {events} events carried known output: when the first token \
                 came is not known",
                text_in(field)
            )
        })
    }

    /// The engine is known to send none; something else must count.
    fn without_usage(&self) -> Option<String> {
        let Some(counted) = self.tokens.completion else {
            return Some(
                "nothing counts the output: the engine sends no usage (stream_usage = false), token ids or \
                 log-probabilities; set return_token_ids = true if it can send ids, or name its tokenizer (gate \
                 load: --return-token-ids, --tokenizer)"
                    .to_owned(),
            );
        };
        // The tokenizer's count is no exact one.
        self.transcript.token_ids.or(self.tokens.by_logprobs)?;
        match (self.expect.forced, self.expect.most) {
            (Some(forced), _) if counted != forced => {
                Some(unlike_forced(forced, counted, &format!("{counted} came")))
            }
            (None, Some(most)) if counted > most => Some(format!(
                "at most {most} tokens were asked for, {counted} came"
            )),
            _ => None,
        }
    }

    fn unexpectedly_without_usage(&self) -> Option<String> {
        let needed = self.expect.streamed || self.expect.forced.is_some();
        let known = self.tokens.by_logprobs.filter(|_| !self.expect.streamed);
        let wrong = known
            .zip(self.expect.forced)
            .is_some_and(|(known, forced)| known != forced);
        let unknown = needed && known.is_none();
        (wrong || unknown).then(|| {
            "no usage came, so the output was not counted; where an engine never sends it in streams, say so \
             by stream_usage = false (gate load: --no-stream-usage)"
                .to_owned()
        })
    }

    /// Usage against the text itself. Token ids are the better witness: they also count what has no text.
    fn text_count(&self) -> Option<String> {
        let usage = self.transcript.completion_tokens?;
        let own = self.tokens.by_tokenizer?;
        let beyond =
            |more: u32, less: u32| f64::from(more) > TOLERANCE * f64::from(less) + TOLERANCE_TOKENS;
        // A character that stands for bytes that are none takes more tokens than it was made of.
        let texts = self.transcript.texts();
        let is_whole = texts
            .iter()
            .all(|text| !text.contains(char::REPLACEMENT_CHARACTER));
        let apart = beyond(usage, own) || (is_whole && beyond(own, usage));
        (apart && self.transcript.token_ids.is_none()).then(|| {
            format!("usage says {usage} tokens, the text has {own} by the client's own tokenizer")
        })
    }

    /// Some engines count the end-of-sequence token and do not score it, or score one token of a character alone.
    fn scored_agrees(&self, scored: u32, usage: u32) -> bool {
        let stopped = self.transcript.finish_reason.as_deref() == Some("stop");
        let is_end_unscored = stopped && scored.checked_add(1) == Some(usage);
        scored == usage || is_end_unscored || self.transcript.lists_too_few()
    }
}

/// Of the text in a field that nobody knows.
pub fn text_in(field: &str) -> String {
    format!(
        "the stream has text in the field `{}` of its deltas, which is not known as output (known: content, \
         reasoning_content, reasoning, thinking, reasoning_text)",
        brief(field)
    )
}

/// A count that is not the forced one. Fewer may be all that the engine can be made to generate.
fn unlike_forced(forced: u32, counted: u32, said: &str) -> String {
    let remedy = match counted < forced {
        true => {
            "; an engine that cannot be held to a length is run with forces_length = false (gate load: \
             --no-ignore-eos)"
        }
        false => "",
    };
    format!("{forced} tokens were asked for, {said}{remedy}")
}

/// An echoed prompt and what follows it have one score a token. A server may say any number of either.
fn each_scored_once(sent: u32, generated: u32, scored: u32) -> bool {
    u64::from(scored) == u64::from(sent) + u64::from(generated)
}

#[cfg(test)]
mod tests {
    use super::{each_scored_once, unlike_forced};

    #[test]
    fn an_answer_that_is_too_short_has_a_remedy() {
        let short = unlike_forced(24, 22, "usage says 22");
        assert_eq!(
            short,
            "24 tokens were asked for, usage says 22; an engine that cannot be held to a length is run with \
             forces_length = false (gate load: --no-ignore-eos)"
        );
        let long = unlike_forced(16, 64, "usage says 64");
        assert_eq!(long, "16 tokens were asked for, usage says 64");
    }

    #[test]
    fn an_echo_is_counted_beyond_all_counts() {
        for (sent, generated, scored, expect) in [
            (16, 0, 16, true),
            (16, 1, 17, true),
            (16, 1, 16, false),
            // Not 15 again.
            (16, u32::MAX, 15, false),
            (1, u32::MAX, u32::MAX, false),
        ] {
            let found = each_scored_once(sent, generated, scored);
            assert_eq!(found, expect, "{sent} {generated} {scored}");
        }
    }
}
