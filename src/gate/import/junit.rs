//! Tests of a JUnit file, as pytest, nextest, Surefire, gtest, Jest and others write it.
//!
//! Main function: [`junit`]. The file is written by whoever is tested: its size is for the caller to bound, and here no
//! document type is read, no entity but XML's own five, and of each text no more than a line.

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};
use std::collections::BTreeMap;
use std::fmt;
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
        let at = At { text, byte: at };
        let event = reader
            .read_event()
            .map_err(|error| format!("is no XML: {error} ({at})"))?;
        match event {
            Event::Start(element) => file.open(&element, at)?,
            Event::Empty(element) => {
                file.open(&element, at)?;
                file.close()?;
            }
            Event::End(_) => file.close()?,
            Event::Text(part) => file.say(&String::from_utf8_lossy(&part)),
            Event::CData(part) => file.say(&String::from_utf8_lossy(&part)),
            Event::GeneralRef(name) => {
                let reference = format!("&{};", String::from_utf8_lossy(&name));
                let text = unescape(&reference)
                    .map_err(|_| format!("has an entity of its own, {reference} ({at})"))?;
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

/// A place in the file, shown as its line.
#[derive(Clone, Copy)]
struct At<'a> {
    text: &'a str,
    byte: u64,
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let byte = usize::try_from(self.byte).unwrap_or(usize::MAX);
        let before = self.text.bytes().take(byte);
        write!(f, "line {}", 1 + before.filter(|b| *b == b'\n').count())
    }
}

/// An open suite that says how many of its tests failed.
struct Suite<'a> {
    depth: usize,
    /// `failures` and `errors` together.
    counted: u64,
    /// Failures of the file before the suite began.
    before: u64,
    at: At<'a>,
}

/// What was read so far.
#[derive(Default)]
struct File<'a> {
    /// Open elements.
    depth: usize,
    is_junit: bool,
    /// The test that is open, and how many elements were open around it.
    test: Option<(Test, usize)>,
    suites: Vec<Suite<'a>>,
    /// Elements and statuses that say that a test failed.
    failures: u64,
    /// Those before the open test.
    before_test: u64,
    /// Depth of the element in it that says why it failed or was skipped.
    reason: Option<usize>,
    tests: Vec<Test>,
    /// Each id that was given out, with the greatest number that a test of this name has.
    seen: BTreeMap<String, u32>,
}

impl<'a> File<'a> {
    fn open(&mut self, element: &BytesStart<'_>, at: At<'a>) -> Result<(), String> {
        let depth = self.depth;
        self.depth += 1;
        let name = element.local_name();
        if depth == 0 {
            self.is_junit = matches!(name.as_ref(), b"testsuites" | b"testsuite");
        }
        match name.as_ref() {
            b"testsuites" | b"testsuite" => self.begin_suite(element, depth, at),
            b"testcase" => self.begin_test(element, depth, at),
            b"failure" | b"error" => self.fail(element, depth, at),
            b"skipped" => self.skip(element, depth),
            _ => Ok(()),
        }
    }

    fn begin_suite(
        &mut self,
        element: &BytesStart<'_>,
        depth: usize,
        at: At<'a>,
    ) -> Result<(), String> {
        let (failures, errors) = (
            counted(element, "failures", at)?,
            counted(element, "errors", at)?,
        );
        self.suites.push(Suite {
            depth,
            counted: failures.saturating_add(errors),
            before: self.failures,
            at,
        });
        Ok(())
    }

    fn begin_test(
        &mut self,
        element: &BytesStart<'_>,
        depth: usize,
        at: At<'_>,
    ) -> Result<(), String> {
        if self.test.is_some() {
            return Err(format!("has a test within a test ({at})"));
        }
        let test = Test {
            id: id(element).map_err(|why| format!("{why} ({at})"))?,
            outcome: outcome(element, at)?,
            message: None,
        };
        self.test = Some((test, depth));
        self.before_test = self.failures;
        Ok(())
    }

    /// Reads a `failure` or an `error`. One that belongs to no test is a failure of nobody knows what: a runner's crash,
    /// say, which must not be lost.
    fn fail(&mut self, element: &BytesStart<'_>, depth: usize, at: At<'_>) -> Result<(), String> {
        let message = attribute(element, b"message")?.and_then(|text| line(&text, MESSAGE));
        let Some((test, _)) = self.test.as_mut().filter(|(_, of)| depth == of + 1) else {
            let name = match element.local_name().as_ref() {
                b"error" => "an `error`",
                _ => "a `failure`",
            };
            let why = message.map_or_else(String::new, |message| format!(": {message}"));
            return Err(format!("has {name} outside of any test ({at}){why}"));
        };
        self.failures += 1;
        // The first one says why; a later one is a clean-up's.
        if test.outcome != TestOutcome::Failed || test.message.is_none() {
            test.outcome = TestOutcome::Failed;
            test.message = message;
            self.reason = Some(depth);
        }
        Ok(())
    }

    fn skip(&mut self, element: &BytesStart<'_>, depth: usize) -> Result<(), String> {
        let Some((test, _)) = self.test.as_mut().filter(|(_, of)| depth == of + 1) else {
            return Ok(());
        };
        // A test that failed stays so, whatever its clean-up says.
        if test.outcome != TestOutcome::Failed {
            test.outcome = TestOutcome::Skipped;
            test.message = attribute(element, b"message")?.and_then(|text| line(&text, MESSAGE));
            self.reason = Some(depth);
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        self.depth = self.depth.saturating_sub(1);
        if self.reason == Some(self.depth) {
            self.reason = None;
        }
        if let Some((test, _)) = self.test.take_if(|(_, depth)| *depth == self.depth) {
            let by_status =
                test.outcome == TestOutcome::Failed && self.failures == self.before_test;
            self.failures += u64::from(by_status);
            self.keep(test);
        }
        let depth = self.depth;
        match self.suites.pop_if(|suite| suite.depth == depth) {
            Some(suite) => suite.end(self.failures),
            None => Ok(()),
        }
    }

    /// A test of a name that was there is numbered; never by a name that another test has.
    fn keep(&mut self, mut test: Test) {
        let name = test.id.clone();
        let mut times = self.seen.get(&name).copied().unwrap_or_default();
        loop {
            times += 1;
            test.id = match times {
                1 => name.clone(),
                n => format!("{name} ({n})"),
            };
            if times == 1 || !self.seen.contains_key(&test.id) {
                break;
            }
        }
        self.seen.insert(name, times);
        if times > 1 {
            self.seen.insert(test.id.clone(), 1);
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

impl Suite<'_> {
    /// `failures`: of the file until the suite's end.
    fn end(&self, failures: u64) -> Result<(), String> {
        let Self {
            counted,
            before,
            at,
            ..
        } = self;
        let shown = failures - before;
        match *counted > shown {
            true => Err(format!(
                "counts {counted} failures and errors in a suite ({at}) that shows {shown}"
            )),
            false => Ok(()),
        }
    }
}

/// A suite's count; 0 where it has none.
fn counted(element: &BytesStart<'_>, name: &str, at: At<'_>) -> Result<u64, String> {
    let text = attribute(element, name.as_bytes())?.unwrap_or_default();
    match text.trim() {
        "" => Ok(0),
        number => number
            .parse()
            .map_err(|_| format!("has a suite ({at}) whose `{name}` is no number: {number:?}")),
    }
}

/// Outcome of a test by its attributes alone. GoogleTest lists disabled tests as `notrun`, with no `skipped` in them.
fn outcome(element: &BytesStart<'_>, at: At<'_>) -> Result<TestOutcome, String> {
    let mut outcome = TestOutcome::Passed;
    for name in [&b"status"[..], b"result"] {
        let Some(said) = attribute(element, name)? else {
            continue;
        };
        match said.trim().to_ascii_lowercase().as_str() {
            "" | "run" | "passed" | "pass" | "success" | "successful" | "succeeded" | "ok"
            | "completed" | "complete" | "done" | "finished" | "executed" | "true" => {}
            "notrun" | "not run" | "disabled" | "skipped" | "skip" | "ignored" | "pending"
            | "suppressed" | "todo" | "untested" | "inconclusive" => outcome = TestOutcome::Skipped,
            "failed" | "fail" | "failure" | "error" | "errored" | "broken" | "crashed"
            | "timeout" | "timedout" | "aborted" | "undefined" | "ambiguous" | "false" => {
                return Ok(TestOutcome::Failed);
            }
            _ => {
                let said = line(&said, ID).unwrap_or_default();
                return Err(format!("has a test of an unknown status, {said:?} ({at})"));
            }
        }
    }
    Ok(outcome)
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
            // gtest: a disabled test.
            (
                "<testsuites><testsuite name=\"S\"><testcase name=\"a\" status=\"run\" result=\"completed\" \
                 classname=\"S\"/><testcase name=\"DISABLED_b\" status=\"notrun\" result=\"suppressed\" \
                 classname=\"S\"/></testsuite></testsuites>",
                vec!["S::a Passed", "S::DISABLED_b Skipped"],
            ),
            // Statuses, as several runners write them.
            (
                "<testsuite failures=\"3\"><testcase name=\"a\" status=\"failed\"/><testcase name=\"b\" status=\"fail\">\
                 <failure message=\"why\"/></testcase><testcase name=\"c\" status=\"Error\"><skipped/></testcase>\
                 <testcase name=\"d\" status=\"PASSED\"/><testcase name=\"e\" result=\"skipped\"/></testsuite>",
                vec![
                    "a Failed",
                    "b Failed: why",
                    "c Failed",
                    "d Passed",
                    "e Skipped",
                ],
            ),
            // pytest: a test that fails, and its clean-up too.
            (
                "<testsuite errors=\"1\" failures=\"1\"><testcase name=\"a\"><failure message=\"1\"/></testcase><testcase \
                 name=\"a\"><error message=\"2\"/></testcase></testsuite>",
                vec!["a Failed: 1", "a (2) Failed: 2"],
            ),
            // A name that is like a number of ours.
            (
                "<testsuite><testcase name=\"u (2)\"><failure/></testcase><testcase name=\"u\"/><testcase \
                 name=\"u\"/><testcase name=\"u\"/><testcase name=\"u (2)\"/></testsuite>",
                vec![
                    "u (2) Failed",
                    "u Passed",
                    "u (3) Passed",
                    "u (4) Passed",
                    "u (2) (2) Passed",
                ],
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
            (
                "<testsuites>\n<testsuite name=\"s\" failures=\"1\" errors=\"1\">\n<testcase name=\"a\"/>\n\
                 </testsuite></testsuites>",
                "counts 2 failures and errors in a suite (line 2) that shows 0",
            ),
            (
                "<testsuite failures=\"2\"><testcase name=\"a\"><failure/></testcase></testsuite>",
                "counts 2 failures and errors in a suite (line 1) that shows 1",
            ),
            (
                "<testsuites errors=\"1\"><testsuite name=\"s\"/></testsuites>",
                "counts 1 failures and errors",
            ),
            (
                "<testsuite errors=\"one\"><testcase name=\"a\"/></testsuite>",
                "has a suite (line 1) whose `errors` is no number: \"one\"",
            ),
            (
                "<testsuite>\n\n<testcase name=\"a\"/><error message=\"no database\"/></testsuite>",
                "has an `error` outside of any test (line 3): no database",
            ),
            (
                "<testsuite><failure/><testcase name=\"a\"/></testsuite>",
                "has a `failure` outside of any test (line 1)",
            ),
            (
                "<testsuite><testcase name=\"a\"><system-out><error/></system-out></testcase></testsuite>",
                "has an `error` outside of any test",
            ),
            (
                "<testsuite>\n<testcase name=\"a\" status=\"perhaps\"/></testsuite>",
                "has a test of an unknown status, \"perhaps\" (line 2)",
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
