//! What is there of an earlier download, and whether to go on from it.
use std::io::Read as _;

use super::Session;
use crate::pace::SMALL_PIECE;
use crate::part;
use crate::problem::{Problem, Result};
use crate::signals;

impl Session<'_> {
    /// Go on from the part, where that is safe; else start over.
    pub(super) fn take_up(&mut self) -> Result<()> {
        let source = self.source();
        let (anew, checksum) = (self.order.anew, self.order.checksum.clone());
        let Some(part) = self.output.part() else {
            return Ok(());
        };
        if part.length() == 0 {
            return Ok(());
        }
        let state = part.state().filter(|_| !anew).filter(|state| {
            let same = state.source == source;
            match &checksum {
                Some(wanted) => {
                    state.checksum.as_ref() == Some(wanted) || (same && state.checksum.is_none())
                }
                None => same && state.etag.is_some() && state.boot == part::boot(),
            }
        });
        let length = part.length();
        let known = self.order.size.or(state.as_ref().and_then(|s| s.size));
        let Some(state) = state.filter(|_| known.is_none_or(|size| size >= length)) else {
            self.output.restart()?;
            return Ok(());
        };
        if checksum.is_none() && known == Some(length) {
            // All of it: the last byte is asked for again, so that the server says by its tag that it is still the same.
            self.output.shorten(length - 1)?;
        }
        // Of another server's copy, the tag says nothing.
        self.etag = state.etag.filter(|_| state.source == source);
        self.size = known;
        self.resumable = true;
        self.hash_part()
    }

    /// Take what is there into the checksum; its state cannot be kept on disk.
    fn hash_part(&mut self) -> Result<()> {
        let name = self.output.name().to_owned();
        let there = self.output.written();
        let Some(part) = self.output.part() else {
            return Ok(());
        };
        let Some(digest) = &mut self.digest else {
            return part.seek_end();
        };
        let mut buffer = vec![0; SMALL_PIECE];
        let mut at = 0;
        while at < there {
            signals::check()?;
            let got = match (&mut part.file()).read(&mut buffer) {
                Ok(0) => break,
                Ok(got) => got,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(Problem::fatal(
                        format!("cannot read {name}: {error}"),
                        "--anew starts over",
                    ));
                }
            };
            digest.update(&buffer[..got]);
            at += got as u64;
            self.progress.at("checking what is there", at, Some(there));
            self.pacer.after(0)?;
        }
        part.seek_end()
    }
}
