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
    /// `place` counts tokens, not characters.
    pub is_token: bool,
    /// `token 3, "…a b" for "…a c"`.
    pub text: String,
    /// True if both log-probability lists show a near-tie of the two tokens; `None` without such lists, and where those of
    /// the sample are not of its text.
    pub is_tie: Option<bool>,
    /// Distance in nats of the other answer's token from the best one in an answer's list; the greater of the two answers.
    /// Infinite where no list tells.
    pub gap: f64,
    /// Both list the same tokens, which spell the other text: no near-tie explains the difference.
    pub has_same_tokens: bool,
}

/// The first difference of `sample` from another answer to its prompt. `near_tie`: two tokens closer than this are
/// equally right, in nats.
pub fn parting(other: &Sample, sample: &Sample, near_tie: Option<f64>) -> Parting {
    let character = first_character(other, sample);
    let (said, expected) = (quoted(sample, character), quoted(other, character));
    let gap_at = |place: usize| gap(other.logprobs.get(place)?, sample.logprobs.get(place)?);
    let tie_at = |place: usize| Some(gap_at(place)? < near_tie?);
    let Some(token) = first_token(other, sample) else {
        let has_same_tokens = near_tie.is_some() && is_same_list(other, sample);
        let from = if has_same_tokens {
            ", from the same tokens"
        } else {
            ""
        };
        return Parting {
            place: character,
            is_token: false,
            text: format!("from character {character} on {said} instead of {expected}{from}"),
            // Tokens that are not the text's excuse nothing, and may still be no tie.
            is_tie: first_listed(other, sample)
                .and_then(tie_at)
                .filter(|tie| !tie),
            gap: f64::INFINITY,
            has_same_tokens,
        };
    };
    Parting {
        place: token,
        is_token: true,
        text: format!("from token {token} on {said} instead of {expected}"),
        is_tie: tie_at(token),
        gap: gap_at(token).unwrap_or(f64::INFINITY),
        has_same_tokens: false,
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

/// Number of the first listed token that differs.
fn first_listed(other: &Sample, sample: &Sample) -> Option<usize> {
    let (a, b) = (&other.logprobs, &sample.logprobs);
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let token = |of: &[TokenLogprob], i: usize| of.get(i).map(|entry| entry.token.clone());
    (0..a.len().max(b.len())).find(|&i| token(a, i) != token(b, i))
}

/// [`first_listed`]; `None` if no tokens are listed, the lists are equal, or the list of `sample` does not
/// spell its text.
fn first_token(other: &Sample, sample: &Sample) -> Option<usize> {
    let place = first_listed(other, sample)?;
    let is_listed_otherwise = spells(other, place) && !spells(sample, place);
    (!is_listed_otherwise).then_some(place)
}

/// True if an answer's text begins with its tokens up to number `place`, that one too, white space before the first left out.
/// A text may end before its last tokens: an end of sequence, a stop string. A special token or part of a character cannot be
/// compared. Texts that are not kept tell nothing.
fn spells(sample: &Sample, place: usize) -> bool {
    let (before, rest) = sample.logprobs.split_at(place.min(sample.logprobs.len()));
    let before: String = before.iter().map(|entry| entry.token.as_str()).collect();
    let Some(text) = &sample.text else {
        return true;
    };
    let next = rest.first().map_or("", |entry| entry.token.as_str());
    let before = before.trim_start();
    let next = if before.is_empty() {
        next.trim_start()
    } else {
        next
    };
    let after = text.trim_start().strip_prefix(before);
    after.is_some_and(|after| after.is_empty() || after.starts_with(next) || is_no_text(next))
}

/// True if two answers list the same tokens, which spell the text of `other` and not that of `sample`.
fn is_same_list(other: &Sample, sample: &Sample) -> bool {
    let tokens = |of: &Sample| -> Vec<String> {
        let tokens = of.logprobs.iter();
        tokens.map(|entry| entry.token.clone()).collect()
    };
    let (Some(a), Some(b)) = (&other.text, &sample.text) else {
        return false;
    };
    let listed = tokens(other);
    let is_spelt = listed.concat().starts_with(a.as_str());
    let is_whole = !listed.iter().any(|token| is_no_text(token));
    // Some servers leave out white space at the end of whole answers alone.
    a.trim() != b.trim() && !listed.is_empty() && is_spelt && is_whole && listed == tokens(sample)
}

/// True if two answers list the same tokens, whatever their texts.
pub fn lists_alike(other: &Sample, sample: &Sample) -> bool {
    let (a, b) = (&other.logprobs, &sample.logprobs);
    !a.is_empty() && a.len() == b.len() && first_listed(other, sample).is_none()
}

/// A token that no text shows as it is listed: part of a character (U+FFFD; vLLM's `bytes:\xe2`, llama.cpp's `byte: `), or a
/// special one (`<|im_end|>`).
fn is_no_text(token: &str) -> bool {
    let is_byte = token.starts_with("bytes:") || token.starts_with("byte:");
    let is_special = token.starts_with('<') && token.ends_with('>');
    token.contains(char::REPLACEMENT_CHARACTER) || is_byte || is_special
}

/// [`Parting::gap`] at one place. `None` where a list is missing.
fn gap(a: &TokenLogprob, b: &TokenLogprob) -> Option<f64> {
    if a.top.is_empty() || b.top.is_empty() {
        return None;
    }
    Some(from_best(a, &b.token).max(from_best(b, &a.token)))
}

/// Infinite for a token that is not listed.
fn from_best(of: &TokenLogprob, token: &str) -> f64 {
    let best = best(of);
    let listed = of.top.iter().filter(|(text, _)| text == token);
    let nearest = listed.map(|(_, logprob)| best - logprob);
    nearest.fold(f64::INFINITY, f64::min)
}

fn best(of: &TokenLogprob) -> f64 {
    let logprobs = of.top.iter().map(|(_, logprob)| *logprob);
    logprobs.fold(f64::NEG_INFINITY, f64::max)
}

/// The greatest change, in nats, of the distance between two tokens from one answer to another one to the same prompt. Places
/// before the answers part count, and tokens that both list within `nats` of the best. 0 without lists.
pub fn movement(a: &Sample, b: &Sample, nats: f64) -> f64 {
    let both = a.logprobs.iter().zip(&b.logprobs);
    let alike = both.take_while(|(a, b)| a.token == b.token);
    alike.map(|(a, b)| moved_at(a, b, nats)).fold(0.0, f64::max)
}

fn moved_at(a: &TokenLogprob, b: &TokenLogprob, nats: f64) -> f64 {
    // Parts of characters print alike.
    let of = |list: &TokenLogprob, token: &str| {
        let mut listed = list.top.iter().filter(|(text, _)| text == token);
        let (first, second) = (listed.next(), listed.next());
        let is_near = |logprob: &f64| best(list) - logprob < nats;
        let logprob = first.map(|(_, logprob)| *logprob).filter(is_near);
        logprob.filter(|_| second.is_none())
    };
    let tokens = a.top.iter().map(|(token, _)| token.as_str());
    let moves = tokens.filter_map(|token| Some(of(a, token)? - of(b, token)?));
    let (least, most) = moves.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), by| {
        (by.min(least), by.max(most))
    });
    (most - least).max(0.0)
}

/// True if `other` had the token at `place` of `sample` within `nats` of its best one. A sampler's own
/// lists may hold no other.
pub fn lists_as_near(other: &Sample, sample: &Sample, place: usize, nats: f64) -> bool {
    let tokens = other.logprobs.get(place).zip(sample.logprobs.get(place));
    tokens.is_some_and(|(a, b)| from_best(a, &b.token) < nats)
}

/// True if an answer's token at character `at`, or the one before it, had another one within `nats` of the best. `None`
/// where no list tells.
pub fn may_part_at(sample: &Sample, at: usize, nats: f64) -> Option<bool> {
    let listed: String = sample.logprobs.iter().map(|it| it.token.as_str()).collect();
    let blank = |text: &str| text.chars().take_while(|c| c.is_whitespace()).count();
    // Some servers leave out white space before the first token.
    let at = at + blank(&listed).saturating_sub(blank(text(sample)));
    let mut end = 0;
    let mut tokens = sample.logprobs.iter();
    let token = tokens.position(|entry| {
        end += entry.token.chars().count();
        end > at
    })?;
    let is_near = |entry: &TokenLogprob| {
        let second = entry.top.get(1).map(|(_, logprob)| *logprob);
        second
            .zip(entry.top.first())
            .is_some_and(|(second, (_, best))| best - second < nats)
    };
    let near = &sample.logprobs[token.saturating_sub(1)..=token];
    let is_told = near
        .iter()
        .all(|it| !it.top.is_empty() && !is_no_text(&it.token));
    is_told.then(|| near.iter().any(is_near))
}

pub fn first_character(a: &Sample, b: &Sample) -> usize {
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
