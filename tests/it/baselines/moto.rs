//! A real server that speaks S3: moto's, from PyPI.

use super::runner::Runner;
use fixture::install::{or_skip, python_with};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

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
        // A port chosen here could be taken by another test's server before this one binds it.
        let server = Command::new(&python.program)
            .args(["-m", "moto.server", "--host", "127.0.0.1", "--port", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut moto = Self {
            server,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        };
        moto.address = moto.listening();
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

    /// Where it says that it listens; what it logs after that is thrown away.
    fn listening(&mut self) -> SocketAddr {
        let mut log = BufReader::new(self.server.stderr.take().unwrap());
        let mut said = String::new();
        while log.read_line(&mut said).unwrap() > 0 {
            let last = said.lines().next_back().unwrap_or_default();
            if let Some((_, address)) = last.split_once("Running on http://") {
                let address = address.trim_end().parse().unwrap();
                std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
                return address;
            }
        }
        panic!("moto's server does not listen: {said}");
    }

    fn make_bucket(&self) {
        let request = format!(
            "PUT /baselines HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            self.address
        );
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
