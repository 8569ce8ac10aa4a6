//! What ids mean: strings, tracks and locks, on their way into the file.
use std::collections::HashMap;
use std::mem::take;
use std::sync::Arc;

use super::format::MOST_IDS;

/// Names are kept for the life of the process, so that a later session can tell them again; a service that makes up
/// names without end gets `TOO_MANY` for those beyond.
pub const MOST_NAMES: usize = 1 << 20;
/// Stands for names beyond `MOST_NAMES`.
pub const TOO_MANY: &str = "(too many names)";
/// Values of arguments are remembered so long only, to write an often repeated one once.
const MOST_VALUES: usize = 1 << 14;
/// Of texts that wait to be written; what comes beyond is not taken.
const MOST_PENDING_BYTES: usize = 16 << 20;

/// A track: what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Track {
    /// Not 0.
    pub id: u32,
    /// As in [`super::format::track`].
    pub kind: u32,
    /// The track that it runs on, 0 none.
    pub parent: u32,
    /// A string.
    pub name: u32,
    /// Of its thread, 0 unknown.
    pub tid: u64,
}

/// A lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    /// Not 0.
    pub id: u32,
    /// As in [`super::format::lock`].
    pub kind: u32,
    /// A string, 0 none.
    pub name: u32,
    /// A string `file:line`, 0 unknown.
    pub site: u32,
    /// The same in every process that knows this lock, 0 of this process alone.
    pub shared: u64,
}

/// What the writer takes at once.
#[derive(Debug, Default)]
pub struct Pending {
    /// Ids and texts.
    pub strings: Vec<(u32, Arc<str>)>,
    /// New ones.
    pub tracks: Vec<Track>,
    /// New ones.
    pub locks: Vec<Lock>,
}

impl Pending {
    /// Nothing to write.
    pub fn is_empty(&self) -> bool {
        self.strings.is_empty() && self.tracks.is_empty() && self.locks.is_empty()
    }
}

/// All ids of this process. They are never given twice, so that an id that outlives a session is at worst unknown.
#[derive(Debug, Default)]
pub struct Definitions {
    ids: HashMap<Arc<str>, u32>,
    names: Vec<(u32, Arc<str>)>,
    values: HashMap<Arc<str>, u32>,
    strings: u32,
    tracks: u32,
    locks: u32,
    pending: Pending,
    pending_bytes: usize,
}

impl Definitions {
    /// Id of a name, for events and definitions.
    pub fn name(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        if self.names.len() >= MOST_NAMES && text != TOO_MANY {
            return self.name(TOO_MANY);
        }
        // Names are numbered below 2^24, as the id of an event; values of arguments from there on.
        let id = self.names.len() as u32 + 1;
        let text: Arc<str> = text.into();
        self.ids.insert(Arc::clone(&text), id);
        self.names.push((id, Arc::clone(&text)));
        self.pending_bytes += text.len();
        self.pending.strings.push((id, text));
        id
    }

    /// Id of the text of an argument; None if too much waits to be written.
    pub fn value(&mut self, text: &str) -> Option<u32> {
        if let Some(&id) = self.values.get(text) {
            return Some(id);
        }
        if self.pending_bytes + text.len() > MOST_PENDING_BYTES {
            return None;
        }
        let id = MOST_IDS.checked_add(1)?.checked_add(self.strings)?;
        self.strings += 1;
        let text: Arc<str> = text.into();
        if self.values.len() >= MOST_VALUES {
            self.values.clear();
        }
        self.values.insert(Arc::clone(&text), id);
        self.pending_bytes += text.len();
        self.pending.strings.push((id, text));
        Some(id)
    }

    /// A number for a track that is about to be defined.
    pub fn new_track(&mut self) -> u32 {
        self.tracks += 1;
        self.tracks
    }

    /// To be written before the events that follow. One that is defined again, as when its name has become known, is
    /// as it was defined last.
    pub fn track(&mut self, track: Track) {
        self.pending.tracks.push(track);
    }

    /// A number for a lock. The last one stands for all beyond it.
    pub fn new_lock(&mut self) -> u32 {
        self.locks = (self.locks + 1).min(MOST_IDS);
        self.locks
    }

    /// To be written before the events that follow.
    pub fn lock(&mut self, lock: Lock) {
        self.pending.locks.push(lock);
    }

    /// A file begins: every name is told again, and nothing else.
    pub fn begin(&mut self) {
        self.values.clear();
        self.pending = Pending { strings: self.names.clone(), ..Pending::default() };
        self.pending_bytes = 0;
    }

    /// What has come since the last time.
    pub fn take(&mut self) -> Pending {
        self.pending_bytes = 0;
        take(&mut self.pending)
    }

    /// Much waits to be written.
    pub fn is_full(&self) -> bool {
        self.pending_bytes > MOST_PENDING_BYTES / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_once_a_file() {
        let mut all = Definitions::default();
        let (a, b) = (all.name("a"), all.name("b"));
        assert_eq!((a, b, all.name("a")), (1, 2, 1));
        assert_eq!(all.take().strings, [(1, "a".into()), (2, "b".into())]);
        assert!(all.take().is_empty());
        all.begin();
        assert_eq!(all.take().strings.len(), 2);
    }

    #[test]
    fn a_value_is_told_again_in_the_next_file_and_never_has_the_id_of_a_name() {
        let mut all = Definitions::default();
        let first = all.value("v").unwrap();
        assert!(first > MOST_IDS);
        assert_eq!(all.value("v"), Some(first));
        all.begin();
        assert_ne!(all.value("v"), Some(first));
    }

    #[test]
    fn waiting_texts_are_bounded() {
        let mut all = Definitions::default();
        let long = "x".repeat(1 << 20);
        let taken = (0..64).filter(|number| all.value(&format!("{number}{long}")).is_some()).count();
        assert_eq!(taken, 15);
        assert!(all.is_full());
        all.take();
        assert!(all.value("more").is_some() && !all.is_full());
    }
}
