//! What a hunt says of storms like these, all tables and columns.
use contend_core::hunt::choice::choose;
use contend_core::hunt::events::find;
use contend_core::hunt::tables::{Column, tables};

use super::*;

/// A line a row: the table, and what is not 0 or empty.
fn told(events: &[Told]) -> Vec<String> {
    let (trace, _place) = trace_of(events);
    let choice = choose(&trace, None, || Ok(())).unwrap();
    let found = find(&trace, &choice, || Ok(())).unwrap();
    let mut lines = Vec::new();
    for table in tables(&trace, &found) {
        let rows = match &table.columns[0].1 {
            Column::Numbers(all) => all.len(),
            Column::Texts(_, all) => all.len(),
        };
        for row in 0..rows {
            let cells = table.columns.iter().filter_map(|(name, column)| match column {
                Column::Numbers(_) if *name == "instances" => None,
                Column::Numbers(all) => (all[row] != 0).then(|| format!("{name}={}", all[row])),
                Column::Texts(texts, all) => {
                    let text = &texts[all[row] as usize];
                    (!text.is_empty()).then(|| format!("{name}={text}"))
                }
            });
            lines.push(format!("{}: {}", table.name, cells.collect::<Vec<_>>().join(" ")));
        }
    }
    // Of a lock that nobody used there is nothing but its name.
    lines.retain(|line| !line.starts_with("locks: ") || line.contains("waits=") || line.contains("holds="));
    lines
}

fn tells(events: &[Told], expected: &[&str]) {
    let told = told(events);
    assert!(told == expected, "assertion `left == right` failed: \n{}\n\n", told.join("\n"));
}

#[test]
fn items_of_a_queue() {
    let events = [
        job(
            A,
            1,
            100,
            190,
            &[queues::put(A, Q, 110), queues::get(A, STACK, 115, 164)[0], queues::get(A, STACK, 115, 164)[1]],
        ),
        job(
            B,
            2,
            105,
            240,
            &[
                queues::put(B, Q, 120),
                queues::get(B, URGENT, 125, 228)[0],
                queues::get(B, URGENT, 125, 228)[1],
            ],
        ),
        queues::get(W1, Q, 50, 112).to_vec(),
        span(W1, WORK, 113, 162, &[queues::put(W1, STACK, 160)]),
        queues::get(W1, Q, 163, 165).to_vec(),
        span(W1, WORK, 166, 226, &[queues::put(W1, URGENT, 225)]),
        vec![(230, W1, event::LOCK_WAIT, Q, 0)],
    ];
    tells(
        &events.concat(),
        &[
            "jobs: name=boot number=1 process=process 1 pid=1 track=A begin_ns=100 end_ns=190 how=mark ended=returned elsewhere_ns=51",
            "jobs: job=1 name=boot number=2 process=process 1 pid=1 track=B begin_ns=105 end_ns=240 how=mark ended=returned elsewhere_ns=65",
            "parts: kind=queue resource=stack ns=49",
            "parts: kind=running ns=41",
            "parts: job=1 kind=queue resource=urgent ns=63",
            "parts: job=1 kind=pool resource=Q ns=40",
            "parts: job=1 kind=running ns=32",
            "along: kind=running part=work resource=stack through=stack process=process 1 pid=1 ns=47",
            "along: kind=running process=process 1 pid=1 ns=41",
            "along: kind=running part=worker-1 resource=stack through=stack process=process 1 pid=1 ns=1",
            "along: kind=queue resource=stack through=stack process=process 1 pid=1 ns=1",
            "along: job=1 kind=running part=work resource=urgent through=urgent process=process 1 pid=1 ns=60",
            "along: job=1 kind=pool resource=Q through=Q process=process 1 pid=1 ns=40",
            "along: job=1 kind=running process=process 1 pid=1 ns=32",
            "along: job=1 kind=running part=worker-1 resource=urgent through=urgent process=process 1 pid=1 ns=3",
            "critical: job=-1 kind=running part=work resource=urgent through=urgent process=process 1 pid=1 ns=60",
            "critical: job=-1 kind=pool resource=Q through=Q process=process 1 pid=1 ns=40",
            "critical: job=-1 kind=running process=process 1 pid=1 ns=37",
            "critical: job=-1 kind=running part=worker-1 resource=urgent through=urgent process=process 1 pid=1 ns=3",
            "critical: kind=running part=work resource=stack through=stack process=process 1 pid=1 ns=47",
            "critical: kind=running process=process 1 pid=1 ns=41",
            "critical: kind=running part=worker-1 resource=stack through=stack process=process 1 pid=1 ns=1",
            "critical: kind=queue resource=stack through=stack process=process 1 pid=1 ns=1",
            "critical: job=1 kind=running part=work resource=urgent through=urgent process=process 1 pid=1 ns=60",
            "critical: job=1 kind=pool resource=Q through=Q process=process 1 pid=1 ns=40",
            "critical: job=1 kind=running process=process 1 pid=1 ns=32",
            "critical: job=1 kind=running part=worker-1 resource=urgent through=urgent process=process 1 pid=1 ns=3",
            "locks: lock=3 name=Q kind=queue waits=3 wait_ns=999999834 max_wait_ns=999999770",
            "locks: lock=5 name=stack kind=queue waits=1 wait_ns=49 max_wait_ns=49",
            "locks: lock=6 name=urgent kind=queue waits=1 wait_ns=103 max_wait_ns=103",
            "waits: lock=3 waits=3 ns=999999834 max_ns=999999770",
            "waits: lock=5 waits=1 ns=49 max_ns=49",
            "waits: lock=6 waits=1 ns=103 max_ns=103",
            "blame: lock=3 doing=nobody ns=999999834",
            "blame: lock=5 doing=nobody ns=49",
            "blame: lock=6 doing=nobody ns=103",
            "spans: name=work process=process 1 pid=1 count=2 total_ns=109 self_ns=109 max_ns=60",
            "pools: process=process 1 pid=1 name=Q workers=1 items=2 queues=1 busy_ns=116 queued_ns=47 wasted_ns=4 running_ns=116 serves=work policy=shared",
        ],
    );
}

#[test]
fn calls_served_one_after_the_other() {
    let events = [
        job(A, 1, 100, 200, &messages::call(A, 1, 110, 170)),
        job(B, 2, 100, 300, &messages::call(B, 2, 115, 250)),
        messages::serve(E, 1, 120, 160),
        messages::serve(E, 2, 163, 230),
    ];
    tells(
        &events.concat(),
        &[
            "jobs: name=boot number=1 process=process 1 pid=1 track=A begin_ns=100 end_ns=200 how=mark ended=returned elsewhere_ns=40",
            "jobs: job=1 name=boot number=2 process=process 1 pid=1 track=B begin_ns=100 end_ns=300 how=mark ended=returned elsewhere_ns=67",
            "parts: kind=running part=call ns=60",
            "parts: kind=running ns=40",
            "parts: job=1 kind=running part=call ns=135",
            "parts: job=1 kind=running ns=65",
            "along: kind=running part=call process=process 1 pid=1 ns=60",
            "along: kind=running process=process 1 pid=1 ns=40",
            "along: job=1 kind=running part=call process=process 1 pid=1 ns=135",
            "along: job=1 kind=running process=process 1 pid=1 ns=65",
            "critical: job=-1 kind=running part=call process=process 1 pid=1 ns=135",
            "critical: job=-1 kind=running process=process 1 pid=1 ns=65",
            "critical: kind=running part=call process=process 1 pid=1 ns=60",
            "critical: kind=running process=process 1 pid=1 ns=40",
            "critical: job=1 kind=running part=call process=process 1 pid=1 ns=135",
            "critical: job=1 kind=running process=process 1 pid=1 ns=65",
            "spans: name=call process=process 1 pid=1 count=2 total_ns=195 self_ns=195 max_ns=135",
            "spans: name=serve process=process 2 pid=2 count=2 total_ns=107 self_ns=107 max_ns=67",
            "pools: process=process 2 pid=2 name=msg E workers=1 items=2 busy_ns=107 queued_ns=56 wasted_ns=3 running_ns=107 serves=serve policy=shared",
        ],
    );
}

#[test]
fn locks_and_the_interpreter() {
    let wait = |ns, kind| (ns, B, kind, GIL, 0);
    let mut inside = hold(B, L, 120, 163, 300);
    inside.splice(2..2, [wait(164, event::LOCK_WAIT), wait(190, event::LOCK_ACQUIRED)]);
    let events = [
        job(
            A,
            1,
            100,
            400,
            &[hold(A, L, 110, 110, 160), span(A, WORK, 170, 380, &hold(A, L, 200, 310, 350))].concat(),
        ),
        job(B, 2, 105, 500, &inside),
        hold(W1, L, 305, 360, 370),
    ];
    tells(
        &events.concat(),
        &[
            "jobs: name=boot number=1 process=process 1 pid=1 track=A begin_ns=100 end_ns=400 how=mark ended=returned",
            "jobs: job=1 name=boot number=2 process=process 1 pid=1 track=B begin_ns=105 end_ns=500 how=mark ended=returned",
            "parts: kind=lock part=work resource=L ns=110",
            "parts: kind=running part=work ns=100",
            "parts: kind=running ns=90",
            "parts: job=1 kind=running ns=326",
            "parts: job=1 kind=lock resource=L ns=43",
            "parts: job=1 kind=gil resource=GIL ns=26",
            "along: kind=lock part=work resource=L through=L process=process 1 pid=1 ns=110",
            "along: kind=running part=work process=process 1 pid=1 ns=100",
            "along: kind=running process=process 1 pid=1 ns=90",
            "along: job=1 kind=running process=process 1 pid=1 ns=326",
            "along: job=1 kind=lock resource=L through=L process=process 1 pid=1 ns=43",
            "along: job=1 kind=gil resource=GIL through=GIL process=process 1 pid=1 ns=26",
            "critical: job=-1 kind=running process=process 1 pid=1 ns=331",
            "critical: job=-1 kind=running part=A resource=L through=L process=process 1 pid=1 ns=40",
            "critical: job=-1 kind=gil resource=GIL through=GIL process=process 1 pid=1 ns=26",
            "critical: job=-1 kind=lock resource=L through=L process=process 1 pid=1 ns=3",
            "critical: kind=running part=B resource=L through=L process=process 1 pid=1 ns=100",
            "critical: kind=running part=work process=process 1 pid=1 ns=100",
            "critical: kind=running process=process 1 pid=1 ns=90",
            "critical: kind=lock part=work resource=L through=L process=process 1 pid=1 ns=10",
            "critical: job=1 kind=running process=process 1 pid=1 ns=326",
            "critical: job=1 kind=running part=A resource=L through=L process=process 1 pid=1 ns=40",
            "critical: job=1 kind=gil resource=GIL through=GIL process=process 1 pid=1 ns=26",
            "critical: job=1 kind=lock resource=L through=L process=process 1 pid=1 ns=3",
            "locks: name=L kind=lock holds=4 hold_ns=237 max_hold_ns=137 waits=3 wait_ns=208 max_wait_ns=110",
            "locks: lock=4 name=GIL kind=interpreter holds=1 hold_ns=999999810 max_hold_ns=999999810 waits=1 wait_ns=26 max_wait_ns=26",
            "waits: waits=2 ns=98 max_ns=55",
            "waits: victim=work waits=1 ns=110 max_ns=110",
            "waits: lock=4 waits=1 ns=26 max_ns=26",
            "blame: doing=track culprit=A ns=40",
            "blame: doing=span culprit=work ns=40",
            "blame: doing=nobody ns=18",
            "blame: victim=work doing=track culprit=B ns=100",
            "blame: victim=work doing=nobody ns=10",
            "blame: lock=4 doing=nobody ns=26",
            "spans: name=work process=process 1 pid=1 count=1 total_ns=210 self_ns=100 max_ns=210",
        ],
    );
}

#[test]
fn greenlets_that_wait_for_each_other() {
    let (mark, switch) =
        (|ns, kind, number| (ns, A, kind, BOOT, number), |ns, to| (ns, A, event::SWITCH, 0, to));
    let events = [
        switch(100, GREEN1),
        mark(100, event::JOB_BEGIN, 1),
        (100, A, event::BEGIN, WORK, 0),
        (120, A, event::LOCK_ACQUIRED, L, 0),
        switch(200, GREEN2),
        mark(200, event::JOB_BEGIN, 2),
        (210, A, event::LOCK_WAIT, L, GREEN1),
        switch(220, A),
        switch(400, GREEN1),
        (420, A, event::LOCK_RELEASED, L, 0),
        switch(430, GREEN2),
        (435, A, event::LOCK_ACQUIRED, L, 0),
        (460, A, event::LOCK_RELEASED, L, 0),
        mark(500, event::JOB_END, 2),
        switch(500, GREEN1),
        (520, A, event::END, WORK, 0),
        mark(530, event::JOB_END, 1),
        switch(530, A),
    ];
    tells(
        &events,
        &[
            "jobs: name=boot number=1 process=process 1 pid=1 track=green 1 begin_ns=100 end_ns=530 how=mark ended=returned",
            "jobs: job=1 name=boot number=2 process=process 1 pid=1 track=green 2 begin_ns=200 end_ns=500 how=mark ended=returned",
            "parts: kind=suspended part=work ns=270",
            "parts: kind=running part=work ns=150",
            "parts: kind=running ns=10",
            "parts: job=1 kind=lock resource=L ns=225",
            "parts: job=1 kind=running ns=75",
            "along: kind=suspended part=work process=process 1 pid=1 ns=270",
            "along: kind=running part=work process=process 1 pid=1 ns=150",
            "along: kind=running process=process 1 pid=1 ns=10",
            "along: job=1 kind=lock resource=L through=L process=process 1 pid=1 ns=225",
            "along: job=1 kind=running process=process 1 pid=1 ns=75",
            "critical: job=-1 kind=suspended part=work process=process 1 pid=1 ns=270",
            "critical: job=-1 kind=running part=work process=process 1 pid=1 ns=150",
            "critical: job=-1 kind=running process=process 1 pid=1 ns=10",
            "critical: kind=suspended part=work process=process 1 pid=1 ns=270",
            "critical: kind=running part=work process=process 1 pid=1 ns=150",
            "critical: kind=running process=process 1 pid=1 ns=10",
            "critical: job=1 kind=suspended part=work resource=L through=L process=process 1 pid=1 ns=190",
            "critical: job=1 kind=running process=process 1 pid=1 ns=75",
            "critical: job=1 kind=running part=work resource=L through=L process=process 1 pid=1 ns=20",
            "critical: job=1 kind=lock resource=L through=L process=process 1 pid=1 ns=15",
            "locks: name=L kind=lock holds=2 hold_ns=325 max_hold_ns=300 waits=1 wait_ns=225 max_wait_ns=225",
            "waits: waits=1 ns=225 max_ns=225",
            "blame: doing=span culprit=work ns=210",
            "blame: doing=nobody ns=15",
            "spans: name=work process=process 1 pid=1 count=1 total_ns=420 self_ns=150 max_ns=420",
        ],
    );
}

#[test]
fn a_request_whose_work_goes_on_and_a_condition() {
    let own = [
        (100, A, event::BEGIN, CALL, 0),
        (110, A, event::LOCK_ACQUIRED, L, 0),
        queues::put(A, Q, 115),
        (120, A, event::LOCK_WAIT, K, 0),
        (121, A, event::LOCK_RELEASED, L, 0),
        (166, A, event::LOCK_ACQUIRED, K, 0),
        (168, A, event::LOCK_ACQUIRED, L, 0),
        (180, A, event::LOCK_RELEASED, L, 0),
        (190, A, event::END, CALL, 0),
    ];
    let used = |ns, cpu, delay| {
        [(ns, W1, event::BEGIN, SERVE, 0), (cpu, W1, event::CPU, 0, 0), (delay, W1, event::RUN_DELAY, 0, 0)]
    };
    let done = |ns, cpu, delay| {
        [(ns, W1, event::END, SERVE, 0), (cpu, W1, event::CPU, 0, 0), (delay, W1, event::RUN_DELAY, 0, 0)]
    };
    let events = [
        job(A, 1, 100, 200, &own),
        queues::get(W1, Q, 50, 117).to_vec(),
        used(118, 1000, 50).to_vec(),
        hold(W1, L, 130, 130, 140),
        done(160, 1020, 62).to_vec(),
        vec![(161, W1, event::LOCK_WAIT, Q, 0)],
        job(B, 2, 150, 240, &hold(B, L, 160, 160, 162)),
    ];
    tells(
        &events.concat(),
        &[
            "jobs: name=boot number=1 process=process 1 pid=1 track=A begin_ns=100 end_ns=200 how=mark ended=returned elsewhere_ns=44",
            "jobs: job=1 name=boot number=2 process=process 1 pid=1 track=B begin_ns=150 end_ns=240 how=mark ended=returned",
            "parts: kind=condition part=call resource=K ns=46",
            "parts: kind=running part=call ns=44",
            "parts: kind=running ns=10",
            "parts: job=1 kind=running ns=90",
            "along: kind=running part=call process=process 1 pid=1 ns=44",
            "along: kind=running part=serve resource=K through=K process=process 1 pid=1 ns=28",
            "along: kind=cpu part=serve resource=K through=K process=process 1 pid=1 ns=12",
            "along: kind=running process=process 1 pid=1 ns=10",
            "along: kind=condition part=call resource=K through=K process=process 1 pid=1 ns=5",
            "along: kind=running part=worker-1 resource=K through=K process=process 1 pid=1 ns=1",
            "along: job=1 kind=running process=process 1 pid=1 ns=90",
            "critical: job=-1 kind=running process=process 1 pid=1 ns=140",
            "critical: kind=running part=call process=process 1 pid=1 ns=44",
            "critical: kind=running part=serve resource=K through=K process=process 1 pid=1 ns=28",
            "critical: kind=cpu part=serve resource=K through=K process=process 1 pid=1 ns=12",
            "critical: kind=running process=process 1 pid=1 ns=10",
            "critical: kind=condition part=call resource=K through=K process=process 1 pid=1 ns=5",
            "critical: kind=running part=worker-1 resource=K through=K process=process 1 pid=1 ns=1",
            "critical: job=1 kind=running process=process 1 pid=1 ns=90",
            "locks: name=L kind=lock holds=4 hold_ns=35 max_hold_ns=12",
            "locks: lock=2 name=K kind=condition waits=1 wait_ns=46 max_wait_ns=46",
            "locks: lock=3 name=Q kind=queue waits=2 wait_ns=999999906 max_wait_ns=999999839",
            "waits: lock=2 victim=call waits=1 ns=46 max_ns=46",
            "waits: lock=3 waits=2 ns=999999906 max_ns=999999839",
            "blame: lock=2 victim=call doing=nobody ns=46",
            "blame: lock=3 doing=nobody ns=999999906",
            "spans: name=call process=process 1 pid=1 count=1 total_ns=90 self_ns=44 max_ns=90",
            "spans: name=serve process=process 1 pid=1 count=1 total_ns=42 self_ns=42 max_ns=42",
            "pools: process=process 1 pid=1 name=Q workers=1 items=1 queues=1 busy_ns=44 queued_ns=2 wasted_ns=2 running_ns=32 serves=serve policy=shared",
        ],
    );
}

#[test]
fn jobs_that_work_for_others_are_theirs_and_those_that_are_left_are_numbered_anew() {
    let message = |thread, ns, kind, id| (ns, thread, kind, MSG, id);
    let events = [
        job(A, 1, 100, 200, &[message(A, 110, event::FLOW_OUT, 7), message(A, 190, event::FLOW_IN, 17)]),
        job(E, 5, 120, 180, &[message(E, 121, event::FLOW_IN, 7), message(E, 175, event::FLOW_OUT, 17)]),
        vec![(181, E, event::LOCK_WAIT, K, 0), (299, E, event::LOCK_GIVEN_UP, K, 0)],
        job(B, 2, 150, 400, &[message(B, 160, event::FLOW_OUT, 8), message(B, 390, event::FLOW_IN, 18)]),
        span(F, SERVE, 170, 380, &[message(F, 171, event::FLOW_IN, 8), message(F, 379, event::FLOW_OUT, 18)]),
        // A message that comes while a job of its own goes on is no part of another one's.
        job(E, 6, 300, 350, &[message(E, 310, event::FLOW_OUT, 9), message(E, 330, event::FLOW_IN, 8)]),
    ];
    tells(
        &events.concat(),
        &[
            "jobs: name=boot number=1 process=process 1 pid=1 track=A begin_ns=100 end_ns=200 how=mark ended=returned elsewhere_ns=60",
            "jobs: job=1 name=boot number=2 process=process 1 pid=1 track=B begin_ns=150 end_ns=400 how=mark ended=returned elsewhere_ns=209",
            "jobs: job=2 name=boot number=6 process=process 2 pid=2 track=E begin_ns=300 end_ns=350 how=mark ended=returned",
            "parts: kind=running ns=100",
            "parts: job=1 kind=running ns=250",
            "parts: job=2 kind=running ns=50",
            "along: kind=running process=process 1 pid=1 ns=100",
            "along: job=1 kind=running process=process 1 pid=1 ns=250",
            "along: job=2 kind=running process=process 2 pid=2 ns=50",
            "critical: job=-1 kind=running process=process 1 pid=1 ns=300",
            "critical: kind=running process=process 1 pid=1 ns=100",
            "critical: job=1 kind=running process=process 1 pid=1 ns=250",
            "critical: job=2 kind=running process=process 2 pid=2 ns=50",
            "locks: lock=2 name=K kind=condition waits=1 wait_ns=118 max_wait_ns=118",
            "waits: lock=2 waits=1 ns=118 max_ns=118",
            "blame: lock=2 doing=nobody ns=118",
            "spans: name=serve process=process 2 pid=2 count=1 total_ns=210 self_ns=210 max_ns=210",
            "pools: process=process 2 pid=2 name=msg E workers=1 items=1 busy_ns=60 queued_ns=11 running_ns=60 policy=shared",
            "pools: pool=1 process=process 2 pid=2 name=msg F workers=1 items=1 busy_ns=209 queued_ns=11 running_ns=209 serves=serve policy=shared",
        ],
    );
}

#[test]
fn spans_that_are_jobs_are_numbered_by_their_name() {
    let events = [
        span(A, CALL, 100, 200, &span(A, CALL, 120, 150, &[])),
        span(A, CALL, 210, 330, &[]),
        span(B, CALL, 220, 300, &[(220, B, event::LOCK_WAIT, K, 0), (290, B, event::LOCK_GIVEN_UP, K, 0)]),
    ];
    tells(
        &events.concat(),
        &[
            "jobs: name=call process=process 1 pid=1 track=A begin_ns=100 end_ns=200 how=outermost ended=returned",
            "jobs: job=1 name=call number=1 process=process 1 pid=1 track=A begin_ns=210 end_ns=330 how=outermost ended=returned",
            "jobs: job=2 name=call number=2 process=process 1 pid=1 track=B begin_ns=220 end_ns=300 how=outermost ended=returned",
            "parts: kind=running part=call ns=100",
            "parts: job=1 kind=running part=call ns=120",
            "parts: job=2 kind=condition resource=K ns=70",
            "parts: job=2 kind=running part=call ns=10",
            "along: kind=running part=call process=process 1 pid=1 ns=100",
            "along: job=1 kind=running part=call process=process 1 pid=1 ns=120",
            "along: job=2 kind=condition resource=K through=K process=process 1 pid=1 ns=70",
            "along: job=2 kind=running part=call process=process 1 pid=1 ns=10",
            "critical: job=-1 kind=running part=call process=process 1 pid=1 ns=220",
            "critical: job=-1 kind=running process=process 1 pid=1 ns=10",
            "critical: kind=running part=call process=process 1 pid=1 ns=100",
            "critical: job=1 kind=running part=call process=process 1 pid=1 ns=120",
            "critical: job=2 kind=condition resource=K through=K process=process 1 pid=1 ns=70",
            "critical: job=2 kind=running part=call process=process 1 pid=1 ns=10",
            "locks: lock=2 name=K kind=condition waits=1 wait_ns=70 max_wait_ns=70",
            "waits: lock=2 victim=call waits=1 ns=70 max_ns=70",
            "blame: lock=2 victim=call doing=nobody ns=70",
            "spans: name=call process=process 1 pid=1 count=4 total_ns=300 self_ns=230 max_ns=120",
        ],
    );
}

#[test]
fn pools_say_who_waited_for_which_worker() {
    // Two queues of one name: the items of the first wait while the worker of the second has nothing to do.
    let events = [
        job(A, 1, 100, 300, &[queues::put(A, Q, 110), queues::put(A, Q, 112), queues::put(A, Q, 114)]),
        job(B, 2, 100, 300, &[queues::put(B, R, 110)]),
        queues::get(W1, Q, 50, 111).to_vec(),
        span(W1, WORK, 113, 150, &[]),
        queues::get(W1, Q, 151, 152).to_vec(),
        span(W1, WORK, 153, 190, &[]),
        queues::get(W1, Q, 191, 192).to_vec(),
        span(W1, WORK, 193, 230, &[]),
        vec![(231, W1, event::LOCK_WAIT, Q, 0)],
        queues::get(W2, R, 50, 111).to_vec(),
        span(W2, WORK, 113, 120, &[]),
        vec![(121, W2, event::LOCK_WAIT, R, 0)],
    ];
    tells(
        &events.concat(),
        &[
            "jobs: name=boot number=1 process=process 1 pid=1 track=A begin_ns=100 end_ns=300 how=mark ended=returned elsewhere_ns=118",
            "jobs: job=1 name=boot number=2 process=process 1 pid=1 track=B begin_ns=100 end_ns=300 how=mark ended=returned elsewhere_ns=10",
            "parts: kind=running ns=200",
            "parts: job=1 kind=running ns=200",
            "along: kind=running process=process 1 pid=1 ns=200",
            "along: job=1 kind=running process=process 1 pid=1 ns=200",
            "critical: job=-1 kind=running process=process 1 pid=1 ns=200",
            "critical: kind=running process=process 1 pid=1 ns=200",
            "critical: job=1 kind=running process=process 1 pid=1 ns=200",
            "locks: lock=3 name=Q kind=queue waits=6 wait_ns=1999999772 max_wait_ns=999999879",
            "waits: lock=3 waits=6 ns=1999999772 max_ns=999999879",
            "blame: lock=3 doing=nobody ns=1999999772",
            "spans: name=work process=process 1 pid=1 count=4 total_ns=118 self_ns=118 max_ns=37",
            "pools: process=process 1 pid=1 name=Q workers=2 items=4 queues=2 busy_ns=128 queued_ns=120 wasted_ns=74 running_ns=128 serves=work policy=fixed",
        ],
    );
}
