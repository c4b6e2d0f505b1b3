//! A number of things in words. A leaf: judge, report, pipeline and command line speak of launches and checks alike.

use std::fmt::Display;

/// `1 launch`, `8 launches`, `0 checks`. Knows the endings of the words that are counted here: `-ch` and `-ss` take
/// `-es`, all others `-s`.
pub fn count<N: Display + PartialEq + From<u8>>(n: N, thing: &str) -> String {
    let ending = match thing {
        _ if n == N::from(1) => "",
        sibilant if sibilant.ends_with("ch") || sibilant.ends_with("ss") => "es",
        _ => "s",
    };
    format!("{n} {thing}{ending}")
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn one_is_no_plural_and_sibilants_take_es() {
        assert_eq!(count(1_u32, "launch"), "1 launch");
        assert_eq!(count(8_u64, "launch"), "8 launches");
        assert_eq!(count(2_usize, "other process"), "2 other processes");
        assert_eq!(count(0_u32, "check"), "0 checks");
    }
}
