//! SipHash-2-4 (Aumasson, Bernstein 2012) of whole words, in few instructions: what makes a digest of two values runs once
//! or twice a request, from a cache that has forgotten it.
use std::hint::black_box;

/// Goes on word by word, each as its eight bytes from the lowest on.
pub struct Sip {
    v: [u64; 4],
    words: u64,
}

impl Sip {
    /// By a key of 128 bits.
    pub fn new((low, high): (u64, u64)) -> Self {
        let v = [
            low ^ 0x736f_6d65_7073_6575,
            high ^ 0x646f_7261_6e64_6f6d,
            low ^ 0x6c79_6765_6e65_7261,
            high ^ 0x7465_6462_7974_6573,
        ];
        Self { v, words: 0 }
    }

    /// One word more.
    pub fn word(&mut self, word: u64) {
        self.words += 1;
        self.mix(word, 2);
    }

    /// Bytes, filled up with zeros: their number is to be told beside them.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.word(u64::from_le_bytes(word));
        }
    }

    /// Of all that came.
    pub fn finish(mut self) -> u64 {
        // The last block has the number of bytes, modulo 256, in its highest one, and here no others.
        self.mix(self.words << 59, 2);
        self.v[2] ^= 0xff;
        self.mix(0, 4);
        self.v[0] ^ self.v[1] ^ self.v[2] ^ self.v[3]
    }

    #[inline(never)]
    fn mix(&mut self, word: u64, rounds: u32) {
        let [mut a, mut b, mut c, mut d] = self.v;
        d ^= word;
        // Without the hint the compiler writes every round out.
        for _ in 0..black_box(rounds) {
            a = a.wrapping_add(b);
            c = c.wrapping_add(d);
            b = b.rotate_left(13) ^ a;
            d = d.rotate_left(16) ^ c;
            a = a.rotate_left(32).wrapping_add(d);
            c = c.wrapping_add(b);
            b = b.rotate_left(17) ^ c;
            d = d.rotate_left(21) ^ a;
            c = c.rotate_left(32);
        }
        a ^= word;
        self.v = [a, b, c, d];
    }
}

#[cfg(test)]
mod tests {
    #![expect(deprecated, reason = "std's own, which is SipHash-2-4 with a key, to compare with")]
    use std::hash::{Hasher, SipHasher};

    use super::Sip;

    #[test]
    fn it_is_siphash_of_the_words_bytes() {
        let key = (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        for words in 0..40u64 {
            let (mut ours, mut theirs) = (Sip::new(key), SipHasher::new_with_keys(key.0, key.1));
            for word in 0..words {
                let word = (word + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                ours.word(word);
                theirs.write(&word.to_le_bytes());
            }
            assert_eq!(ours.finish(), theirs.finish(), "{words}");
        }
        // As printed by the reference implementation, https://github.com/veorq/SipHash (vectors.h): no bytes, and 0 to 7.
        assert_eq!(Sip::new(key).finish(), 0x726f_db47_dd0e_0e31);
        let mut eight = Sip::new(key);
        eight.bytes(&[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(eight.finish(), 0x93f5_f579_9a93_2462);
    }

    #[test]
    fn bytes_are_words_filled_with_zeros() {
        let (mut one, mut other) = (Sip::new((1, 2)), Sip::new((1, 2)));
        one.bytes(b"123456789");
        other.word(u64::from_le_bytes(*b"12345678"));
        other.word(u64::from(b'9'));
        assert_eq!(one.finish(), other.finish());
    }
}
