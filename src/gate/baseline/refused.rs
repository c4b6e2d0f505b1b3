//! Why the bytes of a record are not used.

use super::bounds::{self, BoundsError, MOST_BYTES};
use super::format::FormatError;
use super::sign_off::SignOffError;

/// Why a record is not used; each names what is wrong with it.
#[derive(Debug, thiserror::Error)]
pub enum RefusedRecord {
    #[error("it is no text")]
    Text,
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("it is not JSON")]
    Json(#[source] serde_json::Error),
    #[error(transparent)]
    Bounds(#[from] BoundsError),
    #[error(transparent)]
    SignOff(#[from] SignOffError),
    #[error("it holds another record, which belongs at {0}")]
    Name(String),
}

impl RefusedRecord {
    /// With its cause, as one sentence.
    pub fn reason(&self) -> String {
        let cause = std::error::Error::source(self);
        cause.map_or_else(|| self.to_string(), |cause| format!("{self}: {cause}"))
    }
}

/// JSON within its bounds, as text.
pub fn text(bytes: &[u8]) -> Result<&str, RefusedRecord> {
    let size = bytes.len() as u64;
    if size > MOST_BYTES {
        return Err(BoundsError::Bytes { bytes: size }.into());
    }
    let text = std::str::from_utf8(bytes).map_err(|_| RefusedRecord::Text)?;
    let value = serde_json::from_str(text).map_err(RefusedRecord::Json)?;
    bounds::check_json(&value)?;
    Ok(text)
}
