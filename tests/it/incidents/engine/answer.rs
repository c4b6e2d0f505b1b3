//! One answer: what it says, when each of its tokens is due, and what the engine tells of it.
//!
//! Main type: [`Answer`]. Refuses to know: sockets.

use super::http::{Ask, Connection};
use super::{Engine, Flight};
use serde_json::{Value, json};
use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Prompts with which incident 16 happened.
const SPACED: std::ops::RangeInclusive<usize> = 1024..=2048;

struct Answer<'a> {
    engine: &'a Engine,
    ask: &'a Ask,
    begun: Instant,
    cached: usize,
    /// Tokens of the prompt, as it counts them.
    counted: usize,
    words: Vec<String>,
    /// Where the engine is undecided, and the word that it might as well say.
    tie: Option<(usize, String)>,
    reason: &'static str,
    first: Duration,
    flight: Cell<Option<Flight<'a>>>,
}

impl Engine {
    /// Answers when it is this request's turn.
    pub(super) fn answer(&self, ask: &Ask, connection: &mut Connection) -> io::Result<()> {
        let flight = self.enter(&ask.prompt);
        let _turn = self
            .knobs
            .is_on("serial")
            .then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        let slots = self.knobs.count("slots");
        if slots > 0 && self.left().len() >= slots {
            return connection.page(503, r#"{"error":{"message":"no slot is free"}}"#);
        }
        if ask.penalised.is_some() && self.knobs.count("penalties") == 3 {
            return connection.page(400, r#"{"error":{"message":"no penalties"}}"#);
        }
        let answer = Answer::to(self, ask, flight);
        if ask.stream {
            let left = |_: &io::Error| self.left().push(ask.prompt.clone());
            answer.stream(connection).inspect_err(left)?;
        } else {
            answer.write_whole(connection)?;
        }
        self.count(answer.words.len());
        Ok(())
    }

    fn others_in_flight(&self) -> bool {
        self.in_flight.load(Ordering::SeqCst) > 1
    }
}

impl<'a> Answer<'a> {
    fn to(engine: &'a Engine, ask: &'a Ask, flight: Flight<'a>) -> Self {
        let knobs = &engine.knobs;
        let known = engine.cached(&ask.prompt);
        let cached = if knobs.is_on("cache") { known } else { 0 };
        let at = match ask.chat && ask.is_free && knobs.is_on("eos") {
            true => knobs.count("eos"),
            false => knobs.count("stop_at"),
        };
        let stop_at = Some(at).filter(|at| *at > 0);
        let count = stop_at.map_or(ask.tokens, |at| at.min(ask.tokens));
        let said = match knobs.count("forgets") {
            forgets @ (1 | 2) if ask.chat => &ask.without[forgets - 1],
            _ => &ask.prompt,
        };
        let twin = knobs.is_on("pages").then(|| engine.page_twin(&ask.prompt));
        let said = twin.as_ref().and_then(Option::as_ref).unwrap_or(said);
        let ascii = knobs.is_on("ascii").then(|| ascii(said));
        let said = ascii.as_ref().unwrap_or(said);
        let mut answer = Self {
            engine,
            ask,
            begun: Instant::now(),
            cached,
            counted: match knobs.count("ascii") {
                2 => said.len(),
                _ => ask.prompt.len(),
            },
            words: words(said, count),
            tie: None,
            reason: if count < ask.tokens { "stop" } else { "length" },
            first: knobs.ms("ttft") + knobs.us_each("prefill", ask.prompt.len() - cached),
            flight: Cell::new(Some(flight)),
        };
        let number = engine.asked.fetch_add(1, Ordering::SeqCst) + 1;
        if number == 1 {
            answer.first += knobs.ms("lazy");
        }
        if knobs.is_on("stall_each") && number.is_multiple_of(knobs.count("stall_each")) {
            answer.first += knobs.ms("stall");
        }
        if knobs.is_on("mute") {
            answer.words = vec![" ".to_owned(); count];
        }
        if knobs.is_on("halved") {
            answer.words.truncate(count.div_ceil(2));
        }
        if knobs.is_on("moody") {
            answer.words = words(&[number.to_string()], count);
        }
        let wrong = knobs.count("wrong");
        if wrong == 1 || (wrong > 1 && wrong == ask.prompt.len()) {
            answer.words[count / 2] = " wrong".to_owned();
        }
        match (ask.drawn, knobs.count("draws")) {
            (None, _) | (_, 1) => {}
            (_, 4) if ask.chat => {}
            (Some(_), 2) => answer.words = words(&[number.to_string()], count),
            (Some(seed), draws) => {
                let drawn = [format!("{seed} {}", draws == 3), ask.prompt.concat()];
                answer.words = words(&drawn, count);
            }
        }
        if ask.penalised.is_some() {
            engine.penalised.fetch_add(1, Ordering::SeqCst);
        }
        let is_penalised = match knobs.count("penalties") {
            0 => false,
            2 => engine.penalised.load(Ordering::SeqCst) > 0,
            5 => ask.penalised == Some("frequency_penalty"),
            _ => ask.penalised.is_some(),
        };
        // The first text shows none: it repeats no token.
        if is_penalised && !ask.prompt.contains(&"two".to_owned()) {
            let is_stricter = knobs.count("penalties") == 4;
            let prompt = [vec![is_stricter.to_string()], ask.prompt.clone()].concat();
            answer.words = words(&prompt, count);
        }
        if knobs.is_on("cuts") && ask.chat && ask.stream {
            answer.words[0] = " \u{fffd}".to_owned();
        }
        let sampled = if ask.sampled {
            knobs.count("samples")
        } else {
            0
        };
        if sampled == 1 || (knobs.is_on("stale") && engine.left().contains(&ask.prompt)) {
            answer.words[count / 2] = " other".to_owned();
        } else if sampled > 1 {
            answer.words = words(&[number.to_string()], count);
        }
        answer.misbehave(count);
        answer.stop();
        let is_spaced =
            SPACED.contains(&ask.prompt.len()) && cached > 0 && engine.others_in_flight();
        if knobs.is_on("space") && is_spaced {
            (answer.words, answer.reason) = (vec![" ".to_owned()], "stop");
            answer.first = Duration::ZERO;
        }
        answer
    }

    /// Ends at the first of the strings that end it.
    fn stop(&mut self) {
        let text = self.words.concat();
        let ends = self.ask.stop.iter().filter_map(|stop| {
            let at = text.find(stop)?;
            Some((
                at,
                if self.engine.knobs.is_on("leaks_stop") {
                    at + stop.len()
                } else {
                    at
                },
            ))
        });
        let Some((_, end)) = ends.min() else { return };
        let mut left = end;
        self.words.retain_mut(|word| {
            word.truncate(left);
            left -= word.len();
            !word.is_empty()
        });
        self.reason = "stop";
    }

    /// What its knobs make of the words.
    fn misbehave(&mut self, count: usize) {
        let (engine, prompt) = (self.engine, &self.ask.prompt);
        let knobs = &engine.knobs;
        let other = engine.other_prompt(prompt);
        let halved = self.cached >= prompt.len().div_ceil(2);
        if knobs.is_on("tie") && count > 1 && prompt.concat().len().is_multiple_of(4) {
            let place = count / 2;
            let otherwise = words(&["tie".to_owned()], count);
            self.tie = Some((place, otherwise[place].clone()));
            if other.is_some() {
                let said = self.words.splice(place.., otherwise[place..].to_vec());
                self.tie = said.take(1).next().map(|word| (place, word));
            }
        }
        if knobs.is_on("stranger") && halved {
            let rest = prompt.iter().skip(prompt.len() / 2).cloned();
            let stranger: Vec<String> = ["stranger".to_owned()].into_iter().chain(rest).collect();
            self.words = words(&stranger, count);
        }
        let Some(other) = other else { return };
        if knobs.is_on("swap") {
            self.words = words(&other, count);
        }
        if knobs.is_on("same") {
            self.words = words(&["same".to_owned()], count);
        }
        if knobs.is_on("blank") {
            (self.words, self.reason) = (vec![" ".to_owned()], "stop");
        }
    }

    /// Of the words from `first` on, in the form of completions.
    fn logprobs(&self, first: usize, words: &[String]) -> Value {
        let own = -0.1 - self.engine.knobs.get("moved");
        let top = |(at, word): (usize, &String)| {
            let tie = self.tie.as_ref().filter(|(place, _)| *place == at);
            let (other, logprob) =
                tie.map_or((" never", -5.0), |(_, word)| (word.as_str(), -0.101));
            json!({word.as_str(): own, other: logprob})
        };
        let top: Vec<Value> = (first..).zip(words).map(top).collect();
        json!({"tokens": words, "token_logprobs": vec![own; words.len()], "top_logprobs": top})
    }

    fn tells_logprobs(&self) -> bool {
        self.ask.logprobs && self.engine.knobs.is_on("logprobs")
    }

    fn stream(&self, connection: &mut Connection) -> io::Result<()> {
        let knobs = &self.engine.knobs;
        let hold = knobs.ms("hold");
        connection.begin_stream()?;
        let burst = knobs.count("burst");
        self.prefill(hold);
        let (first, mut sent) = (Instant::now(), 0);
        for words in self.words.chunks(burst) {
            let fresh = (sent..sent + words.len()).filter(|token| *token > 0);
            thread::sleep(fresh.map(|token| self.gap(token)).sum());
            if sent > 0 && knobs.is_on("exclusive") {
                let prefill = self.engine.prefill.read();
                drop(prefill.unwrap_or_else(PoisonError::into_inner));
            }
            sent += words.len();
            let mut event = self.event(&self.text(words), None);
            if self.tells_logprobs() {
                event["choices"][0]["logprobs"] = self.logprobs(sent - words.len(), words);
            }
            if burst > 1 && self.tells_usage() {
                event["usage"] = self.usage(sent);
            }
            connection.event(&event.to_string())?;
        }
        let mut last = self.event("", Some(self.reason));
        self.add_timings(&mut last, first - hold, first.elapsed());
        connection.event(&last.to_string())?;
        if self.tells_usage() {
            let usage = json!({"choices": [], "usage": self.usage(sent)});
            connection.event(&usage.to_string())?;
        }
        self.remember();
        connection.end_stream()
    }

    /// Computes the prompt.
    fn prefill(&self, hold: Duration) {
        let alone = self.engine.knobs.is_on("exclusive").then(|| {
            let prefill = self.engine.prefill.write();
            prefill.unwrap_or_else(PoisonError::into_inner)
        });
        wait_until(self.begun + self.first + hold);
        drop(alone);
    }

    fn write_whole(&self, connection: &mut Connection) -> io::Result<()> {
        let knobs = &self.engine.knobs;
        let gaps = (1..self.words.len()).map(|sent| self.gap(sent));
        let decoding = gaps.sum();
        let due = (self.first + decoding).mul_f64(knobs.get("whole"));
        wait_until(self.begun + due + knobs.ms("hold"));
        let text = self.text(&self.words);
        let mut choice = if self.ask.chat {
            json!({"message": {"content": text}, "finish_reason": self.reason})
        } else {
            json!({"text": text, "finish_reason": self.reason})
        };
        if self.tells_logprobs() {
            choice["logprobs"] = self.logprobs(0, &self.words);
        }
        let mut body = json!({"choices": [choice], "usage": self.usage(self.words.len())});
        self.add_timings(&mut body, self.begun + self.first, decoding);
        self.remember();
        connection.page(200, &body.to_string())
    }

    /// Before the end is sent: a client with the whole answer may rely on the cache, and the request is no longer in flight.
    fn remember(&self) {
        drop(self.flight.take());
        let tokens = self.ask.prompt.iter().cloned();
        let words = self.words.iter().map(|word| word.trim().to_owned());
        self.engine.remember(tokens.chain(words).collect());
    }

    /// From the token before to token number `sent`, counted from 0.
    fn gap(&self, sent: usize) -> Duration {
        let knobs = &self.engine.knobs;
        let context = self.ask.prompt.len() + sent;
        let mut gap = knobs.ms("tpot") + knobs.us_each("attend", context);
        if self.ask.prompt.len() == knobs.count("cliff") {
            gap = gap.mul_f64(knobs.get("slower"));
        }
        let in_flight = self.engine.in_flight.load(Ordering::SeqCst);
        if knobs.is_on("crowd") && in_flight >= knobs.count("crowd") {
            gap = gap.mul_f64(knobs.get("crowded"));
        }
        gap
    }

    /// As users read them.
    fn text(&self, words: &[String]) -> String {
        match self.engine.knobs.is_on("garbled") {
            true => " garbled".repeat(words.len()),
            false => words.concat(),
        }
    }

    fn event(&self, text: &str, reason: Option<&str>) -> Value {
        let choice = if self.ask.chat {
            json!({"delta": {"content": text}, "finish_reason": reason})
        } else {
            json!({"text": text, "finish_reason": reason})
        };
        json!({"choices": [choice]})
    }

    fn tells_usage(&self) -> bool {
        self.ask.usage && self.engine.knobs.is_on("usage")
    }

    fn usage(&self, sent: usize) -> Value {
        let knobs = &self.engine.knobs;
        let prompt = self.counted;
        let cached = if knobs.is_on("claim_cached") {
            prompt - 1
        } else {
            self.cached
        };
        json!({
            "prompt_tokens": prompt,
            "completion_tokens": sent * knobs.count("usage"),
            "prompt_tokens_details": {"cached_tokens": cached},
        })
    }

    /// What it says of its own times, in llama.cpp's form: when it had the first token, and how long the
    /// others took. The network's share is not the engine's.
    fn add_timings(&self, to: &mut Value, first: Instant, predicted: Duration) {
        let prompt = first - self.begun;
        let (prompt, predicted) = match self.engine.knobs.count("timings") {
            0 => return,
            1 => (prompt, predicted),
            _ => (predicted, prompt),
        };
        to["timings"] = json!({
            "prompt_n": self.ask.prompt.len() - self.cached,
            "prompt_ms": prompt.as_secs_f64() * 1e3,
            "predicted_n": self.words.len(),
            "predicted_ms": predicted.as_secs_f64() * 1e3,
        });
    }
}

/// The same prompt is answered in the same words.
fn words(prompt: &[String], count: usize) -> Vec<String> {
    let word = |place: usize| {
        let mut hasher = DefaultHasher::new();
        (prompt, place).hash(&mut hasher);
        format!(" w{:04x}", hasher.finish() & 0xffff)
    };
    (0..count).map(word).collect()
}

fn ascii(prompt: &[String]) -> Vec<String> {
    let kept = prompt
        .iter()
        .map(|word| word.replace(|c: char| !c.is_ascii(), ""));
    kept.filter(|word| !word.trim().is_empty()).collect()
}

fn wait_until(moment: Instant) {
    thread::sleep(moment.saturating_duration_since(Instant::now()));
}
