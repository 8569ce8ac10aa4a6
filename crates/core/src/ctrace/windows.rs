//! How many spans of each name began in each of several windows of time, by process.
use std::collections::HashMap;

use super::format::Event;
use super::reader::Trace;
use super::spans::{At, Ending, Sink, Title};
use crate::Result;

/// Window, file, name.
pub type Key = (u32, u32, u32);

/// Counts spans by their begin.
pub struct Windows {
    /// From and to, in order; none overlaps another. The end is not in it.
    windows: Vec<(u64, u64)>,
    /// What began in them.
    pub counts: HashMap<Key, u64>,
}

impl Windows {
    /// CLOCK_MONOTONIC, from and to, in the order of time; of two that overlap, the first has what is in both.
    pub fn new(windows: Vec<(u64, u64)>) -> Self {
        Self { windows, counts: HashMap::new() }
    }

    fn at(&self, ns: u64) -> Option<usize> {
        let after = self.windows.partition_point(|&(_, to)| to <= ns);
        self.windows.get(after).filter(|&&(from, _)| from <= ns).map(|_| after)
    }

    /// Rows of window, name, the process's name, its pid as shown, and how many; in an order that does not change.
    pub fn rows(&self, trace: &Trace) -> Vec<[u64; 5]> {
        let mut rows: Vec<_> = self
            .counts
            .iter()
            .map(|(&(window, file, name), &count)| {
                let of = &trace.files[file as usize];
                let process = trace.tracks[of.process as usize].name;
                [window.into(), name.into(), process.into(), of.shown_pid(), count]
            })
            .collect();
        rows.sort_unstable();
        rows
    }
}

impl Sink for Windows {
    fn begin(&mut self, at: At, _: u32, what: Title, _: Option<u32>, _: &[Event]) -> Result<()> {
        if let (Title::Span(name), Some(window)) = (what, self.at(at.ns)) {
            *self.counts.entry((window as u32, at.file, name)).or_default() += 1;
        }
        Ok(())
    }

    fn end(&mut self, _: At, _: u32, _: Title, _: Ending, _: &[Event]) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_holds_its_begin_and_not_its_end() {
        let windows = Windows::new(vec![(10, 20), (20, 30), (40, 50)]);
        let found = [9, 10, 19, 20, 29, 30, 39, 40, 49, 50].map(|ns| windows.at(ns));
        let [one, two, three] = [0, 1, 2].map(Some);
        assert_eq!(found, [None, one, one, two, two, None, None, three, three, None]);
    }
}
