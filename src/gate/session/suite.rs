//! One run of the project's own tests as the record keeps it.

use super::Error;
use super::host::ArmHost;
use crate::import;
use crate::launch::{Repository, SuiteJob, Tested, TestedEnd};
use crate::measure::Started;
use verdict::plan::{Suite, Workload};
use verdict::record::{Arm, Build, Launch, SuiteEnding, SuiteRun};

impl ArmHost<'_> {
    /// Runs the suite in the tree of the launch's arm.
    pub async fn test(
        &self,
        launch: &Launch,
        started: &Started,
        workload: &Workload,
        suite: &Suite,
    ) -> Result<SuiteRun, Error> {
        let arm = launch.arm;
        let log = format!(
            "logs/tests-{:03}-{}-{}.log",
            launch.position,
            arm.name(),
            launch.suites.len()
        );
        let repository = self
            .commit(arm)
            .map(|commit| Ok::<_, Error>((Repository::open(self.root)?, commit)));
        let repository = repository.transpose()?;
        let job = SuiteJob {
            suite,
            commit: repository
                .as_ref()
                .map(|(repository, commit)| (repository, *commit)),
            artifact: self.arms.artifact(arm),
            port: started.endpoint.address.port(),
            log: &self.out.join(&log),
        };
        let begun_ns = self.clock.now_ns();
        let tested = self.workspace.test(&job).await?;
        let ended_ns = self.clock.now_ns();
        let mut run = SuiteRun {
            workload: workload.id.clone(),
            begun_ns,
            ended_ns,
            ending: ending(&tested, suite),
            log,
            log_tail: String::new(),
            tests: Vec::new(),
            unread: None,
        };
        if run.ending != SuiteEnding::Succeeded {
            run.log_tail = tested.log_tail;
        }
        match tested
            .report
            .map(|report| report.and_then(|text| import::junit(&text)))
        {
            None => {}
            Some(Ok(tests)) => run.tests = tests,
            Some(Err(why)) => run.unread = Some(why),
        }
        Ok(run)
    }

    /// The commit that the arm was built from; `None`: it is the working tree.
    fn commit(&self, arm: Arm) -> Option<&str> {
        let build = Build::of(&self.arms.builds, arm)?;
        let is_tree = arm == Arm::Head && !self.arms.is_head_a_commit;
        match self.engine.build.is_none() || build.dirty || is_tree {
            true => None,
            false => build.commit.as_deref(),
        }
    }
}

fn ending(tested: &Tested, suite: &Suite) -> SuiteEnding {
    match &tested.end {
        TestedEnd::Exited(status) if status.success() => SuiteEnding::Succeeded,
        TestedEnd::Exited(status) => SuiteEnding::Failed {
            status: status.to_string(),
        },
        TestedEnd::TimedOut => SuiteEnding::TimedOut {
            limit_s: suite.timeout.as_secs_f64(),
        },
        TestedEnd::NotStarted(detail) => SuiteEnding::NotStarted {
            detail: detail.clone(),
        },
    }
}
