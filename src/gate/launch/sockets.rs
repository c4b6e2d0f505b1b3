//! TCP ports of this machine that processes listen on, by `/proc` (proc(5)).

use std::collections::HashMap;
use std::fs;

/// Where a connection to 127.0.0.1 arrives: there, at 0.0.0.0, at `::`, and at 127.0.0.1 as `tcp6` writes it.
const REACHED: [&str; 4] = [
    "0100007F",
    "00000000",
    "00000000000000000000000000000000",
    "0000000000000000FFFF00000100007F",
];

/// Sockets that listen on 127.0.0.1, as links of `/proc/PID/fd` name them, and their ports.
pub struct Sockets(HashMap<String, u16>);

impl Sockets {
    pub fn read() -> Self {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
        let text: String = tables.into_iter().flatten().collect();
        Self(text.lines().filter_map(listening).collect())
    }

    /// The ports of a process, as far as this user may see them.
    pub fn ports(&self, pid: i32) -> Vec<u16> {
        let links = fs::read_dir(format!("/proc/{pid}/fd"));
        let links = links.into_iter().flatten().flatten();
        let links = links.filter_map(|entry| fs::read_link(entry.path()).ok());
        let ports = links.filter_map(|link| self.0.get(link.to_str()?).copied());
        ports.collect()
    }
}

/// The socket and the port of a line of `/proc/net/tcp` or `tcp6`.
fn listening(line: &str) -> Option<(String, u16)> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (address, port) = fields.get(1)?.rsplit_once(':')?;
    let is_it = REACHED.contains(&address) && *fields.get(3)? == LISTEN;
    let port = u16::from_str_radix(port, 16).ok()?;
    is_it.then(|| Some((format!("socket:[{}]", fields.get(9)?), port)))?
}

#[cfg(test)]
mod tests {
    use super::{Sockets, listening};
    use std::net::TcpListener;

    #[test]
    fn listening_sockets_are_those_that_127_0_0_1_reaches() {
        let line = "   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 4321 1 0 100 0 0 10 0";
        let found = Some(("socket:[4321]".to_owned(), 8000));
        assert_eq!(listening(line), found);
        assert_eq!(listening(&line.replace("0100007F", "00000000")), found);
        assert_eq!(listening(&line.replace("0100007F", "0501A8C0")), None);
        assert_eq!(listening(&line.replace(" 0A ", " 01 ")), None);
        assert_eq!(listening("sl local_address"), None);
    }

    #[test]
    fn a_process_has_the_ports_that_it_listens_on() {
        let [first, second] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let port = |socket: &TcpListener| socket.local_addr().unwrap().port();
        drop(second.try_clone());
        let ours = Sockets::read().ports(std::process::id().cast_signed());
        assert!(ours.contains(&port(&first)) && ours.contains(&port(&second)));
        let gone = port(&first);
        drop(first);
        let ours = Sockets::read().ports(std::process::id().cast_signed());
        assert!(!ours.contains(&gone) && ours.contains(&port(&second)));
    }
}
