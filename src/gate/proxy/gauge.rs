//! `/metrics` with some of its gauges changed.
//!
//! Main function: [`changed`], on the Prometheus text. Refuses to know: what a gauge means.

use super::Faults;

/// What a rising gauge grows by with each request, of its own value.
const RISE: f64 = 0.02;

/// The text with the faults' gauges changed after so many requests. Lines of other samples stay to the byte.
pub fn changed(text: &str, faults: &Faults, requests: u64) -> String {
    let lines = text.split_inclusive('\n');
    lines
        .map(|line| changed_line(line, faults, requests).unwrap_or_else(|| line.to_owned()))
        .collect()
}

fn changed_line(line: &str, faults: &Faults, requests: u64) -> Option<String> {
    let sample = line.trim_end();
    let (head, value) = sample.rsplit_once(' ')?;
    let name = head.split('{').next()?;
    let is_among = |names: &[String]| names.iter().any(|known| known == name);
    let new = if is_among(&faults.zero_gauges) {
        0.0
    } else if is_among(&faults.rising_gauges) {
        value.parse::<f64>().ok()? * (1.0 + RISE * requests as f64)
    } else {
        return None;
    };
    Some(format!("{head} {new}{}", &line[sample.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_gauges_change_and_others_stay() {
        let faults = Faults {
            zero_gauges: vec!["kv".into()],
            rising_gauges: vec!["used".into()],
            ..Faults::default()
        };
        let text = "# TYPE kv gauge\nkv{m=\"a b\"} 7\nkv_more 7\nused 10\nlast 1";
        let expect = "# TYPE kv gauge\nkv{m=\"a b\"} 0\nkv_more 7\nused 20\nlast 1";
        assert_eq!(changed(text, &faults, 50), expect);
        assert_eq!(changed(text, &Faults::default(), 50), text);
    }
}
