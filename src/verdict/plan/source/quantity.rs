//! Numbers with units as people write them: `15 ms`, `2 %`, `16 tokens`.

use crate::record::Unit;
use std::time::Duration;

/// A century: what is added to it a million times still is a moment.
const LONGEST_S: f64 = 3.2e9;

/// A time of so many seconds; `None` for one that no session can wait for.
pub fn time(seconds: f64) -> Option<Duration> {
    (0.0..=LONGEST_S)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

/// What a quantity measures; the parsed value is always in the unit named here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Milliseconds.
    Time,
    /// 0.02 for 2 %.
    Fraction,
    Tokens,
    Cases,
    Nats,
    Bytes,
    /// Microseconds per token.
    TimePerToken,
    /// Tokens per second.
    Rate,
    /// A pure number, written with `×`.
    Ratio,
    /// Processors' worth of work.
    Cores,
    /// A number without a unit.
    Number,
    PerToken,
    PerRequest,
    /// Joules per token.
    EnergyPerToken,
}

impl Dimension {
    /// In which dimension limits of a metric's unit are written.
    pub fn of(unit: Unit) -> Self {
        match unit {
            Unit::Milliseconds | Unit::MillisecondsPerToken => Self::Time,
            Unit::Tokens => Self::Tokens,
            Unit::Cases => Self::Cases,
            Unit::Fraction => Self::Fraction,
            Unit::Nats => Self::Nats,
            Unit::Bytes => Self::Bytes,
            Unit::MicrosecondsPerToken => Self::TimePerToken,
            Unit::TokensPerSecond => Self::Rate,
            Unit::Ratio => Self::Ratio,
            Unit::Number => Self::Number,
            Unit::PerToken => Self::PerToken,
            Unit::PerRequest => Self::PerRequest,
            Unit::JoulesPerToken => Self::EnergyPerToken,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "a time",
            Self::Fraction => "a percentage",
            Self::Tokens => "a number of tokens",
            Self::Cases => "a number of cases",
            Self::Nats => "nats",
            Self::Bytes => "a number of bytes",
            Self::TimePerToken => "a time per token",
            Self::Rate => "a rate",
            Self::Ratio => "a ratio",
            Self::Cores => "a number of cores",
            Self::Number => "a plain number",
            Self::PerToken => "a number per token",
            Self::PerRequest => "a number per request",
            Self::EnergyPerToken => "an energy per token",
        }
    }

    pub fn example(self) -> &'static str {
        match self {
            Self::Time => "\"15 ms\", \"2 s\" or \"30 min\"",
            Self::Fraction => "\"2 %\"",
            Self::Tokens => "\"16 tokens\"",
            Self::Cases => "\"0 cases\"",
            Self::Nats => "\"0.01 nats\"",
            Self::Bytes => "\"64 MiB\"",
            Self::TimePerToken => "\"0.5 µs/token\"",
            Self::Rate => "\"4 requests/s\" or \"9000 tokens/s\"",
            Self::Ratio => "\"1.05 ×\"",
            Self::Cores => "\"0.5 cores\"",
            Self::Number => "\"16.6\"",
            Self::PerToken => "\"62 per token\"",
            Self::PerRequest => "\"3 per request\"",
            Self::EnergyPerToken => "\"0.4 J/token\"",
        }
    }

    /// Unit names with the factor to this dimension's own unit.
    fn units(self) -> &'static [(&'static str, f64)] {
        match self {
            Self::Time => &[
                ("ns", 1e-6),
                ("us", 1e-3),
                ("µs", 1e-3),
                ("ms", 1.0),
                ("ms/token", 1.0),
                ("s", 1e3),
                ("min", 60e3),
                ("h", 3600e3),
                ("days", 86_400e3),
            ],
            Self::Fraction => &[("%", 0.01)],
            Self::Tokens => &[("tokens", 1.0), ("token", 1.0)],
            Self::Cases => &[("cases", 1.0), ("case", 1.0)],
            Self::Nats => &[("nats", 1.0)],
            Self::Bytes => &[
                ("B", 1.0),
                ("KiB", 1024.0),
                ("MiB", 1_048_576.0),
                ("GiB", 1_073_741_824.0),
            ],
            Self::TimePerToken => &[
                ("ns/token", 1e-3),
                ("us/token", 1.0),
                ("µs/token", 1.0),
                ("ms/token", 1e3),
            ],
            Self::Rate => &[
                ("tokens/s", 1.0),
                ("requests/s", 1.0),
                ("request/s", 1.0),
                ("requests/min", 1.0 / 60.0),
            ],
            Self::Ratio => &[("×", 1.0), ("x", 1.0)],
            Self::Cores => &[("cores", 1.0), ("core", 1.0)],
            Self::Number => &[("", 1.0)],
            Self::PerToken => &[("per token", 1.0), ("/token", 1.0)],
            Self::PerRequest => &[("per request", 1.0), ("/request", 1.0)],
            Self::EnergyPerToken => &[("J/token", 1.0), ("mJ/token", 1e-3)],
        }
    }
}

/// Parses `text`; the error says what is wrong with it, without naming where it stands.
pub fn parse(text: &str, dimension: Dimension) -> Result<f64, String> {
    let text = text.trim();
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_')))
        .unwrap_or(text.len());
    let (number, unit) = (text[..split].replace('_', ""), text[split..].trim());
    let value: f64 = number
        .parse()
        .map_err(|_| format!("`{text}` does not begin with a number"))?;
    if unit.is_empty() && dimension != Dimension::Number {
        return Err(format!("`{text}` has no unit"));
    }
    let Some((_, factor)) = dimension.units().iter().find(|(name, _)| *name == unit) else {
        return Err(format!("`{unit}` is no unit of {}", dimension.name()));
    };
    let value = value * factor;
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        Err(format!("`{text}` is negative or too large"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, dimension: Dimension, expect: Result<f64, &str>) {
        match (parse(text, dimension), expect) {
            (Ok(got), Ok(want)) => {
                assert!((got - want).abs() <= 1e-12 * want.abs(), "{text}: {got}")
            }
            (Err(got), Err(want)) => assert!(got.contains(want), "{text}: {got}"),
            (got, want) => panic!("{text}: {got:?}, expected {want:?}"),
        }
    }

    #[test]
    fn reads_what_people_write() {
        check("15 ms", Dimension::Time, Ok(15.0));
        check("15ms", Dimension::Time, Ok(15.0));
        check("250 µs", Dimension::Time, Ok(0.25));
        check("1.5 s", Dimension::Time, Ok(1500.0));
        check("2 %", Dimension::Fraction, Ok(0.02));
        check("16 tokens", Dimension::Tokens, Ok(16.0));
        check("0 cases", Dimension::Cases, Ok(0.0));
        check("1_000 tokens", Dimension::Tokens, Ok(1000.0));
        check("2 MiB", Dimension::Bytes, Ok(2_097_152.0));
        check("16.6", Dimension::Number, Ok(16.6));
        check("62 per token", Dimension::PerToken, Ok(62.0));
        check("350 mJ/token", Dimension::EnergyPerToken, Ok(0.35));
    }

    #[test]
    fn refuses_the_rest() {
        check("15 parsecs", Dimension::Time, Err("is no unit of a time"));
        check("15", Dimension::Time, Err("has no unit"));
        check("fast", Dimension::Time, Err("does not begin with a number"));
        check("-1 ms", Dimension::Time, Err("negative"));
        check(
            "2 ms",
            Dimension::Fraction,
            Err("is no unit of a percentage"),
        );
        check("2 per request", Dimension::PerToken, Err("is no unit"));
        check("2 tokens", Dimension::Number, Err("is no unit"));
        check("", Dimension::Time, Err("does not begin with a number"));
        check("1e400 ms", Dimension::Time, Err("is no unit"));
    }
}
