//! `gate demo`: a planted slowdown is found with nothing but the program.

use fixture::{Ended, alone, gate, skip};

#[test]
fn the_demo_finds_what_it_planted() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("demo");
    let demo = ["demo", "--dir", dir.to_str().unwrap()];
    let ended = Ended::of(&gate(&demo).output().unwrap());
    match ended.code {
        // A busy machine may not decide.
        Some(3 | 4) => {
            ended.says(&["decode-delay=10%", "busy machine hides it"]);
            skip::say("the demo's verdict: this machine is too busy to decide");
        }
        _ => {
            let found = [
                "decode-delay=10%",
                "The planted slowdown was found",
                "gate init",
            ];
            let ended = ended.expect(0).says(&found);
            for part in ["fail     tpot/regression", "report.html"] {
                assert!(ended.stdout.contains(part), "{}", ended.stdout);
            }
        }
    }
    // What is there is kept.
    let again = Ended::of(&gate(&demo).output().unwrap());
    assert_ne!(again.code, Some(0));
    again.says(&["gates exists", "--dir"]);
}
