//! `gate load --format html` against a server that follows a script.

use super::command::ended;
use super::plain;
use super::server::{Server, stream};
use fixture::process::gate;
use fixture::{Ended, MARKUP, check_sheet};
use std::process::Stdio;

const USUAL: [&str; 12] = [
    "--prompt-tokens",
    "8",
    "--requests",
    "6",
    "--prompt-ids",
    "100..200",
    "--output-tokens",
    "64",
    "--header",
    "x-key: hunter2",
    "--format",
    "html",
];

#[tokio::test]
async fn a_run_a_sweep_and_repeats_are_pages() {
    let server = Server::start(|_, _| stream(&plain())).await;
    let url = format!("http://{}", server.address);
    for (arguments, parts) in [
        (
            &["--concurrency", "2"][..],
            &["Times in ms", "E2E", "p50"][..],
        ),
        (
            &["--concurrency", "1,2,4"],
            &["Output tokens/s", "streams", "nee"],
        ),
        (
            &["--concurrency", "2", "--repeats", "3"],
            &["E2E p50, ms", "run 3: "],
        ),
    ] {
        let mut command = gate(&["load", "--url", &url, "--model", MARKUP]);
        command.args(arguments).args(USUAL);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = Ended::of(&ended(command).await);
        // A busy machine may make a run invalid: its page says so.
        assert!(matches!(output.code, Some(0 | 4)), "{output:?}");
        check_sheet(&output.stdout, parts);
        assert!(output.stdout.contains("x-key: …"), "{}", output.stdout);
        assert!(!output.stdout.contains("hunter2"), "{}", output.stdout);
    }
}
