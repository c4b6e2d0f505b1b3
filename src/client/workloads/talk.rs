//! A conversation of a file under way: each turn is sent with the server's own answers to those before it.
//!
//! Main type: [`Talk`]. Refuses to know: when a turn is sent, which conversations there are.

use super::request::Message;
use std::vec::IntoIter;
use verdict::plan::Turn;

/// What was said so far, and what the user will say.
#[derive(Clone, Debug)]
pub struct Talk {
    /// Its place among the workload's, from 0.
    number: u32,
    history: Vec<Message>,
    turns: IntoIter<Turn>,
    /// Turns begun.
    begun: u32,
}

/// A turn as it is to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Begun<'a> {
    pub conversation: u32,
    /// From 0.
    pub turn: u32,
    /// What was said so far, the new messages last.
    pub history: &'a [Message],
    pub output_tokens: u32,
}

impl Talk {
    /// Nothing of it was said yet.
    pub fn new(number: u32, turns: Vec<Turn>) -> Self {
        Self {
            number,
            history: Vec::new(),
            turns: turns.into_iter(),
            begun: 0,
        }
    }

    /// Begins the next turn; `None` after the last.
    pub fn next(&mut self) -> Option<Begun<'_>> {
        let turn = self.turns.next()?;
        let said = turn.messages.into_iter();
        self.history
            .extend(said.map(|(role, content)| Message { role, content }));
        self.begun += 1;
        Some(Begun {
            conversation: self.number,
            turn: self.begun - 1,
            history: &self.history,
            output_tokens: turn.output_tokens,
        })
    }

    /// The server's answer to the last turn.
    pub fn answered(&mut self, reply: String) {
        self.history.push(Message {
            role: "assistant".to_owned(),
            content: reply,
        });
    }
}
