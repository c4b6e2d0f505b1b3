//! JSON Schemas of `docs/schemas/`: they accept the files that the gate accepts or writes, have its keys and choices, and
//! refuse mistakes. Here those of files that people write; [`records`] has those of results.

mod every_key;
mod mistakes;
mod records;

use every_key::{ARRIVALS, DATA, ENGINES, GATE, PROJECT, PROJECT_TABLES, WAIVERS, WORKLOADS};
use fixture::{Project, repository};
use infergate::presets::{self, ALL, RULES};
use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use verdict::plan::{CLIENT_HEADERS, REQUEST_KEYS};
use verdict::record::{Metric, Unit};

const CONFIG: &str = "gates/gate.toml";
const OWN: &str = "gates/own.toml";
const PLAN: [&str; 4] = ["shard", "plan", "--gate", "own"];
const COMPARE: [&str; 3] = ["compare", "--engines", "a,b"];

struct Schema {
    document: Value,
    validator: Validator,
}

impl Schema {
    fn read(name: &str) -> Self {
        let path = format!("docs/schemas/{name}.schema.json");
        let text = fs::read_to_string(repository().join(path)).unwrap();
        Self::of(serde_json::from_str(&text).unwrap())
    }

    fn of(document: Value) -> Self {
        let validator = jsonschema::validator_for(&document).unwrap();
        Self {
            document,
            validator,
        }
    }

    /// The errors of a TOML file, each after its place as a JSON pointer.
    fn errors(&self, text: &str) -> Vec<String> {
        let table: toml::Table = text.parse().unwrap();
        self.errors_in(&as_json(toml::Value::Table(table)))
    }

    fn errors_in(&self, value: &Value) -> Vec<String> {
        let errors = self.validator.iter_errors(value);
        errors
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect()
    }

    fn at(&self, place: &str) -> &Value {
        let found = self.document.pointer(place);
        found.unwrap_or_else(|| panic!("nothing at `{place}`"))
    }

    /// The keys of a table that takes no others.
    fn keys(&self, place: &str) -> BTreeSet<String> {
        let table = self.at(place);
        assert_eq!(table["additionalProperties"], false, "{place}");
        let keys = table["properties"].as_object().unwrap().keys();
        keys.cloned().collect()
    }

    fn choices(&self, place: &str) -> BTreeSet<String> {
        let names = self.at(place)["enum"].as_array().unwrap().iter();
        names
            .map(|name| name.as_str().unwrap().to_owned())
            .collect()
    }
}

/// The value with dates as text, as editors pass it to a schema.
fn as_json(value: toml::Value) -> Value {
    match value {
        toml::Value::Datetime(moment) => Value::from(moment.to_string()),
        toml::Value::Array(items) => items.into_iter().map(as_json).collect(),
        toml::Value::Table(entries) => {
            let entries = entries.into_iter();
            Value::Object(entries.map(|(key, value)| (key, as_json(value))).collect())
        }
        scalar => serde_json::to_value(scalar).unwrap(),
    }
}

/// The schema of a file in a folder of gates.
fn schema_of(path: &str) -> &'static str {
    match Path::new(path).file_name().and_then(|name| name.to_str()) {
        Some("gate.toml") => "project",
        Some("engines.toml") => "engines",
        Some("waivers.toml") => "waivers",
        _ => "gate",
    }
}

/// Path and text of each TOML file in a folder of this repository.
fn files_of(folder: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(repository().join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    files
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            // `gate selftest` fills this in.
            let text = text.replace("{{program}}", "\"gate\"");
            (path.display().to_string(), text)
        })
        .collect()
}

/// Path and text of each file that `gate init` and `gate demo` write.
fn written_files() -> Vec<(String, String)> {
    let mut written = Vec::new();
    for preset in ALL {
        let mut on_github = preset.files_on_github("a/model");
        on_github[0].text.push_str(RULES);
        let files = [
            preset.files("a/model", false),
            preset.files("a/model", true),
            on_github,
        ];
        let named = files.into_iter().flatten();
        written.extend(named.map(|file| (format!("{}/{}", preset.name, file.path), file.text)));
    }
    let demo = presets::demo("gate");
    written.extend(demo.map(|file| (file.path, file.text)));
    written
}

#[test]
fn gate_files_are_valid() {
    let names = ["gate", "project", "engines", "waivers"];
    let schemas = BTreeMap::from(names.map(|name| (name, Schema::read(name))));
    let folders = [
        "gates",
        "src/gate/selftest",
        "src/gate/selftest/gates",
        "tests/data/rust-engines/gates",
    ];
    let constants = [
        (CONFIG, PROJECT),
        (OWN, GATE),
        ("gates/engines.toml", ENGINES),
        ("gates/waivers.toml", WAIVERS),
    ];
    let constants = constants.map(|(path, text)| (path.to_owned(), text.to_owned()));
    let files = folders.into_iter().flat_map(files_of);
    for (path, text) in files.chain(written_files()).chain(constants) {
        let errors = schemas[schema_of(&path)].errors(&text);
        assert_eq!(errors, [""; 0], "{path}");
    }
}

/// A project in which each file is valid.
fn project() -> Project {
    let project = Project::empty();
    fs::create_dir(project.path("gates/data")).unwrap();
    for (name, text) in DATA {
        project.write(&format!("gates/data/{name}"), text);
    }
    project.write(CONFIG, PROJECT);
    project.write(OWN, GATE);
    project
}

/// The names that the refusal of `zzzzzz` lists: the keys of its table, or the choices in its place.
#[track_caller]
fn possible(project: &Project, command: &[&str]) -> BTreeSet<String> {
    let ended = project.run(command).expect(2);
    let list = ended.stderr.split_once("available: ");
    let (_, list) = list.unwrap_or_else(|| panic!("no list in:\n{}", ended.stderr));
    let line = list.lines().next().unwrap_or_default();
    let names = line.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

/// The text with a line after the header of a table; without a header, at the top.
#[track_caller]
fn with_line(text: &str, header: &str, line: &str) -> String {
    if header.is_empty() {
        return format!("{line}\n{text}");
    }
    let header = format!("\n{header}\n");
    replaced(text, &header, &format!("{header}{line}\n"))
}

/// The text with the only place of `from` replaced.
#[track_caller]
fn replaced(text: &str, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "`{from}` in {text}");
    text.replace(from, to)
}

#[test]
fn tables_of_a_project_have_the_readers_keys() {
    let (schema, project) = (Schema::read("project"), project());
    for (header, place) in PROJECT_TABLES {
        project.write(CONFIG, &with_line(PROJECT, header, "zzzzzz = 1"));
        assert_eq!(schema.keys(place), possible(&project, &PLAN), "{header}");
    }
}

#[test]
fn waivers_have_the_readers_keys() {
    let (schema, project) = (Schema::read("waivers"), project());
    for (header, place) in [("", ""), ("[[waiver]]", "/$defs/waiver")] {
        let text = with_line(WAIVERS, header, "zzzzzz = 1");
        project.write("gates/waivers.toml", &text);
        assert_eq!(schema.keys(place), possible(&project, &PLAN), "{header}");
    }
}

#[test]
fn engines_to_compare_have_the_readers_keys() {
    let (schema, project) = (Schema::read("engines"), project());
    let possible_in = |header| {
        let text = with_line(ENGINES, header, "zzzzzz = 1");
        project.write("gates/engines.toml", &text);
        possible(&project, &COMPARE)
    };
    assert_eq!(schema.keys(""), possible_in(""));
    let mut keys = possible_in("[engines.a]");
    assert!(keys.remove("build"), "asked for, to be refused");
    assert_eq!(schema.keys("/$defs/engine"), keys);
}

#[test]
fn engines_to_compare_are_described_as_that_of_a_project() {
    let (engines, project) = (Schema::read("engines"), Schema::read("project"));
    let of_project = project.at("/properties/engine/properties");
    // `serve` has another description: there is no artifact.
    let own = ["quantised", "precision", "tags", "serve"];
    let keys = engines.at("/$defs/engine/properties").as_object().unwrap();
    for (key, value) in keys.iter().filter(|(key, _)| !own.contains(&key.as_str())) {
        assert_eq!(value, &of_project[key], "{key}");
    }
    for place in ["/$defs/time", "/$defs/time_per_token"] {
        assert_eq!(engines.at(place), project.at(place));
    }
}

#[test]
fn workloads_have_the_readers_keys() {
    let (schema, project) = (Schema::read("gate"), project());
    for (kind, required) in WORKLOADS {
        let forms = match kind {
            "steady" | "mixed" => 1..ARRIVALS.len(),
            "trace" => 0..ARRIVALS.len(),
            _ => 0..1,
        };
        let mut keys = BTreeSet::new();
        for arrivals in &ARRIVALS[forms] {
            let workload = format!("kind = \"{kind}\"\n{required}{arrivals}");
            let text = format!(
                "title = \"Own\"\n\n[workload.own]\n{workload}\n\
                 [[check]]\nname = \"own\"\nmetric = \"ready\"\nrule = \"ceiling\"\nlimit = \"1 s\"\n"
            );
            assert_eq!(schema.errors(&text), [""; 0], "{kind}");
            project.write(OWN, &with_line(&text, "[workload.own]", "zzzzzz = 1"));
            keys.extend(possible(&project, &PLAN));
        }
        assert_eq!(schema.keys(&format!("/$defs/{kind}")), keys, "{kind}");
    }
}

#[test]
fn other_tables_of_a_gate_have_the_readers_keys() {
    let (schema, project) = (Schema::read("gate"), project());
    let ceiling = "rule = \"ceiling\"\nlimit = \"1 s\"";
    let regression = "rule = \"regression\"\nmargin = \"1 %\"\nceiling = \"2 %\"\nzzzzzz = 1";
    let mixed = "kind = \"mixed\"\nshapes = [{ zzzzzz = 1, prompt_tokens = 8, output_tokens = 8 }]";
    let goodput = "metric = \"goodput\"\nslo = { zzzzzz = 1, ttft = \"1 s\" }";
    let slo = "/$defs/check/properties/slo";
    let mut keys: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (place, from, to) in [
        ("", "title", "zzzzzz = 1\ntitle"),
        ("/$defs/shape", "kind = \"steady\"", mixed),
        ("/$defs/check", "name", "zzzzzz = 1\nname"),
        ("/$defs/check", ceiling, regression),
        (slo, "metric = \"tpot\"", goodput),
    ] {
        project.write(OWN, &replaced(GATE, from, to));
        let of_place = keys.entry(place).or_default();
        of_place.extend(possible(&project, &PLAN));
    }
    for (place, keys) in keys {
        assert_eq!(schema.keys(place), keys, "{place}");
    }
}

#[test]
fn choices_in_a_gate_are_the_readers() {
    let (schema, project) = (Schema::read("gate"), project());
    let check = |place: &str, from: &str, to: &str| {
        project.write(OWN, &replaced(GATE, from, to));
        assert_eq!(schema.choices(place), possible(&project, &PLAN), "{place}");
    };
    let kind = "/$defs/workload/properties/kind";
    check(
        "/properties/page_cache",
        "title",
        "page_cache = \"zzzzzz\"\ntitle",
    );
    check(kind, "\"steady\"", "\"zzzzzz\"");
    check(
        "/$defs/arrivals",
        "concurrency = 1",
        "arrivals = \"zzzzzz\"",
    );
    check("/$defs/check/properties/metric", "\"tpot\"", "\"zzzzzz\"");
    check("/$defs/check/properties/rule", "\"ceiling\"", "\"zzzzzz\"");
    for key in ["statistic", "cache"] {
        let line = format!("{key} = \"zzzzzz\"\nrule");
        check(&format!("/$defs/check/properties/{key}"), "rule", &line);
    }
    let of_matrix = schema.choices("/$defs/cache_state");
    assert_eq!(of_matrix, schema.choices("/$defs/check/properties/cache"));
    let kinds = WORKLOADS.map(|(kind, _)| kind.to_owned());
    assert_eq!(schema.choices(kind), BTreeSet::from(kinds));
}

#[test]
fn choices_in_a_project_are_the_readers() {
    let (schema, project) = (Schema::read("project"), project());
    for (header, table, key) in [
        ("[errors]", "/properties/errors", "spending"),
        ("[profile.quick]", "/$defs/profile", "interleave"),
        ("[github]", "/properties/github", "comment"),
        ("[github]", "/properties/github", "forks"),
        ("[github]", "/properties/github", "inconclusive"),
    ] {
        let line = format!("{key} = \"zzzzzz\"");
        project.write(CONFIG, &with_line(PROJECT, header, &line));
        let choices = schema.choices(&format!("{table}/properties/{key}"));
        assert_eq!(choices, possible(&project, &PLAN), "{key}");
    }
}

#[test]
fn names_that_the_client_sets_are_the_readers() {
    let schema = Schema::read("project");
    let refused = |key: &str| {
        let place = format!("/properties/engine/properties/{key}/propertyNames/not/enum");
        schema.at(&place).clone()
    };
    assert_eq!(refused("headers"), json!(CLIENT_HEADERS));
    assert_eq!(refused("request"), json!(REQUEST_KEYS));
}

/// A limit in this unit, as a gate file writes it.
fn limit_in(unit: Unit) -> &'static str {
    match unit {
        Unit::Milliseconds | Unit::MillisecondsPerToken => "15 ms",
        Unit::MicrosecondsPerToken => "0.5 µs/token",
        Unit::Tokens => "16 tokens",
        Unit::TokensPerSecond => "9_000 tokens/s",
        Unit::Ratio => "1.05 ×",
        Unit::Cases => "0 cases",
        Unit::Fraction => "2 %",
        Unit::Nats => "0.01 nats",
        Unit::Bytes => "64 MiB",
        Unit::Number => "16.6",
        Unit::PerToken => "62 per token",
        Unit::PerRequest => "3 per request",
        Unit::JoulesPerToken => "0.4 J/token",
    }
}

#[test]
fn limits_are_in_the_unit_of_their_metric() {
    let schema = Schema::read("gate");
    let limits: BTreeSet<&str> = Metric::ALL.map(|metric| limit_in(metric.unit())).into();
    for metric in Metric::ALL {
        let name = format!("metric = \"{metric}\"");
        let text = replaced(GATE, "metric = \"tpot\"", &name);
        for limit in &limits {
            let text = replaced(&text, "\"1 s\"", &format!("\"{limit}\""));
            let errors = schema.errors(&text);
            let is_refused = errors.iter().any(|e| e.starts_with("/check/0/limit: "));
            let is_right = *limit == limit_in(metric.unit());
            assert_eq!(is_refused, !is_right, "{metric}, {limit}: {errors:?}");
        }
    }
}

/// Adds the keys of closed tables without a sentence that an editor can show.
fn add_undescribed(document: &Value, schema: &Value, keys: &mut Vec<String>) {
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let properties = schema.get("properties").and_then(Value::as_object);
    for (key, value) in properties.filter(|_| is_closed).into_iter().flatten() {
        let reference = value.get("$ref").and_then(Value::as_str);
        let shown = reference.map_or(value, |place| document.pointer(&place[1..]).unwrap());
        let description = shown["description"].as_str().unwrap_or_default();
        if !description.ends_with('.') {
            keys.push(key.clone());
        }
    }
    match schema {
        Value::Array(items) => items
            .iter()
            .for_each(|item| add_undescribed(document, item, keys)),
        Value::Object(entries) => entries
            .values()
            .for_each(|entry| add_undescribed(document, entry, keys)),
        _ => {}
    }
}

#[test]
fn keys_are_described() {
    for name in ["gate", "project", "engines", "waivers"] {
        let document = Schema::read(name).document;
        let mut keys = Vec::new();
        add_undescribed(&document, &document, &mut keys);
        assert_eq!(keys, [""; 0], "{name}");
    }
}
