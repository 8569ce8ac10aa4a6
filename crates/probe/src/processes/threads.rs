//! How long each thread has run since the pass before.

/// By thread id: as an array, because ids are small and dense, and a look-up for each of thousands of threads counts.
#[derive(Debug, Default)]
pub struct Threads {
    known: Vec<Thread>,
    pass: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    exec_ns: u64,
    tgid: u32,
    /// It was last seen in.
    pass: u32,
}

impl Threads {
    /// Another pass over all threads.
    pub fn begin(&mut self) {
        self.pass = self.pass.wrapping_add(1);
    }

    /// By how much the time on a CPU of a living thread grew since the pass before; all of it for one that is new, but
    /// in the very first pass.
    pub fn ran(&mut self, tid: u32, tgid: u32, exec_ns: u64) -> u64 {
        let ran_ns = self.ended(tid, tgid, exec_ns);
        let at = tid as usize;
        if at >= self.known.len() {
            self.known.resize((at + 1).next_power_of_two(), Thread::default());
        }
        self.known[at] = Thread { exec_ns, tgid, pass: self.pass };
        ran_ns
    }

    /// A living thread that has not run since the pass before.
    pub fn slept(&mut self, tid: u32) {
        if let Some(thread) = self.known.get_mut(tid as usize) {
            thread.pass = self.pass;
        }
    }

    /// Another thread has its id now.
    pub fn forget(&mut self, tid: u32) {
        if let Some(thread) = self.known.get_mut(tid as usize) {
            *thread = Thread::default();
        }
    }

    /// The same as [`Self::ran`] of one that has ended.
    pub fn ended(&self, tid: u32, tgid: u32, exec_ns: u64) -> u64 {
        if self.pass == 1 {
            return 0;
        }
        match self.known.get(tid as usize) {
            // Seen in the pass before, so it is the same one and not another of the same id.
            Some(before) if before.tgid == tgid && before.pass.wrapping_add(1) == self.pass => {
                exec_ns.saturating_sub(before.exec_ns)
            }
            _ => exec_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_from_the_pass_before_and_new_ones_from_their_begin() {
        let mut threads = Threads::default();
        threads.begin();
        assert_eq!(threads.ran(10, 10, 500), 0);
        threads.begin();
        assert_eq!((threads.ran(10, 10, 700), threads.ran(11, 10, 40)), (200, 40));
        threads.begin();
        assert_eq!((threads.ended(11, 10, 45), threads.ran(10, 10, 700)), (5, 0));
        threads.begin();
        assert_eq!(threads.ran(11, 11, 46), 46); // another of the same id
    }
}
