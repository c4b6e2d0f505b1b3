//! Rule `shared-files`: both arms may run what lies in the working tree.

use super::super::view::View;
use crate::record::{Arm, Facts, Reason, RuleId};

/// The engines of all launches of both arms read the same file of the working tree, which differs between base and head: so
/// one of them runs the other's. Read once by chance, as by an editor, it is not.
pub fn shared_files(view: &View<'_, '_>) -> Option<Reason> {
    if !view.arms().contains(&Arm::Base) {
        return None;
    }
    let launches = |arm| view.of(arm).kept.iter().map(|kept| kept.launch);
    let mut all = Arm::BOTH.into_iter().flat_map(launches);
    let mut files = all.next()?.startup.tree_files.clone();
    all.for_each(|launch| files.retain(|file| launch.startup.tree_files.contains(file)));
    (!files.is_empty()).then(|| Reason::new(RuleId::SharedFiles, Facts::SharedFiles { files }))
}
