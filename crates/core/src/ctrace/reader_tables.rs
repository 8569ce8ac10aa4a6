//! What ids stand for: names, tracks, locks and rings of all files of a trace in common tables.
use std::collections::HashMap;
use std::sync::Arc;

use super::format::lock;

const PAGE: usize = 1 << 10;

/// From a file's ids to places in a table; at most 32 MiB and the pages that are used, whatever ids a file names.
#[derive(Debug, Default)]
pub struct Ids(Vec<Option<Box<[u32; PAGE]>>>);

impl Ids {
    /// The place of that id.
    pub fn get(&self, id: u32) -> Option<u32> {
        let page = self.0.get(id as usize / PAGE)?.as_ref()?;
        page[id as usize % PAGE].checked_sub(1)
    }

    /// From now on.
    pub fn set(&mut self, id: u32, place: u32) {
        if place == u32::MAX {
            return;
        }
        let at = id as usize / PAGE;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at].get_or_insert_with(|| Box::new([0; PAGE]))[id as usize % PAGE] = place + 1;
    }
}

/// From a file's ids of strings to places in a table: names have 24 bits, texts of arguments those above.
#[derive(Debug, Default)]
pub struct Strings {
    names: Ids,
    texts: HashMap<u32, u32>,
}

impl Strings {
    /// The place of that id.
    pub fn get(&self, id: u32) -> Option<u32> {
        if id <= super::format::MOST_IDS { self.names.get(id) } else { self.texts.get(&id).copied() }
    }

    /// From now on.
    pub fn set(&mut self, id: u32, place: u32) {
        if id <= super::format::MOST_IDS {
            self.names.set(id, place);
        } else {
            self.texts.insert(id, place);
        }
    }
}

/// Every text once. Place 0 is the empty text.
#[derive(Debug)]
pub struct Names {
    texts: Vec<Arc<str>>,
    places: HashMap<Arc<str>, u32>,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self { texts: Vec::new(), places: HashMap::new() };
        names.place("");
        names
    }
}

impl Names {
    /// Of that text, from now on.
    pub fn place(&mut self, text: &str) -> u32 {
        if let Some(&place) = self.places.get(text) {
            return place;
        }
        let text: Arc<str> = text.into();
        let place = self.texts.len() as u32;
        self.texts.push(Arc::clone(&text));
        self.places.insert(text, place);
        place
    }

    /// Empty where there is none.
    pub fn text(&self, place: u32) -> &str {
        self.texts.get(place as usize).map_or("", |text| text)
    }

    /// Every text with its place.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|text| &**text)
    }

    /// Shows another text at that place. It is still found by the one that was read.
    pub fn show(&mut self, place: usize, text: &str) {
        if let Some(shown) = self.texts.get_mut(place) {
            *shown = text.into();
        }
    }

    /// Of a text that is there.
    pub fn find(&self, text: &str) -> Option<u32> {
        self.places.get(text).copied()
    }

    /// How many texts.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.texts.len()
    }
}

/// What spans lie on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    /// Position of its file.
    pub file: u32,
    /// As in [`super::format::track`].
    pub kind: u32,
    /// The track it belongs to; none for a process.
    pub parent: Option<u32>,
    /// Never empty.
    pub name: u32,
    /// Of the kernel, 0 where there is none.
    pub tid: u64,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// Position of its file.
    pub file: u32,
    /// As in [`super::format::lock`].
    pub kind: u32,
    /// Never empty.
    pub name: u32,
    /// `file:line`, or empty.
    pub site: u32,
}

impl Lock {
    /// Whether who waits for it waits for a holder; at a condition or queue it is for others to do something.
    pub fn is_held(&self) -> bool {
        self.kind != lock::CONDITION && !lock::is_queue(self.kind)
    }
}

/// The events of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// Position of its file.
    pub file: u32,
    /// The thread's own track.
    pub track: u32,
    /// Where its events lie in the file: offset and count, in order.
    pub pieces: Vec<(u64, u32)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_again_and_others_are_not() {
        let mut ids = Ids::default();
        for (place, id) in [1, 1023, 1024, (1 << 24) - 1, 1 << 24, u32::MAX].into_iter().enumerate() {
            ids.set(id, place as u32);
        }
        assert_eq!(
            [1, 1023, 1024, (1 << 24) - 1, 1 << 24, u32::MAX].map(|id| ids.get(id)),
            [0, 1, 2, 3, 4, 5].map(Some)
        );
        assert_eq!([0, 2, 5000, (1 << 24) + 1, u32::MAX - 1].map(|id| ids.get(id)), [None; 5]);
    }

    #[test]
    fn strings_are_names_and_texts_of_arguments() {
        let mut strings = Strings::default();
        let ids = [1, (1 << 24) - 1, 1 << 24, (1 << 24) + 1, u32::MAX];
        for (place, id) in (0..).zip(ids) {
            strings.set(id, place);
        }
        assert_eq!(ids.map(|id| strings.get(id)), [0, 1, 2, 3, 4].map(Some));
        assert_eq!([0, 2, (1 << 24) + 2].map(|id| strings.get(id)), [None; 3]);
    }

    #[test]
    fn a_text_has_one_place() {
        let mut names = Names::default();
        let (a, b) = (names.place("a"), names.place("b"));
        assert_eq!((names.place("a"), names.text(b), names.text(99), names.len()), (a, "b", "", 3));
        assert_eq!((names.place(""), names.find("b"), names.find("c")), (0, Some(b), None));
    }
}
