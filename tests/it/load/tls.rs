//! `gate load` against a server behind TLS: certificates, and times that are as they are without it.

use super::command::{ended, json};
use super::server::{Server, Step, chunk, stream};
use super::{bytes, goodbye, plain, text, tokens};
use fixture::process::gate;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, SupportedProtocolVersion, crypto::ring, version};

const CERTIFICATE: &[u8] = include_bytes!("../../data/tls/server.pem");
const KEY: &[u8] = include_bytes!("../../data/tls/server.key");
const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls/ca.pem");
/// An authority that signed nothing.
const STRANGER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls/server.pem");

fn acceptor(version: &'static SupportedProtocolVersion) -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

fn load(host: &str, server: &Server, authority: &str) -> Command {
    let url = format!("https://{host}:{}", server.address.port());
    let mut command = gate(&["load", "--url", &url, "--model", "m", "--concurrency", "2"]);
    command
        .args([
            "--requests",
            "12",
            "--output-tokens",
            "64",
            "--format",
            "json",
        ])
        .env("SSL_CERT_FILE", authority)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A server of TLS 1.3 sends its tickets unasked: they are no reason to leave a connection.
#[tokio::test]
async fn answers_and_connections_are_as_without_tls() {
    for version in [&version::TLS13, &version::TLS12] {
        let server = Server::start_behind(Some(acceptor(version)), |_, _| {
            let mut script = stream(&plain());
            // More than a record, before the first token.
            script.insert(1, chunk(&format!(": {}\n\n", "x".repeat(40_000))));
            script
        })
        .await;
        let output = ended(load("127.0.0.1", &server, AUTHORITY)).await;
        let report = json(&output);
        assert_eq!(report["requests"]["ok"], 12, "{output:?}");
        assert_eq!(report["icl_ms"]["n"], 12 * 63, "{report}");
        assert_eq!(report["output_tokens"]["mean"], 64.0);
        assert_eq!(report["client"]["resent"], 0);
        let connections = server
            .received()
            .iter()
            .map(|request| request.connection)
            .max();
        assert_eq!(connections, Some(1), "one for each stream");
        assert_eq!(
            report["server"],
            format!("https://127.0.0.1:{}", server.address.port())
        );
    }
}

#[tokio::test]
async fn what_one_record_holds_arrived_at_one_moment() {
    let whole: Vec<u8> = stream(&plain()).into_iter().flat_map(bytes).collect();
    assert!(whole.len() < 16_000, "it is one record");
    let tls = Some(acceptor(&version::TLS13));
    let server = Server::start_behind(tls, move |_, _| vec![Step::Send(whole.clone())]).await;
    let report = json(&ended(load("127.0.0.1", &server, AUTHORITY)).await);
    assert_eq!(report["requests"]["ok"], 12, "{report}");
    assert_eq!(report["tpot_ms"]["n"], 0, "{report}");
    // Two tokens in each record: the first of them has no time of its own.
    let pairs = move |_: usize, _: &super::server::Received| {
        let tokens = tokens(64);
        let pairs: Vec<String> = tokens.chunks(2).map(<[String]>::concat).collect();
        stream(&[pairs, goodbye()].concat())
    };
    let server = Server::start_behind(Some(acceptor(&version::TLS13)), pairs).await;
    let report = json(&ended(load("127.0.0.1", &server, AUTHORITY)).await);
    assert_eq!(report["requests"]["ok"], 12, "{report}");
    assert_eq!(report["ttft_ms"]["n"], 0, "{report}");
    assert!(
        report["client"]["ambiguous_share"].as_f64().unwrap() >= 0.5,
        "{report}"
    );
}

/// Between client and server: of all that the server sends at once, the last byte comes so much later.
async fn withheld(server: SocketAddr, late: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            client.set_nodelay(true).unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let stream = TcpStream::connect(server).await.unwrap();
            let (mut from_server, mut to_server) = stream.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 * 1024];
                loop {
                    let count = from_server.read(&mut buffer).await?;
                    if count == 0 {
                        return std::io::Result::Ok(());
                    }
                    to_client.write_all(&buffer[..count - 1]).await?;
                    tokio::time::sleep(late).await;
                    to_client.write_all(&buffer[count - 1..count]).await?;
                }
            });
        }
    });
    address
}

/// Nothing of a record is known before its last byte came, so none of it has an earlier time.
#[tokio::test]
async fn a_record_has_the_time_at_which_it_was_whole() {
    let whole: Vec<u8> = stream(&plain()).into_iter().flat_map(bytes).collect();
    let tls = Some(acceptor(&version::TLS13));
    let mut server = Server::start_behind(tls, move |_, _| vec![Step::Send(whole.clone())]).await;
    server.address = withheld(server.address, Duration::from_millis(30)).await;
    let report = json(&ended(load("127.0.0.1", &server, AUTHORITY)).await);
    assert_eq!(report["requests"]["ok"], 12, "{report}");
    assert!(report["e2e_ms"]["min"].as_f64() >= Some(30.0), "{report}");
}

/// A kept connection that the server closes by the rules says so in an alert, which is no answer.
#[tokio::test]
async fn a_request_on_a_closed_connection_is_sent_again() {
    let server = Server::start_behind(Some(acceptor(&version::TLS13)), |number, _| {
        let mut script = stream(&plain());
        if number % 3 == 2 {
            script.push(Step::Close);
        }
        script
    })
    .await;
    let report = json(&ended(load("127.0.0.1", &server, AUTHORITY)).await);
    assert_eq!(report["requests"]["ok"], 12, "{report}");
}

#[tokio::test]
async fn a_stream_that_is_cut_is_void() {
    let server = Server::start_behind(Some(acceptor(&version::TLS13)), |_, _| {
        let mut script = stream(&[text("a"), text("b")]);
        script.pop();
        script.push(Step::Close);
        script
    })
    .await;
    let report = json(&ended(load("127.0.0.1", &server, AUTHORITY)).await);
    assert_eq!(report["requests"]["ok"], 0, "{report}");
    assert!(
        report["requests"]["void"]["cut-stream"].as_u64() > Some(0),
        "{report}"
    );
}

#[tokio::test]
async fn a_server_that_cannot_be_trusted_gets_no_request() {
    let server =
        Server::start_behind(Some(acceptor(&version::TLS13)), |_, _| stream(&plain())).await;
    let lost = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls/none.pem");
    for (host, authority, code, part) in [
        (
            "127.0.0.1",
            STRANGER,
            5,
            "UnknownIssuer; an authority of your own goes in a PEM file",
        ),
        (
            "localhost",
            AUTHORITY,
            5,
            "not valid for name \"localhost\"",
        ),
        ("127.0.0.1", lost, 2, "name a file of them in SSL_CERT_FILE"),
    ] {
        let output = ended(load(host, &server, authority)).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(part), "`{part}` in {said}");
    }
    assert_eq!(server.received().len(), 0);
    let plain = Server::start(|_, _| vec![Step::Hang]).await;
    let mut command = load("127.0.0.1", &plain, AUTHORITY);
    command.args(["--timeout", "0.2"]);
    let output = ended(command).await;
    assert_eq!(output.status.code(), Some(5), "{output:?}");
}
