//! What a comment looks like in every state.

use super::records::{BASE, HEAD, noisy, record, regressed, short};
use infergate::report::{Judged, Link, Past, Publication, State, comment};
use serde_json::{Value, json};
use verdict::plan::{self, Selection};
use verdict::record::{RunRecord, RunVerdict};
use verdict::{judge, record as vocabulary};

pub(super) const MARKER: &str = "<!-- infergate:gate -->";

/// The record with its verdict.
pub(super) fn judged(record: &Value) -> (RunRecord, RunVerdict) {
    let record: RunRecord = serde_json::from_value(record.clone()).unwrap();
    let selection = Selection {
        profile: record.profile.clone(),
        gates: record.gates.clone(),
    };
    let plan = plan::from_inputs(&record.inputs, &selection).unwrap();
    let verdict = judge::judge(&plan, &record);
    (record, verdict)
}

pub(super) fn publication(state: State<'_>) -> Publication<'_> {
    Publication {
        name: "infergate".into(),
        judged_by: None,
        head_sha: HEAD.into(),
        base_sha: Some(BASE.into()),
        profile: "quick".into(),
        gates: vec!["tpot".into()],
        again: None,
        state,
        notices: Vec::new(),
        moved_to: None,
        links: vec![Link {
            name: "the run".into(),
            url: "https://github.com/octocat/Hello-World/actions/runs/7".into(),
        }],
        repository: Some("https://github.com/octocat/Hello-World".into()),
    }
}

pub(super) fn of_record(record: &Value) -> String {
    let (record, verdict) = judged(record);
    let past = Past {
        check: "tpot/regression".into(),
        unit: vocabulary::Unit::MillisecondsPerToken,
        main: vec![0.101, 0.102, 0.1, 0.104, 0.103],
        head: verdict.gates[0].checks[0].head,
    };
    let judged = Judged {
        record: &record,
        verdict: &verdict,
        past: Some(&past),
        cause: None,
    };
    comment(&publication(State::Judged(judged)), None, MARKER)
}

/// The zero-width spaces that stop GitHub's links, as something to be seen.
pub(super) fn visible(text: &str) -> String {
    text.replace('\u{200b}', "·")
}

#[test]
fn a_pass() {
    insta::assert_snapshot!(visible(&of_record(&record())), @r##"
    <!-- infergate:gate -->
    ## ✅ Pass: 2 checks of 1 gate passed; tpot/regression worse by 37.1 % would have failed, in 95 of 100 such runs

    | check | base | head | change | fails if shown | passes if shown | verdict |
    |---|--:|--:|---|---|---|---|
    | `tpot/regression` | 0.08788 ms | 0.0921 ms | +4.8 % \[-10.8, +23.2\] | > 1 % | < 200 % | ✅ pass |
    | `tpot/ceiling` | 0.08788 ms | 0.0921 ms [0.07822, 0.1084] | – | > 15 ms | ≤ 15 ms | ✅ pass |

    base [`c3d0be41ecbe`](https://github.com/octocat/Hello-World/commit/c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c) · head [`6dcb09b5b578`](https://github.com/octocat/Hello-World/commit/6dcb09b5b57875f334f61aebed695e2e4193db5e)

    `tpot/regression` on main: ▆▇▆█▇ 0.103 ms → this head ▁ 0.0921 ms

    Reproduce: `gate check --head 6dcb09b5b57875f334f61aebed695e2e4193db5e --base c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c --profile quick --gate tpot`

    [the run](https://github.com/octocat/Hello-World/actions/runs/7)

    <details><summary>✅ <b>Time per output token</b>: pass</summary>

    - **pass** `tpot/regression`, tpot (regression): TPOT 0.08788 → 0.0921 ms: +4.8 % \[-10.8, +23.2\], below the ceiling of 200 % (p = 3e-6; 4 + 4 launches)
      - the change may be more than the margin of 1 %, but that is not shown; it is shown to be less than the ceiling of 200 %, so the check passes. Lower the ceiling to be stricter
    - **pass** `tpot/ceiling`, tpot (ceiling): TPOT 0.0921 ms \[0.07822, 0.1084\] (base 0.08788 ms), below the ceiling of 15 ms (p = 1e-6; 4 launches)

    </details>

    <details><summary>Main's last sessions on this machine</summary>

    ```mermaid
    %%{init: {"themeVariables": {"xyChart": {"plotColorPalette": "#218bff, #bf8700"}}}}%%
    xychart-beta
        title "tpot/regression: main, and this head as a level line"
        x-axis "sessions of main, oldest first" [1, 2, 3, 4, 5]
        y-axis "ms" 0.090905 --> 0.10519
        line [0.101, 0.102, 0.1, 0.104, 0.103]
        line [0.092095, 0.092095, 0.092095, 0.092095, 0.092095]
    ```

    </details>

    <details><summary>How it was measured</summary>

    - base `c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c`
    - head `6dcb09b5b57875f334f61aebed695e2e4193db5e`
    - profile quick, 8 launches in 4 blocks; all checks decided
    - 1 s of the machine's time
    - this machine's false alarms and smallest effects are not known: `gate calibrate`
    - a machine
    - seed 7, 2026-11-21T05:·00:·29Z, infergate 0.1.0

    </details>
    "##);
}

#[test]
fn a_failure() {
    insta::assert_snapshot!(visible(&of_record(&regressed())), @r##"
    <!-- infergate:gate -->
    ## ❌ Fail: Decoding is 4092 % \[3467, 4827\] slower; up to 1 % is allowed (tpot/regression)

    | check | base | head | change | fails if shown | passes if shown | verdict |
    |---|--:|--:|---|---|---|---|
    | `tpot/regression` | 0.08788 ms | 3.684 ms | +4092 % \[+3467, +4827\] | > 1 % | < 200 % | ❌ fail |
    | `tpot/ceiling` | 0.08788 ms | 3.684 ms [3.129, 4.337] | – | > 15 ms | ≤ 15 ms | ✅ pass |

    base [`c3d0be41ecbe`](https://github.com/octocat/Hello-World/commit/c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c) · head [`6dcb09b5b578`](https://github.com/octocat/Hello-World/commit/6dcb09b5b57875f334f61aebed695e2e4193db5e)

    `tpot/regression` on main: ▁▁▁▁▁ 0.103 ms → this head █ 3.684 ms

    Reproduce: `gate check --head 6dcb09b5b57875f334f61aebed695e2e4193db5e --base c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c --profile quick --gate tpot`

    [the run](https://github.com/octocat/Hello-World/actions/runs/7)

    <details><summary>❌ <b>Time per output token</b>: fail</summary>

    - **fail** `tpot/regression`, tpot (regression): TPOT 0.08788 → 3.684 ms: +4092 % \[+3467, +4827\], beyond the margin of 1 % (p = 5e-8, corrected for 2 checks; 4 + 4 launches)
    - **pass** `tpot/ceiling`, tpot (ceiling): TPOT 3.684 ms \[3.129, 4.337\] (base 0.08788 ms), below the ceiling of 15 ms (p = 5e-5; 4 launches)

    </details>

    <details><summary>Main's last sessions on this machine</summary>

    ```mermaid
    %%{init: {"themeVariables": {"xyChart": {"plotColorPalette": "#218bff, #bf8700"}}}}%%
    xychart-beta
        title "tpot/regression: main, and this head as a level line"
        x-axis "sessions of main, oldest first" [1, 2, 3, 4, 5]
        y-axis "ms" 0 --> 4.0422
        line [0.101, 0.102, 0.1, 0.104, 0.103]
        line [3.6838, 3.6838, 3.6838, 3.6838, 3.6838]
    ```

    </details>

    <details><summary>How it was measured</summary>

    - base `c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c`
    - head `6dcb09b5b57875f334f61aebed695e2e4193db5e`
    - profile quick, 8 launches in 4 blocks; all checks decided
    - 1 s of the machine's time
    - this machine's false alarms and smallest effects are not known: `gate calibrate`
    - a machine
    - seed 7, 2026-11-21T05:·00:·29Z, infergate 0.1.0

    </details>
    "##);
}

#[test]
fn an_inconclusive_result() {
    insta::assert_snapshot!(visible(&of_record(&noisy())), @r##"
    <!-- infergate:gate -->
    ## ⚠️ Inconclusive: Decoding may have changed by +157 % \[-50, +1227\]: too noisy to decide (tpot/regression)

    | check | base | head | change | fails if shown | passes if shown | verdict |
    |---|--:|--:|---|---|---|---|
    | `tpot/regression` | 0.08788 ms | 0.2256 ms | +157 % \[-50, +1227\] | > 1 % | < 200 % | ⚠️ inconclusive |
    | `tpot/ceiling` | 0.08788 ms | 0.2256 ms [0.04337, 1.173] | – | > 15 ms | ≤ 15 ms | ✅ pass |

    base [`c3d0be41ecbe`](https://github.com/octocat/Hello-World/commit/c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c) · head [`6dcb09b5b578`](https://github.com/octocat/Hello-World/commit/6dcb09b5b57875f334f61aebed695e2e4193db5e)

    `tpot/regression` on main: ▁▁▁▁▁ 0.103 ms → this head █ 0.2256 ms

    Reproduce: `gate check --head 6dcb09b5b57875f334f61aebed695e2e4193db5e --base c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c --profile quick --gate tpot`

    [the run](https://github.com/octocat/Hello-World/actions/runs/7)

    <details><summary>⚠️ <b>Time per output token</b>: inconclusive</summary>

    - **inconclusive** `tpot/regression`, tpot (cap-reached): TPOT 0.08788 → 0.2256 ms: +157 % \[-50, +1227\]: shown neither to be beyond the margin of 1 % (p = 1.00, corrected for 2 checks, needs ≤ 0.02) nor below the ceiling of 200 % (p = 0.39, needs ≤ 0.05) by 4 + 4 launches; too noisy: 4 + 4 launches find 2118 % at best, the ceiling is 200 %: measure on a quieter machine (see \`gate doctor\`) or raise the ceiling
      - launches come in two modes, 0.08935 ms and 0.551 ms (+516.7 %): 0 of 4 of base and 2 of 4 of head are in the upper one (equal shares: p = 0.43); within the modes head is +5.1 % \[-16.0, +31.5\] from base. An engine that draws something at its start does that (a kernel chosen by its timing, huge pages, the processor): fix what is drawn, or measure more launches
    - **pass** `tpot/ceiling`, tpot (ceiling): TPOT 0.2256 ms \[0.04337, 1.173\] (base 0.08788 ms), below the ceiling of 15 ms (p = 0.002; 4 launches)

    </details>

    <details><summary>Main's last sessions on this machine</summary>

    ```mermaid
    %%{init: {"themeVariables": {"xyChart": {"plotColorPalette": "#218bff, #bf8700"}}}}%%
    xychart-beta
        title "tpot/regression: main, and this head as a level line"
        x-axis "sessions of main, oldest first" [1, 2, 3, 4, 5]
        y-axis "ms" 0.087441 --> 0.23815
        line [0.101, 0.102, 0.1, 0.104, 0.103]
        line [0.22559, 0.22559, 0.22559, 0.22559, 0.22559]
    ```

    </details>

    <details><summary>How it was measured</summary>

    - base `c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c`
    - head `6dcb09b5b57875f334f61aebed695e2e4193db5e`
    - profile quick, 8 launches in 4 blocks; stopped at the last look
    - 1 s of the machine's time
    - this machine's false alarms and smallest effects are not known: `gate calibrate`
    - a machine
    - seed 7, 2026-11-21T05:·00:·29Z, infergate 0.1.0

    </details>
    "##);
}

#[test]
fn an_invalid_measurement() {
    insta::assert_snapshot!(visible(&of_record(&short())), @r##"
    <!-- infergate:gate -->
    ## 🚫 Invalid: launch 1 (base): 2 valid requests of tpot/decode; 5 are needed (tpot/regression); tpot/ceiling is invalid too

    | check | base | head | change | fails if shown | passes if shown | verdict |
    |---|--:|--:|---|---|---|---|
    | `tpot/regression` | – | – | – | > 1 % | < 200 % | 🚫 invalid |
    | `tpot/ceiling` | – | – | – | > 15 ms | ≤ 15 ms | 🚫 invalid |

    base [`c3d0be41ecbe`](https://github.com/octocat/Hello-World/commit/c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c) · head [`6dcb09b5b578`](https://github.com/octocat/Hello-World/commit/6dcb09b5b57875f334f61aebed695e2e4193db5e)

    `tpot/regression` on main: ▃▄▁█▆ 0.103 ms

    Reproduce: `gate check --head 6dcb09b5b57875f334f61aebed695e2e4193db5e --base c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c --profile quick --gate tpot`

    [the run](https://github.com/octocat/Hello-World/actions/runs/7)

    <details><summary>🚫 <b>Time per output token</b>: invalid</summary>

    - **invalid** `tpot/regression`, tpot (too-few-samples): launch 1 (base): 2 valid requests of tpot/decode; 5 are needed
    - **invalid** `tpot/ceiling`, tpot (too-few-samples): launch 0 (head): 2 valid requests of tpot/decode; 5 are needed

    </details>

    <details><summary>Main's last sessions on this machine</summary>

    ```mermaid
    %%{init: {"themeVariables": {"xyChart": {"plotColorPalette": "#218bff, #bf8700"}}}}%%
    xychart-beta
        title "tpot/regression: main"
        x-axis "sessions of main, oldest first" [1, 2, 3, 4, 5]
        y-axis "ms" 0.0996 --> 0.1044
        line [0.101, 0.102, 0.1, 0.104, 0.103]
    ```

    </details>

    <details><summary>How it was measured</summary>

    - base `c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c`
    - head `6dcb09b5b57875f334f61aebed695e2e4193db5e`
    - profile quick, 8 launches in 1 block; stopped: 2 of 2 checks are invalid
    - 1 s of the machine's time
    - this machine's false alarms and smallest effects are not known: `gate calibrate`
    - a machine
    - seed 7, 2026-11-21T05:·00:·29Z, infergate 0.1.0

    </details>
    "##);
}

#[test]
fn no_baseline() {
    let mut stored = record();
    stored["comparison"] = json!("stored");
    let launches = stored["launches"].as_array_mut().unwrap();
    launches.retain(|launch| launch["arm"] == "head");
    let (record, verdict) = judged(&stored);
    let judged = Judged {
        record: &record,
        verdict: &verdict,
        past: None,
        cause: None,
    };
    insta::assert_snapshot!(visible(&comment(&publication(State::Judged(judged)), None, MARKER)), @r"
    <!-- infergate:gate -->
    ## ⚠️ No baseline: 0 of 8 stored sessions of main that a stored comparison needs (0 more of another machine, 0 older than 14 days, 0 without this check): \`gate baseline record\` on main adds one (tpot/regression)

    | check | base | head | change | fails if shown | passes if shown | verdict |
    |---|--:|--:|---|---|---|---|
    | `tpot/regression` | – | – | – | > 1 % | < 200 % | ⚠️ inconclusive |
    | `tpot/ceiling` | – | 0.0921 ms [0.07822, 0.1084] | – | > 15 ms | ≤ 15 ms | ✅ pass |

    base [`c3d0be41ecbe`](https://github.com/octocat/Hello-World/commit/c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c) · head [`6dcb09b5b578`](https://github.com/octocat/Hello-World/commit/6dcb09b5b57875f334f61aebed695e2e4193db5e)

    Reproduce: `gate check --head 6dcb09b5b57875f334f61aebed695e2e4193db5e --base c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c --profile quick --gate tpot`

    [the run](https://github.com/octocat/Hello-World/actions/runs/7)

    <details><summary>⚠️ <b>Time per output token</b>: inconclusive</summary>

    - **inconclusive** `tpot/regression`, tpot (no-stored-base): 0 of 8 stored sessions of main that a stored comparison needs (0 more of another machine, 0 older than 14 days, 0 without this check): \`gate baseline record\` on main adds one
    - **pass** `tpot/ceiling`, tpot (ceiling): TPOT 0.0921 ms \[0.07822, 0.1084\], below the ceiling of 15 ms (p = 1e-6; 4 launches)

    </details>

    <details><summary>How it was measured</summary>

    - base `c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c`
    - head `6dcb09b5b57875f334f61aebed695e2e4193db5e`
    - profile quick, 4 launches in 4 blocks; stopped: more launches would decide nothing
    - 1 s of the machine's time
    - this machine's false alarms and smallest effects are not known: `gate calibrate`
    - a machine
    - seed 7, 2026-11-21T05:·00:·29Z, infergate 0.1.0

    </details>
    ");
}

#[test]
fn before_and_without_a_measurement() {
    let of = |state| visible(&comment(&publication(state), None, MARKER));
    insta::assert_snapshot!(of(State::Pending), @r"
    <!-- infergate:gate -->
    ## ⏳ Measuring: tpot; the result will appear here

    [the run](https://github.com/octocat/Hello-World/actions/runs/7)
    ");
    let said = "error: the build of head failed\n```\nerror[E0425]: cannot find value `x`\n@ada </details>\n\
                ghp_0123456789abcdef0123456789abcdef0123\n";
    insta::assert_snapshot!(of(State::NotMeasured { said }), @r"
    <!-- infergate:gate -->
    ## 🚫 Not measured: a build, a launch or the machine failed

    ````text
    error: the build of head failed
    ```
    error[E0425]: cannot find value `x`
    @ada </details>
    [redacted]
    ````

    Reproduce: `gate check --head 6dcb09b5b57875f334f61aebed695e2e4193db5e --base c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c --profile quick --gate tpot`

    [the run](https://github.com/octocat/Hello-World/actions/runs/7)
    ");
    insta::assert_snapshot!(of(State::NotRun { why: "#12 is of a fork, and nobody approved 6dcb09b5b578" }), @r"
    <!-- infergate:gate -->
    ## ✋ Not run: \#·12 is of a fork, and nobody approved 6dc·b09b5b578

    [the run](https://github.com/octocat/Hello-World/actions/runs/7)
    ");
    insta::assert_snapshot!(of(State::Refused { why: "`.bashrc` is no name that a result directory has" }), @r"
    <!-- infergate:gate -->
    ## 🚫 Result refused: \`.bashrc\` is no name that a result directory has

    Reproduce: `gate check --head 6dcb09b5b57875f334f61aebed695e2e4193db5e --base c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c --profile quick --gate tpot`

    [the run](https://github.com/octocat/Hello-World/actions/runs/7)
    ");
    insta::assert_snapshot!(of(State::Cancelled), @r"
    <!-- infergate:gate -->
    ## ⏹️ Cancelled: the run has no result

    Reproduce: `gate check --head 6dcb09b5b57875f334f61aebed695e2e4193db5e --base c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c --profile quick --gate tpot`

    [the run](https://github.com/octocat/Hello-World/actions/runs/7)
    ");
}

#[test]
fn a_head_that_moved_is_told_first() {
    let (record, verdict) = judged(&record());
    let judged = Judged {
        record: &record,
        verdict: &verdict,
        past: None,
        cause: None,
    };
    let mut publication = publication(State::Judged(judged));
    publication.moved_to = Some(BASE.into());
    publication.notices = vec!["the artifact says `pass`".into()];
    let text = comment(&publication, None, MARKER);
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines[0], MARKER);
    assert_eq!(lines[1], "> [!WARNING]");
    assert!(
        lines[2].starts_with("> **Stale:**") && lines[2].contains(HEAD) && lines[2].contains(BASE)
    );
    assert!(
        text.contains("> [!NOTE]\n> the artifact says \\`pass\\`"),
        "{text}"
    );
}

#[test]
fn a_repositorys_own_template_is_used_or_named_as_broken() {
    let (record, verdict) = judged(&record());
    let judged = Judged {
        record: &record,
        verdict: &verdict,
        past: None,
        cause: None,
    };
    let publication = publication(State::Judged(judged));
    let own = "Ours says {{ word }} of {{ head }}.";
    assert_eq!(
        comment(&publication, Some(own), MARKER),
        format!("{MARKER}\nOurs says pass of `{HEAD}`.")
    );
    let broken = comment(&publication, Some("{{ wrod }}"), MARKER);
    assert!(
        broken.contains(
            "> gates/comment.md.j2 is broken, and the built-in template is used: undefined value"
        ),
        "{broken}"
    );
    assert!(broken.contains("Pass: "), "{broken}");
}
