//! The action's download of a release: what it verifies, keeps, and refuses. `gh` is a script that has the release's files.

use fixture::{Ended, repository};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// Writes down what it is asked, and gives files out of `$RELEASE`.
const GH: &str = r#"#!/bin/sh
echo "$*" >> "$ASKED"
[ "$1 $2" = "attestation verify" ] && exit "${UNATTESTED:-0}"
while [ $# -gt 0 ]; do
  case $1 in --pattern) file=$2 ;; --dir) to=$2 ;; esac
  shift
done
cp "$RELEASE/$file" "$to/"
"#;

/// The archive for this machine.
fn archive() -> String {
    format!(
        "infergate-0.1.0-{}-unknown-linux-musl.tar.gz",
        std::env::consts::ARCH
    )
}

/// A runner, and a release with one archive and its digest.
struct Runner {
    folder: TempDir,
    archive: PathBuf,
}

impl Runner {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runner = Self {
            archive: folder.path().join("release").join(archive()),
            folder,
        };
        for name in ["release", "bin", "temp", "tools", "infergate-0.1.0"] {
            fs::create_dir(runner.path(name)).unwrap();
        }
        runner.program("infergate-0.1.0/gate", "#!/bin/sh\necho gate 0.1.0\n");
        runner.program("bin/gh", GH);
        runner.shell("tar -czf \"$0\" infergate-0.1.0", &runner.archive);
        let sums = "cd release && sha256sum *.tar.gz > SHA256SUMS";
        runner.shell(sums, &runner.archive);
        runner
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn shell(&self, script: &str, argument: &PathBuf) {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).arg(argument);
        let status = shell.current_dir(self.folder.path()).status();
        assert!(status.unwrap().success(), "{script}");
    }

    fn download(&self, more: &[(&str, &str)]) -> Ended {
        let mut script = Command::new("bash");
        script
            .arg(repository().join(".github/actions/gate/download"))
            .env_clear()
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", self.path("bin").display()),
            )
            .env("VERSION", "v0.1.0")
            .env("REPOSITORY", "owner/infergate")
            .env("GPU", "false")
            .env("RELEASE", self.path("release"))
            .env("ASKED", self.path("asked"))
            .env("RUNNER_TEMP", self.path("temp"))
            .env("RUNNER_TOOL_CACHE", self.path("tools"))
            .env("GITHUB_PATH", self.path("github-path"))
            .envs(more.iter().copied());
        Ended::of(&script.output().unwrap())
    }

    /// Takes the commands that `gh` got.
    fn asked(&self) -> String {
        let asked = fs::read_to_string(self.path("asked")).unwrap_or_default();
        let _ = fs::remove_file(self.path("asked"));
        asked
    }
}

#[test]
fn a_release_is_verified_and_kept() {
    let runner = Runner::new();
    let ended = runner.download(&[]).expect(0);
    assert!(ended.stdout.ends_with("gate 0.1.0\n"), "{}", ended.stdout);
    let asked = runner.asked();
    for part in [
        "release download v0.1.0 --repo owner/infergate --pattern SHA256SUMS",
        &format!("--pattern {}", archive()),
        "attestation verify",
        "--source-ref refs/tags/v0.1.0",
        "--signer-workflow owner/infergate/.github/workflows/release.yml",
    ] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    let path = fs::read_to_string(runner.path("github-path")).unwrap();
    assert_eq!(
        path.trim(),
        runner.path("temp/infergate/bin").to_str().unwrap()
    );
    // The second job finds it, and verifies it all the same.
    fs::remove_file(&runner.archive).unwrap();
    runner.download(&[]).expect(0);
    assert!(runner.asked().contains("attestation verify"));
}

#[test]
fn what_was_changed_or_is_not_attested_is_not_started() {
    let runner = Runner::new();
    runner.download(&[]).expect(0);
    let kept = fs::read_dir(runner.path("tools/infergate")).unwrap().next();
    fs::write(kept.unwrap().unwrap().path(), "planted").unwrap();
    // What another job wrote into the cache is replaced by the release's own.
    runner.download(&[]).expect(0);
    assert!(runner.asked().contains("--pattern infergate-0.1.0"));
    let refused = runner.download(&[("UNATTESTED", "1")]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(!refused.stdout.contains("gate 0.1.0"), "{refused:?}");
    let digest = "0".repeat(64);
    let refused = runner.download(&[("SHA256", &digest)]).expect(5);
    assert!(
        refused.stdout.contains("is not the file of the digest"),
        "{refused:?}"
    );
}

#[test]
fn what_cannot_be_downloaded_is_said() {
    let runner = Runner::new();
    let of = |more: &[(&str, &str)], code: i32, part: &str| {
        let ended = runner.download(more).expect(code);
        assert!(ended.stdout.contains(part), "{part}: {ended:?}");
    };
    of(&[("VERSION", "main")], 2, "name a release");
    of(
        &[("VERSION", "v0.1.0"), ("SHA256", "abc")],
        5,
        "has no digest",
    );
    fs::remove_file(runner.path("bin/gh")).unwrap();
    let nothing = runner.path("bin");
    for name in ["bash", "uname"] {
        let to = nothing.join(name);
        std::os::unix::fs::symlink(format!("/usr/bin/{name}"), to).unwrap();
    }
    of(&[("PATH", nothing.to_str().unwrap())], 5, "gh, GitHub's");
}
