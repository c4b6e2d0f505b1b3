//! A small HTTP/1.1 client on a plain socket, so that a server bug cannot hide in a shared library.
//!
//! One request a connection. [`Response`] reads its body piece by piece, as the server wrote it.

use nix::sys::socket::{setsockopt, sockopt};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any answer in these tests takes; reaching it is a failure.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    reader: BufReader<TcpStream>,
}

/// Sends bytes as they are and reads the head of the answer.
pub(crate) fn raw(address: SocketAddr, request: &[u8]) -> Response {
    let mut reader = BufReader::new(send(address, request));
    let status = line(&mut reader);
    let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
    let mut headers = Vec::new();
    loop {
        let header = line(&mut reader);
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').unwrap();
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Response {
        status: status.unwrap(),
        headers,
        reader,
    }
}

/// Sends bytes and waits for nothing.
pub(crate) fn send(address: SocketAddr, request: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(request).unwrap();
    stream
}

/// As [`send`], by a client with hardly any room for what comes.
pub(crate) fn send_with_little_room(address: SocketAddr, request: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    setsockopt(&stream, sockopt::RcvBuf, &1024).unwrap();
    stream.write_all(request).unwrap();
    stream
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Response {
    raw(
        address,
        format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").as_bytes(),
    )
}

pub(crate) fn post(address: SocketAddr, path: &str, body: &Value) -> Response {
    raw(
        address,
        &post_bytes(path, "application/json", &body.to_string()),
    )
}

/// A whole POST request.
pub(crate) fn post_bytes(path: &str, content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-type: {content_type}\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(one, _)| one == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The next HTTP chunk of a chunked body; `None` at its end.
    pub(crate) fn chunk(&mut self) -> Option<String> {
        assert_eq!(self.header("transfer-encoding"), Some("chunked"));
        let length = usize::from_str_radix(&line(&mut self.reader), 16).unwrap();
        let mut data = vec![0; length];
        self.reader.read_exact(&mut data).unwrap();
        assert_eq!(line(&mut self.reader), "");
        (length > 0).then(|| String::from_utf8(data).unwrap())
    }

    /// The data of the next server-sent event. Each must be a chunk of its own.
    pub(crate) fn event(&mut self) -> Option<String> {
        let chunk = self.chunk()?;
        let data = chunk
            .strip_prefix("data: ")
            .and_then(|rest| rest.strip_suffix("\n\n"));
        let data = data.unwrap_or_else(|| panic!("not one event: {chunk:?}"));
        assert!(
            !data.contains('\n'),
            "more than one event in a chunk: {chunk:?}"
        );
        Some(data.to_owned())
    }

    /// All events as JSON; the stream must end with `[DONE]`.
    pub(crate) fn events(mut self) -> Vec<Value> {
        let mut events: Vec<String> = std::iter::from_fn(|| self.event()).collect();
        assert_eq!(events.pop().as_deref(), Some("[DONE]"));
        events
            .iter()
            .map(|event| serde_json::from_str(event).unwrap())
            .collect()
    }

    pub(crate) fn text(mut self) -> String {
        if self.header("transfer-encoding").is_some() {
            return std::iter::from_fn(|| self.chunk()).collect();
        }
        let length = self.header("content-length").unwrap().parse().unwrap();
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }

    pub(crate) fn json(self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }
}

fn line(reader: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line.trim_end_matches(['\r', '\n']).to_owned()
}
