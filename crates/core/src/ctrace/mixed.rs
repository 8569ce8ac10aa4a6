//! A quick hash for keys that nobody chooses to collide by.
/// Fibonacci's hash of small numbers: a multiplication by 2**64 over the golden ratio (Knuth, The Art of Computer
/// Programming 3, 6.4).
#[derive(Debug, Clone, Copy, Default)]
pub struct Mixed;

pub struct Mixing(u64);

impl std::hash::BuildHasher for Mixed {
    type Hasher = Mixing;
    fn build_hasher(&self) -> Mixing {
        Mixing(0)
    }
}

impl std::hash::Hasher for Mixing {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(byte.into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(32) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u64(&mut self, number: u64) {
        self.write_u32(number as u32);
        self.write_u32((number >> 32) as u32);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}
