//! A step of a program.

/// Stands for what was not recorded.
pub const UNKNOWN: u64 = u64::MAX;

/// A step of a program. Times are ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A span begins: its name, and how many items it says to carry (0: it does not say).
    Enter {
        /// Place in [`Model::names`].
        name: u32,
        /// Of a call that carries several.
        items: u32,
    },
    /// The span that was entered last ends.
    Leave,
    /// So long, whatever else happens.
    Delay(u64),
    /// Sleeps so long, by a timer of a server: it is ready when the server looks at its timers after that.
    Sleep {
        /// Place in [`Model::servers`].
        on: u32,
        /// How long it was to sleep.
        ns: u64,
        /// How much later the server looked, and how long before it had had nothing to do; [`UNKNOWN`] where it had.
        late_ns: u64,
        /// See `late_ns`.
        idle_ns: u64,
    },
    /// A timer of a server's own: it goes on when the server looks at its timers after that.
    Due {
        /// Place in [`Model::servers`].
        on: u32,
        /// In so long.
        ns: u64,
    },
    /// While there are jobs it goes on after its first step, when the server looks at its timers after that.
    Again {
        /// Place in [`Model::servers`].
        on: u32,
        /// In so long.
        ns: u64,
    },
    /// Runs so long on a server, which does nothing else meanwhile. It keeps the server until it waits for something.
    Run {
        /// Place in [`Model::servers`].
        on: u32,
        /// Its own time.
        ns: u64,
        /// Of that time: it computes, and needs the interpreter of the server's process.
        computes: bool,
    },
    /// Computes so long in an interpreter, which one thread has at a time. It keeps the interpreter until it waits for
    /// something, or for as long as others who want it let it.
    Compute {
        /// Place in [`Model::interpreters`].
        on: u32,
        /// CPU time.
        ns: u64,
    },
    /// Lets its interpreter, a place in [`Model::interpreters`], go and asks for it at once, as in a short system call: whoever
    /// waits has it first.
    Yield(u32),
    /// Waits for a lock.
    Acquire {
        /// Place in [`Model::locks`].
        lock: u32,
        /// From its release until who waited had it; [`UNKNOWN`] where it did not wait.
        handover_ns: u64,
        /// So long it would have waited at most; [`UNKNOWN`]: for ever.
        patience_ns: u64,
        /// Of one that many share: it has it alone.
        alone: bool,
    },
    /// Tries a lock, a place in [`Model::locks`]: where that is free it has it, and goes on after the next step that takes it.
    Try(u32),
    /// Gives it back.
    Release(u32),
    /// Waited for a lock in vain.
    GaveUp {
        /// Place in [`Model::locks`].
        lock: u32,
        /// So long.
        ns: u64,
    },
    /// The next step takes a lock, a place in [`Model::locks`]: where it waits for that in vain it goes on after [`Op::Else`].
    If(u32),
    /// Who comes here has done what is done with the lock: it goes on after [`Op::Fi`].
    Else,
    /// Both go on.
    Fi,
    /// Gives an item of its root to a pool, and goes on.
    Send(u32),
    /// Waits for a signal of its root.
    Await {
        /// Number.
        signal: u32,
        /// From the signal until it went on, where it waited.
        latency_ns: u64,
    },
    /// Looks whether a signal of its root was given, and sleeps and looks again until it was.
    Poll {
        /// Number.
        signal: u32,
        /// From one look to the next.
        ns: u64,
    },
    /// Wakes who waits for it, now or later.
    Signal(u32),
    /// A worker takes all that waits in the queue of its item: from here on it does it together.
    Gather,
    /// The next step takes its time for each item that is done together: in the recording they were so many.
    Each(u32),
    /// Makes the greenlet, task or thread of a root, a place in [`Model::roots`], which comes now.
    Spawn(u32),
    /// Waits until the thread of a root that it has made computes: that keeps the interpreter then.
    Meet(u32),
    /// The thread of this root computes: who made it goes on.
    Met,
    /// From here on it counts how late it is: a place in [`Model::branches`].
    Note(u32),
    /// Here it depends on that whether it goes on, or after the next [`Op::Fi`].
    Look {
        /// Place in [`Model::branches`].
        branch: u32,
        /// In the recording it did.
        does: bool,
    },
    /// The job begins here, after what it was let in by.
    Start,
    /// And ends.
    Stop,
}

impl Op {
    /// What it takes by itself.
    pub fn time_ns(&self) -> u64 {
        match *self {
            Self::Delay(ns)
            | Self::Sleep { ns, .. }
            | Self::Run { ns, .. }
            | Self::Compute { ns, .. }
            | Self::GaveUp { ns, .. } => ns,
            _ => 0,
        }
    }

    /// That takes this part of its time.
    pub fn stretch(&mut self, factor: f64) {
        if let Self::Delay(ns) | Self::Sleep { ns, .. } | Self::Run { ns, .. } | Self::Compute { ns, .. } =
            self
        {
            *ns = (*ns as f64 * factor) as u64;
        }
    }
}
