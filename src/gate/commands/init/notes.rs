//! Messages of `gate init`: the engine that it found, and the steps that remain.

use super::found::{self, Found};
use crate::presets::{self, CUSTOM, Preset, Seen};
use crate::report::shell_word;

pub const CONFIG: &str = "gates/gate.toml";

/// The chosen engine, and where it was found; `started`: its command, as it is written.
pub fn engine(
    name: &str,
    of_tree: Option<&str>,
    running: Option<&Found>,
    started: Option<Vec<String>>,
) -> Vec<String> {
    let Some(running) = running else {
        let source = match of_tree == Some(name) {
            true => " (this tree is its source)",
            false => "",
        };
        return vec![format!("engine: {name}{source}")];
    };
    let Found {
        port, model, seen, ..
    } = running;
    let found = format!("engine: {name}, found on port {port} (model `{model}`)");
    let command = started.unwrap_or_else(|| seen.command.clone());
    let is_unknown = command.is_empty();
    let command = format!("start command: `{}`", command.join(" "));
    match is_unknown {
        true => vec![found],
        false => vec![found, command],
    }
}

/// The step where `--model` names another model than the one that the running server serves.
pub fn other_model(running: &Found, named: Option<&str>) -> Option<String> {
    let named = named.filter(|named| *named != running.model)?;
    let Found { port, model, .. } = running;
    Some(format!(
        "check `model` in {CONFIG}: requests carry `{named}`, as --model says, but the server on port {port} calls its model \
         `{model}`"
    ))
}

/// The abilities that a running server showed, and those that it lacks.
pub fn abilities(seen: &Seen) -> Vec<String> {
    let cached = match seen.page {
        Some(page) => format!("cached-token counts (pages of {page})"),
        None => "cached-token counts".to_owned(),
    };
    let long = seen.long_prompt.unwrap_or_default();
    let long = format!("long prompts ({long} tokens)");
    // Whether a length can be forced, and how long prompts may be, is not always known.
    let abilities = [
        ("completions", Some(seen.completes)),
        ("chat", Some(seen.chats)),
        ("usage in streams", Some(seen.stream_usage)),
        ("forced length", seen.forces_length),
        ("prompts as token ids", Some(seen.prompt_ids.is_some())),
        ("token ids in streams", Some(seen.return_token_ids)),
        ("kept connections", Some(seen.keeps_connections)),
        (cached.as_str(), Some(seen.tells_cached)),
        ("log-probabilities", Some(seen.tells_logprobs)),
        ("penalties", Some(seen.obeys_penalties)),
        (long.as_str(), seen.long_prompt.map(|_| true)),
    ];
    let listed = [("supported", true), ("not supported", false)].map(|(what, is_seen)| {
        let names = abilities.iter().filter(|(_, it)| *it == Some(is_seen));
        let names: Vec<&str> = names.map(|(name, _)| *name).collect();
        (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
    });
    let unseen = (seen.stream_usage && seen.forces_length.is_none())
        .then(|| "not known: forced length (no answer ended by itself; taken as no)".to_owned());
    listed.into_iter().flatten().chain(unseen).collect()
}

/// The gates of each profile, and what none of them checks.
pub fn profiles(preset: Preset<'_>) -> Vec<String> {
    let (quick, added) = preset.profiles();
    let (by_name, unused) = (preset.by_name(), preset.unused());
    let listed = [
        ("`gate check` will run", quick),
        ("`--profile full` adds", added),
        ("by name (`--gate`)", by_name),
        ("written too, for an engine that can do more", unused),
    ];
    let listed = listed.into_iter().filter(|(_, gates)| !gates.is_empty());
    let listed = listed.map(|(what, gates)| format!("{what}: {}", gates.join(", ")));
    let unchecked = (!preset.counts_streams()).then(|| {
        "not checked: streams, and so TTFT and TPOT (nothing counts their tokens: send usage in streams, or name a \
         `tokenizer` in gates/gate.toml)"
            .to_owned()
    });
    listed.chain(unchecked).collect()
}

/// The step where the gate file leaves out options of the running server.
pub fn left_out(words: &[String], config: &str) -> Option<String> {
    let left_out = options_left_out(words, config);
    (!left_out.is_empty()).then(|| {
        format!(
            "check `serve` in {CONFIG}: it leaves out these options of the running server: {}",
            left_out.join(", ")
        )
    })
}

/// Options of a running engine's command that the engine of the gate file is started without, or with another value. Only
/// the model's name is written otherwise.
fn options_left_out<'a>(words: &'a [String], config: &str) -> Vec<&'a str> {
    const MODEL: [&str; 2] = ["--model", "-m"];
    let serve = config.lines().find(|line| line.starts_with("serve = "));
    let is_written = |word: &str| serve.is_some_and(|it| it.contains(&format!("\"{word}\"")));
    let is_option = |word: &str| {
        let name = word.trim_start_matches('-');
        name.len() < word.len() && name.starts_with(|c: char| c.is_ascii_alphabetic())
    };
    let options = words.iter().enumerate().filter(|(_, word)| is_option(word));
    let left_out = options.filter_map(|(at, word)| {
        let next = words.get(at + 1).filter(|next| !is_option(next));
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), next.map(String::as_str)),
        };
        let is_taken = is_written(name) && (MODEL.contains(&name) || value.is_none_or(is_written));
        (!is_taken).then_some(name)
    });
    left_out.collect()
}

pub fn replaced() -> String {
    "replaced: the files of an earlier `gate init`, which nobody had completed".to_owned()
}

/// The step where the model's name is an example.
pub fn example(preset: Preset<'_>) -> String {
    format!(
        "set the model in {CONFIG}: `{}` is an example (or remove gates/, and use --model)",
        preset.example
    )
}

/// The step for the gate file as a whole. `found`: whether a server was, where one was looked for; `is_started`: its command is
/// known, and not how it is built.
pub fn review(is_incomplete: bool, found: Option<bool>, is_started: bool) -> String {
    if !is_incomplete {
        return format!("read {CONFIG}: its comments explain each setting");
    }
    let complete = format!("complete the lines marked FILL IN in {CONFIG}");
    if is_started {
        return complete;
    }
    let again = "let `gate init --port PORT` fill them in";
    match found {
        Some(true) => format!(
            "{complete}, which the server's command does not tell; or remove gates/, start it with its port in the command \
             (`--port 9000`), and {again}"
        ),
        Some(false) => format!(
            "{complete}; or start your engine, and {again}: no server of your own answered on {}",
            found::usual_ports()
        ),
        None => format!("{complete}; or start your engine, and {again}"),
    }
}

/// The step where the tree of a known engine does not look like its own.
pub fn other_tree(preset: Preset<'_>, of_tree: Option<&str>) -> Option<String> {
    let name = preset.name;
    (name != CUSTOM && of_tree != Some(name)).then(|| {
        format!(
            "check [engine.build] in {CONFIG}: this tree does not look like {name}'s own. Write there how {name} is built from \
             it, or remove the table and compare with main's stored sessions (`gate check --base stored`)"
        )
    })
}

/// The step that ends the server that was looked at.
pub fn stop(running: &Found) -> String {
    format!(
        "stop the server on port {}: it uses memory and CPU that the measurement needs",
        running.port
    )
}

/// The last steps, on this machine.
pub fn next(is_built: bool) -> Vec<String> {
    let steps: &[&str] = match is_built {
        true => &[
            "run `gate doctor`",
            "commit gates/ to the default branch",
            "on a branch with a change, run `gate check`; without a change it is an A/A run",
        ],
        false => &[
            "run `gate doctor`",
            "run `gate check`: an A/A run, since outside of a git repository there is no other commit to compare with; \
             `gate check --head-arg=ARG` measures the effect of an engine option",
        ],
    };
    steps.iter().map(|step| (*step).to_owned()).collect()
}

/// The steps as a numbered list, a line each.
pub fn to_do(steps: impl IntoIterator<Item = String>) -> Vec<String> {
    let numbered = steps.into_iter().zip(1..);
    let numbered = numbered.map(|(step, number)| format!("  {number}. {step}"));
    std::iter::once("to do:".to_owned())
        .chain(numbered)
        .collect()
}

/// Says how to add the gate `e2e`. `given` is the value of `--model`, `served` the model's name in a running server.
pub fn goldens(given: Option<&str>, served: Option<&str>, preset: Preset<'_>) -> String {
    // A name without a folder may be an alias.
    let is_alias = |name: &str| !name.contains('/');
    let command = match (given, served) {
        (None, Some(served)) if is_alias(served) => presets::GOLDENS_OF_ENGINE.to_owned(),
        // A server's words are anybody's.
        _ => preset.golden_command(&shell_word(given.or(served).unwrap_or(preset.example))),
    };
    format!(
        "optional: for the gate e2e, make goldens with `{command}`, then add \"e2e\" to `gates` of the profiles in {CONFIG}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_are_not_written_are_named() {
        let command = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let words = command("gate serve --model m/q --window=9 --threads 1 --port {port}");
        let config = "[engine]\nserve = [\"gate\", \"serve\", \"--model\", \"m/q\", \"--port\", \"{port}\"]\n";
        assert_eq!(options_left_out(&words, config), ["--window", "--threads"]);
        let words = command("llama-server -m other -ngl 99 -np 8 --port {port} --mlock");
        let config =
            "serve = [\"llama-server\", \"-m\", \"q\", \"-np\", \"1\", \"--port\", \"{port}\"]\n";
        assert_eq!(options_left_out(&words, config), ["-ngl", "-np", "--mlock"]);
    }
}
