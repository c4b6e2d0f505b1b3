//! Which events of a stream are tokens, or groups of them.
//!
//! Most servers send an event with text for each token. Some send an event without text for a token that has none: a
//! special token, or the first bytes of a character. Other events without output are no tokens: the speaker's role, a sign
//! of life, the finish reason. Usage and the stream's pace tell the two apart.
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

/// Events without output before the first one with output, those with the speaker's role left out. They do not count,
/// since an engine could look faster by them, but may be tokens.
pub fn silent_first(steps: &[Step]) -> u32 {
    let before = steps.iter().take_while(|step| !step.has_output);
    let silent = before.filter(|step| !step.names_role).count();
    u32::try_from(silent).unwrap_or(u32::MAX)
}

/// A finish reason comes right behind the last token, a late end long after it; a token comes at the pace of the others,
/// within this factor.
const FAR: f64 = 2.0;

/// Silent tokens in a row: the first bytes of a character. More may be text that is held back.
const MOST_SILENT: usize = 3;

/// Marks the events that count as output. Events with output do. If the final usage has more tokens than these, and exactly
/// one event per token once the silent ones are included, those count too.
pub fn counted(steps: &[Step], completion: Option<u32>) -> Vec<bool> {
    let output = steps.iter().filter(|step| step.has_output).count();
    let tokens = completion.map_or(0, |tokens| tokens as usize);
    let one_a_token = match output < tokens {
        true => one_a_token(steps, tokens),
        false => None,
    };
    let counts = |(place, step): (usize, &Step)| match &one_a_token {
        Some(range) => range.contains(&place),
        None => step.has_output,
    };
    steps.iter().enumerate().map(counts).collect()
}

fn one_a_token(steps: &[Step], tokens: usize) -> Option<Range<usize>> {
    let begin = steps.iter().position(|step| step.has_output)?;
    // The finish reason has an event of its own, or comes with the last token's.
    let end = begin + tokens;
    let is_silent = |step: Option<&Step>| step.is_some_and(|step| !step.has_output);
    let is_whole = end == steps.len() || (end + 1 == steps.len() && is_silent(steps.last()));
    (is_whole && are_tokens(&steps[begin..end])).then_some(begin..end)
}

/// True if the silent events among these can be tokens: few in a row, none with a role, and the last ones at the pace of
/// the rest. The first event has output.
fn are_tokens(steps: &[Step]) -> bool {
    let runs = steps.chunk_by(|a, b| a.has_output == b.has_output);
    let are_few = runs
        .filter(|run| !run[0].has_output)
        .all(|run| run.len() <= MOST_SILENT);
    let names_role = steps.iter().any(|step| !step.has_output && step.names_role);
    let last = steps.iter().rposition(|step| step.has_output).unwrap_or(0);
    let mean_gap = |from: usize, to: usize| {
        let span_ns = steps[to].at_ns.saturating_sub(steps[from].at_ns);
        span_ns as f64 / (to - from).max(1) as f64
    };
    let (pace, end) = (mean_gap(0, last), steps.len() - 1);
    let at_end = mean_gap(last, end);
    let is_at_pace = last == end || (at_end * FAR >= pace && at_end <= pace * FAR);
    are_few && !names_role && pace > 0.0 && is_at_pace
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
        // Bytes of a character.
        check("ra-b--c-", &at[..8], Some(6), " xxxxxx ");
        // Each token has text.
        check("rabc-", &at[..5], Some(3), " xxx ");
        // Tokens share events, or usage is not known: nothing tells.
        check("rabc-", &at[..5], Some(9), " xxx ");
        check("abc-", &at[..4], None, "xxx ");
        // A role is no token, and an answer without output none either.
        check("rabc", &at[..4], Some(4), " xxx");
        check("arbc", &at[..4], Some(4), "x xx");
        check("r---", &at[..4], Some(3), "    ");
        check("", &[], Some(3), "");
    }

    /// Two tokens shared an event, so as many events as tokens is chance; or text is held back.
    #[test]
    fn what_would_make_an_engine_look_faster_is_no_token() {
        // Nothing before the first output, at whatever pace.
        check("-abc-", &[1, 500, 510, 520, 521], Some(4), " xxx ");
        check("-abc-", &[490, 500, 510, 520, 521], Some(4), " xxx ");
        // A long silence between.
        check("a----b", &[500, 510, 520, 530, 540, 550], Some(6), "x    x");
        // The finish reason right behind the last token, long after it, or behind text that came at once.
        check("abc-", &[500, 510, 520, 521], Some(4), "xxx ");
        check("abc-", &[500, 510, 520, 10_520], Some(4), "xxx ");
        check("abc-", &[500, 500, 500, 501], Some(4), "xxx ");
        check("abc-", &[500, 510, 520, 530], Some(4), "xxxx");
    }
}
