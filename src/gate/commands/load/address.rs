//! Parsing of a server's address: `http://host[:port]` and nothing else.
//!
//! Main functions: [`authority`], its name; [`address`], where that is. Refuses to know: what is sent there.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long each of a name's addresses is tried.
const TRY: Duration = Duration::from_secs(1);

/// Where `http://host[:port]` is.
pub fn address(url: &str) -> Result<SocketAddr, String> {
    let authority = authority(url)?;
    let port_is_named = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.ends_with(']'));
    let named = if port_is_named {
        authority.to_owned()
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

/// The host and port of a URL that names nothing else.
pub fn authority(url: &str) -> Result<&str, String> {
    if url.starts_with("https://") {
        return Err(format!(
            "{url}: TLS is not spoken, since it would be timed too; give the server's plain http:// address"
        ));
    }
    let rest = url.strip_prefix("http://").ok_or_else(|| {
        format!("{url} is not the address of a server; write it as http://127.0.0.1:8000")
    })?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    match rest.split_once(['/', '?', '#', '@']) {
        None if !rest.is_empty() => Ok(rest),
        None => Err(format!(
            "{url} names no host; write it as http://127.0.0.1:8000"
        )),
        Some((host, _)) => Err(format!(
            "{url}: the routes are OpenAI's (/v1/completions) and not to be named; write http://{host}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{address, authority};

    #[test]
    fn only_a_plain_address_is_taken() {
        for (url, expect) in [
            ("http://127.0.0.1:8000", Ok("127.0.0.1:8000")),
            ("http://[::1]:8000/", Ok("[::1]:8000")),
            ("http://h", Ok("h")),
            ("https://h:1", Err("plain http://")),
            ("http://h:1/v1", Err("write http://h:1")),
            ("h:1", Err("http://127.0.0.1:8000")),
            ("http://", Err("no host")),
        ] {
            match (authority(url), expect) {
                (Ok(got), Ok(want)) => assert_eq!(got, want),
                (Err(got), Err(want)) => assert!(got.contains(want), "{url}: {got}"),
                (got, want) => panic!("{url}: {got:?}, not {want:?}"),
            }
        }
        let without_port = address("http://127.0.0.1").unwrap();
        assert_eq!(without_port, ([127, 0, 0, 1], 80).into());
        assert_eq!(address("http://[::1]").unwrap().port(), 80);
    }
}
