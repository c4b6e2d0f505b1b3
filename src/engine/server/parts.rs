//! The parts of a chat's answer: what the model thinks, what it says, and the functions that it calls.
//!
//! [`Parts`] takes the text piece by piece. What is between `<think>` and `</think>` is reasoning, as in Qwen3 and
//! DeepSeek-R1; what is between `<tool_call>` and `</tool_call>` is a call as Hermes writes it, a JSON object with
//! `name` and `arguments`. A call that is none stays text. Refuses to know: tokens, events.

use super::wire::chat::{Call, CalledFunction};
use serde::Deserialize;
use serde_json::value::RawValue;

pub const THINK: &str = "<think>";
pub const THOUGHT: &str = "</think>";
const CALL: &str = "<tool_call>";
const CALLED: &str = "</tool_call>";

/// Which parts an answer may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The model was trained to think, by its template.
    pub reasoning: bool,
    /// The prompt ends within a thought.
    pub begun: bool,
    /// Tools were described.
    pub calls: bool,
}

/// What a piece of text adds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Added {
    pub content: String,
    pub reasoning: String,
    pub calls: Vec<Call>,
}

/// An answer's text on its way to its parts.
#[derive(Debug)]
pub struct Parts {
    expected: Expected,
    place: Place,
    /// Not given out yet: it may become a tag, or be the blank before one.
    held: String,
    /// How much of `held` was looked through for a call's end.
    searched: usize,
    /// Number of the next call.
    calls: u32,
    /// Begins each call's id.
    id: String,
}

/// Where in the answer the text goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nothing but blanks so far.
    Start,
    Reasoning {
        is_blank: bool,
    },
    /// Behind a thought, before anything is said.
    Thought,
    Content,
    Call,
}

impl Parts {
    /// `id`: different for each choice of each answer.
    pub fn new(expected: Expected, id: String) -> Self {
        let place = match expected {
            Expected { begun: true, .. } => Place::Reasoning { is_blank: true },
            Expected {
                reasoning: true, ..
            } => Place::Start,
            _ => Place::Content,
        };
        Self {
            expected,
            place,
            held: String::new(),
            searched: 0,
            calls: 0,
            id,
        }
    }

    /// Whether the answer holds a call.
    pub fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// More text.
    pub fn push(&mut self, piece: &str) -> Added {
        self.held.push_str(piece);
        let mut added = Added::default();
        while self.advance(&mut added) {}
        added
    }

    /// The rest, when the answer has ended.
    pub fn finish(&mut self) -> Added {
        let mut added = Added::default();
        let rest = std::mem::take(&mut self.held);
        match self.place {
            Place::Reasoning { .. } => added.reasoning = rest,
            Place::Call => added.content = [CALL, &rest].concat(),
            Place::Start | Place::Thought | Place::Content => added.content = rest,
        }
        added
    }

    /// Takes one step; true if there may be another.
    fn advance(&mut self, added: &mut Added) -> bool {
        match self.place {
            Place::Start => self.start(),
            Place::Reasoning { is_blank } => self.reason(is_blank, added),
            Place::Thought => self.end_thought(),
            Place::Content => self.say(added),
            Place::Call => self.call(added),
        }
    }

    /// A thought stands at the beginning or not at all.
    fn start(&mut self) -> bool {
        let text = self.held.trim_start();
        if let Some(rest) = text.strip_prefix(THINK) {
            self.held = rest.to_owned();
            self.place = Place::Reasoning { is_blank: true };
            return true;
        }
        let is_open = THINK.starts_with(text);
        if !is_open {
            self.place = Place::Content;
        }
        !is_open
    }

    fn reason(&mut self, is_blank: bool, added: &mut Added) -> bool {
        if is_blank {
            let blanks = self.held.len() - self.held.trim_start_matches('\n').len();
            self.held.drain(..blanks);
        }
        let before = added.reasoning.len();
        if self.take_until(THOUGHT, &mut added.reasoning) {
            self.place = Place::Thought;
            return true;
        }
        let is_blank = is_blank && added.reasoning.len() == before;
        self.place = Place::Reasoning { is_blank };
        false
    }

    /// Gives out the text before a tag and takes the tag; where there is none yet, gives out what is certain.
    fn take_until(&mut self, tag: &str, out: &mut String) -> bool {
        if let Some(at) = self.held.find(tag) {
            out.push_str(self.held[..at].trim_end_matches('\n'));
            self.held.drain(..at + tag.len());
            return true;
        }
        let certain = certain(&self.held, tag);
        out.extend(self.held.drain(..certain));
        false
    }

    /// The line breaks between a thought and what is said belong to neither.
    fn end_thought(&mut self) -> bool {
        let blanks = self.held.len() - self.held.trim_start_matches('\n').len();
        self.held.drain(..blanks);
        if self.held.is_empty() {
            return false;
        }
        self.place = Place::Content;
        true
    }

    fn say(&mut self, added: &mut Added) -> bool {
        if !self.expected.calls {
            added.content.push_str(&std::mem::take(&mut self.held));
            return false;
        }
        let is_call = self.take_until(CALL, &mut added.content);
        if is_call {
            self.place = Place::Call;
        }
        is_call
    }

    fn call(&mut self, added: &mut Added) -> bool {
        let from = self.searched.saturating_sub(CALLED.len());
        let from = self.held.floor_char_boundary(from);
        let Some(at) = self.held[from..].find(CALLED) else {
            self.searched = self.held.len();
            return false;
        };
        let at = from + at;
        self.searched = 0;
        let text = self.held[..at].to_owned();
        self.held.drain(..at + CALLED.len());
        match called(&text) {
            Some(function) => {
                added.calls.push(Call {
                    index: Some(self.calls),
                    id: format!("call_{}{:02x}", self.id, self.calls),
                    kind: "function",
                    function,
                });
                self.calls += 1;
                // What stands between two calls is their template's.
                self.place = Place::Thought;
            }
            None => {
                added.content.push_str(&[CALL, &text, CALLED].concat());
                self.place = Place::Content;
            }
        }
        true
    }
}

/// Up to where the text is certain: what may begin a tag is not, nor the line breaks before it.
fn certain(text: &str, tag: &str) -> usize {
    let begins = |at: &usize| tag.starts_with(&text[*at..]);
    let first = text.len().saturating_sub(tag.len() - 1);
    let ends = (first..text.len()).filter(|at| text.is_char_boundary(*at));
    let open = ends.into_iter().find(begins).unwrap_or(text.len());
    text[..open].trim_end_matches('\n').len()
}

/// `{"name": "f", "arguments": {…}}`; the arguments are given on as they were written.
fn called(text: &str) -> Option<CalledFunction> {
    #[derive(Deserialize)]
    struct Written<'a> {
        name: String,
        #[serde(borrow, alias = "parameters")]
        arguments: &'a RawValue,
    }
    let written: Written<'_> = serde_json::from_str(text).ok()?;
    let arguments = written.arguments.get();
    arguments.starts_with('{').then(|| CalledFunction {
        name: written.name,
        arguments: arguments.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Added, Expected, Parts};

    const ALL: Expected = Expected {
        reasoning: true,
        begun: false,
        calls: true,
    };

    /// The parts of a text that comes in pieces of so many characters.
    fn parts(expected: Expected, text: &str, size: usize) -> Added {
        let mut parts = Parts::new(expected, "7".into());
        let mut all = Added::default();
        let mut take = |more: Added| {
            all.content.push_str(&more.content);
            all.reasoning.push_str(&more.reasoning);
            all.calls.extend(more.calls);
        };
        let characters: Vec<char> = text.chars().collect();
        for piece in characters.chunks(size) {
            take(parts.push(&piece.iter().collect::<String>()));
        }
        take(parts.finish());
        all
    }

    #[track_caller]
    fn check(
        expected: Expected,
        text: &str,
        reasoning: &str,
        content: &str,
        calls: &[(&str, &str)],
    ) {
        for size in [1, 2, 3, 7, 1_000] {
            let all = parts(expected, text, size);
            assert_eq!(
                (&*all.reasoning, &*all.content),
                (reasoning, content),
                "{size}"
            );
            let got = all
                .calls
                .iter()
                .map(|call| (&*call.function.name, &*call.function.arguments));
            assert_eq!(got.collect::<Vec<_>>(), calls, "{size}");
        }
    }

    #[test]
    fn a_thought_and_an_answer_are_told_apart() {
        check(
            ALL,
            "<think>\nHm. 2 < 3?\n</think>\n\nYes.\n",
            "Hm. 2 < 3?",
            "Yes.\n",
            &[],
        );
        check(ALL, "\n<think>\n\n</think>\n\nYes.", "", "Yes.", &[]);
        check(
            ALL,
            "Yes, a <think> in it.",
            "",
            "Yes, a <think> in it.",
            &[],
        );
        check(ALL, "<thin air", "", "<thin air", &[]);
        check(ALL, "<think>\nCut off\n\n", "Cut off\n\n", "", &[]);
        let begun = Expected { begun: true, ..ALL };
        check(
            begun,
            "\nOf course.\n</think>\nNo.",
            "Of course.",
            "No.",
            &[],
        );
        check(
            Expected::default(),
            "<think>a</think>",
            "",
            "<think>a</think>",
            &[],
        );
    }

    #[test]
    fn calls_are_read_as_hermes_writes_them() {
        let call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1,  \"b\": [2]}}\n</tool_call>";
        let add = ("add", "{\"a\": 1,  \"b\": [2]}");
        check(ALL, call, "", "", &[add]);
        check(
            ALL,
            &format!("<think>\nI add.\n</think>\n\nWait.\n{call}\n{call}\n"),
            "I add.",
            "Wait.",
            &[add, add],
        );
        let ids = parts(ALL, &[call, call].concat(), 5).calls;
        assert_eq!(
            (&*ids[0].id, &*ids[1].id, ids[1].index),
            ("call_700", "call_701", Some(1))
        );
        for none in [
            "<tool_call>add</tool_call>",
            "<tool_call>{\"name\": \"add\", \"arguments\": 3}</tool_call>",
            "<tool_call>{\"name\": \"add\"",
        ] {
            check(ALL, none, "", none, &[]);
        }
        let silent = Expected {
            calls: false,
            ..ALL
        };
        check(silent, call, "", call, &[]);
    }

    #[test]
    fn text_is_held_no_longer_than_it_may_become_a_tag() {
        let mut parts = Parts::new(ALL, String::new());
        assert_eq!(parts.push("<th").content, "");
        assert_eq!(parts.push("e").content, "<the");
        assert_eq!(parts.push(" end\n").content, " end");
        assert_eq!(parts.push("<tool").content, "");
        assert_eq!(parts.push("box").content, "\n<toolbox");
    }
}
