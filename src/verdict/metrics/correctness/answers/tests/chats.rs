//! Questions that end by themselves: chats and texts.

use super::{NATS, answer, counts, of_launch, pairs, scored};
use crate::metrics::testing::launch;
use crate::record::{Condition, EARLIER_TURNS, SYSTEM_MESSAGE, Sample};

/// Six questions with these texts and reasons.
fn chats(answers: [(&str, &str); 6]) -> Vec<Sample> {
    let chat = |(n, (text, reason)): (u32, (&str, &str))| {
        let mut sample = answer(n, &format!("chat {n}"), Condition::Ended, text);
        sample.finish_reason = Some(reason.into());
        sample
    };
    (0..).zip(answers).map(chat).collect()
}

#[test]
fn chat_answers_end_where_base_ends_them() {
    let stop = |text| (text, "stop");
    let sound = [
        stop("12"),
        stop("Paris"),
        stop("yes"),
        stop("Tuesday"),
        ("seven seven", "length"),
        ("white and", "length"),
    ];
    let with = |changed: &[(usize, (&'static str, &'static str))]| {
        let mut answers = sound;
        for (at, answer) in changed {
            answers[*at] = *answer;
        }
        counts(chats(answers), Some(chats(sound)))
    };
    assert_eq!(with(&[]), (0.0, 0.0));
    // The end of sequence is lost: most go on.
    let goes_on = [
        (0, ("12 12", "length")),
        (1, ("Paris Paris", "length")),
        (2, ("yes<|im_end|>", "stop")),
    ];
    assert_eq!(with(&goes_on), (3.0, 3.0));
    // Few may be near-ties between the end and another token.
    assert_eq!(with(&goes_on[..2]), (2.0, 0.0));
    // The same text for another reason, or another text.
    assert_eq!(with(&[(0, ("12", "length"))]), (1.0, 0.0));
    assert_eq!(with(&[(3, stop("Monday, perhaps"))]), (0.0, 0.0));
    let others = [0, 1, 2, 3].map(|at| (at, stop("something else")));
    assert_eq!(with(&others), (4.0, 4.0));
    // A model that thinks to the limit says nothing; it says no more on the next machine.
    let silent = [0, 1, 2, 3].map(|at| (at, ("", "length")));
    assert_eq!(with(&silent[..3]), (0.0, 0.0));
    // Ends too early.
    assert_eq!(with(&[(4, ("seven", "stop"))]), (1.0, 0.0));
    let short = ["1", "P", "y", "T"].map(stop);
    let changed = [0, 1, 2, 3].map(|at| (at, short[at]));
    assert_eq!(with(&changed), (4.0, 4.0));
    // With nothing at all: few may be near-ties.
    let nothing = [0, 1, 2, 3].map(|at| (at, stop("")));
    assert_eq!(with(&nothing), (4.0, 4.0));
    assert_eq!(with(&nothing[..1]), (1.0, 0.0));
    // No answer of base ends: whether one should is not known.
    let endless = || chats([("a b c", "length"); 6]);
    let short = chats([("a b", "stop"); 6]);
    assert_eq!(counts(short, Some(endless())), (6.0, 0.0));
}

#[test]
fn a_long_chat_answer_is_quoted_in_part() {
    let long = "word ".repeat(200);
    let of = |text: &str| launch(0, chats([(text, "stop"); 6]));
    let base = launch(1, chats([("word", "stop"); 6]));
    let measure = of_launch(&of(&long), &base);
    assert!(measure.remarks[0].len() < 200, "{}", measure.remarks[0]);
}

/// Eight questions, each whole and streamed, and as text: 0, 3 and 6 have no system message, 1, 3 and 5 no earlier turns.
/// `said` gives the text for a case and whether it is streamed.
fn asked(said: impl Fn(&str, bool) -> String) -> Vec<Sample> {
    let mut samples = Vec::new();
    for number in 0..8 {
        let system = if number % 3 == 0 { "" } else { SYSTEM_MESSAGE };
        let earlier = if [1, 3, 5].contains(&number) {
            ""
        } else {
            EARLIER_TURNS
        };
        let chat = format!("chat {number}{system}{earlier}");
        for (case, streamed) in [
            (chat.clone(), false),
            (chat, true),
            (format!("text {number}"), false),
        ] {
            let text = said(&case, streamed);
            let mut sample = answer(samples.len() as u32, &case, Condition::Ended, &text);
            sample.text_sha256 = crate::digest::of_parts([text.as_bytes()]);
            sample.streamed = streamed;
            sample.finish_reason = Some("stop".into());
            samples.push(sample);
        }
    }
    samples
}

#[test]
fn most_chats_of_a_kind_are_those_of_base() {
    let right = |case: &str, _: bool| format!("the answer to {case}, at some length");
    let with = |is_wrong: &dyn Fn(&str) -> bool| {
        let said = |case: &str, streamed: bool| match is_wrong(case) {
            true => format!("what {case} was not asked, at some length"),
            false => right(case, streamed),
        };
        counts(asked(said), Some(asked(right)))
    };
    assert_eq!(with(&|_| false), (0.0, 0.0));
    // Two questions may be near-ties.
    assert_eq!(
        with(&|case| case.contains("at 1") || case.contains("at 2")),
        (0.0, 0.0)
    );
    // Without its system message, or its earlier turns, most answers are others.
    let system = with(&|case| case.contains(SYSTEM_MESSAGE) && !case.contains("chat 1"));
    assert_eq!(system, (8.0, 8.0));
    let earlier = with(&|case| case.contains(EARLIER_TURNS) && !case.contains("chat 0"));
    assert_eq!(earlier, (8.0, 8.0));
    // Those without one.
    assert_eq!(
        with(&|case| case.starts_with("chat") && !case.contains(SYSTEM_MESSAGE))
            .0
            .to_bits(),
        6_f64.to_bits()
    );
    // A text is read otherwise than by base.
    assert_eq!(
        with(&|case| case.starts_with("text") && !case.ends_with('0')),
        (7.0, 7.0)
    );
}

#[test]
fn a_streamed_chat_says_what_the_whole_one_says() {
    let right = |case: &str, _: bool| format!("the answer to {case}, é");
    let cut = |case: &str, streamed: bool| match streamed && case.starts_with("chat 3") {
        true => right(case, streamed).replace('é', "\u{fffd}"),
        false => right(case, streamed),
    };
    assert_eq!(counts(asked(right), Some(asked(right))), (0.0, 0.0));
    // Beside base's, and beside the whole one, which a near-tie may explain: base's cache knows the question by then.
    assert_eq!(counts(asked(cut), Some(asked(right))), (2.0, 0.0));
    assert_eq!(counts(asked(cut), Some(asked(cut))), (0.0, 0.0));
}

#[test]
fn a_field_that_base_sends_is_missed_once_a_mode() {
    let with = |fields: &[&str]| {
        let mut samples = asked(|case, _| format!("the answer to {case}"));
        for sample in &mut samples {
            sample.fields = fields.iter().map(|&field| field.to_owned()).collect();
        }
        samples
    };
    let all = ["choices[].delta.role: string", "id: string"];
    let base = || Some(with(&all));
    assert_eq!(counts(with(&all), base()), (0.0, 0.0));
    // Chats whole and streamed, and texts.
    assert_eq!(counts(with(&all[1..]), base()), (3.0, 0.0));
    let other = ["choices[].delta.role: string", "id: number"];
    assert_eq!(counts(with(&other), base()), (3.0, 0.0));
    // One that base does not always send is not missed.
    let mut some = with(&all);
    some[0].fields.clear();
    some[1].fields.clear();
    some[2].fields.clear();
    assert_eq!(counts(with(&all[1..]), Some(some)), (0.0, 0.0));
    // A new field harms nobody.
    assert_eq!(counts(with(&all), Some(with(&all[1..]))), (0.0, 0.0));
}

#[test]
fn the_list_of_a_chat_tells_a_near_tie() {
    let of = |second: &str, gap: f64| {
        let mut samples = asked(|case, _| format!("the answer to {case}"));
        // The streamed answer lists nothing: the whole one tells of it.
        for at in [0, 1] {
            let sample = scored(samples[at].clone(), &[("so ", 3.0), (second, gap)]);
            let text = sample.text.as_deref().unwrap_or_default();
            samples[at] = Sample {
                text_sha256: crate::digest::of_parts([text.as_bytes()]),
                ..sample.clone()
            };
        }
        samples[1].logprobs.clear();
        samples
    };
    let count = |gap| {
        let base = launch(1, of("a", gap));
        let measure = super::of(Some(NATS), &launch(0, of("b", gap)), Some(&base)).unwrap();
        (measure.value, measure.at_least.unwrap())
    };
    assert_eq!(count(0.05), (0.0, 0.0));
    assert_eq!(count(3.0), (2.0, 2.0));
}

#[test]
fn a_chat_route_that_is_lost_is_wrong_and_one_that_base_lacks_is_not() {
    let sound = [("12", "stop"); 6];
    // Requests of a launch have numbers of their own.
    let others = || {
        let mut others = pairs(&[("one two", "one two")]);
        others.iter_mut().for_each(|sample| sample.index += 6);
        others
    };
    let without_route = || {
        let mut samples = chats([("", "stop"); 6]);
        for sample in &mut samples {
            sample.status = Some(404);
        }
        [samples, others()].concat()
    };
    let with_route = || [chats(sound), others()].concat();
    assert_eq!(counts(without_route(), Some(with_route())), (6.0, 6.0));
    assert_eq!(counts(without_route(), Some(without_route())), (0.0, 0.0));
    assert_eq!(counts(with_route(), Some(without_route())), (0.0, 0.0));
    let measure = of_launch(&launch(0, with_route()), &launch(1, without_route()));
    assert!(
        measure.remarks[0].contains("base refuses 6 of the questions (status 404)"),
        "{:?}",
        measure.remarks
    );
}
