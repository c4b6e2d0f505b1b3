//! Ports: those that engines are given, and those on which they listen.

use super::process::Process;
use super::sockets::Sockets;
use super::tree;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::{Range, RangeInclusive};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// A full queue of connections answers no later than this, or counts as closed: the process is looked at in between.
const CONNECT: Duration = Duration::from_secs(1);

/// Ports that are given out: below those that Linux draws for other sockets (32,768 to 60,999, ip(7)), which an engine opens
/// too while it loads its model.
const PORTS: Range<u16> = 16_384..32_768;

/// Ports that are tried.
const TRIES: u32 = 100;

/// A port that was free a moment ago.
pub fn free_port() -> io::Result<u16> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..TRIES {
        // Each `RandomState` has its own keys.
        let drawn = RandomState::new().hash_one(std::process::id());
        let port = PORTS.start + (drawn % PORTS.len() as u64) as u16;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(error) => last = error,
        }
    }
    Err(last)
}

pub async fn is_open(address: SocketAddr) -> bool {
    let connected = timeout(CONNECT, TcpStream::connect(address)).await;
    connected.is_ok_and(|stream| stream.is_ok())
}

/// The ports on which the process or its children listen, as far as this user may see them.
pub fn ports(process: &Process) -> Vec<u16> {
    let sockets = Sockets::read();
    let below = tree::below(process.pid(), &[]);
    let mut ports: Vec<u16> = below.iter().flat_map(|id| sockets.ports(id.pid)).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// The ports on which the process or its children listen, but for its own.
pub fn other_ports(process: &Process, address: SocketAddr) -> Vec<u16> {
    let mut ports = ports(process);
    ports.retain(|port| *port != address.port());
    ports
}

/// Returns once something listens there.
pub async fn opens(address: SocketAddr) {
    while !is_open(address).await {
        sleep(Duration::from_millis(1)).await;
    }
}

/// The range from which the kernel chooses ports (ip(7)).
pub fn ephemeral() -> RangeInclusive<u16> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let range = range.unwrap_or_default();
    let mut bounds = range
        .split_whitespace()
        .map_while(|bound| bound.parse().ok());
    bounds.next().unwrap_or(32_768)..=bounds.next().unwrap_or(u16::MAX)
}

/// Says that nothing listens on `address`, and which ports the process or its children listen on.
pub fn closed_but_for(process: &Process, address: SocketAddr) -> Option<String> {
    let ports = other_ports(process, address);
    let named: Vec<String> = ports.iter().map(u16::to_string).collect();
    let word = if ports.len() == 1 { "port" } else { "ports" };
    (!ports.is_empty()).then(|| {
        format!(
            "nothing listens on {address} (`{{port}}` in `serve`) so far; the engine, or a part of it, listens on {word} {}",
            named.join(", ")
        )
    })
}
