//! One block: a launch of each arm in every configuration, less those that are there already.

use super::host::{Configuration, Follower, Host};
use super::launching::Launching;
use super::order;
use client::load;
use verdict::plan::Plan;
use verdict::record::{Arm, Launch};

/// What stays the same for all blocks of a session.
pub struct Protocol<'a> {
    pub plan: &'a Plan,
    pub seed: u64,
    /// Both arms, or head alone.
    pub arms: &'a [Arm],
    pub clock: &'a load::SessionClock,
}

impl Protocol<'_> {
    /// Measures what `done` lacks of one block and appends it. The follower is told of each launch before
    /// the next begins. An engine that fails does not end the block: whether the other arm fails too
    /// decides who is to blame.
    pub async fn block<H: Host>(
        &self,
        block: u32,
        host: &mut H,
        done: &mut Vec<Launch>,
        follower: &dyn Follower<Error = H::Error>,
    ) -> Result<(), H::Error> {
        for configuration in &self.configurations() {
            for arm in order::arms(self.seed, block, self.arms) {
                let is_this =
                    |l: &Launch| l.block == block && l.arm == arm && configuration.is_of(l);
                if done.iter().any(is_this) {
                    continue;
                }
                let launching = Launching {
                    protocol: self,
                    configuration,
                    done: done.as_slice(),
                    follower,
                };
                let launch = launching.run(block, arm, host).await?;
                follower.finished(&launch)?;
                done.push(launch);
            }
        }
        Ok(())
    }

    /// The distinct engine configurations: gates that want the same one share launches.
    fn configurations(&self) -> Vec<Configuration> {
        let mut distinct = Vec::new();
        for gate in &self.plan.gates {
            let configuration = Configuration {
                args: gate.engine_args.clone(),
                page_cache: gate.page_cache,
            };
            if !distinct.contains(&configuration) {
                distinct.push(configuration);
            }
        }
        distinct
    }
}
