//! An HTTP server on threads that answers by a script and counts what it was asked.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Far beyond any test's length: a test that waits so long has failed.
const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) enum Answer {
    Text(&'static str),
    Status(u16),
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    count: Arc<(Mutex<usize>, Condvar)>,
}

impl Server {
    /// Answers request `n` (from 0) for a path with `script(path, n)`.
    pub(crate) fn start(script: impl Fn(&str, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let count = Arc::new((Mutex::new(0), Condvar::new()));
        let (counted, script) = (Arc::clone(&count), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (counted, script) = (Arc::clone(&counted), Arc::clone(&script));
                std::thread::spawn(move || serve(stream, &counted, &*script));
            }
        });
        Self { address, count }
    }

    pub(crate) fn requests(&self) -> usize {
        *self.count.0.lock().unwrap()
    }

    pub(crate) fn await_requests(&self, wanted: usize) {
        let (count, changed) = &*self.count;
        let guard = count.lock().unwrap();
        let waiting = |count: &mut usize| *count < wanted;
        let (_count, waited) = changed
            .wait_timeout_while(guard, DEADLINE, waiting)
            .unwrap();
        assert!(
            !waited.timed_out(),
            "only {} requests came",
            self.requests()
        );
    }
}

fn serve(
    stream: TcpStream,
    count: &(Mutex<usize>, Condvar),
    script: &dyn Fn(&str, usize) -> Answer,
) {
    let mut writer = stream.try_clone().unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(first) = lines.next() {
        // The head's other lines say nothing that matters; a GET has no body.
        lines
            .by_ref()
            .take_while(|line| !line.is_empty())
            .for_each(drop);
        let number = {
            let mut count = count.0.lock().unwrap();
            *count += 1;
            *count - 1
        };
        let path = first.split(' ').nth(1).unwrap();
        let (status, body) = match script(path, number) {
            Answer::Text(text) => (200, text),
            Answer::Status(status) => (status, ""),
        };
        let head = format!(
            "HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let sent = writer.write_all(format!("{head}{body}").as_bytes());
        count.1.notify_all();
        if sent.is_err() {
            return;
        }
    }
}
