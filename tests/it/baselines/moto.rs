//! A real server that speaks S3: moto's, from PyPI.

use super::runner::Runner;
use fixture::install::{or_skip, python_with};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// Tries to reach a server that starts; each waits for the one before to be refused.
const TRIES: u32 = 600;

pub(crate) struct Moto {
    server: Child,
    address: SocketAddr,
}

impl Moto {
    /// With a bucket `baselines`. Where it cannot be had, a line says so; with `INFERGATE_REQUIRE_CLIENTS=1`
    /// that is a failure.
    pub(crate) fn start() -> Option<Self> {
        let python = python_with("moto", include_str!("requirements.txt"));
        let python = or_skip("moto's server", python)?;
        let address = free();
        let server = Command::new(&python.program)
            .args(["-m", "moto.server", "--host", "127.0.0.1", "--port"])
            .arg(address.port().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let moto = Self { server, address };
        moto.make_bucket();
        Some(moto)
    }

    /// What a runner needs to use it.
    pub(crate) fn credentials(&self, runner: Runner) -> Runner {
        runner
            .with("AWS_ENDPOINT_URL", &format!("http://{}", self.address))
            .with("AWS_ALLOW_HTTP", "true")
            .with("AWS_REGION", "us-east-1")
            .with("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
            .with("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    }

    fn make_bucket(&self) {
        let request = format!(
            "PUT /baselines HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            self.address
        );
        let mut last = None;
        for _ in 0..TRIES {
            match TcpStream::connect(self.address) {
                Ok(mut stream) => {
                    stream.write_all(request.as_bytes()).unwrap();
                    let mut answer = String::new();
                    stream.read_to_string(&mut answer).unwrap();
                    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                    return;
                }
                // Nothing tells when it listens but that it does.
                Err(error) => last = Some(error),
            }
            std::thread::park_timeout(std::time::Duration::from_millis(50));
        }
        panic!("moto's server does not listen: {last:?}");
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// An address on which nobody listens.
fn free() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}
