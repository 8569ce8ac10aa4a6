//! Which groups began after the recording did: all that such a group has counted is new.
//!
//! kernfs numbers its nodes in the order in which they are made, and never uses a number again (fs/kernfs/dir.c,
//! __kernfs_new_node). So whatever has a number above the highest that there was is younger.
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The highest number in each hierarchy when the recording began, by where it is mounted.
#[derive(Debug, Default)]
pub struct Births {
    marks: Vec<(PathBuf, u64)>,
}

impl Births {
    /// Nothing that is there now was born later.
    pub fn begin<'a>(mounted: impl Iterator<Item = &'a Path>) -> Self {
        Self { marks: mounted.map(|directory| (directory.to_owned(), highest(directory))).collect() }
    }

    /// Whether a group's directory was made since.
    pub fn is_after(&self, directory: &Path) -> bool {
        let mark = self.marks.iter().find(|(mounted, _)| directory.starts_with(mounted));
        let number = fs::metadata(directory).map(|found| found.ino());
        mark.zip(number.ok()).is_some_and(|((_, mark), number)| number > *mark)
    }
}

/// Of all nodes below a directory, which the listing tells without looking at each.
fn highest(mounted: &Path) -> u64 {
    let mut most = 0;
    let mut open = vec![mounted.to_owned()];
    while let Some(directory) = open.pop() {
        // A group may be removed meanwhile.
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            most = most.max(entry.ino());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_when_it_begins_is_not_younger() {
        let here = std::env::temp_dir();
        let births = Births { marks: vec![(here.clone(), 0)] };
        assert!(births.is_after(&here) && !births.is_after(Path::new("/")));
        assert!(
            !Births::begin([Path::new("/sys/fs/cgroup")].into_iter()).is_after(Path::new("/sys/fs/cgroup"))
        );
        assert!(highest(Path::new("/sys/fs/cgroup")) > 0);
        assert!(!Births::begin([here.as_path()].into_iter()).is_after(Path::new("/not/there")));
    }
}
