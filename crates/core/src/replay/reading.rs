//! How a storm is read: what is recognised in its trace, and so replayed as what it is.
use crate::Error;

/// A kind of thing that is recognised. Without one, what it stands for is replayed as recorded, and the gate has to say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recogniser {
    /// Queues that lend what is in them are semaphores.
    Stores,
    /// Conditions that let in so many at a time are semaphores; those that let in many who share, or one alone, are such locks.
    Guards,
    /// Jobs are let in when others end.
    Gates,
    /// Jobs are let in by a lock that is held around them.
    Doors,
    /// Jobs are what workers take from a queue.
    Orders,
    /// Queues that give out last what came in first.
    Stacks,
    /// Workers of a pool are taken by one item at a time.
    Pools,
    /// What ended a wait, and so what is waited for.
    Answers,
    /// Tasks and greenlets take turns.
    Turns,
    /// Locks that are asked for by calls.
    Ways,
    /// Semaphores let in more than one.
    Semaphores,
    /// Locks that are tried again after a sleep.
    Tries,
    /// Workers do together what waits for them.
    Batches,
    /// Who sleeps and looks again, looks whether what it gave to others is done.
    Polls,
    /// What is done where a lock was waited for in vain.
    Fallbacks,
    /// Which items a priority queue gives out before which.
    Ranks,
}

impl Recogniser {
    /// All of them, with their names.
    pub const ALL: [(Self, &'static str); 16] = [
        (Self::Stores, "stores"),
        (Self::Guards, "guards"),
        (Self::Gates, "gates"),
        (Self::Doors, "doors"),
        (Self::Orders, "orders"),
        (Self::Stacks, "stacks"),
        (Self::Pools, "pools"),
        (Self::Answers, "answers"),
        (Self::Turns, "turns"),
        (Self::Ways, "ways"),
        (Self::Semaphores, "semaphores"),
        (Self::Tries, "tries"),
        (Self::Batches, "batches"),
        (Self::Polls, "polls"),
        (Self::Fallbacks, "fallbacks"),
        (Self::Ranks, "ranks"),
    ];
}

impl std::str::FromStr for Recogniser {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|(_, of)| *of == name).map(|(one, _)| one);
        let all = Self::ALL.map(|(_, name)| name).join(", ");
        found.ok_or_else(|| {
            Error::invalid(format!("no recogniser is called '{name}'"), format!("one of: {all}"))
        })
    }
}

/// What becomes of waits for the interpreter's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InterpreterWaits {
    /// They are replayed as recorded.
    #[default]
    Recorded,
    /// They are simulated, where they and CPU times are on record; elsewhere replayed as recorded.
    Simulated,
    /// There are none: to see what depends on them.
    LeftOut,
}

impl std::str::FromStr for InterpreterWaits {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "recorded" => Ok(Self::Recorded),
            "simulated" => Ok(Self::Simulated),
            "left out" => Ok(Self::LeftOut),
            _ => Err(Error::invalid(
                format!("waits for the interpreter's lock cannot be '{name}'"),
                "recorded, simulated or left out",
            )),
        }
    }
}

/// A condition that lets in so many at a time, or many who share or one alone, as it was learnt from a storm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// Of the condition.
    pub name: String,
    /// `file:line`.
    pub site: String,
    /// At a time; many who share, or one alone, where there is no such number.
    pub most: Option<u32>,
}

/// How a storm is read.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// What becomes of waits for the interpreter's lock.
    pub interpreter: InterpreterWaits,
    /// What is not recognised: to see that without it an answer is refused, and not wrong.
    pub without: Vec<Recogniser>,
    /// Learnt from other storms of the same program: here fewer waits need to say so.
    pub guards: Vec<Guard>,
}

impl Reading {
    /// Whether that is recognised.
    pub fn knows(&self, recogniser: Recogniser) -> bool {
        !self.without.contains(&recogniser)
    }
}
