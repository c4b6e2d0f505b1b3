//! Conversations with short answers, which the model ends by itself.
//!
//! Main items: [`QUESTIONS`], [`Question::messages`].

use super::request::Message;
use verdict::plan;
use verdict::record::{EARLIER_TURNS, SYSTEM_MESSAGE};

/// A question, and what was said before it. Without that it has another answer, or none.
pub struct Question {
    system: Option<&'static str>,
    /// The user's earlier message and the answer to it.
    earlier: Option<(&'static str, &'static str)>,
    pub text: &'static str,
}

const fn asked(text: &'static str) -> Question {
    Question {
        system: None,
        earlier: None,
        text,
    }
}

/// Over half of them have a system message, and over half earlier turns. Some answers have characters of several bytes.
pub const QUESTIONS: [Question; plan::QUESTIONS as usize] = [
    asked("What is 7 plus 5? Answer with the number alone."),
    Question {
        system: Some("Answer with one word, in French."),
        ..asked("Which season comes after spring?")
    },
    Question {
        earlier: Some(("Remember the number 42.", "I will.")),
        ..asked("Which number did I tell you? Answer with the number alone.")
    },
    Question {
        system: Some("You are a parrot: repeat each message, and say nothing else."),
        earlier: Some(("Hello!", "Hello!")),
        ..asked("naïve 日本語 🙂 café")
    },
    Question {
        system: Some("Answer in capital letters."),
        ..asked("What is the capital of France? Answer with one word.")
    },
    Question {
        earlier: Some(("Which day follows Monday? Answer with one word.", "Tuesday")),
        ..asked("And the day after that?")
    },
    Question {
        system: Some("Begin each answer with the word yes."),
        earlier: Some(("My name is Ada.", "Yes, hello Ada.")),
        ..asked("What is my name?")
    },
    Question {
        system: Some("Your own name is Robin."),
        earlier: Some(("Count from one to three.", "one, two, three")),
        ..asked("What is your name, and which number comes next?")
    },
];

/// Questions without a short answer, which temperature 1 answers otherwise than temperature 0.
pub const STORIES: [Question; plan::STORIES as usize] = [
    asked("Tell me a story of a dragon."),
    asked("Describe a city that you make up."),
    asked("Write a letter to a friend."),
    asked("Invent a game, and explain its rules."),
];

/// Words that a model is asked to repeat; a penalty makes it say others.
pub const REPEATED: [&str; plan::REPEATED as usize] = [
    "one two",
    "yes no",
    "red blue green",
    "la la di",
    "the cat and the dog",
    "1 2 3",
    "tick tock",
    "hello hello world",
];

impl Question {
    pub fn messages(&self) -> Vec<Message> {
        let mut messages = Vec::new();
        messages.extend(self.system.map(|text| Message::of("system", text)));
        if let Some((said, answered)) = self.earlier {
            messages.push(Message::of_user(said));
            messages.push(Message::of("assistant", answered));
        }
        messages.push(Message::of_user(self.text));
        messages
    }

    /// `chat 6, system message, earlier turns`.
    pub fn name(&self, number: usize) -> String {
        let system = self.system.map_or("", |_| SYSTEM_MESSAGE);
        let earlier = self.earlier.map_or("", |_| EARLIER_TURNS);
        format!("chat {number}{system}{earlier}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_half_have_a_system_message_and_over_half_earlier_turns() {
        let count = |has: fn(&Question) -> bool| QUESTIONS.iter().filter(|it| has(it)).count();
        assert_eq!(count(|it| it.system.is_some()), 5);
        assert_eq!(count(|it| it.earlier.is_some()), 5);
        let last = &QUESTIONS[7];
        assert_eq!(last.name(7), "chat 7, system message, earlier turns");
        let roles: Vec<String> = last.messages().into_iter().map(|it| it.role).collect();
        assert_eq!(roles, ["system", "user", "assistant", "user"]);
    }
}
