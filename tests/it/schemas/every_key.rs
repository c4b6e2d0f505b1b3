//! Files of a project with every table, and the data that they name.

/// A configuration with every table.
pub(super) const PROJECT: &str = r#"
[engine]
model = "m"
serve = ["{artifact}", "--port", "{port}"]
ready_timeout = "1 s"
request_timeout = "1 s"

[engine.build]
command = ["make"]
artifact = "engine"
timeout = "1 min"

[engine.prompt_ids]
from = 3
to = 9

[engine.metrics]

[engine.plausible]

[telemetry]

[profile.quick]
looks = [4]
budget = "1 h"

[profile.quick.cooldown]
budget = "1 min"
burst = "1 s"
within = "3 %"
pause = "1 s"

[errors]
false_alarm = "2 %"
false_pass = "2 %"

[baseline]
directory = ".gate/baseline"
max_age = "14 days"

[calibration]

[host]

[[host.cache]]
path = "weights"
warm = "make weights"

[github]

[[label]]
name = "needs-gpu"
paths = ["src/**"]
"#;

/// Headers of tables in gate.toml, with their places in the schema.
pub(super) const PROJECT_TABLES: [(&str, &str); 16] = [
    ("", ""),
    ("[engine]", "/properties/engine"),
    ("[engine.build]", "/properties/engine/properties/build"),
    (
        "[engine.prompt_ids]",
        "/properties/engine/properties/prompt_ids",
    ),
    ("[engine.metrics]", "/properties/engine/properties/metrics"),
    (
        "[engine.plausible]",
        "/properties/engine/properties/plausible",
    ),
    ("[telemetry]", "/properties/telemetry"),
    ("[profile.quick]", "/$defs/profile"),
    (
        "[profile.quick.cooldown]",
        "/$defs/profile/properties/cooldown",
    ),
    ("[errors]", "/properties/errors"),
    ("[baseline]", "/properties/baseline"),
    ("[calibration]", "/properties/calibration"),
    ("[host]", "/properties/host"),
    ("[[host.cache]]", "/$defs/cached"),
    ("[github]", "/properties/github"),
    ("[[label]]", "/$defs/label"),
];

pub(super) const ENGINES: &str = r#"
[engines.a]
model = "m"
serve = ["engine", "--port", "{port}"]
ready_timeout = "1 s"
request_timeout = "1 s"

[engines.b]
model = "m"
serve = ["engine", "--port", "{port}"]
ready_timeout = "1 s"
request_timeout = "1 s"
"#;

pub(super) const WAIVERS: &str = r#"
[[waiver]]
check = "own/own"
reason = "agreed"
owner = "@ada"
issue = "https://example.org/issues/1"
expires = 2099-01-15
"#;

pub(super) const GATE: &str = r#"
title = "Own"

[workload.own]
kind = "steady"
requests = 50
warmup = 1
prompt_tokens = 8
output_tokens = 8
concurrency = 1

[[check]]
name = "own"
metric = "tpot"
rule = "ceiling"
limit = "1 s"
"#;

/// Kinds of workloads, with the keys that each requires.
pub(super) const WORKLOADS: [(&str, &str); 12] = [
    (
        "steady",
        "requests = 50\nwarmup = 1\nprompt_tokens = 8\noutput_tokens = 8\n",
    ),
    (
        "mixed",
        "requests = 50\nwarmup = 1\nshapes = [{ prompt_tokens = 8, output_tokens = 8 }]\n",
    ),
    ("trace", "file = \"data/trace.jsonl\"\nwarmup = 1\n"),
    ("first-request", "prompt_tokens = 8\noutput_tokens = 8\n"),
    (
        "matrix",
        "batches = [1]\ncontexts = [8]\noutput_tokens = 8\npasses = 1\nwarmup = 0\n",
    ),
    (
        "staggered",
        "users = 2\noffset = \"1 ms\"\nprompt_tokens = 8\noutput_tokens = 8\npasses = 1\nwarmup = 0\n",
    ),
    (
        "answers",
        "prompts = 2\nprompt_tokens = 8\noutput_tokens = 8\nbatch = 2\nbeside_tokens = 8\npasses = 1\n",
    ),
    (
        "session",
        "turns = 8\nwarmup_turns = 1\nmessage_words = 8\nreply_tokens = 8\n",
    ),
    (
        "goldens",
        "file = \"data/goldens.json\"\nnear_tie = \"0.01 nats\"\n",
    ),
    ("texts", "file = \"data/texts.jsonl\"\ntop_k = 5\n"),
    ("tasks", "file = \"data/tasks.jsonl\"\n"),
    (
        "command",
        "command = [\"make\", \"test\"]\ntimeout = \"1 min\"\n",
    ),
];

/// The recorded moments of a trace, then every other form of arrivals.
pub(super) const ARRIVALS: [&str; 6] = [
    "",
    "concurrency = 1\n",
    "arrivals = \"poisson\"\nrate = \"1 requests/s\"\n",
    "arrivals = \"constant\"\nrate = \"1 requests/s\"\n",
    "arrivals = \"gamma\"\nrate = \"1 requests/s\"\nshape = \"1 ×\"\n",
    "arrivals = \"burst\"\nburst = 2\nevery = \"1 s\"\n",
];

pub(super) const DATA: [(&str, &str); 4] = [
    (
        "trace.jsonl",
        r#"{"timestamp": 1, "prompt_length": 1, "output_length": 1}
{"timestamp": 2, "prompt_length": 1, "output_length": 1}"#,
    ),
    (
        "goldens.json",
        r#"{"format": "infergate-goldens/1", "cases": [
{"id": "a", "prompt_text": "p", "max_tokens": 4, "text": "x", "finish": "length"}]}"#,
    ),
    ("texts.jsonl", r#"{"id": "a", "text": "one two"}"#),
    (
        "tasks.jsonl",
        r#"{"id": "a", "task": "sum", "messages": [{"role": "user", "content": "1+1="}], "expect": "2", "max_tokens": 4}"#,
    ),
];
