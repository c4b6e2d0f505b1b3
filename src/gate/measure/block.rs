//! One block: a launch of each arm in every configuration, less those that are there already.

use super::host::{Configuration, Follower, Host};
use super::launching::{Launching, Protocol};
use super::order;
use verdict::record::{Arm, Interleave, Launch};

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
        let order = order::arms(self.seed, block, self.arms);
        for configuration in &self.configurations() {
            let mut missing = missing(&order, block, configuration, done);
            let takes_turns = configuration.takes_turns(self.arms);
            if takes_turns && missing.len() == 1 {
                // The session was cut off between the two. Alone, the other would be measured in another way.
                done.retain(|launch| launch.block != block || !configuration.is_of(launch));
                missing.clone_from(&order);
            }
            let together = if takes_turns { missing.len().max(1) } else { 1 };
            for arms in missing.chunks(together) {
                let launching = Launching {
                    protocol: self,
                    configuration,
                    done: done.as_slice(),
                    follower,
                };
                let launches = launching.run(block, arms, host).await?;
                for launch in &launches {
                    follower.finished(launch)?;
                }
                done.extend(launches);
            }
        }
        Ok(())
    }

    /// The distinct engine configurations: gates that want the same one share launches.
    fn configurations(&self) -> Vec<Configuration> {
        let mut distinct = Vec::new();
        for gate in &self.plan.gates {
            let configuration = Configuration::of(gate);
            if !distinct.contains(&configuration) {
                distinct.push(configuration);
            }
        }
        distinct
    }
}

impl Configuration {
    fn takes_turns(&self, arms: &[Arm]) -> bool {
        self.interleave == Interleave::Requests && arms.len() > 1
    }
}

/// The arms, in their order, of which the block lacks a launch.
fn missing(order: &[Arm], block: u32, configuration: &Configuration, done: &[Launch]) -> Vec<Arm> {
    let is_there = |arm: Arm| {
        let is_this = |l: &Launch| l.block == block && l.arm == arm && configuration.is_of(l);
        done.iter().any(is_this)
    };
    order
        .iter()
        .copied()
        .filter(|&arm| !is_there(arm))
        .collect()
}
