//! Hostile input, by the thousand: what is read must be refused or accepted, without a panic and without an end.
//!
//! Each target runs so many cases; `INFERGATE_FUZZ=N` runs N times as many others. A case that panics is named, and is
//! the same for the same number. `cargo test --release --test it -- fuzz --nocapture` shows the cases per second.

mod mutate;

use client::Observed;
use engine::{Conversation, Engine, ModelSource, Options};
use fixture::process::Server;
use infergate::{import, report};
use mutate::Draw;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;
use verdict::judge::judge;
use verdict::plan::{self, Selection};
use verdict::record::{Input, RunRecord};

/// Runs `case` for each number; says how many of them were accepted.
#[expect(clippy::print_stdout, reason = "the rate is what one looks for")]
fn fuzz(target: &str, cases: u64, mut case: impl FnMut(&mut Draw) -> bool) {
    let numbers = match std::env::var("INFERGATE_FUZZ") {
        Ok(times) => {
            let times: u64 = times.parse().expect("INFERGATE_FUZZ is a number");
            cases..cases * (1 + times)
        }
        Err(_) => 0..cases,
    };
    let (cases, begun, mut accepted) = (numbers.end - numbers.start, Instant::now(), 0_u64);
    for number in numbers {
        let read = catch_unwind(AssertUnwindSafe(|| case(&mut Draw::of(number))));
        let read = read.unwrap_or_else(|_| panic!("{target}: case {number} panicked"));
        accepted += u64::from(read);
    }
    let rate = cases as f64 / begun.elapsed().as_secs_f64();
    println!("{target}: {cases} cases, {accepted} accepted, {rate:.0} a second");
    assert!(
        0 < accepted && accepted < cases,
        "{target} reads all or nothing: {accepted}"
    );
}

fn files(folder: &str, ending: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    paths.sort();
    let wanted = paths
        .iter()
        .filter(|path| path.extension().is_some_and(|it| it == ending));
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    wanted
        .map(|path| (name(path), fs::read_to_string(path).unwrap()))
        .collect()
}

/// Streams of both routes, in parts that end anywhere.
#[test]
fn streams() {
    let chunk = |value: Value| format!("data: {value}\n\n");
    let text =
        |text: &str| chunk(json!({"choices": [{"index": 0, "text": text, "finish_reason": null}]}));
    let delta = |delta: Value| chunk(json!({"choices": [{"index": 0, "delta": delta}]}));
    let usage = json!({"prompt_tokens": 8, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}});
    let end = [
        chunk(json!({"choices": [{"text": "", "finish_reason": "length"}]})),
        chunk(
            json!({"choices": [], "usage": usage, "timings": {"prompt_n": 6, "prompt_ms": 1.5, "predicted_n": 4,
            "predicted_ms": 9}}),
        ),
        "data: [DONE]\n\n".to_owned(),
    ];
    let end = end.concat();
    let logprobs = json!({"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": [{"a": -0.5, "b": -1.5}],
        "text_offset": [0]});
    let corpus = [
        [
            text("a"),
            text(""),
            text("b"),
            ": ping\n\n".to_owned(),
            text("c"),
            end.clone(),
        ]
        .concat(),
        [
            delta(json!({"role": "assistant", "content": ""})),
            delta(json!({"reasoning_content": "r"})),
            delta(json!({"content": "b", "token_ids": [1, 2]})),
            end.clone(),
        ]
        .concat(),
        [
            chunk(json!({"choices": [{"text": "a", "logprobs": logprobs}], "usage": usage})),
            end,
        ]
        .concat(),
        "event: error\ndata: {\"error\": {\"message\": \"no\", \"code\": 500}}\n\n".to_owned(),
        "{\"object\": \"error\", \"message\": \"no\"}".to_owned(),
    ];
    let corpus = corpus.map(String::into_bytes);
    let request =
        br#"{"prompt":[1,2],"stream":true,"max_tokens":4,"stream_options":{"include_usage":true}}"#;
    fuzz("streams", 100_000, |draw| {
        let mutant = draw.mutant(&corpus);
        let mut observed = Observed::begin(10);
        observed.headers(20, 200);
        let mut rest = &mutant[..];
        for read in 1.. {
            let (part, behind) = rest.split_at(draw.below(rest.len() + 1));
            observed.part(20 + 10 * read, read, part);
            if behind.is_empty() {
                break;
            }
            rest = behind;
        }
        observed.end(1_000_000);
        let sample = observed.sample("w", 0, request, true);
        assert!(sample.stamps.events_ns.is_sorted());
        sample.void.is_none()
    });
}

/// A gate that sends the requests of this file, which no gate of this repository does.
fn replayed(file: &str, arrivals: &str) -> String {
    format!(
        "title = \"Replayed\"\n[workload.asked]\nkind = \"trace\"\nfile = \"{file}\"\nrequests = 2\nwarmup = 1\n{arrivals}\n\
         rate = \"2 requests/s\"\n[[check]]\nname = \"ttft\"\nmetric = \"ttft\"\nrule = \"ceiling\"\nlimit = \"1 s\"\n\
         min_samples = 1\n"
    )
}

/// Two such files, and their gates.
fn recorded() -> [(String, String); 4] {
    let asked = "{\"timestamp\": 0, \"input_length\": 700, \"output_length\": 5, \"hash_ids\": [1, 2]}\n\
                 {\"timestamp\": 250, \"input_length\": 40, \"output_length\": 5, \"hash_ids\": [3]}\n";
    let shared = "[{\"id\": \"a\", \"conversations\": [{\"from\": \"human\", \"value\": \"1+1\"}, {\"from\": \"gpt\", \"value\": \"2\"}]},\n\
                  {\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"u\"}]}]";
    let gamma = replayed(
        "data/asked.jsonl",
        "arrivals = \"gamma\"\nshape = \"0.5 ×\"",
    );
    let poisson = replayed(
        "data/shared.json",
        "arrivals = \"poisson\"\noutput_tokens = 8",
    );
    [
        ("recorded.toml", gamma),
        ("data/asked.jsonl", asked.to_owned()),
        ("shared.toml", poisson),
        ("data/shared.json", shared.to_owned()),
    ]
    .map(|(name, text)| (name.to_owned(), text))
}

/// What a pull request may change: every gate file, and the data that gates read.
#[test]
fn gate_files() {
    let beside = ["data/tiny-qwen3", "data/tiny-qwen3.5"].into_iter();
    let beside = beside.flat_map(|data| {
        let of_data = |ending| files(&format!("gates/{data}"), ending);
        let both = [of_data("json"), of_data("jsonl")].concat();
        both.into_iter()
            .map(move |(name, text)| (format!("{data}/{name}"), text))
    });
    let all: Vec<(String, String)> = files("gates", "toml")
        .into_iter()
        .chain(beside)
        .chain(recorded())
        .collect();
    let read = |place: usize, text: &str| {
        let gate = match all[place].0.as_str() {
            "gate.toml" => None,
            "data/asked.jsonl" => Some("recorded"),
            "data/shared.json" => Some("shared"),
            data if data.starts_with("data/tiny-qwen3.5/") => Some("e2e-hybrid"),
            data if data.starts_with("data/") => Some("e2e"),
            gate => gate.strip_suffix(".toml"),
        };
        let selection = Selection {
            profile: "quick".to_owned(),
            gates: gate.map(str::to_owned).into_iter().collect(),
        };
        let inputs = all.iter().enumerate().map(|(other, (name, good))| Input {
            path: format!("gates/{name}"),
            text: if other == place { text } else { good }.to_owned(),
        });
        plan::from_inputs(&inputs.collect::<Vec<_>>(), &selection)
    };
    for (place, (name, good)) in all.iter().enumerate() {
        if let Err(error) = read(place, good) {
            panic!("{name} is refused as it is: {error}");
        }
    }
    fuzz("gate files", 4_000, |draw| {
        let place = draw.below(all.len());
        let mutant = draw.mutant(&[all[place].1.clone().into_bytes()]);
        read(place, &String::from_utf8_lossy(&mutant)).is_ok()
    });
}

/// A result directory's record, judged as `gate report` does.
#[test]
fn records() {
    let (_, text) = files("tests/data", "json")
        .into_iter()
        .find(|(name, _)| name == "run-v1.json")
        .unwrap();
    // As it is, it is compared to its end; with few samples, an edit is likelier to meet a number that is judged.
    let whole: Value = serde_json::from_str(&text).unwrap();
    let mut few = whole.clone();
    for launch in few["launches"].as_array_mut().unwrap() {
        launch["samples"].as_array_mut().unwrap().truncate(3);
    }
    let corpus = [whole, few].map(|record| record.to_string().into_bytes());
    fuzz("records", 2_000, |draw| {
        let mutant = draw.mutant(&corpus);
        let Ok(record) = serde_json::from_slice::<RunRecord>(&mutant) else {
            return false;
        };
        let Ok(plan) = plan::from_record(&record) else {
            return false;
        };
        let verdict = judge(&plan, &record);
        let shown = report::terminal(&record, &verdict, report::View::default());
        serde_json::from_str::<Value>(&report::verdict_json(&record, &verdict)).unwrap();
        !shown.is_empty()
    });
}

/// Results of other tools.
#[test]
fn results_of_other_tools() {
    let all = [
        files("tests/data/import", "json"),
        files("tests/data/import", "jsonl"),
    ]
    .concat();
    let own = |index: u32| {
        let mut observed = Observed::begin(10);
        observed.headers(20, 200);
        let event = "data: {\"choices\": [{\"text\": \"a\"}]}\n\n";
        observed.part(30, 1, event.as_bytes());
        observed.part(40, 2, format!("{event}data: [DONE]\n\n").as_bytes());
        observed.end(50);
        let asked = br#"{"prompt":[1,2],"stream":true,"max_tokens":2}"#;
        serde_json::to_string(&observed.sample("w", index, asked, true)).unwrap() + "\n"
    };
    let own = [0, 1].map(own).concat();
    assert!(import::own_samples(&own, None).is_ok(), "{own}");
    let corpus: Vec<Vec<u8>> = all
        .into_iter()
        .map(|(_, text)| text.into_bytes())
        .chain([own.into_bytes()])
        .collect();
    fuzz("imports", 4_000, |draw| {
        let mutant = draw.mutant(&corpus);
        let text = String::from_utf8_lossy(&mutant);
        let chosen = (draw.below(2) == 0).then(|| draw.below(2));
        let samples = import::own_samples(&text, chosen).is_ok();
        import::parse(&text, None, chosen).is_ok() || samples
    });
}

/// Results of a project's own tests, which head's code writes.
#[test]
fn suites() {
    let corpus = [
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><testsuites name=\"p\"><testsuite name=\"a\" tests=\"2\" time=\"0.1\">\
         <testcase classname=\"c\" name=\"t\" time=\"0.05\"/><testcase name=\"u\"><failure message=\"m &amp; &#10;\">text\
         </failure><system-out>noise</system-out></testcase></testsuite></testsuites>",
        "<testsuite name=\"s\"><properties><property name=\"k\" value=\"v\"/></properties><testcase name=\"t\"><skipped/>\
         </testcase><testcase name=\"u\"><error message=\"e\"><![CDATA[ ]] ]]></error></testcase></testsuite>",
    ];
    for good in corpus {
        import::junit(good).unwrap();
    }
    let corpus = corpus.map(|text| text.as_bytes().to_vec());
    fuzz("suites", 20_000, |draw| {
        let mutant = draw.mutant(&corpus);
        import::junit(&String::from_utf8_lossy(&mutant)).is_ok()
    });
}

/// A model's directory, whose engine starts and answers or is refused.
#[test]
fn models() {
    let folder = fixture::embedded::copied();
    let path = |name: &str| folder.path().join(name);
    let names = [
        "config.json",
        "tokenizer.json",
        "chat_template.jinja",
        "model.safetensors",
    ];
    let corpus = names.map(|name| fs::read(path(name)).unwrap());
    let message = json!({"role": "user", "content": "1+1"});
    let conversation = Conversation {
        messages: vec![message.as_object().unwrap().clone()],
        ..Conversation::default()
    };
    fuzz("models", 400, |draw| {
        let spoilt = draw.below(names.len());
        let mut mutant = corpus[spoilt].clone();
        // Of the weights the header.
        let head = mutant.len().min(4 << 10);
        let edited = draw.mutant(&[mutant[..head].to_vec()]);
        drop(mutant.splice(..head, edited));
        fs::write(path(names[spoilt]), &mutant).unwrap();
        let options = Options {
            model: ModelSource::Directory(folder.path().to_path_buf()),
            threads: 1,
            kv_tokens: 256,
            ..Options::default()
        };
        let engine = Engine::start(options, &mut |_| {});
        fs::write(path(names[spoilt]), &corpus[spoilt]).unwrap();
        let Ok(engine) = engine else { return false };
        let prompt = engine
            .chat_template()
            .ok()
            .map(|chat| chat.render(&conversation));
        let text = prompt.and_then(Result::ok).unwrap_or_default();
        engine.tokenizer().encode(&text, true).is_ok()
    });
}

/// Bodies of both generation routes and of those beside, over one connection for as long as it is kept.
#[test]
fn bodies() {
    let mut server = Server::start(&[]);
    let message = json!({"role": "user", "content": [{"type": "text", "text": "1+1"}]});
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}, "b":
        {"enum": ["on", "off"]}, "c": {"type": "array", "items": {"$ref": "#/$defs/d"}, "maxItems": 3}},
        "$defs": {"d": {"type": "string", "pattern": "^a{1,3}$"}}, "required": ["a"], "additionalProperties": false});
    let form = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}});
    let bodies = [
        (
            "/v1/completions",
            json!({"prompt": [1, 20], "max_tokens": 2, "logprobs": 2, "stop": ["a"],
            "logit_bias": {"5": 1.5}, "stream": true, "stream_options": {"include_usage": true}}),
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [message], "max_tokens": 2, "top_p": 0.5, "seed": 7,
            "tools": [{"type": "function", "function": {"name": "f"}}], "chat_template_kwargs": {"a": 1}}),
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": "1"}], "max_tokens": 2, "response_format": form}),
        ),
        (
            "/tokenize",
            json!({"prompt": "a b", "add_special_tokens": true}),
        ),
        ("/detokenize", json!({"tokens": [20, 21]})),
    ];
    let corpus = bodies
        .clone()
        .map(|(_, body)| body.to_string().into_bytes());
    let mut kept = TcpStream::connect(server.address).unwrap();
    fuzz("bodies", 2_000, |draw| {
        let (path, _) = bodies[draw.below(bodies.len())];
        let mutant = draw.mutant(&corpus);
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            mutant.len()
        );
        let (status, is_kept) = exchange(&mut kept, &[head.as_bytes(), &mutant].concat());
        if !is_kept {
            kept = TcpStream::connect(server.address).unwrap();
        }
        assert!(
            status != 500 && status != 503,
            "{status}: {}",
            String::from_utf8_lossy(&mutant)
        );
        status == 200
    });
    assert_eq!(server.get("/health").status, 200);
    drop(kept);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.exit_code(), Some(0));
}

/// The answer's status, and whether the connection holds: its end is read by its framing.
fn exchange(stream: &mut TcpStream, request: &[u8]) -> (u16, bool) {
    stream.write_all(request).unwrap();
    let (mut answer, mut buffer) = (Vec::new(), [0; 16 << 10]);
    loop {
        let count = stream.read(&mut buffer).unwrap_or(0);
        answer.extend_from_slice(&buffer[..count]);
        let Some(head) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
            assert!(count > 0, "no answer");
            continue;
        };
        let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
        let status = text
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .unwrap();
        let length = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let is_whole = match length {
            Some(length) => answer.len() >= head + 4 + length.parse::<usize>().unwrap(),
            None => answer.ends_with(b"0\r\n\r\n"),
        };
        if is_whole || count == 0 {
            return (status, is_whole && !text.contains("connection: close"));
        }
    }
}
