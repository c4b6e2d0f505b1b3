//! Parsing of a server's address: `http[s]://host[:port][/prefix][/v1]`.
//!
//! Main functions: [`ServerUrl::parse`]; [`ServerUrl::address`], where that is. Refuses to know: what is sent there.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long each of a name's addresses is tried.
const TRY: Duration = Duration::from_secs(1);

/// A server as its URL names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerUrl<'a> {
    pub url: &'a str,
    /// Host and port.
    pub authority: &'a str,
    /// What stands before `/v1/completions`: empty, or as `/prefix`.
    pub path: &'a str,
    /// Over TLS.
    pub is_secure: bool,
}

impl<'a> ServerUrl<'a> {
    /// A URL with or without the `/v1` that OpenAI's clients have in theirs.
    pub fn parse(url: &'a str) -> Result<Self, String> {
        // It may hold a key.
        let shown = match url.contains(['@', '?']) {
            true => "--url",
            false => url,
        };
        let secure = url.strip_prefix("https://");
        let rest = secure.or(url.strip_prefix("http://")).ok_or_else(|| {
            format!("{shown} is not the address of a server; write it as http://127.0.0.1:8000")
        })?;
        let (authority, path) = match rest.find('/') {
            Some(end) => rest.split_at(end),
            None => (rest, ""),
        };
        let path = path.trim_end_matches('/');
        let path = path.strip_suffix("/v1").unwrap_or(path);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._~%".contains(c);
        if authority.is_empty() {
            return Err(format!(
                "{shown} names no host; write it as http://127.0.0.1:8000"
            ));
        }
        if authority.contains(['?', '#', '@']) || !path.chars().all(is_plain) {
            return Err(format!(
                "{shown}: a host, a port and a path are enough; write http://127.0.0.1:8000, and a key by --api-key-env"
            ));
        }
        if path.ends_with("completions") {
            return Err(format!(
                "{shown}: the routes are OpenAI's (/v1/completions, --chat for /v1/chat/completions) and not to be named; \
                 write {}{authority}",
                url.trim_end_matches(rest)
            ));
        }
        Ok(Self {
            url,
            authority,
            path,
            is_secure: secure.is_some(),
        })
    }

    /// The host without its port, in brackets where it is an IPv6 address.
    pub fn host(self) -> &'a str {
        match self.authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => host,
            _ => self.authority,
        }
    }

    /// Where it listens.
    pub fn address(self) -> Result<SocketAddr, String> {
        let Self { url, authority, .. } = self;
        let named = if self.host() != authority {
            authority.to_owned()
        } else if self.is_secure {
            format!("{authority}:443")
        } else {
            format!("{authority}:80")
        };
        let unknown = |cause: String| format!("{url}: {cause}; check --url");
        let found = named
            .to_socket_addrs()
            .map_err(|e| unknown(e.to_string()))?;
        let addresses: Vec<SocketAddr> = found.collect();
        // A name such as localhost may stand for several, of which the server listens on one.
        let listening = |address: &&SocketAddr| TcpStream::connect_timeout(address, TRY).is_ok();
        let first = match addresses.as_slice() {
            [only] => Some(only),
            several => several.iter().find(listening).or(several.first()),
        };
        first.copied().ok_or_else(|| unknown("no address".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::ServerUrl;

    #[test]
    fn a_host_with_or_without_a_path_is_taken() {
        for (url, expect) in [
            ("http://127.0.0.1:8000", Ok(("127.0.0.1:8000", ""))),
            ("http://[::1]:8000/", Ok(("[::1]:8000", ""))),
            ("http://h", Ok(("h", ""))),
            ("http://h:1/v1", Ok(("h:1", ""))),
            ("http://h:1/llm/a/v1/", Ok(("h:1", "/llm/a"))),
            ("https://h:1", Ok(("h:1", ""))),
            ("https://h:1/v1/completions", Err("write https://h:1")),
            ("http://h:1/v1/chat/completions", Err("write http://h:1")),
            ("http://h:1/a?key=1", Err("--api-key-env")),
            ("http://me:secret@h:1", Err("--api-key-env")),
            ("https://me:secret@h:1", Err("--api-key-env")),
            ("h:1", Err("http://127.0.0.1:8000")),
            ("http://", Err("no host")),
        ] {
            match (ServerUrl::parse(url), expect) {
                (Ok(got), Ok(want)) => assert_eq!((got.authority, got.path), want),
                (Err(got), Err(want)) => assert!(got.contains(want), "{url}: {got}"),
                (got, want) => panic!("{url}: {got:?}, not {want:?}"),
            }
        }
        let address = |url| ServerUrl::parse(url).unwrap().address().unwrap();
        assert_eq!(address("http://127.0.0.1"), ([127, 0, 0, 1], 80).into());
        assert_eq!(address("http://[::1]").port(), 80);
        assert_eq!(address("https://[::1]").port(), 443);
        let host = |url| ServerUrl::parse(url).unwrap().host();
        assert_eq!(host("https://[::1]:8443"), "[::1]");
        assert_eq!((host("https://h:1"), host("https://h")), ("h", "h"));
    }
}
