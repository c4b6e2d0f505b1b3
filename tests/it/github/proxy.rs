//! A GitHub behind TLS with a certificate of its own authority, and a proxy before it, through the binary.

use super::job::Job;
use fixture::Ended;
use fixture::github::{ACTIONS_TOKEN, sha};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

const CERTIFICATE: &[u8] = include_bytes!("../../data/tls/server.pem");
const KEY: &[u8] = include_bytes!("../../data/tls/server.key");
/// The authority that signed it; its key is gone.
const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls/ca.pem");

/// Of `aladdin:open+sesame`.
const BASIC: &str = "Proxy-Authorization: Basic YWxhZGRpbjpvcGVuK3Nlc2FtZQ==";

/// TLS before the fake GitHub and a proxy before both, each on a port of this machine. End when dropped.
struct Network {
    tls: SocketAddr,
    proxy: SocketAddr,
    /// What passed the proxy on its way to GitHub.
    passed: Arc<Mutex<Vec<u8>>>,
    _runtime: tokio::runtime::Runtime,
}

impl Network {
    /// The proxy sends everything to GitHub, whatever host is asked for, if its word is 200.
    fn before(github: &str, word: &'static str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let plain: SocketAddr = github.strip_prefix("http://").unwrap().parse().unwrap();
        let acceptor = acceptor();
        let tls = listen(&runtime, move |client| {
            let acceptor = acceptor.clone();
            async move {
                let mut client = acceptor.accept(client).await?;
                let mut github = TcpStream::connect(plain).await?;
                copy_bidirectional(&mut client, &mut github).await.map(drop)
            }
        });
        let passed = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&passed);
        let proxy = listen(&runtime, move |client| {
            tunnel(client, tls, word, seen.clone())
        });
        Self {
            tls,
            proxy,
            passed,
            _runtime: runtime,
        }
    }

    fn passed(&self) -> String {
        String::from_utf8_lossy(&self.passed.lock().unwrap()).into_owned()
    }
}

fn acceptor() -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// Handles each connection on a task of its own.
fn listen<F: Future<Output = io::Result<()>> + Send>(
    runtime: &tokio::runtime::Runtime,
    handle: impl Fn(TcpStream) -> F + Send + Sync + 'static,
) -> SocketAddr {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let handle = Arc::new(handle);
    runtime.spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let handle = Arc::clone(&handle);
            // A client that hangs up early is no fault of the test.
            tokio::spawn(async move { drop(handle(client).await) });
        }
    });
    address
}

/// A CONNECT, answered with this word, and what follows it.
async fn tunnel(
    mut client: TcpStream,
    to: SocketAddr,
    word: &str,
    seen: Arc<Mutex<Vec<u8>>>,
) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    seen.lock().unwrap().extend_from_slice(&head);
    let answer = format!("HTTP/1.1 {word}\r\nContent-Length: 0\r\n\r\n");
    client.write_all(answer.as_bytes()).await?;
    if !word.starts_with("200") {
        return Ok(());
    }
    let github = TcpStream::connect(to).await?;
    let (from_client, to_client) = client.into_split();
    let (from_github, to_github) = github.into_split();
    tokio::try_join!(
        pass(from_client, to_github, Some(seen)),
        pass(from_github, to_client, None)
    )
    .map(drop)
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    seen: Option<Arc<Mutex<Vec<u8>>>>,
) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let n = from.read(&mut buffer).await?;
        if let Some(seen) = &seen {
            seen.lock().unwrap().extend_from_slice(&buffer[..n]);
        }
        to.write_all(&buffer[..n]).await?;
        if n == 0 {
            return to.shutdown().await;
        }
    }
}

/// `gate github authorize` of a commit that may run, on a GitHub of this address, with these variables alone.
fn authorize(job: &Job, api_url: &str, variables: &[(&str, &str)]) -> Ended {
    let head = sha(12);
    let mut command = job.command(&["github", "authorize", "--pr", "12", "--head-sha", &head]);
    command.args(["--patience", "3"]);
    for name in ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command
        .env_remove("SSL_CERT_FILE")
        .env_remove("SSL_CERT_DIR");
    command
        .env("GITHUB_API_URL", api_url)
        .envs(variables.iter().copied());
    let ended = Ended::of(&command.output().unwrap());
    for secret in [ACTIONS_TOKEN, "sesame", "YWxhZGRpbjpvcGVuK3Nlc2FtZQ"] {
        assert!(!ended.stderr.contains(secret), "{}", ended.stderr);
        assert!(!ended.stdout.contains(secret), "{}", ended.stdout);
    }
    ended
}

fn job() -> Job {
    Job::with_pull("ada", false, &["src/lib.rs"])
}

/// A host that only the proxy knows.
const BEHIND: &str = "https://github.test/api/v3";

#[test]
fn a_proxy_is_tunnelled_through_and_never_reads_the_token() {
    let (job, ca) = (job(), ("SSL_CERT_FILE", AUTHORITY));
    let network = Network::before(&job.fake.url(), "200 OK");
    let proxy = format!("http://aladdin:open+sesame@{}", network.proxy);
    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
        network.passed.lock().unwrap().clear();
        authorize(&job, BEHIND, &[(name, &proxy), ca]).expect(0);
        let passed = network.passed();
        assert!(
            passed.starts_with("CONNECT github.test:443 "),
            "{name}: {passed}"
        );
        assert!(
            passed.to_lowercase().contains(&BASIC.to_lowercase()),
            "{passed}"
        );
        assert!(
            !passed.contains("ghs_") && !passed.contains("/repos/"),
            "{passed}"
        );
    }
    // The way around it.
    network.passed.lock().unwrap().clear();
    let here = format!("https://{}", network.tls);
    for name in ["NO_PROXY", "no_proxy"] {
        let around = (name, "elsewhere.test,127.0.0.1");
        authorize(&job, &here, &[("HTTPS_PROXY", &proxy), around, ca]).expect(0);
        assert_eq!(network.passed(), "");
    }
    // Without TLS, which only this very machine may do, a proxy would read the token.
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        authorize(&job, &job.fake.url(), &[(name, &proxy)]).expect(0);
        assert_eq!(network.passed(), "");
    }
}

#[test]
fn a_proxy_that_refuses_is_told_without_its_password() {
    let job = job();
    let network = Network::before(&job.fake.url(), "407 Proxy Authentication Required");
    let proxy = format!("http://aladdin:open+sesame@{}", network.proxy);
    let refused = authorize(&job, BEHIND, &[("HTTPS_PROXY", &proxy)]).expect(5);
    let refused = refused.says(&["proxy authorization required", "HTTPS_PROXY", "NO_PROXY"]);
    assert!(
        !refused.stderr.contains("trying again"),
        "{}",
        refused.stderr
    );
    // A proxy that is not there may come back.
    let gone = "http://aladdin:open+sesame@127.0.0.1:1";
    let ended = authorize(&job, BEHIND, &[("HTTPS_PROXY", gone)]);
    ended.expect(5).says(&[
        "trying again",
        "Connection refused",
        "the one of HTTPS_PROXY",
    ]);
    assert!(job.fake.asked().is_empty());
}

#[test]
fn an_authority_of_ones_own_is_named_by_ssl_cert_file_or_dir() {
    let job = job();
    let network = Network::before(&job.fake.url(), "200 OK");
    let here = format!("https://{}/api/v3", network.tls);
    let unknown = authorize(&job, &here, &[]).expect(5);
    let unknown = unknown.says(&["UnknownIssuer", "SSL_CERT_FILE"]);
    assert!(
        !unknown.stderr.contains("trying again"),
        "{}",
        unknown.stderr
    );
    assert!(job.fake.asked().is_empty());
    authorize(&job, &here, &[("SSL_CERT_FILE", AUTHORITY)]).expect(0);
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(AUTHORITY, folder.path().join("ca.pem")).unwrap();
    let folder = folder.path().to_str().unwrap();
    authorize(&job, &here, &[("SSL_CERT_DIR", folder)]).expect(0);
}
