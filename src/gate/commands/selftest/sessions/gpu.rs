//! A stand-in of NVIDIA's exporter of GPU values, whose one GPU throttles when it is told to: throttling is then
//! read, kept and judged as on a machine that has a GPU.
//!
//! Main type: [`HotGpu`]. It lives in this process for one session of `gate selftest`; nothing outside can name
//! it, so that it can silence no telemetry.

use crate::session::{Error, ResultsError};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// NVML's reason "software thermal slowdown".
const THERMAL: u32 = 0x20;

/// A reader that says nothing must not hold the thread.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Default)]
struct GpuState {
    is_hot: AtomicBool,
    is_over: AtomicBool,
}

pub struct HotGpu {
    address: SocketAddr,
    state: Arc<GpuState>,
    thread: Option<JoinHandle<()>>,
}

impl HotGpu {
    pub fn start() -> Result<Self, Error> {
        let started = (|| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let address = listener.local_addr()?;
            let state = Arc::<GpuState>::default();
            let own = Arc::clone(&state);
            let thread = thread::Builder::new()
                .name("hot-gpu".into())
                .spawn(move || answer(&listener, &own))?;
            io::Result::Ok(Self {
                address,
                state,
                thread: Some(thread),
            })
        })();
        started.map_err(|source| {
            let path = "a port on 127.0.0.1".into();
            ResultsError::Write { path, source }.into()
        })
    }

    /// As `telemetry.gpu_exporter` names it.
    pub fn exporter(&self) -> String {
        format!("{}/metrics", self.address)
    }

    pub fn set_hot(&self, is_hot: bool) {
        self.state.is_hot.store(is_hot, Ordering::Relaxed);
    }
}

impl Drop for HotGpu {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread, which waits for a connection.
        if TcpStream::connect(self.address).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// One connection after another, until it is over. A reader that breaks off is the reader's matter.
fn answer(listener: &TcpListener, state: &GpuState) {
    for stream in listener.incoming() {
        if state.is_over.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(stream) = stream {
            let _ = answer_one(stream, state);
        }
    }
}

fn answer_one(mut stream: TcpStream, state: &GpuState) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    // The request's head ends with an empty line; it has no body.
    for line in BufReader::new(&stream).lines() {
        if line?.is_empty() {
            break;
        }
    }
    let bits = match state.is_hot.load(Ordering::Relaxed) {
        true => THERMAL,
        false => 0,
    };
    let body = format!("DCGM_FI_DEV_CLOCKS_EVENT_REASONS{{gpu=\"0\"}} {bits}\n");
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close";
    write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{body}")
}
