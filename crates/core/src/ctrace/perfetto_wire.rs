//! Protobuf as bytes, <https://protobuf.dev/programming-guides/encoding/>, and what a sequence has interned.
use std::collections::HashSet;

/// A field with a varint.
pub(super) fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    varint(out, u64::from(field << 3));
    varint(out, value);
}

/// A field with a length.
pub(super) fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    varint(out, u64::from(field << 3 | 2));
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// A field with eight bytes.
pub(super) fn fixed(out: &mut Vec<u8>, field: u32, value: u64) {
    varint(out, u64::from(field << 3 | 1));
    out.extend_from_slice(&value.to_le_bytes());
}

pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

const PAGE: u32 = 512;

/// A set of small numbers, in pages.
#[derive(Debug, Default)]
pub(super) struct Seen(Vec<Option<Box<[u64; (PAGE / 64) as usize]>>>);

impl Seen {
    /// Whether it is new; it is in the set from now on.
    pub fn first(&mut self, number: u32) -> bool {
        let page = (number / PAGE) as usize;
        if self.0.len() <= page {
            self.0.resize_with(page + 1, || None);
        }
        let words = self.0[page].get_or_insert_default();
        let (word, bit) = ((number % PAGE / 64) as usize, 1 << (number % 64));
        let new = words[word] & bit == 0;
        words[word] |= bit;
        new
    }
}

/// What a sequence has told: interned data are its own.
#[derive(Debug, Default)]
pub(super) struct Interned {
    /// Names of spans.
    pub names: Seen,
    /// Other names of events, by iid.
    pub other_names: HashSet<u64>,
    pub categories: u32,
    /// Names of annotations.
    pub keys: Seen,
    /// Their texts.
    pub texts: Seen,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_as_long_as_is_said() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                varint(&mut out, value);
                assert_eq!(out.len(), varint_bytes(value), "{value}");
            }
        }
        let mut out = Vec::new();
        number(&mut out, 8, 300);
        assert_eq!(out, [0x40, 0xac, 0x02]);
    }

    #[test]
    fn a_number_is_new_once() {
        let mut seen = Seen::default();
        let numbers = [0, 63, 64, 511, 512, 70_000];
        assert!(numbers.iter().all(|&n| seen.first(n)));
        assert!(!numbers.iter().any(|&n| seen.first(n)) && seen.first(65));
    }
}
