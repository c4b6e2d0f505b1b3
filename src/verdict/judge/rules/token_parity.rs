//! Rule `token-parity`: arms whose answers, or whose prompts, have different numbers of tokens did different work, or one of
//! them does not tell what it did.

use super::super::answer_counts::AnswerCounts;
use super::super::view::View;
use super::finding::{Finding, invalid};
use crate::metrics::TOKENS_APART;
use crate::record::{Arm, Facts, RuleId};

pub fn token_parity(view: &View<'_, '_>) -> Option<Finding> {
    if !view.case.check.metric.is_by_clock() || !view.is_regression() {
        return None;
    }
    let apart = |mean: fn(&AnswerCounts) -> Option<f64>| {
        let of = |arm| mean(&view.of(arm).tally);
        let (base, head) = of(Arm::Base).zip(of(Arm::Head))?;
        let apart = (head - base).abs() / base.max(head).max(1.0);
        (apart > TOKENS_APART).then_some((base, head))
    };
    if let Some((base, head)) = apart(AnswerCounts::mean_tokens) {
        return invalid(RuleId::TokenParity, Facts::Tokens { base, head });
    }
    // Both were sent the same texts. What is computed of a prompt is read off the engine's own count of it.
    let (base, head) = apart(AnswerCounts::mean_prompt_tokens)?;
    invalid(RuleId::TokenParity, Facts::PromptTokens { base, head })
}
