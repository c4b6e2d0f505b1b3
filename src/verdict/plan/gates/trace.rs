//! Requests of a file: recorded lengths, prompts or conversations, one JSON object a line, or a JSON list as ShareGPT's.
//!
//! Main functions: [`entries`]; [`conversations`], turn by turn. Refuses to know: how they are sent.

use crate::plan::model::{PromptBlocks, TracePrompt};
use serde::Deserialize;
use std::time::Duration;

/// Longest prompt or answer, in tokens.
const LONGEST: u32 = 1_000_000;

/// Tokens of a block of `hash_ids`: Mooncake's traces, and Qwen's from Bailian.
const BLOCK_SIZES: [u32; 2] = [512, IN_SECONDS];

/// The size of blocks in traces whose `timestamp` is in seconds.
const IN_SECONDS: u32 = 16;

/// The role of who answers.
const ASSISTANT: &str = "assistant";

/// A request as the file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// From the first request's moment.
    pub at: Option<Duration>,
    pub prompt: TracePrompt,
    pub output_tokens: Option<u32>,
    /// The recorded answer, whose length may be asked for.
    pub reply: Option<String>,
}

/// What a user says at once in a conversation, and what was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnLine {
    /// Role and content of each message.
    pub messages: Vec<(String, String)>,
    pub output_tokens: Option<u32>,
    /// The recorded answer, whose length may be asked for.
    pub reply: Option<String>,
}

/// The names of all forms: ours, Mooncake's, vLLM's custom datasets, ShareGPT's.
#[derive(Deserialize)]
struct Entry {
    /// Seconds; beside `input_length` milliseconds, as Mooncake has it.
    timestamp: Option<f64>,
    prompt_length: Option<u32>,
    input_length: Option<u32>,
    #[serde(alias = "output_tokens")]
    output_length: Option<u32>,
    #[serde(default)]
    hash_ids: Vec<u64>,
    prompt: Option<String>,
    messages: Option<Vec<ChatMessage>>,
    conversations: Option<Vec<Said>>,
}

/// What else a message may have, such as calls of tools, is not sent and so refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChatMessage {
    role: String,
    content: String,
}

/// ShareGPT's.
#[derive(Deserialize)]
struct Said {
    #[serde(rename = "from")]
    role: String,
    #[serde(rename = "value")]
    content: String,
}

/// Reads the text of a whole file; moments count from the first request's, and all lines have one or none.
///
/// # Errors
/// What is wrong with which line, or with which entry of a list.
pub fn entries(text: &str) -> Result<Vec<TraceLine>, String> {
    let lines = read(text)?.into_iter();
    let placed = |(place, entry)| match line(entry) {
        Ok(line) => Ok((place, line)),
        Err(reason) => Err(format!("{place}: {reason}")),
    };
    let mut lines = lines.map(placed).collect::<Result<Vec<Placed>, String>>()?;
    set_block_size(&mut lines)?;
    count_from_first(&mut lines)?;
    Ok(lines.into_iter().map(|(_, line)| line).collect())
}

/// The turns of each conversation of a whole file. Moments are left aside.
///
/// # Errors
/// What is no conversation, with its place.
pub fn conversations(text: &str) -> Result<Vec<Vec<TurnLine>>, String> {
    let conversations = read(text)?.into_iter().map(|(place, entry)| {
        let turns = turns(entry).map_err(|reason| format!("{place}: {reason}"))?;
        match turns.is_empty() {
            true => Err(format!("{place}: no user says anything in it")),
            false => Ok(turns),
        }
    });
    conversations.collect()
}

/// Each request with its place in the file.
type Placed = (String, TraceLine);

/// Each entry with its place in the file; at least one.
fn read(text: &str) -> Result<Vec<(String, Entry)>, String> {
    let entries = if text.trim_start().starts_with('[') {
        list(text)?
    } else {
        objects(text)?
    };
    match entries.is_empty() {
        true => Err("it holds no request".into()),
        false => Ok(entries),
    }
}

fn objects(text: &str) -> Result<Vec<(String, Entry)>, String> {
    let lines = (1..).zip(text.lines());
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            let place = format!("line {number}");
            let entry = serde_json::from_str(line).map_err(|error| unreadable(&place, &error))?;
            Ok((place, entry))
        })
        .collect()
}

/// The line's own number in the place of serde's, which is that within the line.
fn unreadable(place: &str, error: &serde_json::Error) -> String {
    let text = error.to_string();
    let cause = text.split(" at line ").next().unwrap_or(&text);
    format!("{place}, column {}: {cause}", error.column())
}

fn list(text: &str) -> Result<Vec<(String, Entry)>, String> {
    let entries: Vec<Entry> =
        serde_json::from_str(text).map_err(|error| format!("the list: {error}"))?;
    // ShareGPT has conversations that begin with an answer, or say nothing.
    let has_question = |entry: &Entry| entry.conversations.as_deref().is_none_or(has_question);
    let entries = (1..).zip(entries).filter(|(_, entry)| has_question(entry));
    Ok(entries
        .map(|(number, entry)| (format!("entry {number}"), entry))
        .collect())
}

fn has_question(said: &[Said]) -> bool {
    question(said).is_some_and(|text| !text.trim().is_empty())
}

/// What the user said first.
fn question(said: &[Said]) -> Option<&str> {
    let first = said.first().filter(|said| is_user(said))?;
    Some(&first.content)
}

fn is_user(said: &Said) -> bool {
    ["user", "human"].contains(&said.role.as_str())
}

/// Each ends where the user was answered, or with the conversation.
fn turns(entry: Entry) -> Result<Vec<TurnLine>, String> {
    let output_tokens = entry.output_length;
    output_tokens.map_or(Ok(()), refuse_length)?;
    let messages: Vec<(String, String)> = match (entry.messages, entry.conversations) {
        (Some(messages), None) => messages.into_iter().map(|m| (m.role, m.content)).collect(),
        (None, Some(said)) => said.into_iter().map(as_message).collect(),
        _ => {
            return Err(
                "it is no conversation; --multi-turn needs `messages` or `conversations`".into(),
            );
        }
    };
    let mut turns = Vec::new();
    let mut asked: Vec<(String, String)> = Vec::new();
    for (role, content) in messages {
        let is_asked = asked.iter().any(|(role, _)| role == "user");
        match role == ASSISTANT {
            true if is_asked => turns.push(TurnLine {
                messages: std::mem::take(&mut asked),
                output_tokens,
                reply: Some(content),
            }),
            // More of an answer, whose place the server's takes.
            true if asked.is_empty() && !turns.is_empty() => {}
            _ => asked.push((role, content)),
        }
    }
    if asked.iter().any(|(role, _)| role == "user") {
        turns.push(TurnLine {
            messages: asked,
            output_tokens,
            reply: None,
        });
    }
    Ok(turns)
}

/// By the names of the chat route.
fn as_message(said: Said) -> (String, String) {
    let role = match &*said.role {
        "human" => "user".to_owned(),
        "gpt" | "chatgpt" | "bing" | "bard" => ASSISTANT.to_owned(),
        _ => said.role,
    };
    (role, said.content)
}

fn line(entry: Entry) -> Result<TraceLine, String> {
    let unit = if entry.input_length.is_some() {
        1e3
    } else {
        1.0
    };
    let at = entry.timestamp.map(|timestamp| {
        let seconds = timestamp / unit;
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| format!("a timestamp of {seconds} s cannot be"))
    });
    let (prompt, reply) = prompt(&entry)?;
    for length in [entry.output_length, Some(prompt.tokens())]
        .into_iter()
        .flatten()
    {
        refuse_length(length)?;
    }
    Ok(TraceLine {
        at: at.transpose()?,
        prompt,
        output_tokens: entry.output_length,
        reply,
    })
}

fn refuse_length(length: u32) -> Result<(), String> {
    match (1..=LONGEST).contains(&length) {
        true => Ok(()),
        false => Err(format!("a length of {length} tokens cannot be asked for")),
    }
}

/// The prompt, and the recorded answer to it.
fn prompt(entry: &Entry) -> Result<(TracePrompt, Option<String>), String> {
    let drawn = |tokens| TracePrompt::Drawn {
        tokens,
        blocks: (!entry.hash_ids.is_empty()).then(|| PromptBlocks {
            ids: entry.hash_ids.clone(),
            size: 0,
        }),
    };
    let message = |message: &ChatMessage| (message.role.clone(), message.content.clone());
    let length = entry.prompt_length.or(entry.input_length);
    match (length, &entry.prompt, &entry.messages, &entry.conversations) {
        (Some(tokens), None, None, None) => Ok((drawn(tokens), None)),
        (None, Some(text), None, None) => Ok((TracePrompt::Text(text.clone()), None)),
        (None, None, Some(messages), None) => {
            Ok((TracePrompt::Messages(messages.iter().map(message).collect()), None))
        }
        (None, None, None, Some(said)) => {
            let text = question(said).ok_or("its conversation does not begin with a user's message")?;
            let reply = said.get(1).filter(|said| !is_user(said));
            let reply = reply.map(|said| said.content.clone());
            Ok((TracePrompt::Text(text.to_owned()), reply))
        }
        _ => Err(
            "name one of `prompt_length` (timestamp in s), `input_length` (timestamp in ms), `prompt`, `messages` \
             and `conversations`"
                .into(),
        ),
    }
}

/// One size of a block fits all requests of a file.
fn set_block_size(lines: &mut [Placed]) -> Result<(), String> {
    let blocks = |line: &TraceLine| match &line.prompt {
        TracePrompt::Drawn {
            tokens,
            blocks: Some(blocks),
        } => Some((*tokens, blocks.ids.len())),
        _ => None,
    };
    let misfit = |size: u32| {
        lines.iter().find_map(|(place, line)| {
            let (tokens, ids) = blocks(line)?;
            (tokens.div_ceil(size) as usize != ids).then(|| (place.clone(), tokens, ids))
        })
    };
    let Some(size) = BLOCK_SIZES.into_iter().find(|&size| misfit(size).is_none()) else {
        let (place, tokens, ids) = misfit(BLOCK_SIZES[0]).unwrap_or_default();
        return Err(format!(
            "{place}: {ids} `hash_ids` for {tokens} tokens; a block has 512 tokens (Mooncake) or 16 (Qwen-Bailian) \
             throughout a file"
        ));
    };
    let has_blocks = lines.iter().any(|(_, line)| blocks(line).is_some());
    for (_, line) in lines {
        // Qwen's traces count seconds under Mooncake's names.
        if size == IN_SECONDS && has_blocks {
            line.at = line.at.map(|at| at.saturating_mul(1000));
        }
        if let TracePrompt::Drawn {
            blocks: Some(blocks),
            ..
        } = &mut line.prompt
        {
            blocks.size = size;
        }
    }
    Ok(())
}

/// The replay begins with the first request, whatever clock the trace was taken by.
fn count_from_first(lines: &mut [Placed]) -> Result<(), String> {
    let origin = lines.first().and_then(|(_, line)| line.at);
    let mut last = origin;
    for (place, line) in lines {
        if line.at.is_some() != origin.is_some() {
            return Err(format!("{place}: all requests have a timestamp, or none"));
        }
        if line.at < last {
            return Err(format!("{place}: its timestamp lies before the last one's"));
        }
        last = line.at;
        line.at = line.at.zip(origin).map(|(at, origin)| at - origin);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{PromptBlocks, TraceLine, TracePrompt, conversations, entries};
    use std::time::Duration;

    fn drawn(at_ms: u64, tokens: u32, output_tokens: u32) -> TraceLine {
        TraceLine {
            at: Some(Duration::from_millis(at_ms)),
            prompt: TracePrompt::Drawn {
                tokens,
                blocks: None,
            },
            output_tokens: Some(output_tokens),
            reply: None,
        }
    }

    #[test]
    fn both_forms_of_lengths_are_read_from_their_first_moment() {
        let expect = [drawn(0, 10, 4), drawn(250, 20, 5)];
        let ours = "{\"timestamp\":3.0,\"prompt_length\":10,\"output_length\":4}\n\n\
                    {\"timestamp\":3.25,\"prompt_length\":20,\"output_length\":5}\n";
        assert_eq!(entries(ours).unwrap(), expect);
        let mooncake = "{\"timestamp\":0,\"input_length\":10,\"output_length\":4,\"hash_ids\":[]}\n\
                        {\"timestamp\":250,\"input_length\":20,\"output_length\":5}";
        assert_eq!(entries(mooncake).unwrap(), expect);
    }

    #[test]
    fn equal_hash_ids_are_blocks_of_one_size() {
        let of = |tokens: u32, ids: &str| {
            format!(
                "{{\"timestamp\":0,\"input_length\":{tokens},\"output_length\":1,\"hash_ids\":{ids}}}\n"
            )
        };
        let size = |text: &str| match &entries(text).unwrap()[0].prompt {
            TracePrompt::Drawn {
                blocks: Some(PromptBlocks { ids, size }),
                ..
            } => (ids.len(), *size),
            other => panic!("{other:?}"),
        };
        assert_eq!(size(&(of(513, "[4,5]") + &of(2, "[4]"))), (2, 512));
        let bailian = of(10, "[4]") + &of(17, "[4,6]").replace(":0,", ":61.5,");
        assert_eq!(size(&bailian), (1, 16));
        assert_eq!(
            entries(&bailian).unwrap()[1].at,
            Some(Duration::from_millis(61_500))
        );
        let refusal = entries(&(of(513, "[4,5]") + &of(17, "[4,6]"))).unwrap_err();
        assert!(
            refusal.starts_with("line 2: 2 `hash_ids` for 17"),
            "{refusal}"
        );
    }

    #[test]
    fn prompts_and_conversations_are_read_with_or_without_moments() {
        let text = r#"{"prompt": "Why?", "output_tokens": 7}"#;
        let read = |text: &str| entries(text).unwrap().remove(0);
        let line = read(text);
        assert_eq!(line.prompt, TracePrompt::Text("Why?".into()));
        assert_eq!((line.at, line.output_tokens), (None, Some(7)));
        let line =
            read(r#"{"timestamp": 2, "messages": [{"role": "system", "content": "Be brief."}]}"#);
        let messages = vec![("system".to_owned(), "Be brief.".to_owned())];
        assert_eq!(line.prompt, TracePrompt::Messages(messages));
        assert_eq!(line.at, Some(Duration::ZERO));
        let sharegpt = r#"[{"id": "a", "conversations": []},
            {"id": "b", "conversations": [{"from": "gpt", "value": "Yes."}]},
            {"id": "c", "conversations": [{"from": "human", "value": "Who?"}, {"from": "gpt", "value": "I."}]}]"#;
        let lines = entries(sharegpt).unwrap();
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].prompt, TracePrompt::Text("Who?".into()));
        assert_eq!(lines[0].reply.as_deref(), Some("I."));
    }

    #[test]
    fn a_turn_ends_where_the_user_was_answered() {
        let said = |turns: &[super::TurnLine]| -> Vec<(String, Option<String>)> {
            let texts = |turn: &super::TurnLine| {
                let texts = turn
                    .messages
                    .iter()
                    .map(|(role, text)| format!("{role} {text}"));
                (texts.collect::<Vec<_>>().join(", "), turn.reply.clone())
            };
            turns.iter().map(texts).collect()
        };
        let messages = r#"{"output_length": 5, "messages": [
            {"role": "system", "content": "S"}, {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "a"},
            {"role": "assistant", "content": "A"}, {"role": "assistant", "content": "B"},
            {"role": "tool", "content": "t"}, {"role": "user", "content": "b"}, {"role": "user", "content": "c"}]}"#;
        let read = conversations(&messages.replace('\n', " ")).unwrap();
        let expect = [
            (
                "system S, assistant Hi, user a".to_owned(),
                Some("A".to_owned()),
            ),
            ("tool t, user b, user c".to_owned(), None),
        ];
        assert_eq!(said(&read[0]), expect);
        assert!(read[0].iter().all(|turn| turn.output_tokens == Some(5)));
        let sharegpt = r#"[{"conversations": [{"from": "gpt", "value": "I."}]},
            {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "A"}]}]"#;
        let read = conversations(sharegpt).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(
            said(&read[0]),
            [("user a".to_owned(), Some("A".to_owned()))]
        );
        for (text, expect) in [
            (r#"{"prompt": "x"}"#, "line 1: it is no conversation"),
            (
                r#"{"messages": [{"role": "system", "content": "x"}]}"#,
                "line 1: no user says",
            ),
            (r#"{"output_length": 0, "messages": []}"#, "0 tokens"),
        ] {
            let refusal = conversations(text).unwrap_err();
            assert!(refusal.contains(expect), "{refusal}");
        }
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_place() {
        let good = r#"{"timestamp":1,"prompt_length":1,"output_length":1}"#;
        let table = [
            (String::new(), "no request"),
            ("[]".into(), "no request"),
            (format!("{good}\nnot json"), "line 2, column 2: expected"),
            (
                "{\"messages\": [{\"role\": \"tool\", \"content\": \"x\", \"name\": \"f\"}]}"
                    .into(),
                "unknown field `name`",
            ),
            (
                "{\"messages\": [{\"role\": \"user\", \"content\": null}]}".into(),
                ": invalid type: null",
            ),
            (
                format!("{good}\n{{\"timestamp\":2}}"),
                "line 2: name one of `prompt_length`",
            ),
            (
                format!("{good}\n{}", good.replace(":1,\"p", ":0.5,\"p")),
                "line 2: its timestamp",
            ),
            (
                format!("{good}\n{{\"prompt\": \"x\"}}"),
                "line 2: all requests have a timestamp, or none",
            ),
            (
                good.replace("\"output_length\":1", "\"output_length\":0"),
                "0 tokens",
            ),
            ("{\"prompt\": \"\"}".into(), "0 tokens"),
            (good.replace(":1,\"p", ":-1,\"p"), "cannot be"),
            ("[{\"prompt\": 3}]".into(), "the list: invalid type"),
        ];
        for (text, expect) in table {
            let refusal = entries(&text).unwrap_err();
            assert!(refusal.contains(expect), "{text}: {refusal}");
        }
    }
}
