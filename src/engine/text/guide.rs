//! Answers of a set form: JSON of a schema, or the call of a function, as the tokens that may come next.
//!
//! Main types: [`Guides`], which compiles forms for one tokenizer, and [`Guide`], one answer's state. Grammars and masks
//! are llguidance's. Refuses to know: logits, HTTP.

use super::tokenizer::Tokenizer;
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokRxInfo, TokTrie, TokenId};
use llguidance::{Matcher, ParserFactory, token_bytes_from_tokenizer_json};
use serde_json::{Value, json};
use std::fmt::{self, Write};
use std::sync::Arc;

/// What an answer must be.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerForm {
    /// JSON of this schema.
    Json(Value),
    /// A call of one of these functions as Hermes writes it, with arguments of its schema.
    Call(Vec<Function>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub name: String,
    pub parameters: Value,
}

/// A form that cannot be held, or an answer that has none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuideError {
    #[error("the model's tokens cannot be told as bytes, so that no answer can be guided: {0}")]
    Tokenizer(String),
    #[error("{0}")]
    Form(String),
    #[error("the answer's form leaves no token: {0}")]
    Stuck(String),
}

/// Compiles forms for one tokenizer.
pub struct Guides {
    factory: ParserFactory,
    /// End-of-sequence ids.
    eos: Arc<[u32]>,
}

/// Which tokens one answer may go on with.
#[derive(Clone)]
pub struct Guide {
    form: Arc<AnswerForm>,
    matcher: Matcher,
    eos: Arc<[u32]>,
}

impl Guides {
    /// `eos`: the ids that end an answer; `vocab`: of the model, which may be wider than the tokenizer's.
    ///
    /// # Errors
    /// A tokenizer whose tokens are no bytes.
    pub fn new(tokenizer: &Tokenizer, eos: &[u32], vocab: usize) -> Result<Self, GuideError> {
        let refused = |cause: &dyn fmt::Display| GuideError::Tokenizer(cause.to_string());
        let file = tokenizer.as_json().map_err(|error| refused(&error))?;
        let mut words = token_bytes_from_tokenizer_json(&file).map_err(|error| refused(&error))?;
        words.resize(vocab.max(words.len()), Vec::new());
        let end = eos
            .first()
            .ok_or_else(|| refused(&"it has no end-of-sequence token"))?;
        let info = TokRxInfo::new(words.len() as u32, *end);
        let trie = TokTrie::from(&info, &words).with_eos_tokens(eos);
        let environment = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory =
            ParserFactory::new_simple(&(environment as _)).map_err(|error| refused(&error))?;
        factory.quiet().limits_mut().verbose_errors = false;
        Ok(Self {
            factory,
            eos: eos.into(),
        })
    }

    /// # Errors
    /// A schema that is none, or that asks for what is not supported.
    pub fn guide(&self, form: AnswerForm) -> Result<Guide, GuideError> {
        let parser = self.factory.create_parser(grammar(&form));
        let parser = parser.map_err(|error| GuideError::Form(error.to_string()))?;
        Ok(Guide {
            form: Arc::new(form),
            matcher: Matcher::new(Ok(parser)),
            eos: Arc::clone(&self.eos),
        })
    }
}

impl Guide {
    /// The ids that may come next, ascending; end-of-sequence ids where the answer may end. Never empty.
    ///
    /// # Errors
    /// A form that leaves none.
    pub fn allowed(&mut self) -> Result<Vec<u32>, GuideError> {
        if self.matcher.is_stopped() && !self.matcher.is_error() {
            return Ok(self.eos.to_vec());
        }
        let stuck = |error: &dyn fmt::Display| GuideError::Stuck(error.to_string());
        let mask = self.matcher.compute_mask().map_err(|error| stuck(&error))?;
        let is_end = |id: &u32| self.eos.contains(id);
        let mut allowed: Vec<u32> = mask.iter().filter(|id| !is_end(id)).collect();
        if self.matcher.is_accepting().map_err(|error| stuck(&error))? {
            allowed.extend_from_slice(&self.eos);
            allowed.sort_unstable();
        }
        match allowed.is_empty() {
            true => Err(stuck(&"the tokenizer has none")),
            false => Ok(allowed),
        }
    }

    /// The answer goes on with this token.
    ///
    /// # Errors
    /// One that may not stand here.
    pub fn take(&mut self, id: u32) -> Result<(), GuideError> {
        if self.eos.contains(&id) {
            return Ok(());
        }
        let taken = self.matcher.consume_token(id as TokenId);
        taken.map_err(|error| GuideError::Stuck(error.to_string()))
    }
}

/// By form: two that began alike.
impl PartialEq for Guide {
    fn eq(&self, other: &Self) -> bool {
        self.form == other.form
    }
}

impl fmt::Debug for Guide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.form.fmt(f)
    }
}

/// JSON is written as Python's `json.dumps` writes it, which is what models' templates show them, with no other blanks:
/// a model that may write any number of them may never end.
fn grammar(form: &AnswerForm) -> TopLevelGrammar {
    match form {
        AnswerForm::Json(schema) => TopLevelGrammar::from_json_schema(spaced(schema)),
        // A rule for each, since a schema's references begin at its own root.
        AnswerForm::Call(functions) => {
            let mut lark = "start: \"<tool_call>\\n\" call \"\\n</tool_call>\"\n".to_owned();
            let names: Vec<String> = (0..functions.len()).map(|at| format!("f{at}")).collect();
            let _ = writeln!(lark, "call: {}", names.join(" | "));
            for (rule, Function { name, parameters }) in names.iter().zip(functions) {
                let head = format!(
                    "{{\"name\": {}, \"arguments\": ",
                    Value::from(name.as_str())
                );
                let (head, schema) = (Value::from(head), spaced(parameters));
                let _ = writeln!(
                    lark,
                    "{rule}: {head} {rule}_arguments \"}}\"\n{rule}_arguments: %json {schema}"
                );
            }
            TopLevelGrammar::from_lark(lark)
        }
    }
}

fn spaced(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(members) = schema.as_object_mut() {
        let spacing =
            json!({"whitespace_flexible": false, "key_separator": ": ", "item_separator": ", "});
        members.insert("x-guidance".into(), spacing);
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tokenizer::tests::bytes_tokenizer;

    /// A guide by the tokenizer of single bytes, whose ids are the bytes.
    fn guide(form: AnswerForm) -> Result<Guide, GuideError> {
        Guides::new(&bytes_tokenizer(), &[256], 257)?.guide(form)
    }

    /// Whether a text has the form, and is whole.
    fn accepts(form: &AnswerForm, text: &str) -> bool {
        let mut guide = guide(form.clone()).unwrap();
        for byte in text.bytes() {
            if !guide.allowed().unwrap().contains(&u32::from(byte)) {
                return false;
            }
            guide.take(byte.into()).unwrap();
        }
        guide.allowed().unwrap().contains(&256)
    }

    #[test]
    fn json_of_a_schema_and_nothing_else() {
        let form = AnswerForm::Json(json!({
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "é"]}},
            "required": ["a"],
            "additionalProperties": false,
        }));
        for (text, expect) in [
            ("{\"a\": 12}", true),
            ("{\"a\": 1, \"b\": \"é\"}", true),
            ("{\"a\": 1", false),
            ("{ \"a\": 1}", false),
            ("{\"a\": \"1\"}", false),
            ("{\"b\": \"x\"}", false),
            ("", false),
        ] {
            assert_eq!(accepts(&form, text), expect, "{text}");
        }
        let any = AnswerForm::Json(json!({"type": "object"}));
        assert!(accepts(&any, "{\"q\": [1, {\"r\": null}]}") && !accepts(&any, "[]"));
    }

    #[test]
    fn a_call_has_a_name_and_its_arguments() {
        let function = |name: &str, kind: &str| Function {
            name: name.into(),
            parameters: json!({"type": "object", "properties": {"v": {"type": kind}}, "required": ["v"]}),
        };
        let form = AnswerForm::Call(vec![function("add", "integer"), function("say", "string")]);
        let call = |text: &str| format!("<tool_call>\n{text}\n</tool_call>");
        assert!(accepts(
            &form,
            &call("{\"name\": \"add\", \"arguments\": {\"v\": 3}}")
        ));
        assert!(accepts(
            &form,
            &call("{\"name\": \"say\", \"arguments\": {\"v\": \"hi\"}}")
        ));
        assert!(!accepts(
            &form,
            &call("{\"name\": \"say\", \"arguments\": {\"v\": 3}}")
        ));
        assert!(!accepts(&form, "add"));
        // As Pydantic writes nested models; a name that JSON and the grammar escape.
        let nested = Function {
            name: "a \"b\"".into(),
            parameters: json!({
                "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
                "type": "object", "properties": {"p": {"$ref": "#/$defs/Point"}}, "required": ["p"],
            }),
        };
        let text = call("{\"name\": \"a \\\"b\\\"\", \"arguments\": {\"p\": {\"x\": 3}}}");
        assert!(accepts(&AnswerForm::Call(vec![nested]), &text), "{text}");
    }

    #[test]
    fn an_answer_that_is_whole_ends() {
        let mut guide = guide(AnswerForm::Json(json!({"const": 7}))).unwrap();
        assert_eq!(guide.allowed().unwrap(), [u32::from(b'7')]);
        let before = guide.clone();
        guide.take(b'7'.into()).unwrap();
        assert_eq!(guide.allowed().unwrap(), [256]);
        guide.take(256).unwrap();
        assert_eq!(before, guide);
        assert!(before.clone().take(b'8'.into()).is_err());
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for schema in [
            json!(3),
            json!({"type": "thing"}),
            json!({"$ref": "#/nowhere"}),
            json!({"not": {}}),
        ] {
            let refusal = guide(AnswerForm::Json(schema.clone())).unwrap_err();
            assert!(
                matches!(refusal, GuideError::Form(_)),
                "{schema}: {refusal}"
            );
        }
    }
}
