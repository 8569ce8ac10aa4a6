//! What gets a line of its own in a viewer, numbered as it is first drawn on.
use std::collections::HashMap;

/// A line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Plot {
    /// Of a process too.
    Track(u32),
    /// What the locks of a file are below.
    Locks(u32),
    /// What the greenlets and tasks of a thread are below.
    Tasks(u32),
    Lock {
        lock: u32,
        lane: u32,
    },
    Length(u32),
    Counter {
        file: u32,
        name: u32,
    },
    Job {
        file: u32,
        name: u32,
        lane: u32,
    },
}

/// Numbers from `first` on.
#[derive(Debug)]
pub(super) struct Plots {
    next: u64,
    tracks: Vec<u64>,
    others: HashMap<Plot, u64>,
}

impl Plots {
    pub fn new(tracks: usize, first: u64) -> Self {
        Self { next: first, tracks: vec![0; tracks], others: HashMap::new() }
    }

    /// Its number, and whether it is new.
    pub fn number(&mut self, plot: Plot) -> (u64, bool) {
        let place = match plot {
            Plot::Track(track) => &mut self.tracks[track as usize],
            other => self.others.entry(other).or_insert(0),
        };
        let new = *place == 0;
        if new {
            *place = self.next;
            self.next += 1;
        }
        (*place, new)
    }
}
