//! The faults that a proxy can plant, and how they are written.
//!
//! Main types: [`Fault`], one as it was asked for, and [`Faults`], all of them together. Refuses to know: how
//! they are planted.

use engine::fault_value::{Delay, count, time};
use std::str::FromStr;
use std::time::Duration;

const FORMS: &str = "decode-delay=200us (of each event), decode-delay=10%, prefill-delay=2us (of each prompt \
                     token), prefill-delay=10%, wrong-token=50, empty-beside=1 (other requests), usage-add=3, merge=4 (events in \
                     one), slow-start=200ms, stall=10:200ms (every tenth stream), zero-gauge=NAME, \
                     rising-gauge=NAME";

/// One fault, as `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Each event of a stream after its first leaves later than it came; a share is of the engine's own time since
    /// that first.
    DecodeDelay(Delay),
    /// An answer begins later, by so much for each token of its prompt.
    PrefillDelay(Delay),
    /// Every n-th generated token is another one.
    WrongToken(u32),
    /// A request that finds so many others in flight is answered with nothing.
    EmptyBeside(u32),
    /// The usage names so many more output tokens than there are.
    UsageAdd(u32),
    /// So many events of a stream arrive as one.
    Merge(u32),
    /// The port opens so much later than the engine's.
    SlowStart(Delay),
    Stall(Stall),
    /// A gauge of `/metrics` that reads 0.
    ZeroGauge(String),
    /// A gauge of `/metrics` that reads more with every request.
    RisingGauge(String),
}

/// Every n-th stream pauses once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    pub every: u32,
    pub time: Duration,
}

/// All faults of one proxy; of two of a kind the last counts, of gauges all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    pub decode_delay: Option<Delay>,
    pub prefill_delay: Option<Delay>,
    pub wrong_token: Option<u32>,
    pub empty_beside: Option<u32>,
    pub usage_add: Option<u32>,
    pub merge: Option<u32>,
    pub slow_start: Option<Delay>,
    pub stall: Option<Stall>,
    pub zero_gauges: Vec<String>,
    pub rising_gauges: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; the faults are: {FORMS}")]
pub struct FaultError {
    problem: String,
}

impl Faults {
    /// How much later than the engine's the proxy's port is to open, where that took so long.
    pub fn late_start(&self, own: Duration) -> Duration {
        self.slow_start
            .map_or(Duration::ZERO, |delay| delay.of(own, 1))
    }

    /// What is changed in a stream's events or their times.
    pub fn touch_streams(&self) -> bool {
        self.decode_delay.is_some()
            || self.prefill_delay.is_some()
            || self.stall.is_some()
            || self.merge.is_some()
            || self.touch_answers()
    }

    /// What is changed in the JSON of an answer, streamed or whole.
    pub fn touch_answers(&self) -> bool {
        self.wrong_token.is_some() || self.empty_beside.is_some() || self.usage_add.is_some()
    }

    pub fn touch_gauges(&self) -> bool {
        !self.zero_gauges.is_empty() || !self.rising_gauges.is_empty()
    }
}

impl FromIterator<Fault> for Faults {
    fn from_iter<I: IntoIterator<Item = Fault>>(faults: I) -> Self {
        let mut all = Self::default();
        for fault in faults {
            match fault {
                Fault::DecodeDelay(delay) => all.decode_delay = Some(delay),
                Fault::PrefillDelay(delay) => all.prefill_delay = Some(delay),
                Fault::WrongToken(every) => all.wrong_token = Some(every),
                Fault::EmptyBeside(others) => all.empty_beside = Some(others),
                Fault::UsageAdd(more) => all.usage_add = Some(more),
                Fault::Merge(events) => all.merge = Some(events),
                Fault::SlowStart(longer) => all.slow_start = Some(longer),
                Fault::Stall(stall) => all.stall = Some(stall),
                Fault::ZeroGauge(name) => all.zero_gauges.push(name),
                Fault::RisingGauge(name) => all.rising_gauges.push(name),
            }
        }
        all
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(spec: &str) -> Result<Self, FaultError> {
        let fault = match spec.split_once('=') {
            Some((name, value)) => read(name, value),
            None => Err(format!("`{spec}` is not NAME=VALUE")),
        };
        fault.map_err(|problem| FaultError { problem })
    }
}

fn read(name: &str, value: &str) -> Result<Fault, String> {
    match name {
        "decode-delay" => value.parse().map(Fault::DecodeDelay),
        "prefill-delay" => value.parse().map(Fault::PrefillDelay),
        "wrong-token" => count(value).map(Fault::WrongToken),
        "empty-beside" => count(value).map(Fault::EmptyBeside),
        "usage-add" => count(value).map(Fault::UsageAdd),
        "merge" => count(value).map(Fault::Merge),
        "slow-start" => value.parse().map(Fault::SlowStart),
        "stall" => stall(value).map(Fault::Stall),
        "zero-gauge" => gauge(value).map(Fault::ZeroGauge),
        "rising-gauge" => gauge(value).map(Fault::RisingGauge),
        _ => Err(format!("there is no fault `{name}`")),
    }
}

fn gauge(value: &str) -> Result<String, String> {
    let names_a_sample = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    if value.is_empty() || !value.chars().all(names_a_sample) {
        return Err(format!("`{value}` is not a metric's name"));
    }
    Ok(value.to_owned())
}

fn stall(value: &str) -> Result<Stall, String> {
    let (every, pause) = value
        .split_once(':')
        .ok_or_else(|| format!("`{value}` is not EVERY:TIME"))?;
    Ok(Stall {
        every: count(every)?,
        time: time(pause)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        let check = |spec: &str, expect: Fault| assert_eq!(spec.parse(), Ok(expect), "{spec}");
        let micros = Duration::from_micros;
        check("decode-delay=10%", Fault::DecodeDelay(Delay::Share(0.1)));
        check(
            "decode-delay=200us",
            Fault::DecodeDelay(Delay::Time(micros(200))),
        );
        check(
            "prefill-delay=2us",
            Fault::PrefillDelay(Delay::Time(micros(2))),
        );
        check("wrong-token=50", Fault::WrongToken(50));
        check("empty-beside=1", Fault::EmptyBeside(1));
        check("usage-add=3", Fault::UsageAdd(3));
        check("merge=4", Fault::Merge(4));
        check(
            "slow-start=1.5ms",
            Fault::SlowStart(Delay::Time(micros(1500))),
        );
        let stall = Stall {
            every: 10,
            time: micros(200_000),
        };
        check("stall=10:200ms", Fault::Stall(stall));
        check("zero-gauge=a:b_c", Fault::ZeroGauge("a:b_c".into()));
        check("rising-gauge=kv", Fault::RisingGauge("kv".into()));
    }

    #[test]
    fn others_are_refused_with_the_list() {
        for spec in [
            "",
            "slow",
            "decode-delay",
            "decode-delay=",
            "decode-delay=20",
            "decode-delay=0%",
            "decode-delay=1e300s",
            "merge=0",
            "stall=200ms",
            "stall=0:1ms",
            "stall=4:10%",
            "zero-gauge=",
            "zero-gauge=a{b}",
            "hang-after=3",
        ] {
            let error = spec.parse::<Fault>().unwrap_err().to_string();
            assert!(error.contains("rising-gauge=NAME"), "{spec}: {error}");
        }
    }

    #[test]
    fn faults_add_up() {
        let specs = ["merge=2", "merge=4", "zero-gauge=a", "zero-gauge=b"];
        let faults: Faults = specs
            .map(|spec| spec.parse::<Fault>().unwrap())
            .into_iter()
            .collect();
        let expect = Faults {
            merge: Some(4),
            zero_gauges: vec!["a".into(), "b".into()],
            ..Faults::default()
        };
        assert_eq!(faults, expect);
        assert!(faults.touch_streams() && faults.touch_gauges() && !faults.touch_answers());
    }
}
