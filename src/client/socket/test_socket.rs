//! A connection of which a test holds both ends.

use super::reader::Reader;
use super::stamps;
use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream as Peer};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

const LONGEST_START: Duration = Duration::from_secs(5);

pub async fn connected() -> (TcpStream, Peer) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let (peer, _) = listener.accept().unwrap();
    peer.set_nodelay(true).unwrap();
    (stream, peer)
}

/// One whose bytes are stamped, where the kernel stamps at all. It begins to a moment after the first socket has asked, and
/// goes on as long as one that has is open.
pub async fn stamped() -> (TcpStream, Peer) {
    let (stream, mut peer) = connected().await;
    stamps::ask(&stream);
    let mut reader = Reader::new();
    let begun = Instant::now();
    let mut is_stamped = false;
    while !is_stamped && begun.elapsed() < LONGEST_START {
        peer.write_all(b"data: a\n\n").unwrap();
        let taken = loop {
            match reader.read_event(stream.as_raw_fd(), 0..64) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    tokio::task::yield_now().await;
                }
                taken => break taken.unwrap(),
            }
        };
        is_stamped = taken.real.is_some();
    }
    (stream, peer)
}
