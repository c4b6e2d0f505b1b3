//! `--fault SPEC`: faults to plant in the engine, for tests of the gate itself.

use engine::Faults;
use engine::fault_value::{Delay, count, time};
use std::str::FromStr;
use std::time::Duration;

const FORMS: &str = "decode-delay=20us (or ms, s), decode-delay=10%, prefill-delay=2us (of each prompt \
                     token), prefill-delay=10%, wrong-token=50, prefill-leak, kv-leak=2 (pages of each \
                     request), empty-beside=1 (other requests), blank-beside=1, swap-answers, \
                     swap-cache, swap-state, wrong-resume, slow-start=200ms, die-at-start, hang-after=100";

/// One fault as it stands on the command line.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultArg {
    DecodeDelay(Delay),
    PrefillDelay(Delay),
    KvLeak(u32),
    EmptyBeside(u32),
    BlankBeside(u32),
    SwapAnswers,
    SwapCache,
    SwapState,
    WrongResume,
    SlowStart(Duration),
    WrongToken(u32),
    PrefillLeak,
    DieAtStart,
    HangAfter(u32),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; the faults are: {FORMS}")]
pub struct FaultError {
    problem: String,
}

impl FromStr for FaultArg {
    type Err = FaultError;

    fn from_str(spec: &str) -> Result<Self, FaultError> {
        let (name, value) = match spec.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (spec, None),
        };
        let fault = match (name, value) {
            ("decode-delay", Some(value)) => value.parse().map(Self::DecodeDelay),
            ("prefill-delay", Some(value)) => value.parse().map(Self::PrefillDelay),
            ("slow-start", Some(value)) => time(value).map(Self::SlowStart),
            ("kv-leak", Some(value)) => count(value).map(Self::KvLeak),
            ("empty-beside", Some(value)) => count(value).map(Self::EmptyBeside),
            ("blank-beside", Some(value)) => count(value).map(Self::BlankBeside),
            ("wrong-token", Some(value)) => count(value).map(Self::WrongToken),
            ("hang-after", Some(value)) => count(value).map(Self::HangAfter),
            ("swap-answers", None) => Ok(Self::SwapAnswers),
            ("swap-cache", None) => Ok(Self::SwapCache),
            ("swap-state", None) => Ok(Self::SwapState),
            ("wrong-resume", None) => Ok(Self::WrongResume),
            ("prefill-leak", None) => Ok(Self::PrefillLeak),
            ("die-at-start", None) => Ok(Self::DieAtStart),
            (
                "decode-delay" | "prefill-delay" | "slow-start" | "kv-leak" | "empty-beside"
                | "blank-beside" | "wrong-token" | "hang-after",
                None,
            ) => Err(format!("{name} needs a value")),
            (
                "prefill-leak" | "swap-answers" | "swap-cache" | "swap-state" | "wrong-resume"
                | "die-at-start",
                Some(_),
            ) => Err(format!("{name} takes no value")),
            _ => Err(format!("there is no fault {name}")),
        };
        fault.map_err(|problem| FaultError { problem })
    }
}

/// All faults together; of two of a kind the last counts.
pub fn combine(faults: Vec<FaultArg>) -> Faults {
    let mut all = Faults::default();
    for fault in faults {
        match fault {
            FaultArg::DecodeDelay(delay) => all.decode_delay = Some(delay),
            FaultArg::PrefillDelay(delay) => all.prefill_delay = Some(delay),
            FaultArg::KvLeak(pages) => all.kv_leak = Some(pages),
            FaultArg::EmptyBeside(others) => all.empty_beside = Some(others),
            FaultArg::BlankBeside(others) => all.blank_beside = Some(others),
            FaultArg::SwapAnswers => all.swap_answers = true,
            FaultArg::SwapCache => all.swap_cache = true,
            FaultArg::SwapState => all.swap_states = true,
            FaultArg::WrongResume => all.wrong_resume = true,
            FaultArg::SlowStart(longer) => all.slow_start = Some(longer),
            FaultArg::WrongToken(every) => all.wrong_token = Some(every),
            FaultArg::PrefillLeak => all.prefill_leak = true,
            FaultArg::DieAtStart => all.die_at_start = true,
            FaultArg::HangAfter(tokens) => all.hang_after = Some(tokens),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        let check = |spec: &str, expect: FaultArg| assert_eq!(spec.parse(), Ok(expect), "{spec}");
        let absolute = |micros| FaultArg::DecodeDelay(Delay::Time(Duration::from_micros(micros)));
        check("decode-delay=20us", absolute(20));
        check("decode-delay=1.5ms", absolute(1500));
        check("decode-delay=10%", FaultArg::DecodeDelay(Delay::Share(0.1)));
        let prefill = Delay::Time(Duration::from_micros(2));
        check("prefill-delay=2us", FaultArg::PrefillDelay(prefill));
        check("kv-leak=2", FaultArg::KvLeak(2));
        check("empty-beside=1", FaultArg::EmptyBeside(1));
        check("blank-beside=2", FaultArg::BlankBeside(2));
        check("swap-answers", FaultArg::SwapAnswers);
        check("swap-cache", FaultArg::SwapCache);
        check("swap-state", FaultArg::SwapState);
        check("wrong-resume", FaultArg::WrongResume);
        let longer = Duration::from_millis(200);
        check("slow-start=200ms", FaultArg::SlowStart(longer));
        check("wrong-token=50", FaultArg::WrongToken(50));
        check("prefill-leak", FaultArg::PrefillLeak);
        check("die-at-start", FaultArg::DieAtStart);
        check("hang-after=100", FaultArg::HangAfter(100));
    }

    #[test]
    fn others_are_refused_with_the_list() {
        for spec in [
            "",
            "slow",
            "decode-delay",
            "decode-delay=",
            "decode-delay=20",
            "decode-delay=-1ms",
            "decode-delay=1e300s",
            "decode-delay=20parsec",
            "prefill-delay",
            "slow-start=10%",
            "kv-leak=0",
            "empty-beside",
            "blank-beside",
            "swap-cache=1",
            "swap-state=1",
            "wrong-token=0",
            "wrong-token=x",
            "prefill-leak=1",
            "hang-after",
        ] {
            let error = spec.parse::<FaultArg>().unwrap_err();
            assert!(
                error.to_string().contains("hang-after=100"),
                "{spec}: {error}"
            );
        }
    }

    #[test]
    fn faults_add_up() {
        let faults = combine(vec![
            FaultArg::PrefillLeak,
            FaultArg::WrongToken(2),
            FaultArg::WrongToken(3),
        ]);
        assert_eq!(
            faults,
            Faults {
                prefill_leak: true,
                wrong_token: Some(3),
                ..Faults::default()
            }
        );
    }
}
