//! Percentages as they stand on the command line: `3%`, `0.7 %`.

use std::str::FromStr;

/// A fraction above 0: 0.03 for `3%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(pub f64);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a percentage is a number above 0 and `%`, such as 3%")]
pub struct PercentError;

impl FromStr for Percent {
    type Err = PercentError;

    fn from_str(text: &str) -> Result<Self, PercentError> {
        let number = text.trim().strip_suffix('%').ok_or(PercentError)?;
        let number = number.trim_end().parse::<f64>().map_err(|_| PercentError)?;
        let is_sane = number.is_finite() && number > 0.0;
        is_sane.then_some(Self(number / 100.0)).ok_or(PercentError)
    }
}

/// A chance above 0 and below 100 %.
pub fn chance(text: &str) -> Result<Percent, String> {
    let percent: Percent = text.parse().map_err(|e: PercentError| e.to_string())?;
    if percent.0 < 1.0 {
        Ok(percent)
    } else {
        Err("a chance lies below 100%".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_percentages_and_refuses_the_rest() {
        let check = |text: &str, expect: Option<f64>| {
            let got = text.parse::<Percent>().ok().map(|p| p.0);
            assert_eq!(got.map(f64::to_bits), expect.map(f64::to_bits), "{text}");
        };
        check("3%", Some(0.03));
        check("0.5 %", Some(0.005));
        check(" 150%", Some(1.5));
        for text in ["3", "", "%", "0%", "-1%", "NaN%", "inf%", "3 percent"] {
            check(text, None);
        }
        assert_eq!(chance("95%"), Ok(Percent(0.95)));
        assert!(chance("100%").is_err() && chance("x").is_err());
    }
}
