//! Gates that could never have a verdict, or would be measured in part for nothing, and times that never come: refused
//! when they are read, not after hours.

use fixture::{Ended, Project};

/// `gate shard plan` of a gate with one workload and one check.
fn planned(workload: &str, check: &str) -> Ended {
    let project = Project::without_build();
    project.write(
        "gates/data/own.jsonl",
        "{\"timestamp\": 0, \"prompt_length\": 8, \"output_length\": 8}\n\
         {\"timestamp\": 100000, \"prompt_length\": 8, \"output_length\": 8}\n",
    );
    project.write(
        "gates/data/texts.jsonl",
        "{\"id\": \"a\", \"text\": \"one two\"}\n",
    );
    let gate =
        format!("title = \"Own\"\n[workload.w]\n{workload}\n[[check]]\nname = \"c\"\n{check}\n");
    project.write("gates/own.toml", &gate);
    let ended = project.run(&["shard", "plan", "--gate", "own"]);
    assert_eq!(project.leftovers(), [0; 0]);
    ended
}

#[track_caller]
fn refuses(workload: &str, check: &str, parts: &[&str]) {
    planned(workload, check).expect(2).says(parts).says(&["^"]);
}

const STEADY: &str = "kind = \"steady\"\nrequests = 40\nwarmup = 0\nprompt_tokens = 8\noutput_tokens = 8\nconcurrency = 1";
const MATRIX: &str = "kind = \"matrix\"\nbatches = [1, 4]\nstreamed = [true, false]\ncontexts = [8, 16]\n\
     output_tokens = 8\npasses = 1\nwarmup = 0";
const GOLDENS: &str = "kind = \"goldens\"\nfile = \"data/tiny-qwen3/goldens.json\"\nnear_tie = \"0.01 nats\"\nlaunches = 1";
const CEILING: &str = "rule = \"ceiling\"\nlimit = \"15 ms\"";

#[test]
fn counters_gauges_and_texts_that_say_nothing() {
    let limit = "rule = \"ceiling\"\nlimit = \"1\"";
    let check = |workload: &str, check: &str, why: &str| {
        refuses(workload, &format!("{limit}\n{check}"), &[why]);
    };
    let increase = "metric = \"counter_increase\"";
    check(
        STEADY,
        increase,
        "`counter = \"…\"` is required with the metrics `counter_…`",
    );
    check(
        STEADY,
        "metric = \"gauge\"\ncounter = \"a\"",
        "belongs to no other",
    );
    check(
        STEADY,
        "metric = \"gauge\"",
        "`gauge = \"…\"` is required with the metric `gauge`",
    );
    check(
        STEADY,
        "metric = \"counter_ratio\"\ncounter = \"a\"",
        "`over = \"…\"` is required with the metric `counter_ratio`",
    );
    check(
        STEADY,
        &format!("{increase}\ncounter = \"a\"\nover = \"b\""),
        "and belongs to no other",
    );
    check(
        STEADY,
        "metric = \"throughput\"\nallow_zero = true",
        "`allow_zero` belongs to a counter or a gauge",
    );
    check(
        STEADY,
        &format!("{increase}\ncounter = \"a{{x!='1'}}\""),
        "is not `label=\"value\"`",
    );
    check(
        STEADY,
        &format!("{increase}\ncounter = \"a b\""),
        "write a name of the engine's /metrics",
    );
    let mixed = "kind = \"mixed\"\nrequests = 4\nwarmup = 0\nconcurrency = 1\n\
                 shapes = [{ prompt_tokens = 8, output_tokens = 8 }]";
    check(
        mixed,
        &format!("{increase}\ncounter = \"a\"\nstreamed = true"),
        "leave `streamed` out",
    );
    refuses(
        STEADY,
        "metric = \"counter_per_token\"\ncounter = \"a\"\nrule = \"ceiling\"\nlimit = \"62\"",
        &["`62` has no unit", "62 per token"],
    );
    let texts = "kind = \"texts\"\nfile = \"data/texts.jsonl\"\ntop_k = 5";
    check(
        texts,
        "metric = \"counter_increase\"\ncounter = \"a\"",
        "cannot be measured on",
    );
    check(
        STEADY,
        "metric = \"perplexity\"",
        "cannot be measured on the workload",
    );
    let nats = "rule = \"ceiling\"\nlimit = \"1 nats\"\nmetric = \"kl_divergence\"";
    refuses(texts, nats, &["has no `reference`", "`kl_from_base`"]);
    let change =
        "rule = \"regression\"\nmargin = \"1 %\"\nceiling = \"2 %\"\nmetric = \"kl_from_base\"";
    refuses(texts, change, &["has no relative change"]);
    let contention = "rule = \"ceiling\"\nlimit = \"1.1 ×\"\nmetric = \"contention\"";
    refuses(
        MATRIX,
        &format!("{contention}\nstreamed = true\nbatch = 4"),
        &["leave `batch` out, and give two `batches`"],
    );
    let file = texts.replace("texts.jsonl", "own.jsonl");
    refuses(
        &file,
        nats,
        &[
            "`gates/data/own.jsonl`: line 1",
            "unknown field `timestamp`",
        ],
    );
}

/// All requests ten times slower: the median is too, and the share within 1.5 × of it stays.
#[test]
fn a_bound_in_medians_without_a_check_of_the_median() {
    let tail =
        "metric = \"goodput\"\nslo = { e2e = \"1.5 ×\" }\nrule = \"floor\"\nlimit = \"95 %\"";
    let blind = [
        "is blind to a slowdown of all requests",
        "add a check of `e2e`",
    ];
    refuses(STEADY, tail, &blind);
    // Of another metric, and of another statistic.
    for other in [
        "metric = \"ttft\"",
        "metric = \"e2e\"\nstatistic = \"mean\"",
    ] {
        let beside = format!("{tail}\n\n[[check]]\nname = \"b\"\n{other}\n{CEILING}");
        refuses(STEADY, &beside, &blind);
    }
    let median = format!("{tail}\n\n[[check]]\nname = \"b\"\nmetric = \"e2e\"\n{CEILING}");
    planned(STEADY, &median).expect(0);
}

#[test]
fn metrics_that_a_part_never_gives() {
    let check = |workload: &str, metric: &str, more: &str, why: &str| {
        let check = format!("metric = \"{metric}\"\n{more}");
        refuses(workload, &check, &[why]);
    };
    check(MATRIX, "tpot", CEILING, "say `streamed = true`");
    check(
        STEADY,
        "tpot",
        &format!("{CEILING}\nstreamed = false"),
        "no answers of this `streamed`",
    );
    let one_token = STEADY.replace("output_tokens = 8", "output_tokens = 1");
    check(&one_token, "tpot", CEILING, "two `output_tokens` or more");
    check(&one_token, "icl", CEILING, "two `output_tokens` or more");
    let slo = "slo = { tpot = \"1 ms\" }\nrule = \"floor\"\nlimit = \"95 %\"";
    check(MATRIX, "goodput", slo, "say `streamed = true`");
    let streams = MATRIX.replace("[true, false]", "[true]");
    let ratio = "rule = \"ceiling\"\nlimit = \"1.25 ×\"";
    check(&streams, "stream_parity", ratio, "streamed = [true, false]");
    let cases = "rule = \"ceiling\"\nlimit = \"0 cases\"";
    check(MATRIX, "stream_mismatches", cases, "only a `hot` one");
    check(
        MATRIX,
        "tpot_base",
        &format!("{CEILING}\ncontext = 8"),
        "two of its `contexts`",
    );
    let step = "rule = \"floor\"\nlimit = \"0.9 ×\"\nbatch = 4";
    check(
        MATRIX,
        "throughput_step",
        step,
        "from one of its `batches` to another",
    );
    let open = STEADY.replace(
        "concurrency = 1",
        "arrivals = \"poisson\"\nrate = \"4 requests/s\"",
    );
    let floor = "rule = \"floor\"\nlimit = \"10 tokens/s\"";
    check(
        &open,
        "throughput_full",
        floor,
        "an open loop asks for no number",
    );
    // What is next to them is read.
    planned(
        MATRIX,
        &format!("metric = \"tpot\"\nstreamed = true\n{CEILING}"),
    )
    .expect(0);
    planned(MATRIX, &format!("metric = \"tpot_base\"\n{CEILING}")).expect(0);
    planned(MATRIX, &format!("metric = \"stream_parity\"\n{ratio}")).expect(0);
}

#[test]
fn samples_are_counted_in_the_part_that_a_check_reads() {
    let e2e = |more: &str| format!("metric = \"e2e\"\n{CEILING}\n{more}");
    // Two batches of five requests together, two contexts, both modes.
    planned(MATRIX, &e2e("min_samples = 20")).expect(0);
    refuses(MATRIX, &e2e("min_samples = 21"), &["sends 20"]);
    let cell = "batch = 1\ncontext = 8\nstreamed = true\nmin_samples = ";
    planned(MATRIX, &e2e(&format!("{cell}1"))).expect(0);
    refuses(
        MATRIX,
        &e2e(&format!("{cell}2")),
        &["`min_samples` is 2, but `own/w` sends 1"],
    );
    refuses(
        MATRIX,
        &e2e("statistic = \"p95\""),
        &["needs 200 samples", "sends 20"],
    );
    let users = "kind = \"staggered\"\nusers = 3\noffset = \"10 ms\"\nprompt_tokens = 8\noutput_tokens = 8\n\
         passes = 5\nwarmup = 0";
    refuses(
        users,
        &e2e("statistic = \"p99\""),
        &["needs 1000 samples", "sends 30"],
    );
    planned(users, &e2e("min_samples = 30")).expect(0);
    let turns =
        "kind = \"session\"\nturns = 12\nwarmup_turns = 2\nmessage_words = 8\nreply_tokens = 8";
    refuses(
        turns,
        &e2e("statistic = \"p95\""),
        &["needs 200 samples", "sends 10"],
    );
}

#[test]
fn a_near_tie_needs_log_probabilities_and_they_a_near_tie() {
    let answers = |keys: &str| {
        format!(
            "kind = \"answers\"\nprompts = 2\nprompt_tokens = 8\noutput_tokens = 8\nbatch = 2\n\
             beside_tokens = 8\npasses = 1\n{keys}"
        )
    };
    let check = "metric = \"answer_mismatches\"\nrule = \"ceiling\"\nlimit = \"0 cases\"";
    planned(&answers(""), check).expect(0);
    planned(&answers("top_k = 5\nnear_tie = \"0.01 nats\""), check).expect(0);
    refuses(&answers("top_k = 5"), check, &["`top_k` needs `near_tie`"]);
    let near_tie = answers("near_tie = \"0.01 nats\"");
    refuses(&near_tie, check, &["say `top_k = 5` too"]);
    let session =
        "kind = \"session\"\nturns = 12\nwarmup_turns = 2\nmessage_words = 8\nreply_tokens = 8";
    refuses(session, check, &["answer_mismatches"]);
}

#[test]
fn more_streams_than_requests() {
    let check = format!("metric = \"tpot\"\n{CEILING}");
    let of = |streams: u32| STEADY.replace("concurrency = 1", &format!("concurrency = {streams}"));
    planned(&of(40), &check).expect(0);
    let parts = [
        "of 40 requests 41 can never be in flight at once",
        "`requests` to 41 or more",
        "`concurrency` to 40 or fewer",
    ];
    refuses(&of(41), &check, &parts);
    // The warm-up is no part of what is measured.
    refuses(&of(41).replace("warmup = 0", "warmup = 9"), &check, &parts);
    let profiles = of(41).replace("requests = 40", "requests = { quick = 40, full = 41 }");
    refuses(&profiles, &check, &parts);
    let shapes = "shapes = [{ prompt_tokens = 8, output_tokens = 8 }]";
    let mixed = of(41).replace("prompt_tokens = 8\noutput_tokens = 8", shapes);
    refuses(&mixed.replace("steady", "mixed"), &check, &parts);
}

#[test]
fn launches_that_no_look_reads() {
    let of = |launches: u32| format!("{STEADY}\nlaunches = {launches}");
    let timed = format!("metric = \"tpot\"\n{CEILING}");
    let looks = "looks are after 4, 5, 6, 7, 8, 10 blocks";
    refuses(
        &of(9),
        &timed,
        &["after 9 launches nobody looks", "`own/c`", looks],
    );
    refuses(&of(1), &timed, &["after 1 launches nobody looks"]);
    // Three decide where the machine is calibrated alone.
    refuses(&of(3), &timed, &["after 3 launches nobody looks"]);
    for launches in [4, 10, 20] {
        planned(&of(launches), &timed).expect(0);
    }
    // What is the same in every launch needs no look.
    let counted = "metric = \"failed_requests\"\nrule = \"ceiling\"\nlimit = \"0 cases\"";
    planned(&of(1), counted).expect(0);
}

#[test]
fn times_that_never_come() {
    super::refuses(
        super::CONFIG,
        "budget = \"75 s\"",
        "budget = \"99999999999999999999 days\"",
        &["`profile.quick.budget` must be shorter than a century", "^"],
    );
    let trace = "kind = \"trace\"\nfile = \"data/own.jsonl\"\nwarmup = 0\nspeed = ";
    let check = format!("metric = \"tpot\"\nmin_samples = 2\n{CEILING}");
    let slow = format!("{trace}\"0.000000000000001 ×\"");
    refuses(&slow, &check, &["the trace takes more than a century"]);
    refuses(&format!("{trace}\"0 ×\""), &check, &["more than nothing"]);
    planned(&format!("{trace}\"100000 ×\""), &check).expect(0);
    let rare = STEADY.replace(
        "concurrency = 1",
        "arrivals = \"constant\"\nrate = \"0.0000000000001 requests/s\"",
    );
    refuses(
        &rare,
        &format!("metric = \"tpot\"\n{CEILING}"),
        &["once in a century"],
    );
}

#[test]
fn a_launch_has_one_first_request() {
    let first = "kind = \"first-request\"\nprompt_tokens = 8\noutput_tokens = 8";
    let check = |workload: &&str| {
        format!(
            "[[check]]\nname = \"{workload}\"\nworkload = \"{workload}\"\nmetric = \"first_token\"\n{CEILING}\n"
        )
    };
    let gate = |head: &str, workloads: &[&str]| {
        let each = workloads
            .iter()
            .map(|name| format!("[workload.{name}]\n{first}\n"));
        let checks = workloads.iter().map(check);
        let parts: Vec<String> = each.chain(checks).collect();
        format!("title = \"Own\"\n{head}\n{}", parts.concat())
    };
    let project = Project::without_build();
    let planned = || project.run(&["shard", "plan", "--gate", "one", "--gate", "two"]);
    project.write("gates/one.toml", &gate("", &["a"]));
    project.write("gates/two.toml", &gate("", &["b"]));
    let told = ["gates/two.toml:3", "`two/b`", "`one/a`", "--gate"];
    planned().expect(2).says(&told);
    // The one runs cold starts, the other does not: they share no launch.
    project.write("gates/two.toml", &gate("page_cache = \"cold\"", &["b"]));
    planned().expect(0);
    project.write(
        "gates/two.toml",
        &gate("page_cache = \"cold\"", &["b", "c"]),
    );
    planned().expect(2).says(&["`two/c`", "`two/b`"]);
}

/// Base may be wrong in cases 1 to 5, and head in 6 to 10.
#[test]
fn a_change_of_a_number_of_cases() {
    let change = "rule = \"regression\"\nmargin = \"1 %\"\nceiling = \"2 %\"";
    for (workload, metric) in [
        (STEADY, "answer_mismatches"),
        (MATRIX, "failed_cells"),
        (GOLDENS, "golden_mismatches"),
    ] {
        let check = format!("metric = \"{metric}\"\n{change}");
        refuses(
            workload,
            &check,
            &["may be other ones", "judge it by a ceiling"],
        );
    }
    let failures = format!("metric = \"failed_requests\"\n{change}");
    planned(STEADY, &failures).expect(0);
}

#[test]
fn a_workload_that_no_check_reads() {
    let check = format!("workload = \"w\"\nmetric = \"tpot\"\n{CEILING}");
    let two = format!("{STEADY}\n[workload.long]\n{STEADY}");
    let told = ["no check reads `workload.long`", "gates/own.toml:9"];
    refuses(&two, &check, &told);
    let failures = "metric = \"failed_requests\"\nrule = \"ceiling\"\nlimit = \"0 cases\"";
    let both = format!("{check}\n[[check]]\nname = \"d\"\nworkload = \"long\"\n{failures}");
    planned(&two, &both).expect(0);
}

/// A limit that only a better head can break never fails a worse one.
#[test]
fn a_limit_on_the_wrong_side_is_refused() {
    for (metric, rule, limit, says) in [
        ("throughput", "ceiling", "9 tokens/s", "write a floor"),
        ("failed_requests", "floor", "0 cases", "write a ceiling"),
        ("ttft", "floor", "9 ms", "write a ceiling"),
    ] {
        let metric = format!("metric = \"{metric}\"\nrule = \"{rule}\"\nlimit = \"{limit}\"");
        refuses(STEADY, &metric, &[says]);
    }
    // The model is on the GPU, and cold prompts are computed.
    for (metric, limit) in [("gpu_memory", "1 GiB"), ("prefilled_tokens", "8 tokens")] {
        let metric = format!("metric = \"{metric}\"\nrule = \"floor\"\nlimit = \"{limit}\"");
        planned(STEADY, &metric).expect(0);
    }
}
