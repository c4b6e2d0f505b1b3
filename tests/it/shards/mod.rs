//! A run over several machines: `gate shard plan --shards`, `gate check --together`, `gate shard merge`.

mod family;
mod merge;
mod plan;

use fixture::{Project, START, alone};

/// A project with three such gates, of which `two` starts its engine with an argument of its own.
fn three() -> Project {
    let project = Project::without_build();
    for name in ["one", "two", "three"] {
        let arguments = match name {
            "two" => "\nengine_args = [\"--max-running\", \"7\"]\n",
            _ => "",
        };
        project.write(
            &format!("gates/{name}.toml"),
            &format!("{arguments}{START}"),
        );
    }
    project.edit(
        "gates/gate.toml",
        "looks = [3, 4, 5, 6, 7, 8, 10]",
        "looks = [4, 5]",
    );
    project
}
