//! A server that follows a script, byte by byte: what it sends, when, and how it ends.

use serde_json::Value;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Barrier, watch};
use tokio_rustls::TlsAcceptor;

/// What happens on the connection after a request was read.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// One write.
    Send(Vec<u8>),
    Pause(u64),
    /// Go on when so many connections have come to this point.
    Meet(Arc<Barrier>),
    /// Say nothing more, and keep the connection as long as the client does.
    Hang,
    Close,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) path: String,
    /// The `Host` header.
    /// The request line and the headers.
    pub(crate) head: String,
    pub(crate) host: String,
    pub(crate) json: Value,
    /// Ordinal of its connection, from 0.
    pub(crate) connection: usize,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    /// Connections that are open now.
    open: watch::Receiver<usize>,
}

impl Server {
    /// Answers request `n` (from 0, in the order of arrival) with `script(n, request)`.
    pub(crate) async fn start(
        script: impl Fn(usize, &Received) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        Self::start_behind(None, script).await
    }

    /// The same behind TLS; each write is a record.
    pub(crate) async fn start_behind(
        tls: Option<TlsAcceptor>,
        script: impl Fn(usize, &Received) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let (log, script) = (Arc::clone(&received), Arc::new(script));
        let (counter, open) = watch::channel(0);
        tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let (log, script) = (Arc::clone(&log), Arc::clone(&script));
                let (counter, tls) = (counter.clone(), tls.clone());
                counter.send_modify(|open| *open += 1);
                tokio::spawn(async move {
                    // A client that goes away ends its connection.
                    let _gone = match tls {
                        None => serve(stream, connection, &log, &*script).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, connection, &log, &*script).await,
                            Err(error) => Err(error),
                        },
                    };
                    counter.send_modify(|open| *open -= 1);
                });
            }
        });
        Self {
            address,
            received,
            open,
        }
    }

    /// Completes when no connection is open.
    pub(crate) async fn all_ended(&self) {
        let mut open = self.open.clone();
        open.wait_for(|open| *open == 0).await.unwrap();
    }

    /// Requests so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    connection: usize,
    log: &Mutex<Vec<Received>>,
    script: &(dyn Fn(usize, &Received) -> Vec<Step> + Send + Sync),
) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let request = read_request(&mut stream, &mut buffer, connection).await?;
        let number = {
            let mut log = log.lock().unwrap();
            log.push(request.clone());
            log.len() - 1
        };
        for step in script(number, &request) {
            match step {
                Step::Send(bytes) => {
                    stream.write_all(&bytes).await?;
                    stream.flush().await?;
                }
                Step::Pause(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                Step::Meet(barrier) => {
                    barrier.wait().await;
                }
                // Until the client goes away.
                Step::Hang => read_more(&mut stream, &mut buffer).await?,
                Step::Close => return Ok(()),
            }
        }
    }
}

async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
    connection: usize,
) -> std::io::Result<Received> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        read_more(stream, buffer).await?;
    };
    let head = String::from_utf8(buffer[..head_end].to_vec()).unwrap();
    let header = |name| head.lines().find_map(|line| line.strip_prefix(name));
    let length = header("content-length: ").map_or(0, |length| length.parse::<usize>().unwrap());
    let host = header("host: ").unwrap_or_default().to_owned();
    while buffer.len() < head_end + length {
        read_more(stream, buffer).await?;
    }
    let json = serde_json::from_slice(&buffer[head_end..head_end + length]).unwrap_or(Value::Null);
    buffer.drain(..head_end + length);
    let path = head.split(' ').nth(1).unwrap().to_owned();
    Ok(Received {
        path,
        head,
        host,
        json,
        connection,
    })
}

async fn read_more(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> std::io::Result<()> {
    let count = stream.read_buf(buffer).await?;
    if count == 0 {
        Err(std::io::ErrorKind::UnexpectedEof.into())
    } else {
        Ok(())
    }
}

/// The head of a chunked event stream.
pub(crate) fn stream_head() -> Step {
    send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
}

/// One chunk in one write.
pub(crate) fn chunk(text: &str) -> Step {
    send(&format!("{:x}\r\n{text}\r\n", text.len()))
}

/// The end of a chunked body.
pub(crate) fn end() -> Step {
    send("0\r\n\r\n")
}

pub(crate) fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

/// A whole answer with its length.
pub(crate) fn answer(status: &str, body: &str) -> Vec<Step> {
    let length = body.len();
    vec![send(&format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}"
    ))]
}

/// A stream of the given chunks, each in a write of its own, with its proper end.
pub(crate) fn stream(chunks: &[String]) -> Vec<Step> {
    let chunks = chunks.iter().map(|text| chunk(text));
    [stream_head()]
        .into_iter()
        .chain(chunks)
        .chain([end()])
        .collect()
}
