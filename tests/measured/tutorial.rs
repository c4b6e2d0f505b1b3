//! docs/tutorial.md, word for word: its commands run in one shell, and what they print is what the page shows.
//!
//! Its server sleeps where others compute: a minute takes 5 s of a processor, and runs beside the other sessions.

use fixture::{gate_program, repository, skip};
use std::env;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

/// Between the outputs of two blocks of commands.
const NEXT: &str = "==== next block ====";

/// A block of the page between fences.
struct Block<'a> {
    language: &'a str,
    text: &'a str,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let parts: Vec<&str> = page.split("\n```").collect();
    let fenced = parts.iter().copied().skip(1).step_by(2);
    let blocks = fenced.map(|part: &str| {
        let (language, text) = part.split_once('\n').unwrap_or((part, ""));
        Block { language, text }
    });
    blocks.collect()
}

/// A line with `#` for its numbers and hashes, blanks as one: `+9.0 % [+8.1, +9.9]` is `# % [#, #]`.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let hex = run(rest, |c| c.is_ascii_hexdigit());
        let number = run(rest, |c| c.is_ascii_digit() || c == '.');
        let length = match first.is_ascii_digit() {
            true => hex.max(number),
            false if hex >= 12 => hex,
            false => 0,
        };
        if length == 0 {
            shape.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        if shape.ends_with(['+', '-']) {
            shape.pop();
        }
        shape.push('#');
        rest = &rest[length..];
    }
    shape.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Bytes of the ASCII characters at the beginning that are such.
fn run(text: &str, is_such: impl Fn(char) -> bool) -> usize {
    text.chars().take_while(|c| is_such(*c)).count()
}

/// Each line of the page is found in the output, in its order; `…` stands for anything.
#[track_caller]
fn check_shown(shown: &str, output: &str) {
    let mut rest = output.lines().map(shape);
    for line in shown.lines().map(shape).filter(|line| !line.is_empty()) {
        let holds = |of: String| {
            let mut of = of.as_str();
            line.split('…')
                .all(|part| match of.split_once(part.trim()) {
                    Some((_, after)) => {
                        of = after;
                        true
                    }
                    None => false,
                })
        };
        assert!(rest.any(holds), "`{line}` is missing in:\n{output}");
    }
}

#[test]
fn the_tutorial_runs_as_written() {
    let usual = [8000, 8080, 30000, 11434, 1234, 5000, 8001, 3000];
    if usual
        .into_iter()
        .any(|port| TcpStream::connect(("127.0.0.1", port)).is_ok())
    {
        return skip::skip("the tutorial: a server answers on a usual port");
    }
    let page = fs::read_to_string(repository().join("docs/tutorial.md")).unwrap();
    let blocks = blocks(&page);
    let folder = tempfile::tempdir().unwrap();
    let server = blocks
        .iter()
        .find(|block| block.language == "python")
        .unwrap();
    fs::write(folder.path().join("server.py"), server.text).unwrap();
    let of_shell = blocks.iter().filter(|block| block.language == "sh");
    let script: Vec<String> = of_shell
        .map(|block| format!("{}\necho '{NEXT}'\n", block.text))
        .collect();
    let program = gate_program();
    let path = env::join_paths(
        [Path::new(&program).parent().unwrap().to_path_buf()]
            .into_iter()
            .chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())),
    );
    let output = Command::new("bash")
        // Job control, for `kill %1`.
        .args(["-m", "-c", &format!("exec 2>&1\n{}", script.concat())])
        .current_dir(folder.path())
        .env("PATH", path.unwrap())
        .env("NO_COLOR", "1")
        .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@b")])
        .envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@b")])
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&output.stdout);
    println!("{output}");
    let outputs: Vec<&str> = output.split(NEXT).collect();
    assert_eq!(outputs.len(), script.len() + 1, "{output}");
    // A busy machine may not decide; it must not pass.
    let undecided = ["\nINCONCLUSIVE", "\nINVALID", "\ninconclusive", "\ninvalid"];
    let is_undecided = undecided.iter().any(|word| output.contains(word));
    assert!(!output.contains("\nPASS"), "{output}");
    let mut command = 0;
    for block in &blocks {
        match block.language {
            "sh" => command += 1,
            "text" if is_undecided && block.text.contains("latency/tpot") => {
                skip::say("the tutorial's verdict: this machine is too busy to decide");
            }
            "text" => check_shown(block.text, outputs[command - 1]),
            _ => {}
        }
    }
}

#[test]
fn shapes_have_no_numbers() {
    let check = |line: &str, expect: &str| assert_eq!(shape(line), expect);
    check(
        "fail  a/b  +9.0 % [+8.1, +9.9]   > 1 %",
        "fail a/b # % [#, #] > # %",
    );
    check("base 12a4a8d0f3d1 x", "base # x");
    check("base f2a4a8d0f3d1 x", "base # x");
    check("TPOT 2.15 ms face", "TPOT # ms face");
}
