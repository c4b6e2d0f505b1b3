//! First difference of two answers to one greedy prompt, and whether it is a near-tie.
//!
//! Main function: [`parting`].

use crate::record::{Sample, TokenLogprob};

/// Characters of an answer that are shown.
const SHOWN: usize = 40;

/// Characters shown before the place where two answers part.
const BEFORE: usize = 8;

/// The first difference of two answers.
pub struct Parting {
    /// Number of the first token that differs, or of the first character where the tokens are unknown.
    pub place: usize,
    /// `token 3, "…a b" for "…a c"`.
    pub text: String,
    /// True if both log-probability lists show a near-tie of the two tokens; `None` without such lists.
    pub is_tie: Option<bool>,
}

/// The first difference of `sample` from another answer to its prompt. `near_tie`: two tokens closer than this are
/// equally right, in nats.
pub fn parting(other: &Sample, sample: &Sample, near_tie: Option<f64>) -> Parting {
    let character = first_character(other, sample);
    let (said, expected) = (quoted(sample, character), quoted(other, character));
    let Some(token) = first_token(other, sample) else {
        return Parting {
            place: character,
            text: format!("from character {character} on {said} for {expected}"),
            is_tie: None,
        };
    };
    let tie = near_tie.and_then(|nats| {
        is_tie(
            other.logprobs.get(token)?,
            sample.logprobs.get(token)?,
            nats,
        )
    });
    Parting {
        place: token,
        text: format!("from token {token} on {said} for {expected}"),
        is_tie: tie,
    }
}

/// True if two texts differ before the first token of `other` ends: by the tokens where they are listed, else by the mean
/// length of a token of `other`. Texts that are not kept tell nothing.
pub fn parts_at_once(other: &Sample, sample: &Sample) -> bool {
    if other.text.is_none() || sample.text.is_none() || other.text == sample.text {
        return false;
    }
    if let Some(token) = first_token(other, sample) {
        return token == 0;
    }
    let tokens = other.tokens.completion.unwrap_or(other.tokens.events);
    first_character(other, sample) * (tokens.max(1) as usize) < text(other).chars().count()
}

/// True if two texts differ within the first `share`th part of `other` and within its first `most` tokens: by the tokens
/// where they are listed, else by the mean length of a token of `other`.
pub fn parts_within(other: &Sample, sample: &Sample, share: usize, most: usize) -> bool {
    if other.text.is_none() || sample.text.is_none() || other.text == sample.text {
        return false;
    }
    if let Some(token) = first_token(other, sample) {
        return token < most && token * share < other.logprobs.len();
    }
    let tokens = other
        .tokens
        .completion
        .unwrap_or(other.tokens.events)
        .max(1) as usize;
    let (place, all) = (first_character(other, sample), text(other).chars().count());
    place * tokens < most * all && place * share < all
}

/// Number of the first token that differs; `None` where tokens are unknown or do not tell the texts apart.
fn first_token(a: &Sample, b: &Sample) -> Option<usize> {
    let (a, b) = (&a.logprobs, &b.logprobs);
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let longest = a.len().max(b.len());
    let token = |of: &[TokenLogprob], i: usize| of.get(i).map(|entry| entry.token.clone());
    (0..longest).find(|&i| token(a, i) != token(b, i))
}

/// True if each answer's engine had the other's token within `nats` of its best one. `None` where a list is missing.
fn is_tie(a: &TokenLogprob, b: &TokenLogprob, nats: f64) -> Option<bool> {
    if a.top.is_empty() || b.top.is_empty() {
        return None;
    }
    let near = |of: &TokenLogprob, token: &str| {
        let logprobs = of.top.iter().map(|(_, logprob)| *logprob);
        let best = logprobs.fold(f64::NEG_INFINITY, f64::max);
        let mut listed = of.top.iter();
        listed.any(|(text, logprob)| text == token && best - logprob < nats)
    };
    Some(near(a, &b.token) && near(b, &a.token))
}

fn first_character(a: &Sample, b: &Sample) -> usize {
    let (a, b) = (text(a), text(b));
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count()
}

/// The answer around a character, shortened and quoted.
pub fn quoted(sample: &Sample, character: usize) -> String {
    let Some(text) = &sample.text else {
        let digest = sample.text_sha256.get(..12).unwrap_or(&sample.text_sha256);
        return format!("a text of SHA-256 {digest}…");
    };
    let skipped = character.saturating_sub(BEFORE);
    let mut rest = text.chars().skip(skipped);
    let shown: String = rest.by_ref().take(SHOWN).collect();
    let begin = if skipped > 0 { "…" } else { "" };
    let end = if rest.next().is_some() { "…" } else { "" };
    format!("{:?}", format!("{begin}{shown}{end}"))
}

fn text(sample: &Sample) -> &str {
    sample.text.as_deref().unwrap_or_default()
}
