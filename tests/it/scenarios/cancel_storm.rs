//! Hundreds of clients that go away at any point of their answers: nothing of them is left.

use super::answer::{self, Mode};
use super::random;
use super::rest::aborted_once_at_rest;
use fixture::process::Server;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

const CLIENTS: usize = 240;
/// Clients that are connected at the same time.
const AT_ONCE: usize = 12;
/// Tokens that a client asks for which leaves: some 60 KB of a stream, and it reads 20 at the most.
const LONG: u32 = 300;

/// Where a client goes away.
#[derive(Clone, Copy, Debug)]
enum Leaves {
    InItsRequest,
    BeforeTheHead,
    /// After so many bytes of the answer.
    After(usize),
    /// It stays to the end: storms must not harm others.
    Never,
}

#[test]
fn clients_that_leave_at_random_points_leave_nothing_behind() {
    let server = Server::start(&["--threads", "0"]);
    let mut random = random::numbers(16);
    let prompts: Vec<Vec<u32>> = (0..4u32)
        .map(|one| (10 + one..60 + 7 * one).collect())
        .collect();
    let alone: Vec<_> = prompts
        .iter()
        .map(|prompt| {
            let mut body = answer::forced(prompt, 24, Mode::Streamed);
            body["cache_prompt"] = json!(false);
            let connection = answer::send_together(server.address, &[body]).remove(0);
            answer::read(connection, Mode::Streamed).unwrap().0
        })
        .collect();
    let mut connected: VecDeque<(usize, Leaves, TcpStream)> = VecDeque::new();
    let leave = |(prompt, leaves, connection): (usize, Leaves, TcpStream)| match leaves {
        Leaves::Never => {
            let (answer, _) = answer::read(connection, Mode::Streamed).unwrap();
            assert_eq!(answer, alone[prompt], "in the storm");
        }
        Leaves::After(bytes) => read_some(connection, bytes),
        Leaves::InItsRequest | Leaves::BeforeTheHead => {}
    };
    for client in 0..CLIENTS {
        let prompt = random.next().unwrap() % prompts.len();
        let leaves = match client % 10 {
            0 => Leaves::InItsRequest,
            1 | 2 => Leaves::BeforeTheHead,
            3 => Leaves::Never,
            _ => Leaves::After(1 + random.next().unwrap() % 20_000),
        };
        let connection = send(&server, &body(&prompts[prompt], leaves, client), leaves);
        connected.push_back((prompt, leaves, connection));
        if connected.len() == AT_ONCE {
            let first = random.next().unwrap() % AT_ONCE;
            leave(connected.remove(first).unwrap());
        }
    }
    connected.into_iter().for_each(leave);

    let aborted = aborted_once_at_rest(&server);
    assert!(aborted > 0.0, "no request was cut short");
    let after = answer::forced(&prompts[0], 24, Mode::Whole);
    let connection = answer::send_together(server.address, &[after]).remove(0);
    assert_eq!(answer::read(connection, Mode::Whole).unwrap().0, alone[0]);
}

/// Who leaves asks for more than it waits for, streamed or whole.
fn body(prompt: &[u32], leaves: Leaves, client: usize) -> Value {
    match leaves {
        Leaves::Never => answer::forced(prompt, 24, Mode::Streamed),
        Leaves::After(_) => answer::forced(prompt, LONG, Mode::Streamed),
        _ if client.is_multiple_of(2) => answer::forced(prompt, LONG, Mode::Whole),
        _ => answer::forced(prompt, LONG, Mode::Streamed),
    }
}

fn send(server: &Server, body: &Value, leaves: Leaves) -> TcpStream {
    let Leaves::InItsRequest = leaves else {
        return answer::send_together(server.address, std::slice::from_ref(body)).remove(0);
    };
    let bytes = answer::bytes(body);
    let mut connection = TcpStream::connect(server.address).unwrap();
    connection.write_all(&bytes[..bytes.len() / 2]).unwrap();
    connection
}

fn read_some(mut connection: TcpStream, bytes: usize) {
    let mut buffer = vec![0; bytes];
    connection.read_exact(&mut buffer).unwrap();
    assert!(
        buffer.starts_with(b"HTTP/1.1 200 ") || bytes < 13,
        "{}",
        String::from_utf8_lossy(&buffer)
    );
}
