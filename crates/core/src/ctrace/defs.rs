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
/// Of locks' numbers, the last ones stand for places where locks are made, for locks beyond the others.
const PLACE_LOCKS: u32 = 1 << 16;
/// The last one that stands for one lock.
const LAST_LOCK: u32 = MOST_IDS - PLACE_LOCKS;
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
    /// 0 of one that is new.
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
    /// Locks with a number from `LAST_LOCK` on, by kind, name and site.
    places: HashMap<(u32, u32, u32), u32>,
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

    /// To be written before the events that follow; its number, which is a new one where that is 0. A service that makes
    /// locks for each request comes to the end of them after hours: locks of one kind that are made at one place share
    /// one number from there on, and what is made at still more places the last one, which is never told.
    pub fn lock(&mut self, lock: Lock) -> u32 {
        let place = (lock.kind, lock.name, lock.site);
        let id = match (lock.id, self.places.get(&place)) {
            (0, _) if self.locks < LAST_LOCK => {
                self.locks += 1;
                self.locks
            }
            (0, Some(&shared)) => shared,
            (0, None) if self.places.len() < PLACE_LOCKS as usize - 1 => {
                let shared = LAST_LOCK + 1 + self.places.len() as u32;
                self.places.insert(place, shared);
                shared
            }
            (0, None) => MOST_IDS,
            (id, _) => id,
        };
        // What is found out of one of many later is not said of all.
        if id <= LAST_LOCK || self.places.get(&place) == Some(&id) {
            self.pending.locks.push(Lock { id, ..lock });
        }
        id
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
    fn locks_beyond_the_last_number_share_one_by_their_place() {
        let at = |site, id| Lock { id, kind: 1, name: 2, site, shared: 0 };
        let mut all = Definitions { locks: LAST_LOCK - 1, ..Definitions::default() };
        let own = all.lock(at(7, 0));
        assert_eq!((own, all.lock(at(7, own))), (LAST_LOCK, LAST_LOCK));
        let (here, there) = (all.lock(at(7, 0)), all.lock(at(8, 0)));
        assert_eq!((here, there, all.lock(at(7, 0))), (LAST_LOCK + 1, LAST_LOCK + 2, here));
        all.take();
        // One that was nameless when it got its number: its name is not that of the others.
        assert_eq!(all.lock(Lock { name: 3, ..at(8, there) }), there);
        assert!(all.take().is_empty());
        all.begin();
        assert_eq!(all.lock(at(8, there)), there);
        assert_eq!(all.take().locks, [at(8, there)]);
    }

    #[test]
    fn places_of_locks_have_an_end_too() {
        let mut all = Definitions { locks: LAST_LOCK, ..Definitions::default() };
        let ids =
            (0..PLACE_LOCKS + 2).map(|site| all.lock(Lock { id: 0, kind: 1, name: 0, site, shared: 0 }));
        assert_eq!(ids.last(), Some(MOST_IDS));
        assert!(all.take().locks.iter().all(|lock| lock.id < MOST_IDS));
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
