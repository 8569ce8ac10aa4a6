//! Files as a crash or an enemy leaves them.
use contend_core::Error;
use contend_core::ctrace::export::{Form, export};
use contend_core::ctrace::format::{Event, chunk, event, lock, track};
use contend_core::ctrace::merge::merge;
use contend_core::ctrace::occupancy::Occupancy;
use contend_core::ctrace::reader::Trace;
use contend_core::ctrace::spans::tell;
use contend_core::ctrace::summary::Summary;

use crate::support::{Made, Place, Random};

fn sound() -> Made {
    let events: Vec<_> = (0..50).map(|n| Event::new(n, (n % 3 + 1) as u8, 1, 0)).collect();
    Made::new(3)
        .strings(&[(1, "name"), (2, "other")])
        .tracks(&[(1, track::THREAD, 0, 2, 9)])
        .events(1, &events[..20])
        .sync(30, 30)
        .events(1, &events[20..])
        .end(50)
}

/// Everything that can be done with a file; how many events it gave.
fn survive(place: &Place, bytes: &[u8]) -> Option<(u64, u64)> {
    let trace = match Trace::open(&[place.write("a.ctrace", bytes)]) {
        Ok(trace) => trace,
        Err(Error::Invalid { .. }) => return None,
        Err(error) => panic!("{error}"),
    };
    let mut seen = 0;
    let mut last = 0;
    merge(&trace, |record| {
        assert!(record.ns >= last && (record.track as usize) < trace.tracks.len());
        last = record.ns;
        seen += 1;
        Ok(())
    })
    .unwrap();
    let torn = trace.files[0].odd.torn_bytes;
    let mut summary = Summary::new(&trace, 2);
    tell(&trace, &mut summary, || Ok(())).unwrap();
    let tracks: Vec<_> = (0..trace.tracks.len() as u32).collect();
    let mut occupancy = Occupancy::new(&trace, &tracks, summary.period.unwrap_or_default(), 7);
    tell(&trace, &mut occupancy, || Ok(())).unwrap();
    let mut trace = trace;
    for form in [Form::Perfetto, Form::Chrome] {
        let mut written = Vec::new();
        let done = export(&mut trace, form, &mut written, || Ok(())).unwrap();
        assert_eq!(done.bytes, written.len() as u64);
        assert!(std::str::from_utf8(&written).is_ok() || form == Form::Perfetto);
    }
    Some((seen, torn))
}

#[test]
fn a_file_cut_anywhere_gives_all_its_whole_chunks_and_says_what_is_torn() {
    let place = Place::new();
    let whole = sound().0;
    assert_eq!(survive(&place, &whole), Some((50, 0)));
    let mut before = 0;
    for length in 0..whole.len() {
        let Some((events, torn)) = survive(&place, &whole[..length]) else {
            assert!(length < 64);
            continue;
        };
        assert!([0, 20, 50].contains(&events) && events >= before, "{length}: {events}");
        assert!(torn as usize <= length - 64);
        before = events;
    }
}

/// One of everything that a file can hold, by a clock of its own.
fn rich() -> Made {
    let of = |ticks: u64, kind, id, value| Event::new(1_000 + 2 * ticks, kind, id, value);
    Made::with_clock(7, 1, 1_000, 500, 2_000_000_000)
        .strings(&[
            (1, "main"),
            (2, "green"),
            (3, "boot"),
            (4, "kind"),
            (5, "remote"),
            (6, "a.py:1"),
            (7, "h\u{e9}"),
            (1 << 24, "text"),
        ])
        .tracks(&[(9, track::PROCESS, 0, 1, 0), (1, track::THREAD, 9, 1, 70), (2, track::GREENLET, 1, 2, 0)])
        .tracks(&[(3, track::THREAD, 9, 7, 71)])
        .locks(&[
            (1, lock::LOCK, 3, 6),
            (2, lock::QUEUE, 2, 0),
            (3, lock::SEMAPHORE, 1, 6),
            (4, lock::REENTRANT, 0, 0),
        ])
        .events(
            1,
            &[
                of(10, event::BEGIN, 3, 0),
                Event::new(0, event::ARG, 4, 1 << 24),
                Event::new(u64::MAX, event::INT, 7, 0),
                Event::new(5, event::CPU, 0, 0),
                of(20, event::LOCK_ACQUIRED, 1, 0),
                of(30, event::SWITCH, 0, 2),
                of(40, event::BEGIN, 7, 0),
                of(50, event::FLOW_OUT, 3, 9),
                Event::new(9, event::INT, 0, 0),
                of(60, event::LOCK_WAIT, 3, 3),
                of(70, event::SWITCH, 0, 1),
            ],
        )
        .sync(1_000 + 30_000_000, 500 + 15_000_010)
        .events(
            3,
            &[
                of(25, event::LOCK_WAIT, 1, 1),
                of(75, event::LOCK_ACQUIRED, 1, 1),
                of(76, event::COUNTER, 7, 0),
                Event::new(f64::NAN.to_bits(), event::FLOAT, 0, 0),
                of(77, event::JOB_BEGIN, 3, 4),
                of(78, event::QUEUE_PUT, 2, 3),
                of(79, event::FLOW_IN, 3, 9),
                Event::new(9, event::INT, 0, 0),
                of(80, event::JOB_END, 3, 4),
                of(81, event::LOCK_RELEASED, 1, 0),
                of(82, event::INSTANT, 7, 0),
            ],
        )
        .dropped(1, 5, 1_400, 1_500)
        .events(
            1,
            &[of(90, event::SWITCH, 0, 2), of(95, event::LOCK_GIVEN_UP, 3, 0), of(99, event::END, 7, 1)],
        )
        .sync(1_000 + 60_000_000, 500 + 30_000_000)
        .end(1_000 + 60_000_000)
}

#[test]
fn any_cut_and_a_bit_turned_in_any_byte_of_a_rich_file_is_survived() {
    let place = Place::new();
    let whole = rich().0;
    assert_eq!(survive(&place, &whole), Some((19, 0)));
    for length in 0..whole.len() {
        let found = survive(&place, &whole[..length]);
        assert_eq!(found.is_none(), length < 64, "{length}");
    }
    for bit in (0..whole.len()).map(|byte| byte * 8 + byte * 5 % 8) {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let found = survive(&place, &bytes);
        // Only the mark and the version at its begin make a file none of ours.
        assert!(found.is_some() || bit < 12 * 8, "bit {bit}");
    }
}

/// Chunks whose sums are right again after bits in them were turned: the sum protects no longer.
#[test]
fn bits_turned_behind_the_sums_are_survived() {
    let place = Place::new();
    let whole = rich().0;
    let mut chunks = Vec::new();
    let mut at = 64;
    while at + 16 <= whole.len() {
        let word = |at: usize| u32::from_le_bytes(whole[at..at + 4].try_into().unwrap());
        let (kind, bytes) = (word(at), word(at + 4) as usize);
        chunks.push((kind, whole[at + 16..at + 16 + bytes].to_vec()));
        at += 16 + bytes.next_multiple_of(8);
    }
    let mut random = Random(99);
    for round in 0..500 {
        let mut made = Made(whole[..64].to_vec());
        for (kind, payload) in &chunks {
            let mut payload = payload.clone();
            for _ in 0..random.below(4) {
                let bit = random.below(payload.len() as u64 * 8) as usize;
                payload[bit / 8] ^= 1 << (bit % 8);
            }
            if random.below(12) > 0 {
                made = made.chunk(*kind, &payload);
            }
        }
        assert!(survive(&place, &made.0).is_some(), "round {round}");
    }
}

#[test]
fn a_changed_byte_costs_its_chunk_and_what_follows() {
    let place = Place::new();
    let whole = sound().0;
    for at in 64..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let (events, _) = survive(&place, &bytes).unwrap();
        // 30: the kind of the first chunk of events became one that is skipped; sums are of payloads.
        assert!([0, 20, 30, 50].contains(&events), "byte {at}: {events} events");
    }
    let mut bytes = whole.clone();
    let in_first_events = whole.windows(8).position(|w| w == 19u64.to_le_bytes()).unwrap();
    bytes[in_first_events] ^= 1;
    let (events, torn) = survive(&place, &bytes).unwrap();
    assert!(events == 0 && torn > 500, "{events} {torn}");
}

#[test]
fn kinds_to_come_are_skipped() {
    let place = Place::new();
    let made =
        Made::new(1).chunk(99, &[1; 300_000]).events(1, &[Event::new(1, event::INSTANT, 0, 0)]).chunk(8, b"");
    let trace = Trace::open(&[place.write("a.ctrace", &made.0)]).unwrap();
    assert_eq!((trace.events(), trace.files[0].odd.unknown_chunks, trace.files[0].odd.torn_bytes), (1, 2, 0));
}

#[test]
fn what_is_no_trace_is_said_so() {
    let place = Place::new();
    let other = place.write("x.bin", &[7; 100]);
    let error = Trace::open(&[&other]).unwrap_err();
    assert!(error.to_string().contains("no trace file") && !error.hint().is_empty(), "{error}");
    let mut later = Made::new(1).0;
    later[8] = 2;
    let error = Trace::open(&[place.write("v2.ctrace", &later)]).unwrap_err();
    assert!(error.to_string().contains("version 2"), "{error}");
    let error = Trace::open(&[place.path()]).unwrap_err();
    assert!(error.to_string().contains("no trace in"), "{error}");
    assert!(matches!(Trace::open(&[place.path().join("none")]), Err(Error::System { .. })));
    // Beside a sound one, a file just made is passed over.
    place.write("a.ctrace", &sound().0);
    place.write("b.ctrace", b"");
    let trace = Trace::open(&[place.path()]).unwrap();
    assert_eq!((trace.files.len(), trace.passed_over.len()), (1, 2));
}

#[test]
fn a_file_that_is_cut_while_it_is_read_gives_what_is_left() {
    let place = Place::new();
    let path = place.write("a.ctrace", &sound().0);
    let trace = Trace::open(&[&path]).unwrap();
    place.write("a.ctrace", &sound().0[..700]);
    assert_eq!(merge(&trace, |_| Ok(())).unwrap().missing, 30);
}

#[test]
fn chunks_full_of_nonsense_with_right_sums_do_no_harm() {
    let place = Place::new();
    let mut random = Random(11);
    for round in 0..400 {
        let mut made = Made::with_clock(
            1,
            random.below(2) as u32,
            random.next() >> random.below(60),
            5,
            random.next() >> random.below(64),
        );
        for _ in 0..random.below(12) {
            let kind = [1, 1, 1, 2, 3, 4, 5, 6, 7, 200][random.below(10) as usize];
            let mut payload: Vec<u8> = (0..random.below(400))
                .map(|_| random.next() as u8 & [0xff, 3][random.below(2) as usize])
                .collect();
            if kind == chunk::EVENTS && payload.len() > 8 {
                let count = (payload.len() as u32 - 8) / 16;
                payload[..4].copy_from_slice(&(random.below(3) as u32).to_le_bytes());
                payload[4..8].copy_from_slice(&count.to_le_bytes());
                for word in payload[8..].chunks_exact_mut(16) {
                    word[8] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 18, 19, 20, 21, 32, 33, 34, 35, 77]
                        [random.below(20) as usize];
                }
            }
            made = made.chunk(kind, &payload);
        }
        assert!(survive(&place, &made.0).is_some(), "round {round}");
    }
}

#[test]
fn a_count_that_is_too_great_is_cut_to_what_is_there() {
    let place = Place::new();
    let mut payload = [1u32, u32::MAX].map(u32::to_le_bytes).concat();
    payload.extend([0u8; 40]);
    let made = Made::new(1)
        .chunk(chunk::EVENTS, &payload)
        .chunk(chunk::EVENTS, b"abc")
        .chunk(chunk::STRINGS, &[255; 12]);
    let trace = Trace::open(&[place.write("a.ctrace", &made.0)]).unwrap();
    assert_eq!((trace.events(), trace.files[0].odd.bad_records), (2, 3));
}
