//! GitHub's OpenAPI description as a judge: which operation a request is, whether its parameters and body are
//! right, and whether an answer is one that GitHub gives.
//!
//! Main type: [`Spec`]. Request bodies are closed: a property that GitHub does not describe is a violation, since
//! GitHub would silently ignore it. The description is OpenAPI 3.0; its schemas become JSON Schema by their
//! `nullable`.

use super::{Answer, Recorded};
use jsonschema::{Draft, Validator};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

const DESCRIPTION: &str = include_str!("../../data/github-openapi.json");

pub(crate) struct Spec {
    whole: Value,
    /// Schemas of the components, as JSON Schema.
    components: Value,
    /// Compiled schemas by where they stand.
    compiled: Mutex<HashMap<String, Arc<Validator>>>,
}

/// A request's operation: the method and path of the description, and the path's parameters.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) method: String,
    pub(crate) template: String,
    pub(crate) parameters: BTreeMap<String, String>,
}

impl Operation {
    pub(crate) fn parameter(&self, name: &str) -> &str {
        &self.parameters[name]
    }

    fn name(&self) -> String {
        format!("{} {}", self.method, self.template)
    }
}

impl Spec {
    /// Read once for all tests of a process.
    pub(crate) fn shared() -> &'static Self {
        static SPEC: OnceLock<Spec> = OnceLock::new();
        SPEC.get_or_init(|| {
            let mut whole: Value = serde_json::from_str(DESCRIPTION).unwrap();
            // The description says that a head's repository is always there; GitHub sends null for a deleted one.
            let head = "/components/schemas/pull-request/properties/head/properties/repo";
            let repo = whole.pointer_mut(head).unwrap();
            *repo = json!({"nullable": true, "allOf": [repo.clone()]});
            let components = json!({"schemas": converted(&whole["components"]["schemas"], false)});
            Self {
                whole,
                components,
                compiled: Mutex::default(),
            }
        })
    }

    /// One of GitHub's own examples.
    pub(crate) fn example(&self, name: &str) -> Value {
        self.whole["components"]["examples"][name]["value"].clone()
    }

    /// The operation of a request; a text that says why there is none.
    pub(crate) fn operation(&self, request: &Recorded) -> Result<Operation, String> {
        let paths = self.whole["paths"].as_object().unwrap();
        let mut fits: Vec<(&String, BTreeMap<String, String>)> = paths
            .keys()
            .filter_map(|template| Some((template, match_path(template, &request.path)?)))
            .collect();
        // The most literal one, as GitHub's own router.
        fits.sort_by_key(|(_, parameters)| parameters.len());
        let asked = format!("{} {}", request.method, request.path);
        let Some((template, parameters)) = fits.into_iter().next() else {
            return Err(format!("{asked}: GitHub has no such path"));
        };
        let method = request.method.to_ascii_lowercase();
        if paths[template].get(&method).is_none() {
            return Err(format!("{asked}: GitHub's path has no such method"));
        }
        Ok(Operation {
            method,
            template: template.clone(),
            parameters,
        })
    }

    /// What is wrong with the request's parameters and body.
    pub(crate) fn check_request(&self, operation: &Operation, request: &Recorded) -> Vec<String> {
        let described = self.described(operation);
        let mut wrong = self.check_parameters(operation, described, request);
        let body = &described["requestBody"];
        if request.body.is_empty() {
            if body["required"] == true {
                wrong.push(format!("{}: the body is missing", operation.name()));
            }
            return wrong;
        }
        let Ok(value) = serde_json::from_str::<Value>(&request.body) else {
            wrong.push(format!("{}: the body is not JSON", operation.name()));
            return wrong;
        };
        if !request.is_json {
            wrong.push(format!("{}: the body's type is not JSON", operation.name()));
        }
        let schema = &body["content"]["application/json"]["schema"];
        let place = format!("{} request", operation.name());
        if schema.is_null() {
            wrong.push(format!("{place}: GitHub takes no body here"));
        } else {
            wrong.extend(self.check(&place, schema, true, &value));
        }
        wrong
    }

    /// What is wrong with an answer. Refusals that the description leaves out must be GitHub's usual ones.
    pub(crate) fn check_answer(&self, operation: &Operation, answer: &Answer) -> Vec<String> {
        let status = answer.status.to_string();
        let place = format!("{} answer {status}", operation.name());
        let described = self.resolved(&self.described(operation)["responses"][&status]);
        let schema = match described {
            Value::Null if answer.status >= 400 => {
                json!({"$ref": "#/components/schemas/basic-error"})
            }
            Value::Null => return vec![format!("{place}: GitHub never answers so")],
            described => described["content"]["application/json"]["schema"].clone(),
        };
        match (&answer.body, schema.is_null()) {
            (Some(body), false) => self.check(&place, &schema, false, body),
            (None, true) => Vec::new(),
            (Some(_), true) => vec![format!("{place}: GitHub sends no body")],
            (None, false) => vec![format!("{place}: the body is missing")],
        }
    }

    fn described(&self, operation: &Operation) -> &Value {
        &self.whole["paths"][&operation.template][&operation.method]
    }

    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(target) => self.whole.pointer(&target[1..]).unwrap(),
            None => value,
        }
    }

    fn check_parameters(
        &self,
        operation: &Operation,
        described: &Value,
        request: &Recorded,
    ) -> Vec<String> {
        let parameters: Vec<&Value> = described["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|parameter| self.resolved(parameter))
            .collect();
        let mut given: Vec<(&str, String, String)> = Vec::new();
        for (name, value) in &operation.parameters {
            given.push(("path", name.clone(), value.clone()));
        }
        for (name, value) in query(&request.query) {
            given.push(("query", name, value));
        }
        let mut wrong = Vec::new();
        for (place, name, value) in given {
            let known = parameters
                .iter()
                .find(|p| p["in"] == place && p["name"] == name.as_str());
            let at = format!("{} {place} parameter `{name}`", operation.name());
            match known {
                None => wrong.push(format!("{at}: GitHub has none of that name")),
                Some(parameter) => {
                    let value = typed(&parameter["schema"], &value);
                    wrong.extend(self.check(&at, &parameter["schema"], false, &value));
                }
            }
        }
        wrong
    }

    fn check(&self, place: &str, schema: &Value, closed: bool, value: &Value) -> Vec<String> {
        let validator = self.validator(place, schema, closed);
        let errors = validator.iter_errors(value);
        errors
            .map(|error| {
                let shown = shortened(&error.to_string());
                format!("{place} at `{}`: {shown}", error.instance_path())
            })
            .collect()
    }

    fn validator(&self, place: &str, schema: &Value, closed: bool) -> Arc<Validator> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let made = compiled.entry(place.to_owned()).or_insert_with(|| {
            let whole = json!({
                "allOf": [converted(schema, closed)],
                "components": self.components,
            });
            let options = jsonschema::options()
                .with_draft(Draft::Draft4)
                .should_validate_formats(true);
            Arc::new(options.build(&whole).unwrap())
        });
        Arc::clone(made)
    }
}

/// Beginning and end: an error begins with the whole value, and ends with what is wrong.
fn shortened(text: &str) -> String {
    let all: Vec<char> = text.chars().collect();
    if all.len() <= 300 {
        return text.to_owned();
    }
    let (start, end) = (&all[..100], &all[all.len() - 200..]);
    format!("{} … {}", String::from_iter(start), String::from_iter(end))
}

/// OpenAPI 3.0 as JSON Schema: `nullable` becomes a type; with `closed`, objects take only what they describe.
fn converted(schema: &Value, closed: bool) -> Value {
    match schema {
        Value::Array(items) => items.iter().map(|item| converted(item, closed)).collect(),
        Value::Object(object) => {
            let pairs = object.iter();
            let mut new: Map<String, Value> = pairs
                // Its examples are data, and hold words that look like schemas.
                .filter(|(key, _)| !matches!(key.as_str(), "example" | "examples" | "default"))
                .map(|(key, value)| (key.clone(), converted(value, closed)))
                .collect();
            let is_object = new.get("type") == Some(&json!("object"));
            if closed && is_object && new.contains_key("properties") {
                new.entry("additionalProperties").or_insert(json!(false));
            }
            if new.get("nullable") == Some(&json!(true)) {
                new.remove("nullable");
                return json!({"anyOf": [new, {"type": "null"}]});
            }
            Value::Object(new)
        }
        other => other.clone(),
    }
}

/// The parameters of a path that a template fits; a parameter takes one segment.
fn match_path(template: &str, path: &str) -> Option<BTreeMap<String, String>> {
    let (wanted, given): (Vec<_>, Vec<_>) =
        (template.split('/').collect(), path.split('/').collect());
    if wanted.len() != given.len() {
        return None;
    }
    let mut parameters = BTreeMap::new();
    for (wanted, given) in wanted.iter().zip(given) {
        match wanted.strip_prefix('{').and_then(|w| w.strip_suffix('}')) {
            Some(name) if !given.is_empty() => {
                parameters.insert(name.to_owned(), decoded(given));
            }
            _ if *wanted == given => {}
            _ => return None,
        }
    }
    Some(parameters)
}

/// Pairs of a query, decoded.
pub(super) fn query(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        })
        .collect()
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let hex = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match hex {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A parameter's text as the JSON that its schema speaks of.
fn typed(schema: &Value, text: &str) -> Value {
    match schema["type"].as_str() {
        Some("integer" | "number" | "boolean") => {
            serde_json::from_str(text).unwrap_or_else(|_| json!(text))
        }
        _ => json!(text),
    }
}
