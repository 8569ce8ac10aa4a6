//! Messages: what is done for a job in another process, how long the ways take, and who waits for which answer.
use super::*;

fn out(thread: u32, ns: u64, id: u32) -> Told {
    (ns, thread, event::FLOW_OUT, MSG, id)
}

fn received(thread: u32, ns: u64, id: u32) -> Told {
    (ns, thread, event::FLOW_IN, MSG, id)
}

/// Asks at `from` and goes on at `to`; the request is 1 of `id`, the answer 2.
pub(super) fn call(thread: u32, id: u32, from: u64, to: u64) -> Vec<Told> {
    span(thread, CALL, from, to, &[out(thread, from + 1, id), received(thread, to - 1, id + 100)])
}

/// Serves it.
pub(super) fn serve(thread: u32, id: u32, from: u64, to: u64) -> Vec<Told> {
    span(thread, SERVE, from, to, &[received(thread, from, id), out(thread, to - 1, id + 100)])
}

#[test]
fn a_call_waits_for_its_answer_and_the_server_for_nobody() {
    let events = [job(A, 1, 100, 200, &call(A, 1, 110, 170)), serve(E, 1, 120, 160)];
    reads(
        &events.concat(),
        &[
            "pool E of process 2: any Fifo, idle 0 busy 0",
            "job boot 100-200",
            "  10 <call 1 send 0 await 0 in 10 1 > 30",
            "  E queue 0 sent 9 picked 0 at once: <serve 39 signal 0 1 >",
            "jobs 100 locks [] pools [0] latency 19 unexplained 0",
        ],
    );
}

#[test]
fn a_second_request_waits_for_the_only_server() {
    let events = [
        job(A, 1, 100, 200, &call(A, 1, 110, 170)),
        job(B, 2, 100, 300, &call(B, 2, 115, 250)),
        serve(E, 1, 120, 160),
        serve(E, 2, 163, 230),
    ];
    reads(
        &events.concat(),
        &[
            "pool E of process 2: [1] Fifo, idle 0 busy 3",
            "job boot 100-200",
            "  10 <call 1 send 0 await 0 in 10 1 > 30",
            "  E queue 0 sent 9 picked 0 at once: <serve 39 signal 0 1 >",
            "job boot 100-300",
            "  15 <call 1 send 0 await 0 in 20 1 > 50",
            "  E queue 0 sent 9 picked 3 waited: <serve 66 signal 0 1 >",
            "jobs 300 locks [] pools [35] latency 51 unexplained 0",
        ],
    );
}

#[test]
fn a_job_that_casts_goes_on_and_is_replayed_so() {
    // Nothing comes back: the job does not wait.
    let events = [job(A, 1, 100, 200, &[out(A, 110, 1)]), span(E, SERVE, 120, 180, &[received(E, 121, 1)])];
    reads(
        &events.concat(),
        &[
            "pool E of process 2: any Fifo, idle 0 busy 0",
            "job boot 100-200",
            "  10 send 0 90",
            "  E queue 0 sent 10 picked 0 at once: <serve 60 >",
            "jobs 100 locks [] pools [0] latency 10 unexplained 0",
        ],
    );
}

#[test]
fn work_of_work_belongs_to_the_same_job() {
    // E asks F, and A waits for E on a queue that another thread of its process fills.
    let inner = [received(E, 120, 1), out(E, 130, 2), received(E, 170, 102), out(E, 180, 101)];
    let events = [
        job(A, 1, 100, 250, &[out(A, 110, 1), received(A, 200, 101)]),
        span(E, SERVE, 120, 185, &inner),
        serve(F, 2, 140, 165),
    ];
    reads(
        &events.concat(),
        &[
            "pool E of process 2: any Fifo, idle 0 busy 0",
            "pool F of process 2: any Fifo, idle 0 busy 0",
            "job boot 100-250",
            "  10 send 0 await 0 in 20 50",
            "  E queue 0 sent 10 picked 0 at once: <serve 10 send 1 await 1 in 6 10 signal 0 5 >",
            "  F queue 0 sent 10 picked 0 at once: <serve 24 signal 1 1 >",
            "jobs 150 locks [] pools [0, 0] latency 46 unexplained 0",
        ],
    );
}

#[test]
fn items_that_nobody_sent_come_when_they_came() {
    let events = [
        job(A, 1, 100, 200, &hold(A, L, 150, 150, 160)),
        span(B, SERVE, 120, 180, &[&[received(B, 121, 9)][..], &hold(B, L, 130, 130, 140)].concat()),
    ];
    reads(
        &events.concat(),
        &[
            "lock L for 1, handed in 0",
            "pool B of process 1: any Fifo, idle 0 busy 0",
            "job boot 100-200",
            "  50 +L 10 -L 40",
            "beside B 120-180",
            "  send 0",
            "  B queue 0 sent 0 picked 0 at once: <serve 10 +L 10 -L 40 >",
            "jobs 100 locks [0] pools [0] latency 0 unexplained 0",
        ],
    );
}

#[test]
fn a_request_that_is_answered_early_counts_until_its_work_is_done() {
    let request = |thread, number, from, to| {
        let inside = [out(thread, from + 10, number)];
        job(thread, number, from, to, &span(thread, BOOT, from, to, &inside))
    };
    let events = [request(A, 1, 100, 130), span(E, SERVE, 150, 300, &[received(E, 151, 1)])];
    reads(
        &events.concat(),
        &[
            "pool E of process 2: any Fifo, idle 0 busy 0",
            "job boot 100-130 until 300",
            "  <boot 10 send 0 20 >",
            "  E queue 0 sent 40 picked 0 at once: <serve 150 >",
            "jobs 200 locks [] pools [0] latency 40 unexplained 0",
        ],
    );
}

#[test]
fn how_many_items_a_call_carries_is_kept() {
    let of = |ns| (ns, A, event::INT, ITEMS, 0);
    let events = job(A, 1, 100, 200, &span(A, CALL, 110, 150, &[of(3)]));
    reads(
        &events,
        &[
            "job boot 100-200",
            "  10 <call of 3 40 > 50",
            "jobs 100 locks [] pools [] latency 0 unexplained 0",
        ],
    );
}

#[test]
fn a_system_call_in_which_an_answer_is_waited_for_is_no_call_to_somebody_unknown() {
    let call = [
        (120, A, event::FLOW_OUT, MSG, 1),
        (122, A, event::BEGIN, IO, 0),
        (123, A, event::ARG, KIND, IO),
        (160, A, event::END, IO, 0),
        (161, A, event::FLOW_IN, MSG, 2),
    ];
    let served = [(130, E, event::FLOW_IN, MSG, 1), (150, E, event::FLOW_OUT, MSG, 2)];
    let events = [job(A, 1, 100, 200, &span(A, CALL, 110, 170, &call)), span(E, SERVE, 130, 151, &served)];
    let storm = storm_of(&events.concat(), &[]).unwrap();
    let root = &storm.model.roots[0];
    assert_eq!(steps(&storm.model, &root.program), "10 <call 10 send 0 2 await 0 in 11 <io > 9 > 30");
    let io = storm.model.names.iter().position(|name| name == "io").unwrap() as u32;
    assert!(storm.model.outside[io as usize]);
    assert_eq!(simulate(&storm.model).outside[&io].ns, 0);
}
