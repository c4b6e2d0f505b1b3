//! A port that somebody else took between its draw and the engine's bind.

use super::{interrupt, launches, shorten};
use fixture::Project;

#[test]
fn a_lost_port_is_no_failure_of_the_engine() {
    let project = Project::without_build();
    shorten(&project);
    // Loses its port once, as a server would say it.
    project.wrap_engine(
        "if [ ! -e lost ]; then echo \"$4\" > lost; echo 'error: Address already in use (os error 98)' >&2; \
         exit 1; fi\n[ -e won ] || echo \"$4\" > won\nexec \"$@\"\n",
    );
    let record = interrupt(&project, 0);
    assert_eq!(launches(&record)[0]["exit"]["how"], "stopped");
    assert_ne!(project.read("lost"), project.read("won"), "another port");
}
