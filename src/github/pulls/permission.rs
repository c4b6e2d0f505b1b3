//! A person's permission in a repository (GitHub, "Get repository permissions for a user").

use crate::wire::Account;
use crate::{Client, Error, segment};
use serde::Deserialize;

/// The base level that GitHub tells: `maintain` reads as write, `triage` as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    Admin,
    Write,
    Read,
    None,
}

impl Permission {
    pub fn may_write(self) -> bool {
        matches!(self, Self::Admin | Self::Write)
    }
}

/// Whether an account is somebody's: a bot's word approves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonKind {
    User,
    /// A bot, an organisation, or an account that is gone.
    Other,
}

impl PersonKind {
    /// From GitHub's `type` of an account.
    pub fn of(kind: &str) -> Self {
        if kind == "User" {
            Self::User
        } else {
            Self::Other
        }
    }
}

#[derive(Deserialize)]
struct Level {
    permission: String,
    user: Option<Account>,
}

impl Client {
    /// The permission of this account now. An unknown account, a bot, and a level that is not known here have none.
    pub async fn permission(&self, login: &str) -> Result<Permission, Error> {
        // So are the accounts of apps called, and no person can be.
        if login.ends_with("[bot]") {
            return Ok(Permission::None);
        }
        let route = self.route(&format!("/collaborators/{}/permission", segment(login)));
        match self.get::<Level>(&route).await {
            Ok(level) => Ok(of_person(&level, login)),
            Err(error) if error.status() == Some(404) => Ok(Permission::None),
            Err(error) => Err(error),
        }
    }
}

/// The level, if it is told of the very person that was asked about.
fn of_person(level: &Level, login: &str) -> Permission {
    let is_same = |user: &Account| {
        PersonKind::of(&user.kind) == PersonKind::User && user.login.eq_ignore_ascii_case(login)
    };
    if !level.user.as_ref().is_some_and(is_same) {
        return Permission::None;
    }
    match level.permission.as_str() {
        "admin" => Permission::Admin,
        "write" => Permission::Write,
        "read" => Permission::Read,
        _ => Permission::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_person_of_that_name_has_a_level() {
        let level = |permission: &str, login: &str, kind: &str| Level {
            permission: permission.into(),
            user: Some(Account {
                login: login.into(),
                kind: kind.into(),
            }),
        };
        for (told, expect) in [
            (level("admin", "Ada", "User"), Permission::Admin),
            (level("write", "ada", "User"), Permission::Write),
            (level("read", "ada", "User"), Permission::Read),
            (level("none", "ada", "User"), Permission::None),
            (level("owner", "ada", "User"), Permission::None),
            (level("write", "ada", "Bot"), Permission::None),
            (level("write", "bob", "User"), Permission::None),
        ] {
            assert_eq!(of_person(&told, "ada"), expect);
        }
        let gone = Level {
            permission: "write".into(),
            user: None,
        };
        assert_eq!(of_person(&gone, "ada"), Permission::None);
    }
}
