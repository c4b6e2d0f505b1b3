//! What a comment bears: texts that somebody else wrote, and more than GitHub takes.

use super::comments::{MARKER, judged, of_record, publication, visible};
use super::records::{record, regressed};
use infergate::report::{Judged, State, comment};
use serde_json::{Value, json};

/// Everything that somebody else may have written, at once.
pub(super) const HOSTILE: &str = "a|b `c` </details></summary><script>alert(1)</script> <!-- infergate:gate --> @everyone \
    [x](https://evil.example) https://evil.example www.evil.example #1 GH-2 :tada: $x$ \u{202e}gnp.exe \
    1a2b3c4d5e6f ghs_0123456789abcdef0123456789abcdef0123\n# heading\n```\n| - | - |\n";

pub(super) fn hostile(text: &str) -> Value {
    let mut record = regressed();
    record["machine"]["fingerprint"] = json!(text);
    record["tool"] = json!(text);
    record["created"] = json!(text);
    record["ending"] = json!({"why": "engine-failed", "detail": text});
    let launches = record["launches"].as_array_mut().unwrap();
    for launch in launches.iter_mut() {
        launch["fingerprint"] = json!(text);
    }
    launches[7]["exit"] = json!({"how": "crashed", "detail": text, "log_tail": text});
    record
}

#[test]
fn hostile_texts_stay_texts() {
    let text = of_record(&hostile(HOSTILE));
    let (marker, rest) = text.split_once('\n').unwrap();
    assert_eq!(marker, MARKER);
    for part in [
        "<script",
        "</details></summary>",
        "<!--",
        "@everyone",
        "](https://evil",
        "ghs_",
        "\u{202e}",
    ] {
        // Within a fence anything may stand but what is secret or unseen.
        let outside = without_fences(rest);
        assert!(!outside.contains(part), "`{part}` in:\n{outside}");
    }
    // Nor is a secret there in any writing, or in part.
    let bare = rest.replace(['\\', '\u{200b}'], "");
    for part in ["ghs_", "0123456789abc", "\u{202e}"] {
        assert!(!bare.contains(part), "`{part}` in:\n{rest}");
    }
    assert!(!without_fences(rest).contains("www.evil"));
    assert_eq!(
        rest.matches("<details").count(),
        rest.matches("</details>\n").count()
    );
    // Every row of the table has its seven cells.
    let outside = without_fences(rest);
    let rows = outside.lines().filter(|line| line.starts_with("| "));
    for row in rows {
        assert_eq!(row.replace("\\|", "").matches('|').count(), 8, "{row}");
    }
    insta::assert_snapshot!(visible(&text), @r##"
    <!-- infergate:gate -->
    ## ❌ Fail: launch 7 (head) crashed: a\|b \`c\` &lt;/details&gt;&lt;/summary&gt;&lt;script&gt;alert(1)&lt;/script&gt; &lt;\!-- infergate:·gate --&gt; @·everyone \[x\](https:·//evil.example) https:·//evil.example ww·w.evil.example \#·1 GH-·2 :·tada: <span>$</span>x<span>$</span> gnp.exe 1a2·b3c4d5e6f \[redacted\] \#· heading \`\`…

    | check | base | head | change | fails if shown | passes if shown | verdict |
    |---|--:|--:|---|---|---|---|
    | `tpot/regression` | – | – | – | > 1 % | < 200 % | ❌ fail |
    | `tpot/ceiling` | – | – | – | > 15 ms | ≤ 15 ms | ❌ fail |

    base [`c3d0be41ecbe`](https://github.com/octocat/Hello-World/commit/c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c) · head [`6dcb09b5b578`](https://github.com/octocat/Hello-World/commit/6dcb09b5b57875f334f61aebed695e2e4193db5e)

    `tpot/regression` on main: ▃▄▁█▆ 0.103 ms

    Reproduce: `gate check --head 6dcb09b5b57875f334f61aebed695e2e4193db5e --base c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c --profile quick --gate tpot`

    [the run](https://github.com/octocat/Hello-World/actions/runs/7)

    <details><summary>❌ <b>Time per output token</b>: fail</summary>

    - **fail** `tpot/regression`, tpot (reliability): launch 7 (head) crashed: a\|b \`c\` &lt;/details&gt;&lt;/summary&gt;&lt;script&gt;alert(1)&lt;/script&gt; &lt;\!-- infergate:·gate --&gt; @·everyone \[x\](https:·//evil.example) https:·//evil.example ww·w.evil.example \#·1 GH-·2 :·tada: <span>$</span>x<span>$</span> gnp.exe 1a2·b3c4d5e6f \[redacted\] \#· heading \`\`\` \| - \| - \| ; base ran without errors (4 launches)
    - **fail** `tpot/ceiling`, tpot (reliability): launch 7 (head) crashed: a\|b \`c\` &lt;/details&gt;&lt;/summary&gt;&lt;script&gt;alert(1)&lt;/script&gt; &lt;\!-- infergate:·gate --&gt; @·everyone \[x\](https:·//evil.example) https:·//evil.example ww·w.evil.example \#·1 GH-·2 :·tada: <span>$</span>x<span>$</span> gnp.exe 1a2·b3c4d5e6f \[redacted\] \#· heading \`\`\` \| - \| - \| ; base ran without errors (4 launches)

    </details>

    <details><summary>The engine's log: launch 7 (head): a|b `c` &lt;/details&gt;&lt;/summary&gt;&lt;script&gt;alert(1)&lt;/script&gt; &lt;!-- infergate:·gate --&gt; @·everyone [x](https:·//evil.example) https:·//evil.example ww·w.evil.example #·1 GH-·2 :·tada: <span>$</span>x<span>$</span> gnp.exe 1a2·b3c4d5e6f [redacted] #· heading ``` | - | - | </summary>

    ````text
    a|b `c` </details></summary><script>alert(1)</script> <!-- infergate:gate --> @everyone [x](https://evil.example) https://evil.example www.evil.example #1 GH-2 :tada: $x$ gnp.exe 1a2b3c4d5e6f [redacted]
    # heading
    ```
    | - | - |
    ````

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
    - profile quick, 8 launches in 3 blocks; an engine failed: a\|b \`c\` &lt;/details&gt;&lt;/summary&gt;&lt;script&gt;alert(1)&lt;/script&gt; &lt;\!-- infergate:·gate --&gt; @·everyone \[x\](https:·//evil.example) https:·//evil.example ww·w.evil.example \#·1 GH-·2 :·tada: <span>$</span>x<span>$</span> gnp.exe 1a2·b3c4d5e6f \[redacted\] \#· heading \`\`\` \| - \| - \| 
    - 1 s of the machine's time
    - this machine's false alarms and smallest effects are not known: `gate calibrate`
    - a\|b \`c\` &lt;/details&gt;&lt;/summary&gt;&lt;script&gt;alert(1)&lt;/script&gt; &lt;\!-- infergate:·gate --&gt; @·everyone \[x\](https:·//evil.example) https:·//evil.example ww·w.evil.example \#·1 GH-·2 :·tada: <span>$</span>x<span>$</span> gnp.exe 1a2·b3c4d5e6f \[redacted\] \#· heading \`\`\` \| - \| - \| 
    - seed 7, a\|b \`c\` &lt;/details&gt;&lt;/summary&gt;&lt;script&gt;alert(1)&lt;/script&gt; &lt;\!-- infergate:·gate --&gt; @·everyone \[x\](https:·//evil.example) https:·//evil.example ww·w.evil.example \#·1 GH-·2 :·tada: <span>$</span>x<span>$</span> gnp.exe 1a2·b3c4d5e6f \[redacted\] \#· heading \`\`\` \| - \| - \| , a\|b \`c\` &lt;/details&gt;&lt;/summary&gt;&lt;script&gt;alert(1)&lt;/script&gt; &lt;\!-- infergate:·gate --&gt; @·everyone \[x\](https:·//evil.example) https:·//evil.example ww·w.evil.example \#·1 GH-·2 :·tada: <span>$</span>x<span>$</span> gnp.exe 1a2·b3c4d5e6f \[redacted\] \#· heading \`\`\` \| - \| - \| 

    </details>
    "##);
}

/// What Markdown reads as Markdown.
fn without_fences(text: &str) -> String {
    let (mut out, mut fence) = (String::new(), None::<usize>);
    for line in text.lines() {
        let ticks = line.chars().take_while(|c| *c == '`').count();
        match fence {
            Some(open) if ticks >= open && line.len() == ticks => fence = None,
            Some(_) => {}
            None if ticks >= 3 => fence = Some(ticks),
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    assert_eq!(fence, None, "a fence is left open in:\n{text}");
    out
}

#[test]
fn texts_of_any_length_fit() {
    let text = of_record(&hostile(&format!("{}\n", "x".repeat(100_000))));
    assert!(text.len() <= 65_535, "{}", text.len());
    let text = of_record(&hostile(&"😀 line\n".repeat(20_000)));
    assert!(text.len() <= 65_535, "{}", text.len());
    without_fences(&text);
}

#[test]
fn many_gates_are_cut_from_the_least_important_on() {
    let (session, mut verdict) = judged(&regressed());
    let gate = verdict.gates[0].clone();
    let pass = judged(&record()).1.gates[0].clone();
    for n in 0..400 {
        let mut other = if n % 40 == 0 {
            gate.clone()
        } else {
            pass.clone()
        };
        other.gate = format!("gate{n}");
        verdict.gates.push(other);
    }
    let judged = Judged {
        record: &session,
        verdict: &verdict,
        past: None,
        cause: None,
    };
    let text = comment(&publication(State::Judged(judged)), None, MARKER);
    assert!(text.len() <= 65_535, "{}", text.len());
    assert!(
        text.contains("Left out, since a comment takes 65,536 characters: the gate gate"),
        "{text}"
    );
    assert!(text.contains("Full report: report.html ([the run](https://github.com/"));
    // Red gates and how to reproduce them stay.
    assert!(text.contains("Reproduce: `gate check --head"));
    without_fences(&text);
    assert_eq!(
        text.matches("<details").count(),
        text.matches("</details>").count()
    );
}
