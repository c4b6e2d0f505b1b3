//! Signer of records: the workflow run in the environment, and its key if there is one.

use crate::baseline::{KEY_VARIABLE, Signer, SigningKey, WorkflowRun};
use crate::session::Error;
use std::env;
use std::str::FromStr;

/// From `GITHUB_RUN_ID`, `GITHUB_RUN_ATTEMPT` and the key's variable; all may be missing.
pub fn signer() -> Result<Signer, Error> {
    let id = number("GITHUB_RUN_ID")?;
    let attempt = number("GITHUB_RUN_ATTEMPT")?.unwrap_or(1);
    let key = env::var_os(KEY_VARIABLE).filter(|key| !key.is_empty());
    let key = key.map(|key| SigningKey::new(key.as_encoded_bytes()));
    Ok(Signer {
        tool: format!("infergate {}", env!("CARGO_PKG_VERSION")),
        run: id.map(|id| WorkflowRun { id, attempt }),
        key: key
            .transpose()
            .map_err(|short| Error::Usage(short.to_string()))?,
    })
}

fn number<N: FromStr>(name: &str) -> Result<Option<N>, Error> {
    let text = env::var(name).ok().filter(|text| !text.is_empty());
    let number = text.map(|text| text.parse());
    number.transpose().map_err(|_| {
        Error::Usage(format!(
            "{name} is no number: GitHub Actions sets it, unset it elsewhere"
        ))
    })
}
