//! A series of the engine's `/metrics`, written as PromQL selects it: `name`, or `name{label="value"}`.
//!
//! Main function: [`parse`]. Only equality is known: `!=` and `=~` select several series on purpose.

use crate::plan::model::EngineSeries;

/// Reads a selector; the error says what is wrong with it, without naming where it stands.
pub fn parse(text: &str) -> Result<EngineSeries, String> {
    let text = text.trim();
    let (name, labels) = match text.split_once('{') {
        None => (text, Vec::new()),
        Some((name, rest)) => {
            let inside = rest
                .strip_suffix('}')
                .ok_or_else(|| format!("`{text}` does not end with `}}`"))?;
            (name.trim_end(), parse_labels(inside)?)
        }
    };
    if !is_name(name, ':') {
        return Err(format!("`{name}` cannot be the name of a metric"));
    }
    Ok(EngineSeries {
        name: name.to_owned(),
        labels,
    })
}

fn parse_labels(inside: &str) -> Result<Vec<(String, String)>, String> {
    let (mut rest, mut labels) = (inside.trim(), Vec::new());
    while !rest.is_empty() {
        let wrong = || format!("`{rest}` is not `label=\"value\"`");
        let (label, value) = rest.split_once('=').ok_or_else(wrong)?;
        let (label, value) = (label.trim(), value.trim_start());
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let quote = quote.filter(|_| is_name(label, '_')).ok_or_else(wrong)?;
        let (value, after) = value[1..].split_once(quote).ok_or_else(wrong)?;
        if value.contains('\\') {
            return Err(format!("`{value}`: escapes in a label's value are unknown"));
        }
        labels.push((label.to_owned(), value.to_owned()));
        let after = after.trim_start();
        rest = match after.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if after.is_empty() => after,
            None => return Err(format!("`{after}` must begin with a comma")),
        };
    }
    Ok(labels)
}

/// Letters, digits, `_` and one further character; no digit first.
fn is_name(text: &str, further: char) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == further;
    !text.is_empty() && text.chars().all(fits) && !text.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[track_caller]
    fn check(text: &str, expect: Result<&str, &str>) {
        match (parse(text).map(|series| series.to_string()), expect) {
            (Ok(got), Ok(want)) => assert_eq!(got, want, "{text}"),
            (Err(got), Err(want)) => assert!(got.contains(want), "{text}: {got}"),
            (got, want) => panic!("{text}: {got:?}, expected {want:?}"),
        }
    }

    #[test]
    fn selectors_are_read_as_promql_writes_them() {
        check("vllm:prompt_tokens_total", Ok("vllm:prompt_tokens_total"));
        check(" a{} ", Ok("a"));
        check(
            "a_bucket{ le = '0.0002', engine=\"0\" , }",
            Ok("a_bucket{le=\"0.0002\",engine=\"0\"}"),
        );
        check("a{x=\"b=c,d\"}", Ok("a{x=\"b=c,d\"}"));
    }

    #[test]
    fn anything_else_is_refused() {
        check("", Err("cannot be the name"));
        check("9a", Err("cannot be the name"));
        check("a b", Err("cannot be the name"));
        check("a{x=\"1\"", Err("does not end with `}`"));
        check("a{x!=\"1\"}", Err("is not `label=\"value\"`"));
        check("a{x=~\"1\"}", Err("is not `label=\"value\"`"));
        check("a{x=1}", Err("is not `label=\"value\"`"));
        check("a{x=\"1}", Err("is not `label=\"value\"`"));
        check("a{x=\"1\" y=\"2\"}", Err("must begin with a comma"));
        check("a{x=\"\\\\\"}", Err("escapes"));
    }
}
