//! The session's launches as blocks, and the looks at which they are judged.
//!
//! Main type: [`Scope`], what is known of the session as a whole up to the end of a block. It takes in one
//! block after the other, so that a session's blocks are read once however often it is judged.

use crate::record::{Arm, Launch, RunRecord};

/// One of each for base and head.
#[derive(Debug, Default)]
pub struct PerArm<T> {
    base: T,
    head: T,
}

impl<T> PerArm<T> {
    pub fn of(&self, arm: Arm) -> &T {
        match arm {
            Arm::Base => &self.base,
            Arm::Head => &self.head,
        }
    }

    pub fn of_mut(&mut self, arm: Arm) -> &mut T {
        match arm {
            Arm::Base => &mut self.base,
            Arm::Head => &mut self.head,
        }
    }
}

/// Launches in order of execution, block by block.
pub struct Session<'a> {
    launches: Vec<&'a Launch>,
    arms: &'static [Arm],
}

impl<'a> Session<'a> {
    pub fn new(record: &'a RunRecord) -> Self {
        let mut launches: Vec<&Launch> = record.launches.iter().collect();
        launches.sort_by_key(|l| (l.block, l.position));
        Self {
            launches,
            arms: record.comparison.arms(),
        }
    }

    pub fn launches(&self) -> impl Iterator<Item = &'a Launch> {
        self.launches.iter().copied()
    }

    pub fn blocks(&self) -> impl Iterator<Item = Block<'_, 'a>> {
        let blocks = self.launches.chunk_by(|a, b| a.block == b.block);
        blocks.map(|launches| Block::new(launches, self.arms))
    }
}

/// The launches of one block.
pub struct Block<'s, 'a> {
    pub launches: &'s [&'a Launch],
    /// The machine throttled in one of them.
    pub is_throttled: bool,
    /// It holds clean, unthrottled launches of every arm and no others.
    pub is_sound: bool,
}

impl<'s, 'a> Block<'s, 'a> {
    /// Base's clean launch of the same kind, where this one is head's: it was sent the same prompts.
    pub fn base_of(&self, launch: &Launch) -> Option<&'a Launch> {
        base_of(self.launches, launch)
    }

    fn new(launches: &'s [&'a Launch], arms: &[Arm]) -> Self {
        let is_throttled = launches.iter().any(|l| l.is_throttled());
        let is_clean = launches.iter().all(|l| l.exit.is_clean());
        let is_whole = || {
            arms.iter()
                .all(|&arm| launches.iter().any(|l| l.arm == arm))
        };
        Self {
            launches,
            is_throttled,
            is_sound: is_clean && !is_throttled && is_whole(),
        }
    }
}

/// Base's clean launch of the same block and kind, where `launch` is head's.
pub fn base_of<'a>(launches: &[&'a Launch], launch: &Launch) -> Option<&'a Launch> {
    let is_twin = |other: &&&Launch| {
        let of_block = other.arm == Arm::Base && other.block == launch.block;
        let is_heads = launch.arm == Arm::Head;
        is_heads && of_block && other.is_alike(launch) && other.exit.is_clean()
    };
    launches.iter().find(is_twin).copied()
}

/// What the judge knows of the whole session: up to the end of a block, or as it stands.
pub struct Scope<'a> {
    looks: &'a [u32],
    pub blocks: usize,
    pub launches: u32,
    /// Blocks that were dropped since the machine throttled.
    pub dropped: usize,
    /// Launches in which it did.
    pub throttled: PerArm<usize>,
    /// The longest run of launches of one arm; of several the last.
    pub longest: Run,
    run: Run,
    /// All sound blocks so far.
    pub sound: u32,
    /// Number of the latest look's blocks; 0 before the first.
    pub looked: u32,
    /// The last block of this scope brought that look.
    pub is_look: bool,
    /// The next look, if there is one.
    pub next: Option<u32>,
    /// Nothing more was measured.
    pub is_end: bool,
}

/// Launches of one arm in a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    pub arm: Option<Arm>,
    pub launches: usize,
    /// Position of the first.
    pub from: u32,
}

impl<'a> Scope<'a> {
    /// Before the first block.
    pub fn new(looks: &'a [u32]) -> Self {
        Self {
            looks,
            blocks: 0,
            launches: 0,
            dropped: 0,
            throttled: PerArm::default(),
            longest: Run::default(),
            run: Run::default(),
            sound: 0,
            looked: 0,
            is_look: false,
            next: looks.iter().copied().find(|&look| look > 0),
            is_end: false,
        }
    }

    pub fn take(&mut self, block: &Block<'_, '_>) {
        self.blocks += 1;
        self.dropped += usize::from(block.is_throttled);
        for launch in block.launches {
            self.launches += 1;
            *self.throttled.of_mut(launch.arm) += usize::from(launch.is_throttled());
            self.extend_run(launch);
        }
        self.sound += u32::from(block.is_sound);
        // Sound blocks come one at a time, so none of the looks is passed over.
        self.is_look = block.is_sound && self.next == Some(self.sound);
        if self.is_look {
            self.looked = self.sound;
            let looked = self.looked;
            self.next = self.looks.iter().copied().find(|&look| look > looked);
        }
    }

    fn extend_run(&mut self, launch: &Launch) {
        if self.run.arm == Some(launch.arm) {
            self.run.launches += 1;
        } else {
            self.run = Run {
                arm: Some(launch.arm),
                launches: 1,
                from: launch.position,
            };
        }
        if self.run.launches >= self.longest.launches {
            self.longest = self.run;
        }
    }
}
