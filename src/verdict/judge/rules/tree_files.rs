//! Rule `tree-files`: an arm may run what lies in the working tree, and not what was built of it.

use super::super::view::View;
use crate::record::{Arm, Facts, Reason, RuleId, Startup};

/// The engines of all launches of an arm read the same file of the working tree, which is not as in the arm's commit. Read
/// now and then it was by chance, as by an editor. Nothing is known of an arm none of whose launches was watched.
pub fn tree_files(view: &View<'_, '_>) -> Option<Reason> {
    let reads = |arm| view.arms().contains(&arm) || (arm == Arm::Base && view.case.reads_base());
    let arms = Arm::BOTH.into_iter().filter(|arm| reads(*arm));
    arms.into_iter().find_map(|arm| {
        let kept = || view.of(arm).kept.iter().map(|kept| &kept.launch.startup);
        let mut files: Vec<String> = kept().flat_map(|of| of.tree_files.clone()).collect();
        files.sort();
        files.dedup();
        // A launch that could not be watched may have read any of them.
        let reads = |of: &Startup, file: &String| of.tree_unwatched || of.tree_files.contains(file);
        files.retain(|file| kept().all(|of| reads(of, file)));
        let is_unwatched = kept().next().is_some() && kept().all(|of| of.tree_unwatched);
        (is_unwatched || !files.is_empty())
            .then(|| Reason::new(RuleId::TreeFiles, Facts::TreeFiles { arm, files }))
    })
}
