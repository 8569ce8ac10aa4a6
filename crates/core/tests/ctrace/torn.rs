//! Files as a crash or an enemy leaves them.
use contend_core::Error;
use contend_core::ctrace::export::{Form, export};
use contend_core::ctrace::format::{Event, chunk, event, track};
use contend_core::ctrace::merge::merge;
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
