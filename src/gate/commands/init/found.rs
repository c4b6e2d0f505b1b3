//! Detection of engines for `gate init`: a running server with its abilities, and installed programs.
//!
//! Main type: [`Found`]. Only loopback ports that inference servers use, or the user's own, are asked, and only with requests
//! that any client sends.

use super::command::{command_of, started};
use crate::presets::{HIGHEST_ID, Seen, is_python};
use client::{Endpoint, keeps_connections, post, scrape};
use serde_json::{Value, json};
use std::env;
use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::task::JoinSet;
use tokio::time::sleep;
use verdict::record::is_ignorable;

/// Default ports: vLLM and this program, llama.cpp, SGLang, Ollama, LM Studio, and common ones of web servers.
const PORTS: [u16; 8] = [8000, 8080, 30000, 11434, 1234, 5000, 8001, 3000];
/// A server on this machine answers sooner, unless it is starting.
const PATIENCE: Duration = Duration::from_secs(2);
/// A short answer of a slow model.
const ANSWER: Duration = Duration::from_secs(30);
/// Between requests over one connection: a server that closes it has done so by then.
const PAUSE: Duration = Duration::from_millis(50);
/// A multiple of the pages of prefix caches, in tokens.
const PAGES: u32 = 256;
/// Lengths of long prompts: beyond what engines compute in one step by default, 2,048 tokens, or 8,192.
const LONG_PROMPTS: [u32; 2] = [4_096, 12_288];
/// Tokens that a long prompt may have more.
const ROOM: u32 = 512;
/// An engine that takes no longer for a prompt of one length is given one of the next: a gate sends some forty in a launch.
const AT_ONCE: Duration = Duration::from_millis(250);
/// Tokens of the answer that shows what a server can do.
const TOKENS: u64 = 24;
/// Within these an answer may end that did not within [`TOKENS`].
const LONG_ANSWER: u64 = 256;

/// Questions that a model answers in fewer tokens, unless the server forces it to go on.
const SHORT: [&str; 6] = [
    "Say yes.",
    "What is one plus one? Answer with one word.",
    "Name a colour in one word.",
    "Is water wet? Answer yes or no.",
    "Repeat the word: stop",
    "Reply with OK and nothing else.",
];

/// Programs, and their presets. Those on the PATH are found in this order.
const PROGRAMS: [(&str, &str); 5] = [
    ("vllm", "vllm"),
    ("llama-server", "llama.cpp"),
    ("ollama", "ollama"),
    ("transformers", "transformers"),
    ("sglang", "sglang"),
];
/// This program, which is on the PATH anyway.
const OWN: (&str, &str) = ("gate", "infergate");

/// The ports that are tried where none is named.
pub fn usual_ports() -> String {
    let ports = PORTS.map(|port| port.to_string());
    format!("port {}", ports.join(", "))
}

/// A server that runs on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub port: u16,
    pub model: String,
    /// Its preset's name, by what it says of itself; `None` for one that is not known, or that another program starts: its
    /// own is then not known to take the preset's options.
    pub engine: Option<&'static str>,
    /// Its start command and its abilities.
    pub seen: Seen,
    /// The folder that it was started in, where its command is known.
    pub folder: Option<PathBuf>,
}

/// The server that answers on this port, or the first on a usual one; `root` is the project's. On a port that is named, a
/// server that lists no model is asked for `model`.
pub async fn server(root: &Path, port: Option<u16>, model: Option<&str>) -> Option<Found> {
    let model = model.filter(|_| port.is_some());
    for port in port.map_or(PORTS.to_vec(), |port| vec![port]) {
        if let Some(found) = at(port, root, model).await {
            return Some(found);
        }
    }
    None
}

/// The preset of an installed engine.
pub fn program() -> Option<&'static str> {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let mut programs = PROGRAMS.into_iter();
    programs
        .find(|(name, _)| is_there(name))
        .map(|(_, preset)| preset)
}

async fn at(port: u16, root: &Path, given: Option<&str>) -> Option<Found> {
    let mut endpoint = Endpoint::usual(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), "");
    endpoint.request_timeout = PATIENCE;
    let models = scrape(&endpoint, "/v1/models").await.unwrap_or_default();
    let listed = named(&models);
    let is_listed = listed.is_some();
    let (model, engine) = listed.or_else(|| Some((given?.to_owned(), None)))?;
    let command = command_of(port);
    let engine = engine.filter(|engine| {
        let words = command.as_ref().map(|(words, _)| words);
        words.is_none_or(|words| starts(engine, words))
    });
    // A path leads to files, which nobody but this user may choose.
    if is_listed && is_path_elsewhere(&model) && command.is_none() {
        return None;
    }
    endpoint.model.clone_from(&model);
    endpoint.request_timeout = ANSWER;
    let seen = Seen {
        context: context(&models),
        tells_metrics: scrape(&endpoint, "/metrics").await.is_ok(),
        ..abilities(&endpoint, context(&models)).await
    };
    if !is_listed && !seen.completes && !seen.chats {
        return None;
    }
    let seen = match &command {
        Some((words, folder)) => started(seen, words, (port, folder, root)),
        None => seen,
    };
    Some(Found {
        port,
        model,
        engine,
        seen,
        folder: command.map(|(_, folder)| folder),
    })
}

/// True if a model's name is a path out of the project.
fn is_path_elsewhere(model: &str) -> bool {
    let is_inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    !Path::new(model).components().all(is_inside)
}

/// The first model of `/v1/models`, and the engine by its `owned_by`.
fn named(models: &str) -> Option<(String, Option<&'static str>)> {
    let models: Value = serde_json::from_str(models).ok()?;
    let first = models.get("data")?.get(0)?;
    let model = first.get("id")?.as_str()?;
    let is_hidden = |c: char| c.is_control() || is_ignorable(c);
    let is_name = model.len() <= 300 && !model.chars().any(is_hidden);
    let engine = match first.get("owned_by").and_then(Value::as_str) {
        Some("vllm") => Some("vllm"),
        Some("sglang") => Some("sglang"),
        Some("llamacpp") => Some("llama.cpp"),
        Some("library") => Some("ollama"),
        Some("infergate") => Some("infergate"),
        _ => None,
    };
    // It would be an option.
    (is_name && !model.is_empty() && !model.starts_with('-')).then(|| (model.to_owned(), engine))
}

/// True if a command starts the engine of this preset by its own program, or an interpreter that program or module of it
/// (`python -m sglang.launch_server`). An engine may give its process another title (`VLLM::APIServer`).
fn starts(engine: &str, words: &[String]) -> bool {
    let name_of = |word: &str| {
        let name = Path::new(word).file_name().and_then(OsStr::to_str);
        name.unwrap_or_default().to_lowercase()
    };
    let mut words = words.iter().peekable();
    words.next_if(|word| is_python(word));
    words.next_if(|word| *word == "-m");
    let Some(program) = words.next().map(|word| name_of(word)) else {
        return true;
    };
    let programs = PROGRAMS.iter().chain([&OWN]);
    let mut programs = programs.filter(|(_, preset)| *preset == engine);
    programs.any(|(own, _)| {
        let rest = program.strip_prefix(own);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':']))
    })
}

/// The context of a request that `/v1/models` names (vLLM and SGLang; llama.cpp).
fn context(models: &str) -> Option<u32> {
    let models: Value = serde_json::from_str(models).ok()?;
    let places = ["/data/0/max_model_len", "/data/0/meta/n_ctx"];
    let tokens = places.iter().find_map(|place| models.pointer(place))?;
    let tokens = u32::try_from(tokens.as_u64()?).ok();
    tokens.filter(|tokens| *tokens > 0)
}

/// Sends up to some thirty short requests, and longer ones to a server that is quick.
async fn abilities(endpoint: &Endpoint, context: Option<u32>) -> Seen {
    let model = &endpoint.model;
    let asked = |key: &str, prompt: Value| {
        json!({
            "model": model, key: prompt, "max_tokens": TOKENS, "min_tokens": TOKENS, "ignore_eos": true, "temperature": 0,
            "stream": true, "stream_options": {"include_usage": true}, "return_token_ids": true,
        })
    };
    let messages = json!([{"role": "user", "content": "Hello"}]);
    let chat = post(
        endpoint,
        "/v1/chat/completions",
        &asked("messages", messages.clone()),
    )
    .await;
    let completion = post(
        endpoint,
        "/v1/completions",
        &asked("prompt", json!("Hello")),
    )
    .await;
    let stream = completion.as_ref().or(chat.as_ref());
    let mut can = Seen {
        completes: completion.is_ok(),
        chats: chat.is_ok(),
        ..stream.map_or_else(|_| Seen::default(), |stream| shown(stream))
    };
    can.forces_length = match (can.completes, can.chats) {
        (true, true) => match forces_length(endpoint, false).await {
            None => forces_length(endpoint, true).await,
            seen => seen,
        },
        (false, false) => None,
        (_, chats) => forces_length(endpoint, chats).await,
    };
    let (path, key, prompt) = match can.completes {
        true => ("/v1/completions", "prompt", json!("Hello")),
        false => ("/v1/chat/completions", "messages", messages),
    };
    let mut whole = asked(key, prompt.clone());
    whole["stream"] = json!(false);
    if let Some(whole) = whole.as_object_mut() {
        // OpenAI's API knows it beside streams alone.
        whole.remove("stream_options");
    }
    let streamed = asked(key, prompt);
    let one_after_another = [streamed.clone(), whole.clone(), streamed, whole];
    can.keeps_connections = keeps_connections(endpoint, path, &one_after_another, PAUSE).await;
    can.obeys_penalties = obeys_penalties(endpoint, !can.completes).await;
    if !can.completes {
        return can;
    }
    can.tells_logprobs = tells_logprobs(endpoint).await;
    for last in [HIGHEST_ID, 1_000, 300] {
        let prompt = json!({"model": model, "prompt": [last], "max_tokens": 1});
        if post(endpoint, "/v1/completions", &prompt).await.is_ok() {
            can.prompt_ids = Some(last);
            break;
        }
    }
    if let Some(last) = can.prompt_ids
        && let Some(cached) = cached(endpoint, last).await
    {
        can.tells_cached = true;
        // A page that the prompt does not fill is not known.
        let page = PAGES.saturating_sub(cached);
        can.page = (page < PAGES && page > 0 && PAGES.is_multiple_of(page)).then_some(page);
    }
    if let Some(last) = can.prompt_ids {
        can.long_prompt = long_prompt(endpoint, last, context).await;
    }
    can
}

/// Tokens that the prefix cache gives of a repeated prompt that lacks one token to whole pages; `None` if usage does not tell. Some
/// servers tell none of a short prompt.
async fn cached(endpoint: &Endpoint, last: u32) -> Option<u32> {
    let ids = (0..PAGES - 1).map(|place| 3 + place * 7 % (last - 3));
    let prompt: Vec<u32> = ids.collect();
    let body = json!({"model": &endpoint.model, "prompt": prompt, "max_tokens": 1});
    let mut cached = None;
    for _ in 0..2 {
        let answer = post(endpoint, "/v1/completions", &body).await.ok()?;
        let answer: Value = serde_json::from_str(&answer).ok()?;
        let count = answer.pointer("/usage/prompt_tokens_details/cached_tokens");
        cached = count.and_then(Value::as_u64);
    }
    u32::try_from(cached?).ok()
}

/// True if an answer that ends by itself goes on where that is asked for; `None` if none was seen to end.
async fn forces_length(endpoint: &Endpoint, chat: bool) -> Option<bool> {
    let (path, key) = route(chat);
    let request = |question: &str, tokens: u64, is_forced: bool| {
        let mut body = json!({
            "model": &endpoint.model, key: asked_by(chat, question), "max_tokens": tokens, "temperature": 0,
            "stream": true, "stream_options": {"include_usage": true},
        });
        if is_forced {
            body["min_tokens"] = json!(tokens);
            body["ignore_eos"] = json!(true);
        }
        body
    };
    let asked = SHORT.map(|question| (question, TOKENS));
    for (question, tokens) in asked.into_iter().chain([(SHORT[0], LONG_ANSWER)]) {
        let free = post(endpoint, path, &request(question, tokens, false)).await;
        let free = free.ok().and_then(|stream| counted(&stream));
        if free.is_some_and(|free| free < tokens) {
            let forced = post(endpoint, path, &request(question, tokens, true)).await;
            return Some(forced.ok().and_then(|stream| counted(&stream)) == Some(tokens));
        }
    }
    None
}

/// True if an answer is another one where its request penalises repeated tokens.
async fn obeys_penalties(endpoint: &Endpoint, chat: bool) -> bool {
    let (path, key) = route(chat);
    let place = match chat {
        true => "/choices/0/message/content",
        false => "/choices/0/text",
    };
    let prompt = asked_by(chat, "Repeat this ten times: one two");
    let mut body =
        json!({"model": &endpoint.model, key: prompt, "max_tokens": TOKENS, "temperature": 0});
    let plain = text_at(endpoint, path, &body, place).await;
    body["frequency_penalty"] = json!(1.5);
    let penalised = text_at(endpoint, path, &body, place).await;
    plain.is_some() && penalised.is_some() && plain != penalised
}

async fn text_at(endpoint: &Endpoint, path: &str, body: &Value, place: &str) -> Option<String> {
    let answer = post(endpoint, path, body).await.ok()?;
    let answer: Value = serde_json::from_str(&answer).ok()?;
    Some(answer.pointer(place)?.as_str()?.to_owned())
}

/// A route, and the key of its prompt.
fn route(chat: bool) -> (&'static str, &'static str) {
    match chat {
        true => ("/v1/chat/completions", "messages"),
        false => ("/v1/completions", "prompt"),
    }
}

/// A question as the value of that key.
fn asked_by(chat: bool, question: &str) -> Value {
    match chat {
        true => json!([{"role": "user", "content": question}]),
        false => json!(question),
    }
}

/// The longest of [`LONG_PROMPTS`] that is computed [`AT_ONCE`].
async fn long_prompt(endpoint: &Endpoint, last: u32, context: Option<u32>) -> Option<u32> {
    let mut endpoint = endpoint.clone();
    // A slow server is soon left.
    endpoint.request_timeout = 8 * AT_ONCE;
    let mut before = (PAGES, time_of_prompt(&endpoint, PAGES, last).await?);
    // As long as the gates' prompts may be.
    let room = context.map_or(u32::MAX, |context| context / 4 * 3);
    for tokens in LONG_PROMPTS.into_iter().filter(|it| *it <= room) {
        let expected = before.1 * (tokens + ROOM) / (before.0 + ROOM);
        if expected > 4 * AT_ONCE {
            break;
        }
        // The first of a length may be slower: something is compiled or captured.
        let first = time_of_prompt(&endpoint, tokens, last).await;
        let elapsed = match first {
            Some(first) if first > AT_ONCE => time_of_prompt(&endpoint, tokens, last).await,
            first => first,
        };
        let Some(elapsed) = elapsed.filter(|elapsed| *elapsed <= AT_ONCE) else {
            break;
        };
        // A gate has five in flight: its cache has room for them.
        let mut crowd = JoinSet::new();
        for turn in 0..5 {
            let endpoint = endpoint.clone();
            crowd.spawn(async move {
                sleep(turn * Duration::from_millis(1)).await;
                time_of_prompt(&endpoint, tokens, last).await
            });
        }
        if crowd.join_all().await.iter().any(Option::is_none) {
            break;
        }
        before = (tokens, elapsed);
    }
    Some(before.0).filter(|tokens| *tokens > PAGES)
}

/// Times the answer to a new prompt; `None` if there is no answer, or usage counts another number of prompt tokens.
async fn time_of_prompt(endpoint: &Endpoint, tokens: u32, last: u32) -> Option<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let length = tokens + ROOM;
    let ids = (0..length).map(|place| 3 + (place * 11 + now.subsec_micros()) % (last - 3));
    let prompt: Vec<u32> = ids.collect();
    let body = json!({"model": &endpoint.model, "prompt": prompt, "max_tokens": 1});
    let asked = Instant::now();
    let answer = post(endpoint, "/v1/completions", &body).await.ok()?;
    let elapsed = asked.elapsed();
    let answer: Value = serde_json::from_str(&answer).ok()?;
    let counted = answer.pointer("/usage/prompt_tokens")?.as_u64();
    (counted == Some(u64::from(length))).then_some(elapsed)
}

/// True if completions list the likeliest tokens, streamed and whole.
async fn tells_logprobs(endpoint: &Endpoint) -> bool {
    for stream in [true, false] {
        let body = json!({
            "model": &endpoint.model, "prompt": "Hello", "max_tokens": 2, "temperature": 0, "stream": stream, "logprobs": 5,
        });
        let answer = post(endpoint, "/v1/completions", &body).await;
        let lists = |text: &str| {
            let events = text
                .lines()
                .map(|line| line.strip_prefix("data:").unwrap_or(line));
            let events = events.filter_map(|data| serde_json::from_str::<Value>(data.trim()).ok());
            // An engine that lists what is left to choose from at temperature 0 gives 0 and -9999.
            let is_unsure =
                |logprob: &Value| logprob.as_f64().is_some_and(|it| -50.0 < it && it < -1e-6);
            let tells = |event: Value| {
                let logprobs = event.pointer("/choices/0/logprobs");
                let at = |place| logprobs.and_then(|it| it.pointer(place));
                let by_token = at("/top_logprobs/0").and_then(Value::as_object);
                // As in chats (llama.cpp).
                let entries = at("/content/0/top_logprobs").and_then(Value::as_array);
                by_token.is_some_and(|list| list.values().any(is_unsure))
                    || entries.is_some_and(|list| {
                        let mut listed = list.iter().filter_map(|entry| entry.get("logprob"));
                        listed.any(is_unsure)
                    })
            };
            events.into_iter().any(tells)
        };
        if !answer.is_ok_and(|answer| lists(&answer)) {
            return false;
        }
    }
    true
}

fn events(stream: &str) -> Vec<Value> {
    let events = stream.lines().filter_map(|line| line.strip_prefix("data:"));
    let events = events.filter_map(|data| serde_json::from_str(data.trim()).ok());
    events.collect()
}

/// Tokens of a streamed answer, by its usage.
fn counted(stream: &str) -> Option<u64> {
    let completion = |event: &Value| event.get("usage")?.get("completion_tokens")?.as_u64();
    events(stream).iter().filter_map(completion).next_back()
}

/// The abilities that a streamed answer shows.
fn shown(stream: &str) -> Seen {
    let events = events(stream);
    let is_count_of_cached = |event: &Value| {
        let cached = event.pointer("/usage/prompt_tokens_details/cached_tokens");
        cached.is_some_and(Value::is_u64)
    };
    let has_ids = |event: &Value| {
        let ids = event
            .pointer("/choices/0/token_ids")
            .and_then(Value::as_array);
        ids.is_some_and(|ids| !ids.is_empty())
    };
    Seen {
        stream_usage: counted(stream).is_some(),
        return_token_ids: events.iter().any(has_ids),
        tells_cached: events.iter().any(is_count_of_cached),
        ..Seen::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_shows_what_a_server_can_do() {
        let stream = "data: {\"choices\":[{\"text\":\"a\",\"token_ids\":[5]}]}\n\ndata: {\"choices\":[],\"usage\":{\"completion_tokens\":24}}\n\ndata: [DONE]\n";
        let all = shown(stream);
        assert!(all.stream_usage && all.return_token_ids);
        assert_eq!(counted(stream), Some(24));
        assert_eq!(shown("data: {}\n"), Seen::default());
    }

    #[test]
    fn a_preset_is_for_an_engines_own_program() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (engine, command, expect) in [
            ("llama.cpp", "/opt/bin/llama-server -m x --port 1", true),
            ("llama.cpp", "python3 serve.py --port 1", false),
            ("vllm", "/usr/bin/python3 /usr/bin/vllm serve x", true),
            (
                "vllm",
                "python3 -m vllm.entrypoints.openai.api_server",
                true,
            ),
            ("sglang", "python3 -m sglang.launch_server", true),
            ("vllm", "VLLM::APIServer", true),
            ("vllm", "python3 serve.py --model models/vllm", false),
            ("sglang", "python3 serve.py --backend sglang", false),
            ("infergate", "target/release/gate serve", true),
        ] {
            assert_eq!(starts(engine, &words(command)), expect, "{command}");
        }
    }

    #[test]
    fn a_context_is_named_in_two_ways() {
        let of = |data: &str| context(&format!("{{\"data\":[{data}]}}"));
        assert_eq!(of("{\"max_model_len\":4096}"), Some(4096));
        assert_eq!(of("{\"meta\":{\"n_ctx\":2048}}"), Some(2048));
        assert_eq!(of("{\"meta\":null}"), None);
    }

    #[test]
    fn a_server_is_known_by_what_it_says_of_itself() {
        let of = |owner: &str| {
            named(&format!(
                "{{\"data\":[{{\"id\":\"m\",\"owned_by\":\"{owner}\"}}]}}"
            ))
        };
        assert_eq!(of("vllm"), Some(("m".into(), Some("vllm"))));
        assert_eq!(of("me"), Some(("m".into(), None)));
        assert_eq!(named("{\"data\":[{\"id\":\"a\\nb\"}]}"), None);
        assert_eq!(named("<html>"), None);
        let elsewhere =
            ["/etc", "../x", "a/../../x", "Qwen/Qwen3-0.6B", "m.gguf"].map(is_path_elsewhere);
        assert_eq!(elsewhere, [true, true, true, false, false]);
        assert_eq!(named("{\"data\":[{\"id\":\"--config=x\"}]}"), None);
    }
}
