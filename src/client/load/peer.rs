//! A connection of which a test holds both ends.

use std::net::{TcpListener, TcpStream as Peer};
use tokio::net::TcpStream;

pub async fn connected() -> (TcpStream, Peer) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let (peer, _) = listener.accept().unwrap();
    peer.set_nodelay(true).unwrap();
    (stream, peer)
}
