//! The engine that incidents happen to: this test program once more, as a process that `gate` starts; or
//! threads of a test, where nothing starts it.
//!
//! It speaks as much of OpenAI's API as the gate asks for, keeps a prefix cache, counts and times itself,
//! and misbehaves as its arguments say: `KNOB=NUMBER`, see [`KNOBS`]. Where its machine is busy it is slower than
//! they say, and never faster: a token is never made sooner after the one before.
//!
//! Main type: [`Engine`]. Refuses to know: the gate, and what is expected of it.

mod answer;
mod counters;
mod http;
mod scored;

use http::{Call, Connection};
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

/// Name, value where nothing is said, meaning.
const KNOBS: [(&str, f64, &str); 64] = [
    ("port", 0.0, "where it listens; 0: anywhere"),
    (
        "boot",
        0.0,
        "ms that uploading the weights takes at the start",
    ),
    (
        "lazy",
        0.0,
        "ms more that its first generation takes: it loads what it needs then",
    ),
    ("dead", 0.0, "1: its health is fine and its worker is dead"),
    ("ttft", 2.0, "ms to the first token of a cached prompt"),
    (
        "prefill",
        0.0,
        "µs for each prompt token that is not cached",
    ),
    ("tpot", 2.0, "ms from one token to the next"),
    (
        "attend",
        0.0,
        "µs of each token's time for each token of context",
    ),
    (
        "cache",
        1.0,
        "0: every prompt is computed whole, whatever came before",
    ),
    (
        "claim_cached",
        0.0,
        "1: says of every prompt that it was cached",
    ),
    ("serial", 0.0, "1: requests are served one after another"),
    (
        "exclusive",
        0.0,
        "1: no token is made while a prompt is computed",
    ),
    ("crowd", 0.0, "with so many requests in flight …"),
    (
        "crowded",
        1.0,
        "… a token takes so many times as long; 0: never",
    ),
    ("cliff", 0.0, "at a prompt of so many tokens …"),
    (
        "slower",
        1.0,
        "… a token takes so many times as long; 0: never",
    ),
    (
        "whole",
        1.0,
        "an answer that is not streamed takes so many times as long",
    ),
    (
        "hold",
        0.0,
        "ms for which the network holds everything back",
    ),
    ("stall_each", 0.0, "each so-and-so-manieth request …"),
    ("stall", 0.0, "… waits for so many ms more; 0: none"),
    (
        "stop_at",
        0.0,
        "ends by itself after so many tokens; 0: goes on as asked",
    ),
    (
        "eos",
        0.0,
        "a chat answer without a forced length ends after this many tokens; 0: never",
    ),
    (
        "refuses",
        400.0,
        "status of a bad request; 0: it kills the process, 1: its connection",
    ),
    (
        "moved",
        0.0,
        "nats by which it finds each of its own tokens less likely",
    ),
    ("burst", 1.0, "tokens an event"),
    (
        "usage",
        1.0,
        "output tokens that usage counts for one; 0: sends no usage",
    ),
    (
        "timings",
        0.0,
        "1: tells its own times; 2: has them the wrong way round",
    ),
    (
        "space",
        0.0,
        "1: answers with one space where prompts of 1,024 to 2,048 tokens are cached and \
      another request is in flight",
    ),
    (
        "blank",
        0.0,
        "1: answers with one space where another request is in flight",
    ),
    (
        "swap",
        0.0,
        "1: answers a prompt as the other one that is in flight",
    ),
    (
        "same",
        0.0,
        "1: gives all prompts that are in flight together one wrong text",
    ),
    (
        "stranger",
        0.0,
        "1: answers a prompt that it has in its cache as if its first half were another's",
    ),
    (
        "pages",
        0.0,
        "1: answers a prompt as the first one whose whole pages of 16 tokens were the same",
    ),
    (
        "tie",
        0.0,
        "1: is undecided at one place of some answers, and decides otherwise where another request is in flight",
    ),
    (
        "wrong",
        0.0,
        "1: says another word at one place of every answer; more: to prompts of so many tokens alone",
    ),
    (
        "mute",
        0.0,
        "1: says nothing but white space, as long as it was asked to",
    ),
    (
        "halved",
        0.0,
        "1: makes half of the tokens and says that it made all: with usage=2",
    ),
    (
        "garbled",
        0.0,
        "1: lists the right tokens, and sends another text with them",
    ),
    (
        "moody",
        0.0,
        "1: never answers a prompt twice in the same words",
    ),
    ("logprobs", 1.0, "0: knows no log-probabilities"),
    (
        "leaks_stop",
        0.0,
        "1: sends the string that ends an answer too",
    ),
    (
        "forgets",
        0.0,
        "of a chat, 1: the system message, 2: the earlier turns",
    ),
    (
        "ascii",
        0.0,
        "reads a prompt's ASCII alone, 1: and counts the whole; 2: and counts what it reads",
    ),
    ("cuts", 0.0, "1: a streamed chat has a broken character"),
    (
        "draws",
        0.0,
        "at temperature 1: 1: the greedy answer, 2: another each time; 3: from other probabilities; 4: as 1, in chats alone",
    ),
    (
        "samples",
        0.0,
        "1: its sampler takes another word at one place; 2: other words each time",
    ),
    (
        "penalties",
        1.0,
        "0: ignores them; 2: gives them to all that come after; 3: refuses them; 4: is stricter; 5: ignores one kind",
    ),
    (
        "stale",
        0.0,
        "1: answers a prompt whose client left otherwise when it comes again",
    ),
    (
        "slots",
        0.0,
        "slots, of which each client that leaves keeps one; 0: it has enough",
    ),
    (
        "surprise",
        0.0,
        "nats that it finds every token of a text less likely",
    ),
    (
        "doubt",
        0.0,
        "of each so many tokens of a text, one that it finds less likely than another; 0: none",
    ),
    ("cut", 0.0, "1: scores but the first half of a text"),
    ("counters", 1.0, "0: serves no counters"),
    ("unknown", 0.0, "1: one of a counter's series is NaN"),
    ("dispatches", 48.0, "dispatches that it counts for a token"),
    ("buffers", 1.0, "command buffers that it counts for a token"),
    ("host", 90.0, "µs that it counts as the host's, for a token"),
    ("captures", 3.0, "graphs that it captures at its start"),
    ("preempts", 0.0, "preemptions that it counts for a request"),
    (
        "layout",
        1.0,
        "0: says that its KV cache is laid out wrongly",
    ),
    (
        "late",
        0.0,
        "ms after an answer's end at which it is counted",
    ),
    (
        "restarts",
        0.0,
        "1: its counters begin anew after each 12th request",
    ),
    ("kv", 1024.0, "bytes of KV cache a token, as its gauge says"),
    (
        "throttle",
        0.0,
        "why the GPU throttles, as the DCGM exporter says it; 0: no exporter",
    ),
];

/// What its arguments made of it.
#[derive(Debug)]
struct Knobs(HashMap<&'static str, f64>);

impl Knobs {
    /// Panics at a knob that is not there, or that is no number.
    fn read<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let mut knobs: HashMap<_, _> = KNOBS.iter().map(|knob| (knob.0, knob.1)).collect();
        for argument in arguments {
            let (name, value) = argument.split_once('=').expect("KNOB=NUMBER");
            let value = value.parse().expect("a number");
            *knobs
                .get_mut(name)
                .unwrap_or_else(|| panic!("no knob is called {name}")) = value;
        }
        Self(knobs)
    }

    fn get(&self, name: &str) -> f64 {
        self.0[name]
    }

    fn is_on(&self, name: &str) -> bool {
        self.get(name) > 0.0
    }

    fn count(&self, name: &str) -> usize {
        self.get(name) as usize
    }

    /// A knob in ms.
    fn ms(&self, name: &str) -> Duration {
        Duration::from_secs_f64(self.get(name) / 1e3)
    }

    /// A knob in µs for each of so many.
    fn us_each(&self, name: &str, n: usize) -> Duration {
        Duration::from_secs_f64(self.get(name) * n as f64 / 1e6)
    }
}

#[derive(Debug)]
pub(crate) struct Engine {
    knobs: Knobs,
    /// What uploading the weights really took.
    upload: Duration,
    in_flight: AtomicUsize,
    asked: AtomicUsize,
    /// Requests with penalties.
    penalised: AtomicUsize,
    /// Prompts in flight.
    prompts: Mutex<Vec<Vec<String>>>,
    /// Prompts whose clients left.
    left: Mutex<Vec<Vec<String>>>,
    /// Every prompt with its answer, as tokens.
    known: Mutex<Vec<Vec<String>>>,
    /// Whose turn it is, where requests are served one after another.
    turn: Mutex<()>,
    /// Held while a prompt is computed, where no token is made meanwhile.
    prefill: RwLock<()>,
    counted: counters::Counted,
}

/// Plays the engine until the process ends, if the arguments hold a port: `gate` started this program.
pub(crate) fn play() {
    let arguments: Vec<String> = std::env::args().filter(|word| word.contains('=')).collect();
    if arguments.iter().any(|word| word.starts_with("port=")) {
        let (engine, listener) = Engine::boot(arguments.iter().map(String::as_str));
        engine.serve(&listener);
    }
}

impl Engine {
    /// Serves on threads of this process, which end with it.
    pub(crate) fn start(arguments: &[&str]) -> SocketAddr {
        let (engine, listener) = Self::boot(arguments.iter().copied());
        let address = listener.local_addr().unwrap();
        thread::spawn(move || engine.serve(&listener));
        address
    }

    fn boot<'a>(arguments: impl IntoIterator<Item = &'a str>) -> (Arc<Self>, TcpListener) {
        let knobs = Knobs::read(arguments);
        let begun = Instant::now();
        thread::sleep(knobs.ms("boot"));
        let port = knobs.get("port") as u16;
        let engine = Self {
            knobs,
            upload: begun.elapsed(),
            in_flight: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            penalised: AtomicUsize::new(0),
            prompts: Mutex::default(),
            left: Mutex::default(),
            known: Mutex::default(),
            turn: Mutex::default(),
            prefill: RwLock::default(),
            counted: counters::Counted::default(),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("a free port");
        (Arc::new(engine), listener)
    }

    fn serve(self: Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming() {
            let engine = Arc::clone(&self);
            let stream = stream.unwrap();
            // A client that goes away ends its thread.
            thread::spawn(move || engine.talk(stream));
        }
    }

    fn talk(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut connection = Connection::new(stream)?;
        while let Some(call) = connection.read()? {
            match call {
                Call::Bad if !self.knobs.is_on("refuses") => std::process::exit(101),
                Call::Bad if self.knobs.count("refuses") == 1 => return Ok(()),
                Call::Bad => connection.page(
                    self.knobs.get("refuses") as u16,
                    r#"{"error":{"message":"a bad request"}}"#,
                )?,
                Call::Complete(_) if self.knobs.is_on("dead") => {
                    connection.page(500, r#"{"error":{"message":"the worker is dead"}}"#)?;
                }
                Call::Complete(ask) if ask.echo => self.score(&ask, &mut connection)?,
                Call::Complete(ask) => self.answer(&ask, &mut connection)?,
                Call::Metrics => connection.page(200, &self.metrics())?,
                Call::Health => connection.page(200, "{}")?,
            }
        }
        Ok(())
    }

    fn metrics(&self) -> String {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = known.iter().map(Vec::len).sum::<usize>();
        let (upload, kv) = (
            self.upload.as_secs_f64(),
            tokens as f64 * self.knobs.get("kv"),
        );
        let gpu = match self.knobs.count("throttle") {
            0 => String::new(),
            bits => format!("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{{gpu=\"0\"}} {bits}\n"),
        };
        let counters = self.counters();
        format!(
            "startup_seconds{{stage=\"upload\"}} {upload}\nstartup_seconds{{stage=\"listen\"}} 0.001\nkv_bytes_live {kv}\n{gpu}{counters}"
        )
    }

    /// How many tokens of this prompt's beginning are known, its last one never.
    fn cached(&self, prompt: &[String]) -> usize {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let common = |other: &Vec<String>| {
            let pairs = other.iter().zip(prompt);
            pairs.take_while(|(a, b)| a == b).count()
        };
        let longest = known.iter().map(common).max().unwrap_or(0);
        longest.min(prompt.len().saturating_sub(1))
    }

    /// The first prompt whose whole pages of 16 are those of this one; its last token is in none.
    fn page_twin(&self, prompt: &[String]) -> Option<Vec<String>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = prompt.len().saturating_sub(1) / 16 * 16;
        let mut twins = known.iter().filter_map(|it| it.get(..prompt.len()));
        let twin = twins.find(|it| whole > 0 && it[..whole] == prompt[..whole]);
        twin.map(<[String]>::to_vec)
    }

    fn remember(&self, tokens: Vec<String>) {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(tokens);
    }

    /// Counts one request in for as long as the guard lives.
    fn enter<'a>(&'a self, prompt: &'a [String]) -> Flight<'a> {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        self.prompts().push(prompt.to_vec());
        Flight(self, prompt)
    }

    /// A prompt in flight that is not this one.
    fn other_prompt(&self, prompt: &[String]) -> Option<Vec<String>> {
        self.prompts().iter().find(|it| *it != prompt).cloned()
    }

    fn left(&self) -> MutexGuard<'_, Vec<Vec<String>>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn prompts(&self) -> MutexGuard<'_, Vec<Vec<String>>> {
        self.prompts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Flight<'a>(&'a Engine, &'a [String]);

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
        let mut prompts = self.0.prompts();
        if let Some(at) = prompts.iter().position(|it| it == self.1) {
            prompts.remove(at);
        }
    }
}
