//! The values of planted faults, as `gate serve --fault` and `gate dev proxy --fault` are given them.
//!
//! Main type: [`Delay`]. Refuses to know: which faults there are.

use std::str::FromStr;
use std::time::Duration;

/// How much longer something takes; written `200us`, `1.5ms`, `2s` or `10%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delay {
    Time(Duration),
    /// Of its own time: 0.1 makes it 10 % longer.
    Share(f64),
}

impl Delay {
    /// The delay of something that took `own` time, or so many times a fixed one.
    pub fn of(self, own: Duration, times: usize) -> Duration {
        match self {
            Self::Time(time) => time.mul_f64(times as f64),
            Self::Share(share) => own.mul_f64(share),
        }
    }
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(value: &str) -> Result<Self, String> {
        let is_unit = |letter: char| letter.is_ascii_alphabetic() || letter == '%';
        let digits = value.trim_end_matches(is_unit);
        let number = digits.parse::<f64>().ok();
        let number = number.filter(|number| number.is_finite() && *number > 0.0);
        let number = number.ok_or_else(|| format!("`{value}` is not a delay"))?;
        let seconds = match &value[digits.len()..] {
            "%" => return Ok(Self::Share(number / 100.0)),
            "us" => number / 1e6,
            "ms" => number / 1e3,
            "s" => number,
            _ => return Err(format!("`{value}` is not a delay with a unit")),
        };
        let time = Duration::try_from_secs_f64(seconds);
        time.map(Self::Time)
            .map_err(|_| format!("`{value}` is too long"))
    }
}

/// A delay that is no share.
pub fn time(value: &str) -> Result<Duration, String> {
    match value.parse()? {
        Delay::Time(time) => Ok(time),
        Delay::Share(_) => Err(format!("`{value}` is a share where a time is needed")),
    }
}

pub fn count(value: &str) -> Result<u32, String> {
    match value.parse() {
        Ok(0) | Err(_) => Err(format!("`{value}` is not a whole number above 0")),
        Ok(number) => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_times_and_shares() {
        let time = |micros| Ok(Delay::Time(Duration::from_micros(micros)));
        assert_eq!("20us".parse(), time(20));
        assert_eq!("1.5ms".parse(), time(1_500));
        assert_eq!("2s".parse(), time(2_000_000));
        assert_eq!("10%".parse(), Ok(Delay::Share(0.1)));
        for wrong in ["", "20", "ms", "-1ms", "0%", "1e300s", "20parsec", "1 ms"] {
            let error = wrong.parse::<Delay>().unwrap_err();
            assert!(error.contains(&format!("`{wrong}`")), "{error}");
        }
    }

    #[test]
    fn a_share_is_no_time_and_nothing_no_count() {
        assert_eq!(time("200ms"), Ok(Duration::from_millis(200)));
        assert!(time("10%").is_err());
        assert_eq!(count("50"), Ok(50));
        for wrong in ["0", "", "-1", "x", "1.5"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }
}
