//! Memory that a load keeps of each request, counted by the allocator. It has a program of its own: no other test may
//! allocate meanwhile.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]
#![allow(unsafe_code, reason = "an allocator that counts")]

use client::{Endpoint, PromptSeed, SessionClock, run};
use infergate::commands::load::{Headers, LoadTally, Watch};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use verdict::plan::{Arrivals, Slo, Steady, Workload, WorkloadKind};

/// Bytes of each request of four tokens: a million are to have room in 512 MB, with as many again while the report is made.
const MOST_BYTES: usize = 240;

const STREAMS: u32 = 8;
const TOKENS: u32 = 4;

struct Counting;

/// Bytes that are allocated now.
static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: each call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A stream of four tokens, each in a write of its own, to each request of each connection.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let connection = connection.unwrap();
            std::thread::spawn(move || serve(connection));
        }
    });
    address
}

fn serve(mut connection: TcpStream) {
    connection.set_nodelay(true).unwrap();
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = |event: &str| format!("{:x}\r\ndata: {event}\n\n\r\n", event.len() + 8);
    let token = chunk(r#"{"choices":[{"index":0,"text":" w","finish_reason":null}]}"#);
    let finish = r#"{"choices":[{"index":0,"text":"","finish_reason":"length"}]}"#;
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":4}}"#;
    let end = [chunk(finish), chunk(usage), chunk("[DONE]")].concat() + "0\r\n\r\n";
    let mut parts = vec![head.to_owned() + &token];
    parts.resize(TOKENS as usize, token);
    parts.push(end);
    // A request is far smaller than the buffer, and the next one comes only after the answer.
    while connection.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {
        for part in &parts {
            if connection.write_all(part.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// Bytes that are kept at the end of a load of so many requests, before its report is made.
async fn kept(endpoint: &Endpoint, requests: u32) -> usize {
    let workload = Workload {
        id: "load/run".into(),
        launches: None,
        kind: WorkloadKind::Steady(Steady {
            requests,
            warmup: 0,
            prompt_tokens: 8,
            output_tokens: TOKENS,
            arrivals: Arrivals::Closed {
                concurrency: STREAMS,
            },
        }),
    };
    let seed = PromptSeed {
        session: 1,
        block: 0,
    };
    let (headers, clock) = (Headers::default(), SessionClock::start());
    let before = LIVE.load(Relaxed);
    let tally = LoadTally::new(Some(STREAMS), Slo::default());
    let watch = Watch::new(tally, &headers, &|_, _| {}, None);
    let outcome = run(endpoint, &workload, seed, &clock, &watch).await;
    let bytes = LIVE.load(Relaxed) - before;
    let (tally, _) = watch.end();
    assert_eq!(
        (tally.requests.ok, outcome.stopped),
        (requests as usize, None)
    );
    let numbers = tally.run.numbers();
    assert_eq!(numbers.e2e_ms.len(), requests as usize);
    bytes
}

#[tokio::test]
async fn a_load_keeps_few_bytes_of_each_request() {
    let endpoint = Endpoint {
        prompt_ids: Some((3, 384)),
        ..Endpoint::usual(server(), "m")
    };
    // Powers of two, at which what grows by doubling is full.
    let (few, many) = (1 << 11, 1 << 13);
    let bytes = kept(&endpoint, many).await - kept(&endpoint, few).await;
    let each = bytes / (many - few) as usize;
    assert!(
        each <= MOST_BYTES,
        "{each} bytes of each request are kept, more than {MOST_BYTES}"
    );
    // What the numbers need is kept indeed: times in f64, events, phases.
    assert!(each >= 100, "{each}");
}
