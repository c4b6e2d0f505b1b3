use super::{Driver, Due, Ends, Finished, MOST_UNREAD, Planned, Queue, Unread, Wave};
use crate::response::exchange::Exchange;
use crate::socket::test_socket::stamped;
use crate::workloads::prompt::SentPrompt;
use crate::workloads::request_plan::{Expect, Label, Later, Pace};
use crate::workloads::{Output, completion, prompted, streamed};
use crate::{Endpoint, PromptSeed, SessionClock};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;
use verdict::plan::Shape;
use verdict::record::{Condition, Phase};

/// Answers each request of one connection with two tokens.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // A request is far smaller than the buffer, and the next one comes only after the answer.
        while stream.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {
            let body = r#"{"choices":[{"text":"a b","finish_reason":"stop"}],"usage":{"completion_tokens":2}}"#;
            let length = body.len();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

fn endpoint() -> Endpoint {
    Endpoint {
        prompt_ids: Some((1, 9)),
        forces_length: false,
        ..Endpoint::usual(server(), "m")
    }
}

/// A measured request of two tokens, answered whole.
fn planned(endpoint: &Endpoint, index: u32) -> Planned {
    let shape = Shape {
        streamed: false,
        ..streamed(2, 2)
    };
    let seed = PromptSeed {
        session: 1,
        block: 0,
    };
    let label = Label::of(index, Phase::Measured);
    completion(endpoint, "g/w", seed, shape, label)
}

#[tokio::test]
async fn a_client_that_is_late_does_not_move_the_moments() {
    let (endpoint, clock) = (endpoint(), SessionClock::start());
    let progress = |_, _| {};
    let mut driver = Driver::start(&endpoint, "g/w", &clock, &progress, (1, 3));
    let at_ns = clock.now_ns();
    let due = (0..3).map(|index| Due {
        planned: planned(&endpoint, index),
        at_ns: Some(at_ns),
        talk: None,
    });
    // Three are due at one moment, and there is one slot.
    let queue = Queue::new(due.collect(), Ends::NONE, 0);
    driver.send(&queue, 1, (0, 0)).await;
    let outcome = driver.finish();
    let stamps: Vec<_> = outcome
        .samples
        .iter()
        .map(|sample| &sample.stamps)
        .collect();
    assert_eq!(stamps.len(), 3);
    for stamps in &stamps {
        assert_eq!(stamps.intended_ns, at_ns);
    }
    for pair in stamps.windows(2) {
        assert!(pair[1].send_ns >= pair[0].done_ns.unwrap(), "{stamps:?}");
    }
    let late = (stamps[2].send_ns - at_ns) as f64 / 1e6;
    assert!((outcome.client.send_lag_ms.max - late).abs() < 1e-9);
}

#[tokio::test]
async fn requests_that_are_made_later_are_sent_like_the_others() {
    let (endpoint, clock) = (endpoint(), SessionClock::start());
    let progress = |_, _| {};
    for made in [0, 1, 3, 7] {
        let of = endpoint.clone();
        let later = (made..7).map(move |index| planned(&of, index));
        let requests = (0..made).map(|index| planned(&endpoint, index));
        let wave = Wave {
            later: Some(Later {
                number: 7 - made,
                requests: Box::new(later),
            }),
            ..Wave::new(requests.collect(), Pace::Slots(1))
        };
        assert_eq!(wave.len(), 7);
        let endpoint = Endpoint {
            address: server(),
            ..endpoint.clone()
        };
        let mut driver = Driver::start(&endpoint, "g/w", &clock, &progress, (1, 7));
        driver.wave(wave).await;
        let samples = driver.finish().samples;
        let sound = samples.iter().filter(|sample| sample.void.is_none());
        let sent: Vec<u32> = sound.map(|sample| sample.index).collect();
        assert_eq!(sent, [0, 1, 2, 3, 4, 5, 6], "{made}");
        let moments = samples.iter().map(|sample| sample.stamps.send_ns);
        assert!(moments.is_sorted(), "{made}");
    }
}

/// By less than a stamp's bounds show.
#[tokio::test]
async fn requests_of_a_time_in_which_the_clock_was_set_are_void() {
    let _stamps_go_on = stamped().await;
    let (endpoint, clock) = (endpoint(), SessionClock::start());
    let progress = |_, _| {};
    let mut driver = Driver::start(&endpoint, "g/w", &clock, &progress, (1, 2));
    for index in 0..2 {
        if index == 0 {
            clock.pretend_set(-5_000_000);
        }
        driver.one(planned(&endpoint, index), None).await;
    }
    let samples = driver.finish().samples;
    if !samples[0].stamps.kernel_stamps {
        return crate::skip::skip("this kernel stamps nothing");
    }
    let void = samples[0].void.as_ref().unwrap();
    assert!(void.detail.contains("was set by -5.0"), "{}", void.detail);
    assert_eq!(samples[1].void, None);
}

#[test]
fn answers_are_read_before_they_take_too_much_memory() {
    let mut unread = Unread::default();
    let mut held = 0;
    while unread.bytes <= MOST_UNREAD {
        let mut exchange = Exchange::begin(None, 0);
        // What is set aside counts, not what came.
        exchange.body.reserve_exact(MOST_UNREAD / 8);
        unread.hold(Finished {
            label: Label::of(held, Phase::Measured),
            expect: Expect::default(),
            exchange,
            talk: None,
        });
        held += 1;
    }
    assert_eq!((held, unread.is_due()), (8, true));
}

/// The client closes the connection once the answer begins, or before, and the next request has a new one.
#[tokio::test]
async fn a_request_that_is_left_is_sound() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint {
        forces_length: false,
        ..Endpoint::usual(listener.local_addr().unwrap(), "m")
    };
    let server = std::thread::spawn(move || {
        let mut heard = Vec::new();
        for is_answered in [true, false] {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            let event = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
            let answer = format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{event}\r\n",
                event.len()
            );
            if is_answered {
                stream.write_all(answer.as_bytes()).unwrap();
            }
            // Ends with the connection.
            heard.push(stream.read(&mut [0; 4096]).unwrap_or(0));
        }
        heard
    });
    let left = |index, time| {
        let output = Output {
            condition: Some(Condition::Left),
            leaves: Some(Duration::from_millis(time)),
            ..Output::streamed(8)
        };
        let said = SentPrompt::Text {
            text: "a".into(),
            unfit: None,
        };
        prompted(&endpoint, said, Label::of(index, Phase::Warmup), output)
    };
    let clock = SessionClock::start();
    let progress = |_, _| {};
    let mut driver = Driver::start(&endpoint, "g/w", &clock, &progress, (1, 2));
    let wave = Wave::new(vec![left(0, 60_000), left(1, 10)], Pace::Slots(1));
    driver.wave(wave).await;
    let samples = driver.finish().samples;
    assert_eq!(server.join().unwrap(), [0, 0]);
    let seen: Vec<_> = samples.iter().map(|s| (&s.void, &s.text)).collect();
    assert_eq!(seen, [(&None, &None), (&None, &None)]);
}
