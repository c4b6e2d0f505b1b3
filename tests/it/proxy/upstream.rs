//! A server of one answer, byte by byte as it is told.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    /// Each request's head and body, as it came.
    pub(crate) asked: Receiver<String>,
}

/// Lets a held answer go on.
pub(crate) type Release = Sender<()>;

impl Upstream {
    /// Answers every request with these parts, each written for itself.
    pub(crate) fn of(parts: &'static [&'static str]) -> Self {
        Self::holding(parts, usize::MAX).0
    }

    /// As [`Upstream::of`], but waits before part `held` of the first answer until it is released.
    pub(crate) fn holding(parts: &'static [&'static str], held: usize) -> (Self, Release) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, asked) = channel();
        let (release, released) = channel();
        thread::spawn(move || {
            let mut released = Some(released);
            for stream in listener.incoming().map_while(Result::ok) {
                let (tell, released) = (tell.clone(), released.take());
                thread::spawn(move || serve(stream, parts, held, released, &tell));
            }
        });
        (Self { address, asked }, release)
    }
}

/// Answers one request after another on a connection, until either side goes away.
fn serve(
    stream: TcpStream,
    parts: &[&str],
    held: usize,
    mut released: Option<Receiver<()>>,
    tell: &Sender<String>,
) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(request) = request(&mut reader) {
        let _ = tell.send(request);
        for (at, part) in parts.iter().enumerate() {
            if at == held
                && let Some(released) = released.take()
            {
                let _ = released.recv();
            }
            if stream.write_all(part.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut text = String::new();
    let mut length = 0;
    loop {
        let from = text.len();
        if reader.read_line(&mut text).ok()? == 0 {
            return None;
        }
        let line = text[from..].to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(text + &String::from_utf8(body).ok()?)
}
