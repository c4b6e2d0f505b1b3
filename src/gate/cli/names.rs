//! Lists of names on the command line: between commas or spaces, and the argument may be repeated.

use clap::Args;
use std::str::FromStr;

/// Which gates of the profile a command is about.
#[derive(Args)]
pub struct GateArgs {
    /// Gates, separated by commas or spaces; repeatable [default: the profile's]
    #[arg(long = "gate", value_name = "NAME")]
    gates: Vec<Names>,
}

impl GateArgs {
    pub fn names(self) -> Vec<String> {
        all(self.gates)
    }
}

/// What one argument lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl FromStr for Names {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = text.split([',', ' ']).filter(|name| !name.is_empty());
        let names: Vec<String> = names.map(str::to_owned).collect();
        match names.is_empty() {
            // An empty list would stand for all.
            true => Err("it names nothing".to_owned()),
            false => Ok(Self(names)),
        }
    }
}

/// The names of all lists, in their order.
pub fn all(lists: Vec<Names>) -> Vec<String> {
    lists.into_iter().flat_map(|list| list.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_between_commas_or_spaces() {
        let read = |lists: &[&str]| {
            let lists: Result<Vec<Names>, String> = lists.iter().map(|list| list.parse()).collect();
            lists.map(all)
        };
        for lists in [&["a,b,c"][..], &["a b", "c"], &["a, b", " c "]] {
            let names = ["a", "b", "c"].map(str::to_owned).to_vec();
            assert_eq!(read(lists), Ok(names), "{lists:?}");
        }
        for nothing in ["", " ", ","] {
            assert!(read(&[nothing]).is_err(), "{nothing:?}");
        }
    }
}
