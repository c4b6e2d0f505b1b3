//! The address of GitHub's API: where a token may be sent.

use crate::{Error, clean};
use http::Uri;

/// Only TLS, but for this machine itself: a token in the open is a token given away.
pub fn address(text: &str) -> Result<Uri, Error> {
    let refused = |cause: &str| Error::BadAddress {
        address: clean(text, 100),
        cause: cause.into(),
    };
    let uri: Uri = text
        .trim_end_matches('/')
        .parse()
        .map_err(|_| refused("it is no URL"))?;
    let authority = uri.authority().ok_or_else(|| refused("it names no host"))?;
    if authority.as_str().contains('@') || uri.query().is_some() {
        return Err(refused("it must be scheme, host and path alone"));
    }
    let host = authority.host();
    let is_here = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    match uri.scheme_str() {
        Some("https") => Ok(uri),
        Some("http") if is_here => Ok(uri),
        _ => Err(refused("the token needs https")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_travels_under_tls_alone() {
        for good in [
            "https://api.github.com",
            "https://github.example.com/api/v3/",
            "http://127.0.0.1:8080",
            "http://localhost:1/api/v3",
        ] {
            assert!(address(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "api.github.com",
            "http://github.example.com/api/v3",
            "https://user:secret@github.example.com",
            "https://127.0.0.1@evil.example/",
            "https://api.github.com?x=1",
            "ftp://127.0.0.1",
            "http://127.0.0.1.evil.example",
        ] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
