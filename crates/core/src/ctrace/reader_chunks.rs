//! A file's chunks, one after the other, up to the first that is torn.
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::format::{CHUNK_HEADER_BYTES, HEADER_BYTES, SUM_OF_NOTHING, chunk, sum_on};

const BUFFER_BYTES: usize = 256 << 10;
/// Definitions longer than this are no recorder's.
const MOST_DEFINITIONS_BYTES: usize = 64 << 20;
/// Nor is any chunk longer than this: a recorder spills what it has four times a second. Its sum is not worth reading
/// gigabytes that a sparse file only claims to hold.
const MOST_BYTES: u64 = 256 << 20;

/// Whole, and its sum is right.
#[derive(Debug)]
pub struct Chunk<'a> {
    pub kind: u32,
    /// Of the payload, in the file.
    pub offset: u64,
    pub bytes: u32,
    /// All of it; of events and of unknown kinds the first bytes only.
    pub payload: &'a [u8],
}

#[derive(Debug)]
pub struct Chunks<'f> {
    file: &'f File,
    at: u64,
    end: u64,
    buffer: Vec<u8>,
}

impl<'f> Chunks<'f> {
    /// Of a file of that length, whose header was read.
    pub fn new(file: &'f File, length: u64) -> Self {
        Self { file, at: HEADER_BYTES as u64, end: length, buffer: vec![0; BUFFER_BYTES] }
    }

    /// Bytes that were not read, because the chunk they begin with is torn.
    pub fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    /// None at the end, and at a torn chunk.
    pub fn next(&mut self) -> io::Result<Option<Chunk<'_>>> {
        let offset = self.at.saturating_add(CHUNK_HEADER_BYTES as u64);
        let mut head = [0; CHUNK_HEADER_BYTES];
        if offset > self.end || !self.fill(self.at, &mut head)? {
            return Ok(None);
        }
        let kind = number(&head, 0);
        let bytes = number(&head, 4);
        let sum = long(&head, 8);
        let padded = u64::from(bytes).next_multiple_of(8);
        if u64::from(bytes) > (self.end - offset).min(MOST_BYTES) {
            return Ok(None);
        }
        let keep = bytes as usize <= MOST_DEFINITIONS_BYTES
            && !matches!(kind, chunk::EVENTS)
            && (chunk::EVENTS..=chunk::END).contains(&kind);
        let size = if keep { (bytes as usize).max(BUFFER_BYTES) } else { BUFFER_BYTES };
        self.buffer.resize(size, 0);
        self.buffer.shrink_to(size);
        let Some(kept) = self.summed(offset, bytes as usize, sum)? else { return Ok(None) };
        // A last chunk without its padding is whole all the same.
        self.at = (offset + padded).min(self.end);
        Ok(Some(Chunk { kind, offset, bytes, payload: &self.buffer[..kept] }))
    }

    /// Reads the payload by buffers; how much of it stands at the buffer's begin, or None where the sum is wrong.
    fn summed(&mut self, offset: u64, bytes: usize, sum: u64) -> io::Result<Option<usize>> {
        let mut found = SUM_OF_NOTHING;
        let mut first = Vec::new();
        let mut done = 0;
        while done < bytes {
            let size = (bytes - done).min(self.buffer.len());
            let mut buffer = std::mem::take(&mut self.buffer);
            let whole = self.fill(offset + done as u64, &mut buffer[..size]);
            self.buffer = buffer;
            if !whole? {
                return Ok(None);
            }
            found = sum_on(found, &self.buffer[..size]);
            if done == 0 && size < bytes {
                first.extend_from_slice(&self.buffer[..64]);
            }
            done += size;
        }
        if found != sum {
            return Ok(None);
        }
        self.buffer[..first.len()].copy_from_slice(&first);
        Ok(Some(if first.is_empty() { bytes } else { first.len() }))
    }

    /// False where the file ends before, as one that is cut meanwhile does.
    fn fill(&self, at: u64, buffer: &mut [u8]) -> io::Result<bool> {
        match self.file.read_exact_at(buffer, at) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The u32 at that place; 0 beyond the end.
pub fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|part| part.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// The u64 at that place; 0 beyond the end.
pub fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes)
}
