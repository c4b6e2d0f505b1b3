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

/// `a, b and 3 more`: the first `most` of these, of `all` in number.
pub fn first_of<T: AsRef<str>>(names: &[T], most: usize, all: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    match all.saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{count, first_of};

    #[test]
    fn one_is_no_plural_and_sibilants_take_es() {
        assert_eq!(count(1_u32, "launch"), "1 launch");
        assert_eq!(count(8_u64, "launch"), "8 launches");
        assert_eq!(count(2_usize, "other process"), "2 other processes");
        assert_eq!(count(0_u32, "check"), "0 checks");
    }

    #[test]
    fn names_beyond_the_first_are_counted() {
        assert_eq!(first_of(&["a", "b"], 2, 2), "a, b");
        assert_eq!(first_of(&["a", "b"], 1, 5), "a and 4 more");
    }
}
