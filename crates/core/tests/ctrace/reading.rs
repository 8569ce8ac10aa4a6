//! Files as they should be.
use contend_core::ctrace::format::{Event, chunk, event, lock, track};
use contend_core::ctrace::merge::{Untold, merge};
use contend_core::ctrace::reader::{Oddities, Trace};

use crate::support::{Made, Place, Random};

/// (ns, name of its track, kind, id, details).
type Seen = (u64, String, u8, u32, usize);

fn read(trace: &Trace) -> (Vec<Seen>, Untold) {
    let mut seen = Vec::new();
    let untold = merge(trace, |r| {
        let name = trace.names.text(trace.tracks[r.track as usize].name).to_owned();
        seen.push((r.ns, name, r.event.kind(), r.event.id(), r.details.len()));
        Ok(())
    })
    .unwrap();
    (seen, untold)
}

fn at(ticks: u64, kind: u8, id: u32) -> Event {
    Event::new(ticks, kind, id, 0)
}

#[test]
fn what_a_file_defines_is_found_by_its_ids() {
    let place = Place::new();
    let made = Made::new(42)
        .strings(&[(1, "nova-compute"), (2, "worker"), (3, "mutex"), (4, "a.py:7"), (70_000, "far")])
        .tracks(&[
            (9, track::PROCESS, 0, 1, 0),
            (1, track::THREAD, 9, 2, 4242),
            (5, track::GREENLET, 1, 70_000, 0),
        ])
        .locks(&[(1, lock::LOCK, 3, 4), (2, lock::QUEUE, 0, 4), (3, lock::LOCK, 0, 0)])
        .events(1, &[at(10, event::BEGIN, 70_000)])
        .dropped(1, 5, 11, 12)
        .end(20);
    let trace = Trace::open(&[place.write("42-77.ctrace", &made.0)]).unwrap();
    let file = &trace.files[0];
    assert_eq!((file.header.pid, file.events, file.closed, file.odd), (42, 1, Some(20), Oddities::default()));
    assert_eq!((file.lost[0].events, file.lost[0].from_ns, file.lost[0].to_ns), (5, 11, 12));
    let names: Vec<_> = trace.tracks.iter().map(|t| (trace.names.text(t.name), t.parent, t.tid)).collect();
    assert_eq!(names, [("nova-compute", None, 0), ("worker", Some(0), 4242), ("far", Some(1), 0)]);
    let locks: Vec<_> =
        trace.locks.iter().map(|l| (trace.names.text(l.name), trace.names.text(l.site))).collect();
    assert_eq!(locks, [("mutex", "a.py:7"), ("a.py:7", "a.py:7"), ("lock 3", "")]);
    assert_eq!(read(&trace).0, [(10, "worker".to_owned(), event::BEGIN, 70_000, 0)]);
}

#[test]
fn events_follow_the_switches_of_their_ring_and_keep_their_details() {
    let place = Place::new();
    let made = Made::new(1)
        .strings(&[(1, "main"), (2, "green")])
        .tracks(&[(1, track::THREAD, 0, 1, 1), (2, track::GREENLET, 1, 2, 0)])
        .events(
            1,
            &[at(1, event::BEGIN, 1), Event::new(7, event::INT, 1, 0), Event::new(2, event::SWITCH, 0, 2)],
        )
        // The details of an event may come with the next spill.
        .events(1, &[at(3, event::COUNTER, 2)])
        .events(1, &[Event::new(1 << 63, event::FLOAT, 0, 0), Event::new(0, event::ARG, 1, 2)])
        .events(
            1,
            &[Event::new(4, event::SWITCH, 0, 1), at(5, event::END, 1), Event::new(6, event::SWITCH, 0, 99)],
        )
        .events(1, &[at(7, event::INSTANT, 1)]);
    let trace = Trace::open(&[place.write("a.ctrace", &made.0)]).unwrap();
    let (seen, untold) = read(&trace);
    let told: Vec<_> = seen.iter().map(|(ns, track, kind, _, n)| (*ns, track.as_str(), *kind, *n)).collect();
    assert_eq!(
        told,
        [
            (1, "main", event::BEGIN, 1),
            (2, "main", event::SWITCH, 0),
            (3, "green", event::COUNTER, 2),
            (4, "green", event::SWITCH, 0),
            (5, "main", event::END, 0),
            (6, "main", event::SWITCH, 0),
            (7, "main", event::INSTANT, 0),
        ]
    );
    assert_eq!(untold, Untold { unknown_tracks: 1, ..Untold::default() });
}

#[test]
fn processes_with_clocks_of_their_own_are_merged_on_the_common_one() {
    let place = Place::new();
    // The first counts 2 ticks a ns from 1,000; the second's ticks are the clock.
    let first = Made::with_clock(1, 1, 1_000, 0, 2_000_000_000)
        .strings(&[(1, "x")])
        .events(1, &[at(1_020, event::BEGIN, 1), at(1_060, event::END, 1)])
        .sync(1_000 + 40_000_000, 20_000_000)
        .events(1, &[at(1_000 + 40_000_002, event::INSTANT, 1)]);
    let second = Made::new(2)
        .strings(&[(9, "x")])
        .events(4, &[at(20, event::BEGIN, 9), at(20_000_000, event::END, 9)]);
    place.write("1-77.ctrace", &first.0);
    place.write("2-77.ctrace", &second.0);
    place.write("other.txt", b"no trace");
    let trace = Trace::open(&[place.path()]).unwrap();
    let (seen, untold) = read(&trace);
    let told: Vec<_> =
        seen.iter().map(|(ns, track, kind, id, _)| (*ns, track.as_str(), *kind, *id)).collect();
    assert_eq!(
        told,
        [
            (10, "thread 1", event::BEGIN, 1),
            (20, "thread 4", event::BEGIN, 9),
            (30, "thread 1", event::END, 1),
            (20_000_000, "thread 4", event::END, 9),
            (20_000_001, "thread 1", event::INSTANT, 1),
        ]
    );
    assert_eq!((untold, trace.name(0, 1), trace.events()), (Untold::default(), trace.name(1, 9), 5));
}

#[test]
fn events_lost_by_threads_without_a_ring_are_the_processs() {
    let place = Place::new();
    let made = Made::new(8).dropped(0, 3, 5, 6).events(2, &[at(7, event::INSTANT, 0)]);
    let trace = Trace::open(&[place.write("a.ctrace", &made.0)]).unwrap();
    let lost = trace.files[0].lost[0];
    assert_eq!((trace.rings[lost.ring as usize].track, lost.events), (trace.files[0].process, 3));
}

#[test]
fn time_that_goes_back_in_a_ring_is_held_and_told() {
    let place = Place::new();
    let made =
        Made::new(1).events(1, &[at(9, event::BEGIN, 0), at(4, event::END, 0), at(10, event::INSTANT, 0)]);
    let (seen, untold) = read(&Trace::open(&[place.write("a.ctrace", &made.0)]).unwrap());
    assert_eq!(seen.iter().map(|s| s.0).collect::<Vec<_>>(), [9, 9, 10]);
    assert_eq!(untold.out_of_order, 1);
}

#[test]
fn any_number_of_rings_and_chunks_comes_out_whole_and_in_order() {
    let place = Place::new();
    let mut random = Random(7);
    for round in 0..20 {
        let rings = 1 + random.below(40) as usize;
        let mut clocks = vec![0u64; rings];
        let mut made = Made::new(1);
        let mut wanted = Vec::new();
        for serial in 0..random.below(60) {
            let ring = random.below(rings as u64) as usize;
            let events: Vec<_> = (0..random.below(300))
                .map(|_| {
                    clocks[ring] += random.below(1000);
                    wanted.push((clocks[ring], ring as u64));
                    Event::new(clocks[ring], event::INSTANT, serial as u32, ring as u32)
                })
                .collect();
            made = made.events(ring as u32, &events);
        }
        let trace = Trace::open(&[place.write(&format!("{round}.ctrace"), &made.0)]).unwrap();
        let mut seen = Vec::new();
        let untold = merge(&trace, |r| {
            seen.push((r.ns, u64::from(r.event.value())));
            Ok(())
        });
        assert!(seen.is_sorted_by_key(|s| s.0));
        wanted.sort_unstable();
        seen.sort_unstable();
        assert_eq!(seen, wanted);
        assert_eq!((untold.unwrap(), trace.events()), (Untold::default(), seen.len() as u64));
    }
}

#[test]
fn traces_of_two_machines_are_put_on_one_clock_by_the_time_of_day() {
    let place = Place::new();
    let made = |boot_s: u64, from_ns: u64| {
        let mut made = Made::with_clock(5, 0, from_ns, from_ns, 1_000_000_000);
        made.0[48..56].copy_from_slice(&(boot_s * 1_000_000_000 + from_ns).to_le_bytes());
        made.tracks(&[(1, track::THREAD, 0, 0, 6)])
            .chunk(
                chunk::LOCKS,
                &[[1u32, lock::EXTERNAL, 0, 0].map(u32::to_le_bytes).concat(), vec![9; 8]].concat(),
            )
            .dropped(1, 3, from_ns, from_ns)
            .events(1, &[at(from_ns + 10, event::INSTANT, 1)])
    };
    // Which booted 1,000 s later and saw the same moment 70 ns after the other; and one of the first boot again,
    // whose time of day was set by a little meanwhile.
    let second = 1_000_000_000;
    let late = place.write("late.ctrace", &made(3_000, 70).0);
    let early = place.write("early.ctrace", &made(2_000, 1_000 * second).0);
    let again = place.write("again.ctrace", &made(2_000, 1_000 * second + 5).0);
    let trace = Trace::open(&[&late, &early, &again]).unwrap();
    assert_eq!(trace.moved, 1);
    assert_eq!(trace.boot_ns, 2_000 * second);
    // A lock of the same number is one on a machine, and another on another.
    let locks: Vec<_> = trace.files.iter().map(|file| file.locks.get(1)).collect();
    assert_eq!(locks, [Some(0), Some(1), Some(1)]);
    let (seen, _) = read(&trace);
    let told: Vec<_> = seen.iter().map(|(ns, track, ..)| (ns - 1_000 * second, track.as_str())).collect();
    assert_eq!(told, [(10, "thread 6"), (15, "thread 6"), (80, "thread 6")]);
    assert_eq!(trace.files[0].lost[0].from_ns, 1_000 * second + 70);
    let pids: Vec<_> = trace.files.iter().map(|file| file.shown_pid()).collect();
    assert_eq!(pids, [5 + (1 << 22), 5, 5]);
    // Alone, and beside what booted earlier still.
    assert_eq!(Trace::open(&[&late]).unwrap().moved, 0);
    let trace = Trace::open_beside(&[&late], 1_000 * second).unwrap();
    assert_eq!((trace.moved, read(&trace).0[0].0), (1, 2_000 * second + 80));
}
