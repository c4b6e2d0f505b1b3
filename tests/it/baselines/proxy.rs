//! A bucket behind a proxy.

use super::runner::Runner;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

/// A proxy that lets nobody through, and what it was asked first.
fn proxy() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut head = [0; 4096];
            let n = client.read(&mut head).unwrap();
            let _ = tell.send(String::from_utf8_lossy(&head[..n]).into_owned());
            let _ = client.write_all(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n");
        }
    });
    (address, told)
}

#[test]
fn a_bucket_is_reached_by_the_proxy_of_the_environment() {
    for name in ["HTTPS_PROXY", "https_proxy"] {
        let (address, told) = proxy();
        let bucket = Runner::new("s3://baselines/prefix")
            .with("AWS_ENDPOINT_URL", "https://s3.test")
            .with("AWS_REGION", "us-east-1")
            .with("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
            .with("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
            .with(name, &format!("http://aladdin:sesame@{address}"));
        let ended = bucket.run(&["baseline", "pull"]).expect(5);
        let asked = told.recv().unwrap();
        assert!(asked.starts_with("CONNECT s3.test:443 "), "{asked}");
        assert!(asked.to_lowercase().contains("proxy-authorization: basic "));
        let ended = ended.says(&["proxy authorization required"]);
        for secret in ["sesame", "YWxhZGRpbjpzZXNhbWU", "wJalrXUtnFEMI"] {
            assert!(!ended.stderr.contains(secret), "{}", ended.stderr);
        }
    }
}
