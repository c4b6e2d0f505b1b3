//! Recorder of traffic: samples in `samples.jsonl`, lengths and moments in `trace.jsonl`.
//!
//! Main types: [`Recorder`], which all connections share, and [`Tap`], one request's. Answers are read and lines
//! written on a thread of the recorder's own: traffic never waits for it, and whatever becomes of the files, it goes on.
//! A line is one write, so what a killed proxy leaves is whole. Refuses to know: headers, which may hold a secret.

use bytes::Bytes;
use client::{Observed, SessionClock};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use verdict::record::Sample;

/// Bytes of samples at which a recording ends: as many as are read back.
const LIMIT: u64 = 1 << 30;

/// The workload of recorded samples.
const WORKLOAD: &str = "proxy/recorded";

const SAMPLES: &str = "samples.jsonl";
const TRACE: &str = "trace.jsonl";

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("{} holds a recording already; name another folder", .0.display())]
    There(PathBuf),
    #[error("cannot record to {}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Takes what the taps saw. Dropping the last one ends the recording.
#[derive(Debug)]
pub struct Recorder {
    clock: SessionClock,
    next: AtomicU32,
    seen: Mutex<Option<Sender<Seen>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// One exchange that is over.
struct Seen {
    index: u32,
    send_ns: u64,
    observed: Observed,
    request: Bytes,
}

impl Recorder {
    /// Makes the files in a folder, which is made where it is not there. `warn` hears why a recording ended early.
    ///
    /// # Errors
    /// A recording is there already, or nothing can be written.
    pub fn open(
        folder: &Path,
        texts: bool,
        warn: impl Fn(&str) + Send + 'static,
    ) -> Result<Arc<Self>, RecordError> {
        let failed = |path: &Path, source| RecordError::Io {
            path: path.to_path_buf(),
            source,
        };
        fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
        let new = |name: &str| {
            let path = folder.join(name);
            let mut options = OpenOptions::new();
            // Who asks how much, and when, is its owner's matter.
            options.append(true).create_new(true).mode(0o600);
            options.open(&path).map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => RecordError::There(folder.to_path_buf()),
                _ => failed(&path, source),
            })
        };
        let writer = Writer {
            samples: Lines::new(new(SAMPLES)?),
            trace: Lines::new(new(TRACE)?),
            texts,
            limit: LIMIT,
            held: BTreeMap::new(),
            next: 0,
            last_ms: 0.0,
            is_over: false,
        };
        let (seen, heard) = mpsc::channel();
        let writer = thread::spawn(move || writer.keep(&heard, &warn));
        Ok(Arc::new(Self {
            clock: SessionClock::start(),
            next: AtomicU32::new(0),
            seen: Mutex::new(Some(seen)),
            writer: Mutex::new(Some(writer)),
        }))
    }

    /// A request begins, with this body.
    pub fn tap(self: &Arc<Self>, request: Bytes) -> Tap {
        let send_ns = self.clock.now_ns();
        Tap {
            recorder: Arc::clone(self),
            index: self.next.fetch_add(1, Ordering::Relaxed),
            send_ns,
            read: 0,
            observed: Some(Observed::begin(send_ns)),
            request,
        }
    }

    /// Ends the recording: everything that is over is written.
    pub fn finish(&self) {
        drop(lock(&self.seen).take());
        if let Some(writer) = lock(&self.writer).take() {
            // A writer that panicked has said so.
            let _ = writer.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One request on its way; what it saw is recorded when it is dropped.
#[derive(Debug)]
pub struct Tap {
    recorder: Arc<Recorder>,
    index: u32,
    send_ns: u64,
    /// Reads of the answer's body so far.
    read: u64,
    observed: Option<Observed>,
    request: Bytes,
}

impl Tap {
    pub fn headers(&mut self, status: u16) {
        self.see(|observed, now_ns| observed.headers(now_ns, status));
    }

    /// What follows was read now.
    pub fn read(&mut self) {
        self.read += 1;
    }

    pub fn part(&mut self, bytes: &[u8]) {
        let read = self.read;
        self.see(|observed, now_ns| observed.part(now_ns, read, bytes));
    }

    pub fn end(&mut self) {
        self.see(|observed, now_ns| observed.end(now_ns));
    }

    pub fn cut(&mut self, why: String) {
        self.see(|observed, _| observed.cut(why));
    }

    fn see(&mut self, see: impl FnOnce(&mut Observed, u64)) {
        let now_ns = self.recorder.clock.now_ns();
        if let Some(observed) = &mut self.observed {
            see(observed, now_ns);
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        let Some(observed) = self.observed.take() else {
            return;
        };
        if let Some(seen) = &*lock(&self.recorder.seen) {
            let _ = seen.send(Seen {
                index: self.index,
                send_ns: self.send_ns,
                observed,
                request: std::mem::take(&mut self.request),
            });
        }
    }
}

/// The thread that reads and writes.
struct Writer {
    samples: Lines,
    trace: Lines,
    texts: bool,
    limit: u64,
    /// Lines of the trace whose turn has not come: it is in the order of sending, and requests end in any order.
    held: BTreeMap<u32, Option<(f64, String)>>,
    /// The index whose line comes next.
    next: u32,
    last_ms: f64,
    /// Nothing is written any more.
    is_over: bool,
}

impl Writer {
    fn keep(mut self, heard: &Receiver<Seen>, warn: &dyn Fn(&str)) {
        while let Ok(seen) = heard.recv() {
            if self.is_over {
                continue;
            }
            if let Err(why) = self.take(seen) {
                self.is_over = true;
                warn(&format!(
                    "the recording ends here: {why}; requests go on as before"
                ));
            }
        }
    }

    fn take(&mut self, seen: Seen) -> Result<(), String> {
        let Seen {
            index,
            send_ns,
            observed,
            request,
        } = seen;
        let sample = observed.sample(WORKLOAD, index, &request, self.texts);
        let line = serde_json::to_string(&sample).map_err(|error| error.to_string())?;
        if self.samples.bytes + line.len() as u64 >= self.limit {
            return Err(format!("{SAMPLES} has {} MiB", self.limit >> 20));
        }
        self.samples
            .write(&line)
            .map_err(|error| format!("cannot write {SAMPLES}: {error}"))?;
        let at_ms = send_ns as f64 / 1e6;
        self.held.insert(
            index,
            lengths(&sample, &request).map(|lengths| (at_ms, lengths)),
        );
        while let Some(line) = self.held.remove(&self.next) {
            self.next += 1;
            let Some((at_ms, lengths)) = line else {
                continue;
            };
            // Two that began at one moment may have their numbers the other way round.
            self.last_ms = self.last_ms.max(at_ms);
            let line = format!("{{\"timestamp\":{:.3},{lengths}}}", self.last_ms);
            self.trace
                .write(&line)
                .map_err(|error| format!("cannot write {TRACE}: {error}"))?;
        }
        Ok(())
    }
}

/// Prompt and answer in tokens: by usage, else about; `None` where nothing was answered.
fn lengths(sample: &Sample, request: &Bytes) -> Option<String> {
    let tokens = &sample.tokens;
    let prompt = tokens
        .prompt
        .unwrap_or_else(|| u32::try_from(prompt_tokens(request)).unwrap_or(u32::MAX));
    let output = tokens.completion.unwrap_or(tokens.events);
    let is_counted = tokens.prompt.is_some() && tokens.completion.is_some();
    (prompt > 0 && output > 0).then(|| {
        let about = if is_counted {
            ""
        } else {
            ",\"estimated\":true"
        };
        let lengths = json!({"input_length": prompt, "output_length": output}).to_string();
        format!("{}{about}", lengths.trim_matches(['{', '}']))
    })
}

/// A file of lines, each whole.
struct Lines {
    file: File,
    bytes: u64,
}

impl Lines {
    fn new(file: File) -> Self {
        Self { file, bytes: 0 }
    }

    /// Writes a line, or nothing of it.
    fn write(&mut self, line: &str) -> io::Result<()> {
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        match written {
            Ok(()) => self.bytes += line.len() as u64 + 1,
            // A disk that filled up took a part.
            Err(_) => self.file.set_len(self.bytes)?,
        }
        written
    }
}

/// A text of so many bytes counts as one token of a prompt.
const BYTES_A_TOKEN: usize = 4;

/// Tokens of a request's prompt: its ids, or an estimate from its text.
pub fn prompt_tokens(body: &[u8]) -> usize {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    tokens_of(&json["prompt"]) + tokens_of(&json["messages"])
}

fn tokens_of(prompt: &Value) -> usize {
    match prompt {
        Value::Number(_) => 1,
        Value::String(text) => text.len().div_ceil(BYTES_A_TOKEN),
        Value::Array(parts) => parts.iter().map(tokens_of).sum(),
        Value::Object(message) => message.get("content").map_or(0, tokens_of),
        Value::Null | Value::Bool(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &[u8] = br#"{"prompt":"eight by","stream":true}"#;

    fn writer(folder: &Path, limit: u64) -> Writer {
        let new = |name| Lines::new(File::create_new(folder.join(name)).unwrap());
        Writer {
            samples: new(SAMPLES),
            trace: new(TRACE),
            texts: false,
            limit,
            held: BTreeMap::new(),
            next: 0,
            last_ms: 0.0,
            is_over: false,
        }
    }

    /// A streamed answer of one token.
    fn seen(index: u32) -> Seen {
        let send_ns = u64::from(index) * 1_000_000;
        let mut observed = Observed::begin(send_ns);
        observed.headers(send_ns, 200);
        observed.part(
            send_ns,
            1,
            b"data: {\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
        );
        observed.end(send_ns);
        Seen {
            index,
            send_ns,
            observed,
            request: Bytes::from_static(REQUEST),
        }
    }

    #[test]
    fn a_trace_is_in_the_order_of_sending() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), LIMIT);
        for index in [1, 2, 0, 3] {
            writer.take(seen(index)).unwrap();
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let trace = read(TRACE);
        let first =
            "{\"timestamp\":0.000,\"input_length\":2,\"output_length\":1,\"estimated\":true}";
        assert_eq!(trace.lines().next(), Some(first));
        let times: Vec<&str> = trace.lines().map(|line| &line[13..18]).collect();
        assert_eq!(times, ["0.000", "1.000", "2.000", "3.000"]);
        let indices: Vec<u32> = read(SAMPLES)
            .lines()
            .map(|line| serde_json::from_str::<Sample>(line).unwrap().index)
            .collect();
        assert_eq!(indices, [1, 2, 0, 3]);
    }

    #[test]
    fn a_recording_ends_at_its_limit_and_where_nothing_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut short = writer(folder.path(), 100);
        assert!(
            short
                .take(seen(0))
                .unwrap_err()
                .contains("samples.jsonl has")
        );
        assert_eq!(fs::read_to_string(folder.path().join(SAMPLES)).unwrap(), "");
        // /dev/full takes nothing.
        let folder = tempfile::tempdir().unwrap();
        let mut full = writer(folder.path(), LIMIT);
        full.samples = Lines::new(OpenOptions::new().append(true).open("/dev/full").unwrap());
        let why = full.take(seen(0)).unwrap_err();
        assert!(why.contains("cannot write samples.jsonl"), "{why}");
    }

    #[test]
    fn a_prompts_tokens_are_its_ids_or_a_quarter_of_its_bytes() {
        let check =
            |body: &str, expect| assert_eq!(prompt_tokens(body.as_bytes()), expect, "{body}");
        check(r#"{"prompt": [5, 6, 7]}"#, 3);
        check(r#"{"prompt": [[5, 6], [7]]}"#, 3);
        check(r#"{"prompt": "eight by"}"#, 2);
        check(
            r#"{"messages": [{"role": "user", "content": "abc"}, {"content": "defgh"}]}"#,
            3,
        );
        check("no json", 0);
    }
}
