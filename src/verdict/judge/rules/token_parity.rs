//! Rule `token-parity`: arms that answer with different numbers of tokens did different work.

use super::super::view::View;
use super::finding::{Finding, invalid};
use crate::metrics::TOKENS_APART;
use crate::record::{Arm, Facts, RuleId};

pub fn token_parity(view: &View<'_, '_>) -> Option<Finding> {
    if !view.case.is_by_clock() || !view.is_regression() {
        return None;
    }
    let mean = |arm| view.of(arm).tally.mean_tokens();
    let (base, head) = mean(Arm::Base).zip(mean(Arm::Head))?;
    let apart = (head - base).abs() / base.max(head).max(1.0);
    if apart <= TOKENS_APART {
        return None;
    }
    invalid(RuleId::TokenParity, Facts::Tokens { base, head })
}
