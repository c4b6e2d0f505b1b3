//! Sizes in bytes as they stand on the command line: `8MiB`, `2G`, `500000`.

use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a size is a whole number, at least 1, and K, M, G or T (powers of 1000) or KiB, MiB, GiB or TiB (powers of 1024)"
)]
pub struct SizeError;

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let digits = text.find(|c: char| !c.is_ascii_digit());
        let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
        let unit: u64 = match unit {
            "" | "B" => 1,
            "K" | "KB" => 1000,
            "M" | "MB" => 1000_u64.pow(2),
            "G" | "GB" => 1000_u64.pow(3),
            "T" | "TB" => 1000_u64.pow(4),
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            _ => return Err(SizeError),
        };
        let bytes = number.parse::<u64>().ok();
        let bytes = bytes.and_then(|number| number.checked_mul(unit));
        bytes.filter(|bytes| *bytes > 0).map(Self).ok_or(SizeError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_and_a_unit() {
        let check = |text: &str, expect: Option<u64>| {
            assert_eq!(text.parse().ok(), expect.map(Size), "{text}");
        };
        check("1", Some(1));
        check("500000", Some(500_000));
        check("7B", Some(7));
        check("2K", Some(2000));
        check("2KiB", Some(2048));
        check("8MiB", Some(8 << 20));
        check("3MB", Some(3_000_000));
        check("2G", Some(2_000_000_000));
        check("2GiB", Some(2 << 30));
        check("1TiB", Some(1 << 40));
        check("1T", Some(1_000_000_000_000));
        for wrong in [
            "",
            "0",
            "0G",
            "G",
            "-1",
            "+1",
            "1.5G",
            "1 G",
            "1g",
            "1Gi",
            "1PiB",
            "99999999999999999999",
            "99999999TiB",
        ] {
            check(wrong, None);
        }
    }
}
