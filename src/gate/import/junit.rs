//! Tests of a JUnit file, as pytest, nextest, Surefire, gtest, Jest and others write it.
//!
//! Main function: [`junit`]. The file is written by whoever is tested: its size is for the caller to bound, and here no
//! document type is read, no entity but XML's own five, and of each text no more than a line.

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};
use std::collections::BTreeMap;
use verdict::record::{Test, TestOutcome};

/// More tests than any suite has.
const TESTS: usize = 100_000;
/// Characters of a test's id and of its message.
const ID: usize = 300;
const MESSAGE: usize = 300;

/// Reads all tests in the order of the file.
///
/// # Errors
/// Why the text is no JUnit file, to follow "the file".
pub fn junit(text: &str) -> Result<Vec<Test>, String> {
    let mut reader = Reader::from_str(text);
    let mut file = File::default();
    loop {
        let at = reader.buffer_position();
        let event = reader
            .read_event()
            .map_err(|error| format!("is no XML: {error} (byte {at})"))?;
        match event {
            Event::Start(element) => file.open(&element, at)?,
            Event::Empty(element) => {
                file.open(&element, at)?;
                file.close();
            }
            Event::End(_) => file.close(),
            Event::Text(part) => file.say(&String::from_utf8_lossy(&part)),
            Event::CData(part) => file.say(&String::from_utf8_lossy(&part)),
            Event::GeneralRef(name) => {
                let reference = format!("&{};", String::from_utf8_lossy(&name));
                let text = unescape(&reference)
                    .map_err(|_| format!("has an entity of its own, {reference} (byte {at})"))?;
                file.say(&text);
            }
            Event::DocType(_) => {
                return Err("has a document type, which no JUnit file needs".into());
            }
            Event::Eof => return file.finish(),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
    }
}

/// What was read so far.
#[derive(Default)]
struct File {
    /// Open elements.
    depth: usize,
    is_junit: bool,
    /// The test that is open, and how many elements were open around it.
    test: Option<(Test, usize)>,
    /// Depth of the element in it that says why it failed or was skipped.
    reason: Option<usize>,
    tests: Vec<Test>,
    /// How often each id came.
    seen: BTreeMap<String, u32>,
}

impl File {
    fn open(&mut self, element: &BytesStart<'_>, at: u64) -> Result<(), String> {
        let depth = self.depth;
        self.depth += 1;
        let name = element.local_name();
        if depth == 0 {
            self.is_junit = matches!(name.as_ref(), b"testsuites" | b"testsuite");
        }
        match (name.as_ref(), &mut self.test) {
            (b"testcase", Some(_)) => Err(format!("has a test within a test (byte {at})")),
            (b"testcase", None) => {
                let id = id(element).map_err(|why| format!("{why} (byte {at})"))?;
                let test = Test {
                    id,
                    outcome: TestOutcome::Passed,
                    message: None,
                };
                self.test = Some((test, depth));
                Ok(())
            }
            (b"failure" | b"error" | b"skipped", Some((test, of))) if depth == *of + 1 => {
                let outcome = match name.as_ref() {
                    b"skipped" => TestOutcome::Skipped,
                    _ => TestOutcome::Failed,
                };
                // A test that failed stays so, whatever its clean-up says.
                if test.outcome != TestOutcome::Failed {
                    test.outcome = outcome;
                    test.message =
                        attribute(element, b"message")?.and_then(|text| line(&text, MESSAGE));
                    self.reason = Some(depth);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if self.reason == Some(self.depth) {
            self.reason = None;
        }
        if let Some((test, _)) = self.test.take_if(|(_, depth)| *depth == self.depth) {
            self.keep(test);
        }
    }

    fn keep(&mut self, mut test: Test) {
        let times = self.seen.entry(test.id.clone()).or_default();
        *times += 1;
        if *times > 1 {
            test.id = format!("{} ({times})", test.id);
        }
        self.tests.push(test);
    }

    fn say(&mut self, text: &str) {
        if let (Some((test, _)), true) = (&mut self.test, self.reason.is_some()) {
            test.message = test.message.take().or_else(|| line(text, MESSAGE));
        }
    }

    fn finish(self) -> Result<Vec<Test>, String> {
        if self.depth > 0 {
            return Err("ends within an element: was it cut off?".into());
        }
        if !self.is_junit {
            return Err("has no `testsuites` or `testsuite` around it".into());
        }
        match self.tests.len() > TESTS {
            true => Err(format!("has more than {TESTS} tests")),
            false => Ok(self.tests),
        }
    }
}

/// Class and name.
fn id(element: &BytesStart<'_>) -> Result<String, String> {
    let class = attribute(element, b"classname")?.and_then(|text| line(&text, ID));
    let name = attribute(element, b"name")?.and_then(|text| line(&text, ID));
    match (class, name) {
        (Some(class), Some(name)) => Ok(format!("{class}::{name}")),
        (None, Some(name)) | (Some(name), None) => Ok(name),
        (None, None) => Err("has a test without a name".into()),
    }
}

fn attribute(element: &BytesStart<'_>, name: &[u8]) -> Result<Option<String>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("has a broken attribute: {error}");
    let Some(found) = element
        .try_get_attribute(name)
        .map_err(|error| wrong(&error))?
    else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&found.value).into_owned();
    let text = unescape(&text).map_err(|error| wrong(&error))?;
    Ok(Some(text.into_owned()))
}

/// The first line that holds something, without control characters.
fn line(text: &str, most: usize) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let shown: String = line
        .chars()
        .filter(|c| !c.is_control())
        .take(most)
        .collect();
    (!shown.is_empty()).then_some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let tests = junit(text).unwrap().into_iter();
        tests
            .map(|test| {
                let message = test.message.map(|m| format!(": {m}")).unwrap_or_default();
                format!("{} {:?}{message}", test.id, test.outcome)
            })
            .collect()
    }

    #[test]
    fn every_dialect_is_read() {
        for (text, expect) in [
            ("<testsuites/>", vec![]),
            // pytest
            (
                "<?xml version=\"1.0\" encoding=\"utf-8\"?><testsuites name=\"pytest tests\"><testsuite name=\"pytest\" \
                 tests=\"4\"><testcase classname=\"tests.api\" name=\"test_a[1]\" time=\"0.1\"/><testcase \
                 classname=\"tests.api\" name=\"test_b\"><failure message=\"assert 1 &lt; 0&#10;more\">def\nx</failure>\
                 </testcase><testcase classname=\"tests.api\" name=\"test_c\"><skipped type=\"pytest.xfail\" \
                 message=\"later\"/></testcase><testcase classname=\"tests.api\" name=\"test_d\"><error>\n E  boom &amp; \
                 bust\n</error><system-out>noise</system-out></testcase></testsuite></testsuites>",
                vec![
                    "tests.api::test_a[1] Passed",
                    "tests.api::test_b Failed: assert 1 < 0",
                    "tests.api::test_c Skipped: later",
                    "tests.api::test_d Failed: E  boom",
                ],
            ),
            // Surefire: a lone suite; one that passed at its second try; a failure and its clean-up's.
            (
                "<testsuite name=\"s\"><properties><property name=\"k\" value=\"v\"/></properties><testcase name=\"t\" \
                 classname=\"c\"><flakyFailure message=\"once\"/></testcase><testcase name=\"u\"><failure><![CDATA[why\
                 ]]></failure><error message=\"later\"/></testcase><testcase name=\"u\"/></testsuite>",
                vec!["c::t Passed", "u Failed: why", "u (2) Passed"],
            ),
        ] {
            assert_eq!(told(text), expect);
        }
    }

    #[test]
    fn what_is_no_junit_file_is_refused() {
        for (text, why) in [
            ("", "no `testsuites`"),
            ("{}", "no `testsuites`"),
            ("<html><testcase name=\"a\"/></html>", "no `testsuites`"),
            ("<testsuites><testsuite>", "was it cut off?"),
            ("<testsuites></testsuite>", "is no XML"),
            (
                "<testsuites><testcase/></testsuites>",
                "a test without a name",
            ),
            (
                "<testsuites><testcase name=\"a\"><testcase name=\"b\"/></testcase></testsuites>",
                "within a test",
            ),
            (
                "<!DOCTYPE t [<!ENTITY a \"b\">]><testsuites><testcase name=\"&a;\"/></testsuites>",
                "a document type",
            ),
            (
                "<testsuites><testcase name=\"&a;\"/></testsuites>",
                "a broken attribute",
            ),
            (
                "<testsuites><testcase name=\"a\"><failure>&a;</failure></testcase></testsuites>",
                "an entity of its own, &a;",
            ),
        ] {
            let refused = junit(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
        let many = "<testcase name=\"a\"/>".repeat(TESTS + 1);
        let refused = junit(&format!("<testsuite>{many}</testsuite>")).unwrap_err();
        assert!(refused.contains("more than"), "{refused}");
    }

    #[test]
    fn names_and_messages_are_one_short_line() {
        let long = "x".repeat(1_000);
        let text = format!(
            "<testsuite><testcase name=\"a&#27;[2J&#10;b\"><failure message=\"{long}\"/></testcase></testsuite>"
        );
        let tests = junit(&text).unwrap();
        assert_eq!(tests[0].id, "a[2J");
        assert_eq!(tests[0].message.as_ref().unwrap().len(), MESSAGE);
    }
}
