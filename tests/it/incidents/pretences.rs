//! Engines that look better than they are by what they say of themselves: log-probabilities that are none, tokens that are
//! not the text, counters with a part that is no number, and fast answers that say nothing.

use super::session::Story;
use fixture::Project;

/// A fast answer is no gain where it is not the answer: head says white space, or half of what it says that it said.
#[test]
fn the_time_of_answers_that_say_nothing_is_no_time() {
    let gate = "kind = \"steady\"\nrequests = 10\nwarmup = 0\nconcurrency = 1\nprompt_tokens = 8\noutput_tokens = 16\n\
                [[check]]\nname = \"slower\"\nmetric = \"tpot\"\nrule = \"regression\"\nmargin = \"5 %\"\n\
                ceiling = \"60 %\"\nmin_samples = 10\n\
                [[check]]\nname = \"slow\"\nmetric = \"tpot\"\nrule = \"ceiling\"\nlimit = \"1 s\"\nmin_samples = 10\n";
    let told = |base: &[&str], head: &[&str]| {
        Story {
            knobs: &["tpot=2", "ttft=2"],
            base,
            head,
            gate,
            ..Story::default()
        }
        .check()
    };
    let mute = told(&["mute=0"], &["mute=1"]);
    for check in ["slower", "slow"] {
        let parts = [
            "10 of 10 answers are wrong",
            "nothing but white space instead of",
        ];
        mute.says(check, "invalid", "wrong-answers", &parts);
    }
    mute.ends_with(4);
    // A token takes half as long again, and each second one is counted and not made.
    let halved = told(&["tpot=2"], &["tpot=3", "halved=1", "usage=2"]);
    let parts = ["10 of 10 answers are wrong", "as many tokens are counted"];
    halved.says("slower", "invalid", "wrong-answers", &parts);
    halved.ends_with(4);
    // Main answers so too: the time of nothing is no speed.
    let both = told(&["mute=1", "ttft=2"], &["mute=1", "ttft=3"]);
    both.says(
        "slow",
        "invalid",
        "wrong-answers",
        &["10 of 10", "choose prompts"],
    );
    both.ends_with(4);
}

/// Turns of a conversation are answers too.
#[test]
fn blank_replies_of_a_conversation_are_no_measurement() {
    let told = Story {
        base: &["mute=0"],
        head: &["mute=1"],
        gate: "kind = \"session\"\nturns = 6\nwarmup_turns = 1\nmessage_words = 8\nreply_tokens = 12\n\
               [[check]]\nname = \"tpot\"\nmetric = \"tpot\"\nrule = \"regression\"\nmargin = \"50 %\"\n\
               ceiling = \"150 %\"\nmin_samples = 3\n",
        ..Story::default()
    }
    .check();
    let parts = [
        "5 of 5 answers are wrong",
        "nothing but white space instead of",
    ];
    told.says("tpot", "invalid", "wrong-answers", &parts);
    told.ends_with(4);
}

/// A part of a sum that is no number is not 0.
#[test]
fn a_counter_with_a_part_that_is_no_number_has_no_value() {
    let gate = "kind = \"steady\"\nrequests = 10\nwarmup = 3\nconcurrency = 1\nprompt_tokens = 8\noutput_tokens = 4\n\
                launches = 1\n[[check]]\nname = \"counter\"\nmetric = \"counter_per_token\"\n\
                counter = \"dispatches_total\"\nrule = \"ceiling\"\nlimit = \"100 per token\"\n";
    let told = Story {
        knobs: &["tpot=1"],
        base: &["unknown=0"],
        head: &["unknown=1"],
        gate,
        ..Story::default()
    }
    .check();
    let parts = ["`dispatches_total` is missing in the engine's /metrics"];
    told.says("counter", "invalid", "missing-value", &parts);
    told.ends_with(4);
}

/// Logits that were never normalised, or a sign turned round.
#[test]
fn scores_above_zero_are_no_log_probabilities() {
    let project = Project::empty();
    let story = Story {
        knobs: &["ttft=2"],
        ..Story::default()
    };
    project.write("gates/gate.toml", &story.config());
    let check = |metric: &str, limit: &str| {
        format!(
            "[[check]]\nname = \"{metric}\"\nmetric = \"{metric}\"\nrule = \"ceiling\"\nlimit = \"{limit}\"\n"
        )
    };
    let gate = "title = \"Texts\"\n[workload.texts]\nkind = \"texts\"\nfile = \"texts.jsonl\"\ntop_k = 2\nlaunches = 1\n";
    let gate = [
        gate.to_owned(),
        check("perplexity", "9"),
        check("kl_from_base", "9 nats"),
    ];
    project.write("gates/texts.toml", &gate.concat());
    project.write(
        "gates/texts.jsonl",
        "{\"id\": \"a\", \"text\": \"one two three four\"}\n",
    );
    let of = |head: &str| {
        let mut arguments = vec!["check", "--format", "json", "--base-arg", "ttft=2"];
        arguments.extend(["--head-arg", head]);
        let ended = project.run(&arguments);
        let verdict = ended.json();
        let checks = verdict["gates"][0]["checks"].as_array().unwrap().clone();
        let reasons: Vec<String> = checks.iter().map(|c| c["reason"].to_string()).collect();
        (ended.code, reasons)
    };
    assert_eq!(of("ttft=3").0, Some(0));
    for (head, part) in [
        ("surprise=-4", "none is above 0: the engine sends logits"),
        ("surprise=-0.29", "and together they are at most 1"),
    ] {
        let (code, reasons) = of(head);
        assert_eq!(code, Some(4), "{reasons:?}");
        for reason in reasons {
            assert!(reason.contains(part), "`{part}` is missing in: {reason}");
        }
    }
}
