//! The gates that an engine can bear, by what it can do.
//!
//! Each is a file of `gates/`, with what differs by engine filled in.

use super::{CUSTOM, LONG_PROMPT, Preset, SESSION};

const COLD_START: &str = include_str!("gates/cold-start.toml");
const LATENCY: &str = include_str!("gates/latency.toml");
const WHOLE: &str = include_str!("gates/whole.toml");
const WHOLE_READY: &str = include_str!("gates/whole-ready.toml");
const E2E: &str = include_str!("gates/e2e.toml");
const ANSWERS: &str = include_str!("gates/answers.toml");
const MATRIX: &str = include_str!("gates/matrix.toml");
const PREEMPTION: &str = include_str!("gates/preemption.toml");
const PREFIX_CACHE: &str = include_str!("gates/prefix-cache.toml");
const PREFILL_DRIFT: &str = include_str!("gates/prefill-drift.toml");
const PREFILL_LEAK: &str = include_str!("gates/prefill-leak.toml");
const STREAM_PARITY: &str = include_str!("gates/stream-parity.toml");
const SOAK: &str = include_str!("gates/soak.toml");
const LONG_PROMPTS: &str = include_str!("gates/long-prompts.toml");
const LONG_PROMPTS_WHOLE: &str = include_str!("gates/long-prompts-whole.toml");
const LONG_ANSWERS: &str = include_str!("gates/long-answers.toml");
const USERS: &str = include_str!("gates/users.toml");

const WITH_LOGPROBS: &str = "\
# Two tokens closer than this are equally right: two steps of bfloat16 at a logit of 16 to 32, 0.125 each, and a little.
top_k = 5
near_tie = \"0.3 nats\"";

const WITHOUT_LOGPROBS: &str = "\
# Without log-probabilities, what differs is held against how often base differs from itself. Where the engine gives them
# in completions, streamed and whole, say:
# top_k = 5
# near_tie = \"0.3 nats\"";

/// Where answers end by themselves, their times differ by their lengths too.
const USERS_TPOT: &str = "\
[[check]]
name = \"tpot\"
workload = \"users\"
metric = \"tpot\"
rule = \"regression\"
margin = \"2 %\"
ceiling = { quick = \"15 %\", full = \"8 %\" }

";

/// For the in-tree engine, which touches its cache page by page.
const SMALL_CACHE: &str = "\
# A KV cache that the warm-up fills: until then memory grows as it should. The engine's own default is 1 GiB.
engine_args = [\"--kv-tokens\", \"16384\"]
";

/// Arguments by which an engine has a small KV cache and computes prompts in small chunks, by the engine's name.
const SMALL_ENGINE: [(&str, &str); 2] = [
    (
        "infergate",
        "\"--kv-tokens\", \"768\", \"--max-running\", \"8\", \"--step-tokens\", \"64\"",
    ),
    (
        "vllm",
        "\"--block-size\", \"16\", \"--num-gpu-blocks-override\", \"48\", \"--max-model-len\", \"512\", \"--max-num-seqs\", \"8\", \
         \"--max-num-batched-tokens\", \"64\"",
    ),
];

impl Preset<'_> {
    fn small_engine(self) -> Option<&'static str> {
        let mut engines = SMALL_ENGINE.iter();
        engines.find_map(|(name, arguments)| (*name == self.name).then_some(*arguments))
    }

    /// The arguments were run, with every model that it serves.
    fn runs_small(self) -> bool {
        self.name == "infergate"
    }

    /// Length of a long prompt: `tokens`, or less if the context has no room for it and an answer.
    fn longest(self, tokens: u32) -> u32 {
        let room = self.context.map_or(u32::MAX, |context| context / 4 * 3);
        let lengths = [tokens, LONG_PROMPT, 512, 256];
        let shorter = lengths.into_iter().filter(|it| *it <= tokens);
        shorter.into_iter().find(|it| *it <= room).unwrap_or(160)
    }

    fn says(self, line: &str) -> bool {
        self.engine.lines().any(|own| own == line)
    }

    /// Tokens of a stream are counted.
    pub fn counts_streams(self) -> bool {
        self.says("stream_usage = true")
    }

    /// Name and text of every gate. An engine of one's own gets all: which of them it bears, its abilities will say.
    pub fn gates(self) -> Vec<(&'static str, String)> {
        let is_custom = self.name == CUSTOM;
        let streams = self.counts_streams() || is_custom;
        let of_one_length = self.says("forces_length = true") || is_custom;
        let page = self.page.to_string();
        let leak = match self.tells_cached {
            true => PREFILL_LEAK.replace("{{page}}", &page),
            false => String::new(),
        };
        // Else the gate `cold-start` measures it.
        let ready = if self.counts_streams() {
            ""
        } else {
            WHOLE_READY
        };
        let long_prompts = match self.counts_streams() {
            true => LONG_PROMPTS,
            false => LONG_PROMPTS_WHOLE,
        };
        let written = [
            (streams, "answers", ANSWERS.to_owned()),
            (streams, "cold-start", COLD_START.to_owned()),
            (true, "e2e", E2E.to_owned()),
            (streams, "latency", LATENCY.to_owned()),
            // Without log-probabilities many long answers part by near-ties.
            (
                streams && self.tells_logprobs,
                "long-answers",
                LONG_ANSWERS.to_owned(),
            ),
            (true, "long-prompts", long_prompts.to_owned()),
            (true, "matrix", MATRIX.to_owned()),
            (
                self.small_engine().is_some(),
                "preemption",
                PREEMPTION.to_owned(),
            ),
            (
                streams && self.chats,
                "prefill-drift",
                PREFILL_DRIFT.to_owned() + &leak,
            ),
            (true, "prefix-cache", PREFIX_CACHE.to_owned()),
            (true, "soak", SOAK.to_owned()),
            (
                streams && of_one_length,
                "stream-parity",
                STREAM_PARITY.to_owned(),
            ),
            (streams, "users", USERS.to_owned()),
            (true, "whole", WHOLE.to_owned() + ready),
        ];
        let kept = written.into_iter().filter(|(is_borne, ..)| *is_borne);
        kept.map(|(_, name, text)| (name, self.with_abilities(&text)))
            .collect()
    }

    fn with_abilities(self, gate: &str) -> String {
        let streams = self.counts_streams();
        let near_tie = match self.tells_logprobs {
            true => WITH_LOGPROBS,
            false => WITHOUT_LOGPROBS,
        };
        // llama-cpp-python's own default context is 2,048 tokens, and a word may be two.
        let (modes, longest) = match streams {
            true => ("[true, false]", LONG_PROMPT),
            false => ("[false]", 512),
        };
        let contexts = format!("[128, {}]", self.longest(longest));
        let longest = self.longest(match streams {
            true => self.long_prompt,
            false => longest,
        });
        let beside = match self.long_prompt {
            LONG_PROMPT => format!(
                "{{ quick = {}, full = {} }}",
                self.longest(512),
                self.longest(LONG_PROMPT)
            ),
            // Quick enough for every profile.
            long => self.longest(long).to_string(),
        };
        let small_cache = if self.name == "infergate" {
            SMALL_CACHE
        } else {
            ""
        };
        // Where answers end as their prompts let them, some take longer than others.
        let (tail, tpot) = match self.says("forces_length = true") {
            true => ("e2e", ""),
            false => ("tpot", USERS_TPOT),
        };
        let beyond = self.context.map_or_else(
            || "# beyond_tokens = 50000".to_owned(),
            |tokens| format!("beyond_tokens = {}", tokens + 1),
        );
        // What a turn adds, at most: a template and a dozen words, of several tokens each where a vocabulary is small.
        let turns = self
            .context
            .map_or(60, |tokens| (tokens / 160).clamp(4, 60));
        let turns = format!("{{ quick = {}, full = {turns} }}", turns.min(24));
        let ended = if self.chats { "\"ended\", " } else { "" };
        let penalised = match self.obeys_penalties {
            true => "\"penalised\", ",
            false => "",
        };
        gate.replace("{{near_tie}}", near_tie)
            .replace("{{ended}}", ended)
            .replace("{{penalised}}", penalised)
            .replace("{{beyond}}", &beyond)
            .replace("{{turns}}", &turns)
            .replace("{{tail}}", tail)
            .replace("{{tpot}}", tpot)
            .replace("{{small_cache}}", small_cache)
            .replace("{{small_engine}}", self.small_engine().unwrap_or_default())
            .replace("{{modes}}", modes)
            .replace("{{contexts}}", &contexts)
            .replace("{{longest}}", &longest.to_string())
            .replace("{{beside}}", &beside)
            .replace("{{streams}}", &streams.to_string())
    }

    /// The gates of the profile `quick`, and those that `full` adds: what the engine bears as its abilities are written. The
    /// gate `e2e` needs goldens before.
    pub fn profiles(self) -> (Vec<&'static str>, Vec<&'static str>) {
        if !self.counts_streams() {
            return (
                vec!["matrix", "whole"],
                vec!["long-prompts", "prefix-cache"],
            );
        }
        let mut added = vec![
            "cold-start",
            "long-answers",
            "long-prompts",
            "matrix",
            "prefill-drift",
            "prefix-cache",
            "users",
            "whole",
        ];
        added.retain(|name| match *name {
            "prefill-drift" => self.chats,
            "long-answers" => self.tells_logprobs,
            _ => true,
        });
        if self.runs_small() {
            added.push("preemption");
            added.sort_unstable();
        }
        // What a shared machine can decide.
        (vec!["answers", "latency"], added)
    }

    /// Gates outside of the profiles that suit the engine; they run by name.
    pub fn by_name(self) -> Vec<&'static str> {
        let mut names = vec!["e2e", "soak"];
        if self.small_engine().is_some() && !self.runs_small() {
            names.insert(1, "preemption");
        }
        if self.counts_streams() && self.says("forces_length = true") {
            names.push("stream-parity");
        }
        names
    }

    /// Gates that are written, and need an ability that the engine does not have by what is known of it.
    pub fn unused(self) -> Vec<&'static str> {
        let (quick, added) = self.profiles();
        let used = [quick, added, self.by_name()].concat();
        let written = self.gates().into_iter().map(|(name, _)| name);
        written.filter(|name| !used.contains(name)).collect()
    }

    /// Profiles and error budgets.
    pub fn session_text(self) -> String {
        let (quick, added) = self.profiles();
        let list = |names: &[&str]| {
            let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
            format!("[{}]", quoted.join(", "))
        };
        SESSION
            .replace("{{quick}}", &list(&quick))
            .replace("{{full}}", &list(&[quick, added].concat()))
    }
}
