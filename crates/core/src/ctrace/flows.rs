//! Numbers of messages that nobody has numbered yet: no two alike, in whatever processes and on whatever machines.
use std::sync::atomic::{AtomicU64, Ordering};

use super::clock::ticks;

/// 2**64 over the golden ratio, as in splitmix64 (Steele, Lea, Flood 2014), whose mixing this is.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where this process counts; 0: it has not begun to.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The next number. A system call is needed for the first one only.
pub fn number() -> u64 {
    if NEXT.load(Ordering::Relaxed) == 0 {
        let _already = NEXT.compare_exchange(0, random() | 1, Ordering::Relaxed, Ordering::Relaxed);
    }
    let mut number = NEXT.fetch_add(STEP, Ordering::Relaxed);
    number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// A child after fork(2) would count on where its parent does.
pub fn forget_after_fork() {
    NEXT.store(0, Ordering::Relaxed);
}

fn random() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: a buffer of that size. Where the kernel gives nothing yet, time and process must do.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    if got == 8 { u64::from_ne_bytes(bytes) } else { ticks() ^ u64::from(std::process::id()) << 32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_numbers_are_alike() {
        let mut numbers: Vec<_> = (0..10_000).map(|_| number()).collect();
        forget_after_fork();
        numbers.extend((0..10_000).map(|_| number()));
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 20_000);
    }
}
