//! Who held the interpreter's lock while others waited for it: a short list, by which a wait is told when it has ended.
//! Used by who holds the lock, or lets it go; never by two at once.
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use contend_core::ctrace::format::{Event, event};

/// How far back a wait can tell who held the lock.
const DROPS: usize = 4096;
/// Of one wait, in the file. Of one with more holders than that, each of so many equal parts of its time is told as of
/// the one who held the lock in its midst: over many waits everybody has their share, and one costs no more with a
/// thousand threads.
pub const MOST_HOLDERS: usize = 12;

/// Who let the lock go while others waited, and when last; one after the other, each another than the one before.
struct Drop {
    at: AtomicU64,
    holder: AtomicU32,
}
static LOG: [Drop; DROPS] = [const { Drop::none() }; DROPS];

impl Drop {
    const fn none() -> Self {
        Self {
            at: AtomicU64::new(0),
            holder: AtomicU32::new(0),
        }
    }

    fn set(&self, holder: u32, at: u64) {
        self.holder.store(holder, Ordering::Relaxed);
        self.at.store(at, Ordering::Relaxed);
    }
}

/// A wait, in ticks, `ended` 0 while it lasts; and how many had let the lock go when it began.
#[derive(Clone, Copy)]
pub struct Wait {
    pub began: u64,
    pub ended: u64,
    pub logged: u64,
}

/// The end of the list: whoever lets the lock go again, and again, writes nowhere else.
pub struct Holders {
    logged: AtomicU64,
    /// The last one, not in `LOG` yet.
    last: Drop,
}

impl Holders {
    /// Nobody has let it go.
    pub const fn new() -> Self {
        Self {
            logged: AtomicU64::new(0),
            last: Drop::none(),
        }
    }

    /// As new.
    pub fn forget(&self) {
        self.logged.store(0, Ordering::Relaxed);
        self.last.set(0, 0);
    }

    /// How many have let it go.
    pub fn logged(&self) -> u64 {
        self.logged.load(Ordering::Relaxed)
    }

    /// That track lets it go.
    pub fn let_go(&self, holder: u32, at: u64) {
        let logged = self.logged();
        let last = self.last.holder.load(Ordering::Relaxed);
        if logged == 0 || last != holder {
            if let Some(place) = logged.checked_sub(1) {
                let before = self.last.at.load(Ordering::Relaxed);
                LOG[(place % DROPS as u64) as usize].set(last, before);
            }
            self.logged.store(logged + 1, Ordering::Relaxed);
        }
        self.last.set(holder, at);
    }

    /// A LOCK_WAIT, and a LOCK_PASSED for each that held the lock after the first one; how many events.
    pub fn told(&self, wait: &Wait, id: u32, events: &mut [Event]) -> usize {
        let end = self.logged();
        let entry = |number: u64| match number + 1 == end {
            true => &self.last,
            false => &LOG[(number % DROPS as u64) as usize],
        };
        let at = |number: u64| entry(number).at.load(Ordering::Relaxed);
        let holder = |number: u64| entry(number).holder.load(Ordering::Relaxed);
        // The last one of before is the first of the wait, if it let the lock go once more.
        let mut first = wait.logged.saturating_sub(1);
        if first < end && at(first) <= wait.began {
            first += 1;
        }
        // What is no longer kept is not known; what was let go last is who the lock was waited for to the end.
        let kept = end.saturating_sub(DROPS as u64 - 1).max(first);
        let mut count = 0;
        let mut tell = |since: u64, holder: u32| {
            let before = count > 0 && (events[count - 1].word >> 32) as u32 == holder;
            if !before {
                let kind = if count == 0 {
                    event::LOCK_WAIT
                } else {
                    event::LOCK_PASSED
                };
                events[count] = Event::new(since, kind, id, holder);
                count += 1;
            }
        };
        if first == end {
            tell(wait.began, 0);
        } else if kept == first && end - first <= MOST_HOLDERS as u64 {
            let mut since = wait.began;
            for number in first..end {
                tell(since, holder(number));
                since = at(number);
            }
        } else {
            let known = if kept == first { wait.began } else { at(kept) };
            let part = wait.ended.saturating_sub(wait.began) / MOST_HOLDERS as u64;
            for number in 0..MOST_HOLDERS as u64 {
                let since = wait.began + number * part;
                let midst = since + part / 2;
                let next = first_after(kept, end, midst, at).min(end - 1);
                tell(since, if midst < known { 0 } else { holder(next) });
            }
        }
        count
    }
}

/// The first number from `low` to `high` whose time is later; `high` where there is none. Times go up.
fn first_after(mut low: u64, mut high: u64, time: u64, at: impl Fn(u64) -> u64) -> u64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if at(middle) > time {
            high = middle
        } else {
            low = middle + 1
        }
    }
    low
}
