//! Which processes may have begun since the call before, without listing all of /proc.
//!
//! The kernel hands out process ids in turn (kernel/pid.c, alloc_pid) and says the last one in /proc/loadavg. So what
//! began since has a number in between. Whoever chooses a number (clone3 with set_tid, as CRIU does) is found by the
//! next full list.
use std::io;

use contend_core::procfile::ProcFile;

use super::numbered::Numbered;

/// Calls between two full lists.
const FULL_EVERY: u64 = 32;

/// Numbers tried for each process of the last full list; a full list is cheaper from there on.
const TRIES: usize = 2;

/// The last ids handed out, and the list of all.
#[derive(Debug)]
pub struct Newcomers {
    proc: Numbered,
    loadavg: ProcFile,
    /// Last id as of the call before, and of the one before that: a process that was being made then has only its
    /// number, and can be seen later.
    last: Option<u32>,
    last_but_one: Option<u32>,
    calls: u64,
    listed: usize,
}

impl Newcomers {
    /// Nothing is listed yet.
    pub fn open() -> io::Result<Self> {
        let (proc, loadavg) = (Numbered::proc()?, ProcFile::open("/proc/loadavg")?);
        Ok(Self { proc, loadavg, last: None, last_but_one: None, calls: 0, listed: 0 })
    }

    /// Numbers of all processes that began since the call before, among others that need not be any.
    pub fn list(&mut self, found: &mut Vec<u32>) -> io::Result<()> {
        let mut text = [0; 128];
        let now = self.loadavg.read_short(&mut text).ok().and_then(last_pid);
        let since = std::mem::replace(&mut self.last_but_one, std::mem::replace(&mut self.last, now));
        let full = self.calls % FULL_EVERY == 0;
        self.calls += 1;
        match (since, now) {
            // Beyond the highest number it starts anew: then the range is empty the other way round.
            (Some(since), Some(now))
                if !full && since <= now && ((now - since) as usize) < TRIES * self.listed =>
            {
                found.clear();
                found.extend(since + 1..=now);
            }
            _ => {
                self.proc.list(found)?;
                self.listed = found.len();
            }
        }
        Ok(())
    }
}

/// The last word of /proc/loadavg (fs/proc/loadavg.c).
fn last_pid(text: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(text).ok()?;
    text.split_ascii_whitespace().nth(4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_child_by_the_list_and_another_by_its_number() {
        let child = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut newcomers = Newcomers::open().unwrap();
        let mut found = Vec::new();
        let mut children = Vec::new();
        for _ in 0..4 {
            children.push(child());
            newcomers.list(&mut found).unwrap();
            assert!(found.contains(&children.last().unwrap().id()));
        }
        newcomers.listed = usize::MAX / TRIES; // however many others began
        newcomers.list(&mut found).unwrap();
        assert!(found.iter().all(|pid| *pid > children[2].id()));
        assert!(found.contains(&children[3].id()));
        for mut child in children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn the_last_word() {
        assert_eq!(last_pid(b"0.20 0.18 0.12 1/80 11206\n"), Some(11206));
        assert_eq!((last_pid(b"0.20 0.18 0.12 1/80\n"), last_pid(b"")), (None, None));
    }
}
