//! Which events of a stream are tokens, or groups of them.
//!
//! Most servers send an event with text for each token. Some send an event without text for a token that has none: a
//! special token, the first bytes of a character, reasoning in a field of another name. An event without output may as
//! well be no token: the speaker's role, a sign of life, the finish reason. Usage and the stream's pace tell the two
//! apart.
//!
//! Main function: [`counted`].

use std::ops::Range;

/// An event with a choice.
#[derive(Clone, Debug, Default)]
pub struct Step {
    pub at_ns: u64,
    /// A later event of any kind arrived together with it: its time is an upper bound.
    pub is_shared: bool,
    /// Text, reasoning, a tool call or token ids.
    pub has_output: bool,
    pub names_role: bool,
    pub characters: u32,
    /// Token ids named.
    pub ids: Option<usize>,
    /// `usage.completion_tokens` so far.
    pub usage: Option<u32>,
    /// Entries of log-probabilities.
    pub scored: usize,
}

/// A sign of life comes before the prompt is computed, so far from the first token; a finish reason right behind the last
/// one. A token without text comes at the pace of the others, which varies by less than this.
const FAR: f64 = 4.0;

/// Whether each event counts as output: those that have some; or, where these are fewer than the tokens of the final
/// usage and there is one event a token, these events.
pub fn counted(steps: &[Step], completion: Option<u32>) -> Vec<bool> {
    let output = steps.iter().filter(|step| step.has_output).count();
    let tokens = completion.map_or(0, |tokens| tokens as usize);
    let one_a_token = Some(steps)
        .filter(|_| 0 < output && output < tokens)
        .and_then(|steps| one_a_token(steps, tokens));
    let counts = |(place, step): (usize, &Step)| match &one_a_token {
        Some(range) => range.contains(&place),
        None => step.has_output,
    };
    steps.iter().enumerate().map(counts).collect()
}

fn one_a_token(steps: &[Step], tokens: usize) -> Option<Range<usize>> {
    let is_silent = |step: Option<&Step>| step.is_some_and(|step| !step.has_output);
    let first = steps.first();
    let begin = usize::from(is_silent(first) && first.is_some_and(|step| step.names_role));
    // The finish reason has an event of its own, or comes with the last token's.
    let end = begin + tokens;
    let is_whole = end == steps.len() || (end + 1 == steps.len() && is_silent(steps.last()));
    (is_whole && are_at_pace(&steps[begin..end])).then_some(begin..end)
}

/// Whether events without output at either end are at the pace of those between.
fn are_at_pace(steps: &[Step]) -> bool {
    let has_output = |step: &Step| step.has_output;
    let (Some(first), Some(last)) = (
        steps.iter().position(has_output),
        steps.iter().rposition(has_output),
    ) else {
        return false;
    };
    let mean_gap = |from: usize, to: usize| {
        let span_ns = steps[to].at_ns.saturating_sub(steps[from].at_ns);
        span_ns as f64 / (to - from).max(1) as f64
    };
    let (pace, end) = (mean_gap(first, last), steps.len() - 1);
    let begins = first == 0 || mean_gap(0, first) <= FAR * pace;
    let ends = last == end || FAR * mean_gap(last, end) >= pace;
    first < last && begins && ends
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event each: `r` names the role, `-` is silent, a letter is text; at these moments.
    fn check(events: &str, at: &[u64], completion: Option<u32>, expect: &str) {
        assert_eq!(events.len(), at.len());
        let step = |(letter, at_ns): (char, &u64)| Step {
            at_ns: *at_ns,
            has_output: letter.is_alphabetic() && letter != 'r',
            names_role: letter == 'r',
            ..Step::default()
        };
        let steps: Vec<Step> = events.chars().zip(at).map(step).collect();
        let counted = counted(&steps, completion).into_iter();
        let counted: String = counted
            .map(|counts| if counts { 'x' } else { ' ' })
            .collect();
        assert_eq!(counted, expect, "{events}");
    }

    #[test]
    fn a_token_without_text_is_a_step_where_usage_says_so() {
        let at: Vec<u64> = (5..20).map(|i| 10 * i).collect();
        // The last two are special tokens; the finish reason stands alone, or with the last one.
        check("rabc---", &at[..7], Some(5), " xxxxx ");
        check("rabc--", &at[..6], Some(5), " xxxxx");
        check("abc-", &at[..4], Some(4), "xxxx");
        // The first one, and bytes of a character.
        check("r-ab--c-", &at[..8], Some(6), " xxxxxx ");
        // Each token has text.
        check("rabc-", &at[..5], Some(3), " xxx ");
        // Tokens share events, or usage is not known: nothing tells.
        check("rabc-", &at[..5], Some(9), " xxx ");
        check("-abc-", &at[..5], None, " xxx ");
        // A role is no token, and an answer without output none either.
        check("rabc", &at[..4], Some(4), " xxx");
        check("r---", &at[..4], Some(3), "    ");
        check("", &[], Some(3), "");
    }

    #[test]
    fn a_sign_of_life_is_no_token() {
        check("-abc-", &[1, 500, 510, 520, 521], Some(4), " xxx ");
        check("-abc-", &[490, 500, 510, 520, 521], Some(4), "xxxx ");
        check("-a", &[1, 2], Some(2), " x");
    }

    /// Two tokens shared an event: then as many events as tokens is chance.
    #[test]
    fn a_finish_reason_right_behind_the_last_token_is_no_token() {
        check("abc-", &[500, 510, 520, 521], Some(4), "xxx ");
        check("abc-", &[500, 510, 520, 530], Some(4), "xxxx");
    }
}
