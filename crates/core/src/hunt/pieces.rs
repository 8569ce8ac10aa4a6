//! Kinds of time that a walk adds up.
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use crate::ctrace::mixed::Mixed;

/// What a piece of time was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Why {
    /// Something ran.
    Running,
    /// Waited for a lock.
    Lock,
    /// Waited at a queue.
    Queue,
    /// Waited for the answer to a call.
    Reply,
    /// Waited for a condition.
    Condition,
    /// Waited for what the interpreter has one of.
    Gil,
    /// Another ran on the thread.
    Suspended,
    /// Ready, and without a CPU.
    Cpu,
    /// An item waited for a worker.
    Pool,
    /// Waited in a system call for a file, a socket or a child.
    Io,
    /// Waited in a system call for time to pass.
    Sleep,
    /// Off the CPU, not ready to run, for something that is not on record.
    Blocked,
}

impl Why {
    /// In a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Lock => "lock",
            Self::Queue => "queue",
            Self::Reply => "reply",
            Self::Condition => "condition",
            Self::Gil => "gil",
            Self::Suspended => "suspended",
            Self::Cpu => "cpu",
            Self::Pool => "pool",
            Self::Io => "io",
            Self::Sleep => "sleep",
            Self::Blocked => "blocked",
        }
    }
}

/// What was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Nothing.
    None,
    /// A lock, call or the like, by its name.
    Name(u32),
    /// A pool, by its number.
    Pool(u32),
}

impl Resource {
    const fn number(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Name(name) => 2 * name + 1,
            Self::Pool(pool) => 2 * pool + 2,
        }
    }
}

/// Pieces of time that are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    /// What it was.
    pub why: Why,
    /// The innermost span; 0 for none.
    pub part: u32,
    /// What was waited for: in a walk that follows waits, the last wait that led here.
    pub resource: Resource,
    /// In a walk that follows waits, the first wait that led here.
    pub through: Resource,
    /// The file of the process it was in.
    pub file: u32,
}

/// As few numbers as say it: this is what a walk does most.
impl Hash for Piece {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u32(self.why as u32 + 16 * self.file);
        hasher.write_u32(self.part);
        hasher.write_u32(self.resource.number());
        hasher.write_u32(self.through.number());
    }
}

/// Times of pieces.
pub type Pieces = HashMap<Piece, u64, Mixed>;
