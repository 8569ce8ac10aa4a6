//! What is a job where nobody says so, what the storm computed, and what cannot be read.
use super::*;

#[test]
fn who_asks_for_jobs_by_name_gets_spans_and_marks() {
    let events = [job(A, 1, 100, 200, &[]), span(B, WORK, 100, 130, &[]), span(B, SERVE, 140, 150, &[])];
    let names = |patterns: &[&str]| {
        let storm = storm_of(&events.concat(), patterns).unwrap();
        let names: Vec<_> =
            storm.model.roots.iter().map(|root| storm.model.text(root.name).to_owned()).collect();
        names
    };
    assert_eq!(names(&["boot"]), ["boot"]);
    assert_eq!(names(&["wor?", "b*"]), ["boot", "work"]);
    assert_eq!(names(&["s*"]), ["serve"]);
}

#[test]
fn what_is_no_storm_is_said() {
    let told = |events: &[Told], patterns: &[&str]| storm_of(events, patterns).err().unwrap().to_string();
    assert!(
        told(&[], &[]).contains("there is nothing in the trace that could be a job"),
        "{}",
        told(&[], &[])
    );
    let spans = span(A, WORK, 100, 200, &[]);
    assert!(told(&spans, &["x", "y"]).contains("no job and no span is called 'x' or 'y'"));
    let begun = [(100, A, event::JOB_BEGIN, BOOT, 1), (120, A, event::JOB_BEGIN, BOOT, 2)];
    assert!(
        told(&begun, &["boot"]).contains("jobs begin and none ends in the trace"),
        "{}",
        told(&begun, &["boot"])
    );
}

#[test]
fn jobs_without_an_end_are_counted() {
    let events = [job(A, 1, 100, 200, &[]), vec![(150, B, event::JOB_BEGIN, BOOT, 2)]];
    let storm = storm_of(&events.concat(), &[]).unwrap();
    assert_eq!((storm.unfinished, storm.model.jobs().count()), (1, 1));
}

#[test]
fn loops_that_run_for_ever_are_no_jobs_where_spans_end() {
    let mut events = vec![(100, B, event::JOB_BEGIN, BOOT, 1)];
    events.extend(span(A, CALL, 100, 200, &span(A, MSG, 110, 190, &[])));
    events.extend(span(A, SERVE, 210, 250, &[]));
    events.extend(span(A, MSG, 260, 280, &[]));
    events.extend(span(A, SERVE, 310, 350, &[]));
    // Waits in the kernel are no work, however long.
    events.extend(span(W1, WORK, 100, 900, &[(0, W1, event::ARG, KIND, IO)]));
    let storm = storm_of(&events, &[]).unwrap();
    let names: Vec<_> = storm.model.roots.iter().map(|root| storm.model.text(root.name)).collect();
    assert_eq!(names, ["call"]);
}

#[test]
fn cpu_time_is_that_of_threads_while_the_storm_lasted() {
    let used =
        |thread, cpu, delay| [(cpu, thread, event::CPU, 0, 0), (delay, thread, event::RUN_DELAY, 0, 0)];
    let worked = |thread, from, to, (a, b): (u64, u64), (c, d): (u64, u64)| {
        let [begin, end] = [(from, thread, event::BEGIN, WORK, 0), (to, thread, event::END, WORK, 0)];
        [&[begin][..], &used(thread, a, b), &[end], &used(thread, c, d)].concat()
    };
    let events = [
        // Before the storm, in it, and after it.
        [
            worked(A, 10, 90, (1000, 10), (1070, 15)),
            job(A, 1, 100, 300, &worked(A, 110, 280, (1080, 20), (1180, 50))),
        ]
        .concat(),
        worked(E, 120, 220, (500, 0), (530, 4)),
        worked(E, 400, 500, (600, 0), (700, 0)),
    ];
    let storm = storm_of(&events.concat(), &["boot"]).unwrap();
    let regime = &storm.regime;
    let cpu: Vec<_> = regime.cpu.as_ref().unwrap().iter().map(|process| process.cpu_ns).collect();
    assert_eq!(cpu, [100, 30]);
    assert_eq!((regime.makespan_ns, regime.seen_ns, regime.run_delay_ns), (200, 170 + 100, 30 + 4));
    assert_eq!((regime.pieces_ns, regime.gil_ns), (200, Some(0)));
    let without = storm_of(&job(A, 1, 100, 300, &[]), &[]).unwrap();
    assert_eq!(without.regime.cpu, None);
}
