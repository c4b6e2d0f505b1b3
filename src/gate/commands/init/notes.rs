//! Messages of `gate init`: the engine that it found, and the steps that remain.

use super::found::Found;
use crate::presets::{CUSTOM, Preset, Seen};

pub const CONFIG: &str = "gates/gate.toml";

/// Which engine was chosen, and why.
pub fn engine(name: &str, of_tree: Option<&str>, running: Option<&Found>) -> Vec<String> {
    let Some(running) = running else {
        let why = match of_tree == Some(name) {
            true => ", by the files of this tree",
            false => "",
        };
        return vec![format!("engine: {name}{why}")];
    };
    let Found {
        port, model, seen, ..
    } = running;
    let found = format!("engine: {name}; a server answers on port {port} with the model `{model}`");
    let started = format!("started by `{}`", seen.command.join(" "));
    match seen.command.is_empty() {
        true => vec![found],
        false => vec![found, started],
    }
}

/// A model that was named and is not the one that the running server serves.
pub fn other_model(running: &Found, named: Option<&str>) -> Option<String> {
    let named = named.filter(|named| *named != running.model)?;
    let Found { port, model, .. } = running;
    Some(format!(
        "the server on port {port} calls its model `{model}`; {CONFIG} says `{named}`, as --model does, and requests carry that name"
    ))
}

/// The abilities that a running server showed, and those that it lacks.
pub fn abilities(seen: &Seen) -> Vec<String> {
    let abilities = [
        ("completions", seen.completes),
        ("chats", seen.chats),
        ("usage in streams", seen.stream_usage),
        ("answers of a set length", seen.forces_length),
        ("prompts of token ids", seen.prompt_ids.is_some()),
        ("token ids in streams", seen.return_token_ids),
        ("counts of cached tokens", seen.tells_cached),
    ];
    let listed = [("it has", true), ("it lacks", false)].map(|(what, is_seen)| {
        let names = abilities.iter().filter(|(_, it)| *it == is_seen);
        let names: Vec<&str> = names.map(|(name, _)| *name).collect();
        (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
    });
    listed.into_iter().flatten().collect()
}

/// The gates of each profile.
pub fn profiles(preset: Preset<'_>) -> String {
    let (quick, added) = preset.profiles();
    let more = match added.is_empty() {
        true => String::new(),
        false => format!("; `--profile full` adds {}", added.join(", ")),
    };
    format!("`gate check` runs {}{more}", quick.join(", "))
}

/// Options of the running server that the gate file does not hold.
pub fn left_out(words: &[String], config: &str) -> Option<String> {
    let left_out = options_left_out(words, config);
    (!left_out.is_empty()).then(|| {
        format!(
            "not taken over from its command: {}; add to `serve` in {CONFIG} what the gates' engine needs",
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

/// That the model's name is an example.
pub fn example(preset: Preset<'_>) -> String {
    format!(
        "the model `{}` is an example: set it in {CONFIG}, or start anew with --model",
        preset.example
    )
}

/// The steps that the user has to take by hand. `model`: the value of `--model`.
pub fn to_do(model: Option<&str>, preset: Preset<'_>, is_incomplete: bool) -> Vec<String> {
    let complete = format!(
        "complete {CONFIG} where it says FILL IN; or remove gates/, start the engine, and let `gate init --port PORT` read its \
         start command and its abilities"
    );
    let goldens = format!(
        "for the gate e2e make goldens with `{}`, then add \"e2e\" to `gates` of the profiles in {CONFIG}",
        preset.golden_command(model.unwrap_or(preset.example))
    );
    match is_incomplete {
        true => vec![complete, goldens],
        false => vec![goldens],
    }
}

/// That the tree of a known engine does not look like its own.
pub fn other_tree(preset: Preset<'_>, of_tree: Option<&str>) -> Option<String> {
    let name = preset.name;
    (name != CUSTOM && of_tree != Some(name)).then(|| {
        format!(
            "this tree does not look like {name}'s own: let [engine.build] in {CONFIG} say how {name} is built from it, or \
             remove the table and compare with main's stored sessions (`gate check --base stored`)"
        )
    })
}

/// The next commands.
pub fn next(is_built: bool, running: Option<&Found>) -> String {
    let stop = running.map_or_else(String::new, |Found { port, .. }| {
        format!(
            "stop the server on port {port} (it takes memory and processors that the gate's engines need), "
        )
    });
    match is_built {
        true => format!(
            "next: {stop}read gates/gate.toml, run `gate doctor`, and commit gates/ to the default branch. Then `gate check` on a \
             branch with a change compares it with main; without a change it is an A/A run"
        ),
        false => format!(
            "next: {stop}read gates/gate.toml, then `gate check`: an A/A run, since outside of a git repository there is nothing \
             to compare with; `gate check --head-arg=ARG` compares with what a further argument makes of it"
        ),
    }
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
