//! Greenlets on one thread, and the interpreter's lock: what ran, what was ready, and what waited.
use contend_core::replay::edits::{Edit, apply};

use super::*;

fn switch(ns: u64, to: u32) -> Told {
    (ns, A, event::SWITCH, 0, to)
}

#[test]
fn of_two_greenlets_one_runs_at_a_time() {
    // Both jobs sleep between two pieces of work; the second one's second piece waits for the first one's.
    let mark = |ns, kind, number| (ns, A, kind, BOOT, number);
    let events = [
        switch(100, GREEN1),
        mark(100, event::JOB_BEGIN, 1),
        switch(120_000, GREEN2),
        mark(120_000, event::JOB_BEGIN, 2),
        switch(150_000, A),
        switch(400_000, GREEN1),
        switch(480_000, GREEN2),
        mark(500_000, event::JOB_END, 2),
        switch(500_000, A),
        switch(900_000, GREEN1),
        mark(930_000, event::JOB_END, 1),
        switch(930_000, A),
    ];
    reads(
        &events,
        &[
            "server A",
            "job boot 100-930000",
            "  run 119900 280000 run 80000 420000 run 30000",
            "job boot 120000-500000",
            // Ready at some moment between 400000, when the loop was busy again, and 480000, when it ran.
            "  run 30000 290000 run 20000",
            "jobs 1309900 locks [] pools [] latency 0 unexplained 0",
        ],
    );
}

#[test]
fn who_has_a_lock_and_not_yet_the_interpreter_is_not_working() {
    let wait = |ns, kind| (ns, B, kind, GIL, 0);
    let mut inside = hold(B, L, 120, 163, 300);
    inside.splice(2..2, [wait(164, event::LOCK_WAIT), wait(190, event::LOCK_ACQUIRED)]);
    let events = [job(A, 1, 100, 400, &hold(A, L, 110, 110, 160)), job(B, 2, 105, 500, &inside)];
    let storm = reads(
        &events.concat(),
        &[
            "lock L for 1, handed in 30",
            "job boot 100-400",
            "  10 +L 50 -L 240",
            "job boot 105-500",
            "  15 +L handed in 30 110 -L 200",
            "jobs 695 locks [40] pools [] latency 30 unexplained 0",
        ],
    );
    assert_eq!(storm.regime.gil_ns, Some(26));
}

#[test]
fn a_greenlet_that_was_handed_a_lock_waits_for_its_loop_too() {
    // Released at 200000 by the first, which runs on to 280000: the second has the lock, and then the loop.
    let mark = |ns, kind, number| (ns, A, kind, BOOT, number);
    let events = [
        switch(100, GREEN1),
        mark(100, event::JOB_BEGIN, 1),
        (1000, A, event::LOCK_ACQUIRED, L, 0),
        switch(100_000, GREEN2),
        mark(100_000, event::JOB_BEGIN, 2),
        (120_000, A, event::LOCK_WAIT, L, GREEN1),
        switch(120_000, GREEN1),
        (200_000, A, event::LOCK_RELEASED, L, 0),
        switch(280_000, GREEN2),
        (280_000, A, event::LOCK_ACQUIRED, L, 0),
        (300_000, A, event::LOCK_RELEASED, L, 0),
        mark(310_000, event::JOB_END, 2),
        switch(310_000, GREEN1),
        mark(350_000, event::JOB_END, 1),
        switch(350_000, A),
    ];
    reads(
        &events,
        &[
            "lock L for 1, handed in 0",
            "server A",
            "job boot 100-350000",
            "  run 900 +L run 99000 10000 run 80000 -L run 80000 15000 run 40000",
            "job boot 100000-310000",
            "  run 20000 +L handed in 0 run 20000 -L run 10000",
            "jobs 559900 locks [80000] pools [] latency 0 unexplained 0",
        ],
    );
}

#[test]
fn a_greenlet_waits_for_an_event_with_its_lock_until_a_worker_that_is_a_greenlet_has_done_it() {
    // The event's own lock is let go within the wait, as eventlet's does, and is nobody else's.
    let mark = |ns, kind| (ns, A, kind, BOOT, 1);
    let events = [
        switch(100, GREEN2),
        (110, A, event::LOCK_WAIT, Q, 0),
        switch(120, GREEN1),
        mark(1000, event::JOB_BEGIN),
        (100_000, A, event::QUEUE_PUT, Q, 1),
        (110_000, A, event::LOCK_ACQUIRED, L, 0),
        (111_000, A, event::LOCK_WAIT, K, 0),
        (111_000, A, event::LOCK_RELEASED, L, 0),
        switch(111_000, GREEN2),
        (111_000, A, event::LOCK_ACQUIRED, Q, 1),
        (111_000, A, event::LOCK_RELEASED, Q, 0),
        (111_000, A, event::QUEUE_GOT, Q, 0),
        (120_000, A, event::BEGIN, WORK, 0),
        switch(150_000, A),
        switch(900_000, GREEN2),
        (910_000, A, event::END, WORK, 0),
        (930_000, A, event::LOCK_WAIT, Q, 0),
        switch(930_000, GREEN1),
        (930_000, A, event::LOCK_ACQUIRED, K, 1),
        (930_000, A, event::LOCK_RELEASED, K, 0),
        mark(960_000, event::JOB_END),
        switch(960_000, A),
    ];
    reads(
        &events,
        &[
            "pool Q of process 1: [1] Fifo, idle 0 busy 0",
            "server A",
            "job boot 1000-960000",
            "  run 99000 send 0 run 11000 await 0 run 30000",
            "  Q queue 0 sent 0 picked 0 at once: run 9000 <work run 30000 750000 run 10000 > run 20000 signal 0",
            "jobs 959000 locks [] pools [0] latency 0 unexplained 0",
        ],
    );
}

#[test]
fn greenlets_that_were_made_at_once_come_at_once_and_wait_for_their_loop() {
    // Made at 100 and 200; each computes for 400000. The second one first runs when the first one has let it.
    let mark = |ns, kind, number| (ns, A, kind, BOOT, number);
    let events = [
        (100, A, event::FLOW_OUT, SPAWN, 1),
        (200, A, event::FLOW_OUT, SPAWN, 2),
        switch(1000, GREEN1),
        (1000, A, event::FLOW_IN, SPAWN, 1),
        mark(1100, event::JOB_BEGIN, 1),
        mark(401_000, event::JOB_END, 1),
        switch(401_000, GREEN2),
        (401_000, A, event::FLOW_IN, SPAWN, 2),
        mark(401_500, event::JOB_BEGIN, 2),
        mark(801_000, event::JOB_END, 2),
        switch(801_000, A),
    ];
    let storm = storm_of(&events, &[]).unwrap();
    assert_eq!(
        lines(&storm),
        [
            "server A",
            "job boot 100-401000",
            "  run 100 start run 399900 stop",
            "job boot 200-801000",
            "  run 500 start run 399500 stop",
            "jobs 799400 locks [] pools [] latency 0 unexplained 0",
        ]
    );
    // The job itself begins when it runs. What passed before the first one ran was its maker's, which is no job's.
    assert_eq!(simulate(&storm.model).roots, [(100, 400_000), (400_500, 800_000)]);
}

#[test]
fn a_greenlet_that_was_made_long_before_it_could_run_comes_when_it_runs() {
    // From 100 to 5000000 the loop had nothing else to do: it was to begin later.
    let events = [
        (100, A, event::FLOW_OUT, SPAWN, 1),
        switch(5_000_000, GREEN1),
        (5_000_000, A, event::FLOW_IN, SPAWN, 1),
        (5_000_100, A, event::JOB_BEGIN, BOOT, 1),
        (5_001_000, A, event::JOB_END, BOOT, 1),
        switch(5_001_000, A),
    ];
    let rest = "jobs 900 locks [] pools [] latency 0 unexplained 0";
    reads(&events, &["server A", "job boot 5000100-5001000", "  run 900", rest]);
}

#[test]
fn a_greenlet_is_ready_when_it_is_to_sleep_no_longer() {
    // Asked for 50000 at 20000: it was ready at 70000, and the loop ran the other one up to 400000.
    let mark = |ns, kind, number| (ns, A, kind, BOOT, number);
    let events = [
        switch(100, GREEN1),
        mark(100, event::JOB_BEGIN, 1),
        (20_000, A, event::BEGIN, WORK, 0),
        (0, A, event::ARG, KIND, SLEEP),
        (50_000, A, event::INT, ASKED_NS, 0),
        switch(20_000, GREEN2),
        mark(20_000, event::JOB_BEGIN, 2),
        mark(400_000, event::JOB_END, 2),
        switch(400_000, GREEN1),
        (400_000, A, event::END, WORK, 0),
        mark(410_000, event::JOB_END, 1),
        switch(410_000, A),
    ];
    reads(
        &events,
        &[
            "server A",
            "job boot 100-410000",
            "  run 19900 <work sleep 50000 > run 10000",
            "job boot 20000-400000",
            "  run 380000",
            "jobs 789900 locks [] pools [] latency 0 unexplained 0",
        ],
    );
}

#[test]
fn a_loop_takes_its_time_from_one_to_the_next() {
    // From 100000 to 110000 the loop looks for who is next. Both were due when it looked at 90000, the first since longer.
    let mark = |ns, kind, number| (ns, A, kind, BOOT, number);
    let sleep = |ns, asked| {
        [(ns, A, event::BEGIN, WORK, 0), (0, A, event::ARG, KIND, SLEEP), (asked, A, event::INT, ASKED_NS, 0)]
    };
    let events = [
        vec![switch(100, GREEN1), mark(100, event::JOB_BEGIN, 1)],
        sleep(10_000, 70_000).to_vec(),
        vec![switch(10_000, A), switch(10_100, GREEN2), mark(10_100, event::JOB_BEGIN, 2)],
        sleep(20_100, 69_000).to_vec(),
        vec![
            switch(20_100, A),
            switch(90_000, GREEN1),
            (90_000, A, event::END, WORK, 0),
            mark(100_000, event::JOB_END, 1),
            switch(100_000, A),
            switch(110_000, GREEN2),
            (110_000, A, event::END, WORK, 0),
            mark(130_000, event::JOB_END, 2),
            switch(130_000, A),
        ],
    ];
    let storm = storm_of(&events.concat(), &[]).unwrap();
    assert_eq!(
        lines(&storm),
        [
            "server A",
            "job boot 100-100000",
            "  run 9900 <work sleep 70000 > run 10000",
            "job boot 10100-130000",
            "  run 10000 <work sleep 69000 > run 20000",
            "jobs 219800 locks [] pools [] latency 0 unexplained 0",
        ]
    );
    assert_eq!(storm.model.servers[0].switch_ns, 10_000);
    assert_eq!(simulate(&storm.model).roots, [(0, 99_900), (10_000, 129_900)]);
}

/// GREEN1 makes two jobs, GREEN2's and the thread's second one's, and sleeps between them for 300000.
fn made_one_after_the_other() -> Vec<Told> {
    let mark = |ns, kind, number| (ns, A, kind, BOOT, number);
    vec![
        switch(1000, GREEN1),
        (1000, A, event::FLOW_OUT, SPAWN, 1),
        (2000, A, event::BEGIN, WORK, 0),
        (0, A, event::ARG, KIND, SLEEP),
        (300_000, A, event::INT, ASKED_NS, 0),
        switch(2000, GREEN2),
        (2000, A, event::FLOW_IN, SPAWN, 1),
        mark(2500, event::JOB_BEGIN, 1),
        mark(902_000, event::JOB_END, 1),
        switch(902_000, GREEN1),
        (902_000, A, event::END, WORK, 0),
        (903_000, A, event::FLOW_OUT, SPAWN, 2),
        switch(904_000, GREEN3),
        (904_000, A, event::FLOW_IN, SPAWN, 2),
        mark(904_500, event::JOB_BEGIN, 2),
        mark(1_004_000, event::JOB_END, 2),
        switch(1_004_000, A),
    ]
}

#[test]
fn jobs_come_when_their_maker_has_slept_and_its_turn_has_come() {
    let storm = storm_of(&made_one_after_the_other(), &[]).unwrap();
    assert_eq!(
        lines(&storm),
        [
            "server A",
            "job boot 1000-902000",
            "  run 500 start run 899500 stop",
            "beside green 1 1000-903000",
            "  spawn 0 run 1000 <work sleep 300000 > run 1000 spawn 2",
            "job boot 903000-1004000",
            "  run 500 start run 99500 stop",
            "jobs 999000 locks [] pools [] latency 0 unexplained 0",
        ]
    );
    let out = simulate(&storm.model);
    assert_eq!((out.roots[0], out.roots[2]), ((1500, 901_000), (902_500, 1_002_000)));
    // Without the first one's work the second one comes when its maker has slept.
    let mut short = storm.model.clone();
    short.roots[0].program = vec![Op::Start, Op::Stop];
    assert_eq!(simulate(&short).roots[2], (302_500, 402_000));
}

#[test]
fn jobs_that_are_drawn_are_made_by_the_same_maker() {
    let storm = storm_of(&made_one_after_the_other(), &[]).unwrap();
    let spawns = |jobs| {
        let (model, _) = apply(&storm.model, &[Edit::Jobs(jobs)], 1);
        let maker = model.roots.iter().find(|root| !root.job).unwrap();
        let made = maker.program.iter().filter_map(|op| match op {
            Op::Spawn(root) => Some(model.roots[*root as usize].job),
            _ => None,
        });
        (made.collect::<Vec<_>>(), simulate(&model).roots.iter().filter(|root| root.1 < UNKNOWN).count())
    };
    assert_eq!(spawns(1), (vec![true], 2));
    assert_eq!(spawns(2), (vec![true, true], 3));
    // More than there were come at times of their own.
    assert_eq!(spawns(3), (vec![], 4));
}

#[test]
fn a_callback_of_a_loop_of_tasks_is_run_beside_the_tasks() {
    let mark = |ns, kind| (ns, A, kind, BOOT, 1);
    let events = [
        (100, A, event::FLOW_OUT, SPAWN, 1),
        switch(200, TASK1),
        (200, A, event::FLOW_IN, SPAWN, 1),
        mark(300, event::JOB_BEGIN),
        (10_000, A, event::BEGIN, WORK, 0),
        (0, A, event::ARG, KIND, SLEEP),
        (50_000, A, event::INT, ASKED_NS, 0),
        switch(10_000, A),
        (50_000, A, event::BEGIN, SERVE, 0),
        (520_000, A, event::END, SERVE, 0),
        switch(520_000, TASK1),
        (520_000, A, event::END, WORK, 0),
        mark(530_000, event::JOB_END),
        switch(530_000, A),
    ];
    let storm = storm_of(&events, &[]).unwrap();
    assert_eq!(
        lines(&storm),
        [
            "server A",
            "job boot 100-530000",
            "  run 100 start run 9700 <work sleep 50000 > run 10000 stop",
            "beside A 50000-520000",
            "  due 0 <serve run 470000 >",
            "jobs 529700 locks [] pools [] latency 0 unexplained 0",
        ]
    );
    assert_eq!(simulate(&storm.model).roots[0], (100, 529_900));
    // It is called, and does nothing; a loop that does nothing looks at its timers after whole milliseconds.
    let (model, _) = apply(&storm.model, &[Edit::Remove("serve".to_owned())], 1);
    assert_eq!(simulate(&model).roots[0], (100, 1_059_900));
}

#[test]
fn a_callback_that_has_itself_called_again_comes_after_its_own_end() {
    // Five times, each 3,000,000 after the end of the one before, which takes 1,000,000; the loop is 50,000 late; the job sleeps meanwhile.
    let mark = |ns, kind| (ns, A, kind, BOOT, 1);
    let mut events = vec![
        (100, A, event::FLOW_OUT, SPAWN, 1),
        switch(200, TASK1),
        (200, A, event::FLOW_IN, SPAWN, 1),
        mark(300, event::JOB_BEGIN),
        (400, A, event::BEGIN, WORK, 0),
        (0, A, event::ARG, KIND, SLEEP),
        (20_000_000, A, event::INT, ASKED_NS, 0),
        switch(400, A),
    ];
    for at in 0..5 {
        events.extend(span(A, SERVE, 3_000_000 + 4_050_000 * at, 4_000_000 + 4_050_000 * at, &[]));
    }
    events.extend([
        switch(20_300_000, TASK1),
        (20_300_000, A, event::END, WORK, 0),
        mark(20_300_100, event::JOB_END),
        switch(20_300_100, A),
    ]);
    let storm = storm_of(&events, &[]).unwrap();
    let told = lines(&storm);
    let callback = told.iter().find(|line| line.contains("again")).unwrap();
    let once = "<serve run 1000000 > due 3000000";
    assert!(callback.contains(&format!("due 0 {once} {once}")), "{told:?}");
    assert!(callback.ends_with("again 3000000"), "{told:?}");
    // Twice as long each, they come less often.
    let mut longer = storm.model.clone();
    longer.roots.iter_mut().filter(|root| !root.job).flat_map(|root| &mut root.program).for_each(|op| {
        if let Op::Run { ns, .. } = op {
            *ns *= 2;
        }
    });
    let ran = |model: &Model| simulate(model).ran_ns[0];
    assert!(ran(&longer) < ran(&storm.model) * 7 / 4, "{} {}", ran(&longer), ran(&storm.model));
}

#[test]
fn a_task_that_a_job_makes_and_waits_for_is_an_item_of_the_job() {
    let mark = |ns, kind| (ns, A, kind, BOOT, 1);
    let events = [
        switch(1000, GREEN1),
        mark(1000, event::JOB_BEGIN),
        (11_000, A, event::FLOW_OUT, SPAWN, 1),
        switch(21_000, TASK1),
        (21_000, A, event::FLOW_IN, SPAWN, 1),
        (31_000, A, event::BEGIN, WORK, 0),
        (0, A, event::ARG, KIND, SLEEP),
        (500_000, A, event::INT, ASKED_NS, 0),
        switch(31_000, A),
        switch(531_000, TASK1),
        (531_000, A, event::END, WORK, 0),
        switch(531_000, GREEN1),
        mark(541_000, event::JOB_END),
        switch(541_000, A),
    ];
    let storm = reads(
        &events,
        &[
            "pool green of process 1: any Fifo, idle 0 busy 0",
            "server A",
            "job boot 1000-541000",
            "  run 10000 send 0 run 10000 await 0 run 10000",
            "  green queue 0 sent 0 picked 0 at once: run 10000 <work 500000 signal 0 >",
            "jobs 540000 locks [] pools [0] latency 0 unexplained 0",
        ],
    );
    assert_eq!(storm.unseen.suspended_ns, 0);
}

#[test]
fn a_task_waits_for_its_loop_however_often_that_looks_for_what_is_ready() {
    // The second task is made at 100. The first one runs sixty times for 960,000, and between two of these the loop looks for
    // 40,000: 2,400,000 in all.
    let mark = |ns, kind, number| (ns, A, kind, BOOT, number);
    let mut events = vec![
        (100, A, event::FLOW_OUT, SPAWN, 1),
        (200, A, event::FLOW_OUT, SPAWN, 2),
        switch(300, TASK1),
        (300, A, event::FLOW_IN, SPAWN, 1),
        mark(300, event::JOB_BEGIN, 1),
    ];
    for turn in 1..60 {
        events.extend([switch(1_000_000 * turn - 40_000, A), switch(1_000_000 * turn, TASK1)]);
    }
    events.extend([
        mark(59_960_000, event::JOB_END, 1),
        switch(59_960_000, A),
        switch(60_000_000, TASK2),
        (60_000_000, A, event::FLOW_IN, SPAWN, 2),
        mark(60_000_000, event::JOB_BEGIN, 2),
        mark(60_500_000, event::JOB_END, 2),
        switch(60_500_000, A),
    ]);
    let storm = storm_of(&events, &[]).unwrap();
    let come: Vec<u64> = storm.model.jobs().map(|at| storm.model.roots[at].begin_ns).collect();
    assert_eq!(come, [100, 200]);
}

#[test]
fn who_lets_others_run_while_giving_a_lock_back_has_given_it_back_after_that() {
    let mark = |ns, kind, number| (ns, A, kind, BOOT, number);
    let events = |between: u64| {
        [
            switch(1000, GREEN1),
            mark(1000, event::JOB_BEGIN, 1),
            (101_000, A, event::LOCK_ACQUIRED, L, 0),
            (201_000, A, event::LOCK_RELEASED, L, 0),
            switch(211_000, A),
            switch(212_000, GREEN2),
            mark(212_000, event::JOB_BEGIN, 2),
            switch(222_000, A),
            switch(222_000 + between, GREEN1),
            mark(922_000, event::JOB_END, 1),
            switch(922_000, GREEN2),
            (930_000, A, event::LOCK_ACQUIRED, L, 0),
            (940_000, A, event::LOCK_RELEASED, L, 0),
            mark(950_000, event::JOB_END, 2),
            switch(950_000, A),
        ]
    };
    let first = |between| lines(&storm_of(&events(between), &[]).unwrap())[3].clone();
    assert_eq!(first(1000), "  run 100000 +L run 100000 run 10000 6000 -L run 699000");
    // It waits for something: nothing says for what.
    assert_eq!(first(100_000), "  run 100000 +L run 100000 -L run 10000 111000 run 600000");
}

#[test]
fn a_callback_that_was_ready_before_a_task_was_made_runs_before_it() {
    // The maker runs from 1000 on, and makes the job at 21,000; the callback was called for before.
    let mark = |ns, kind, number| (ns, A, kind, BOOT, number);
    let events = [
        switch(1000, TASK2),
        (21_000, A, event::FLOW_OUT, SPAWN, 1),
        (31_000, A, event::BEGIN, WORK, 0),
        (0, A, event::ARG, KIND, SLEEP),
        (5_000_000, A, event::INT, ASKED_NS, 0),
        switch(31_000, A),
        (32_000, A, event::BEGIN, SERVE, 0),
        (532_000, A, event::END, SERVE, 0),
        switch(533_000, TASK1),
        (533_000, A, event::FLOW_IN, SPAWN, 1),
        mark(534_000, event::JOB_BEGIN, 1),
        mark(634_000, event::JOB_END, 1),
        switch(634_000, A),
        switch(6_000_000, TASK2),
        (6_000_000, A, event::END, WORK, 0),
        (6_001_000, A, event::FLOW_OUT, SPAWN, 2),
        switch(6_002_000, GREEN3),
        (6_002_000, A, event::FLOW_IN, SPAWN, 2),
        mark(6_002_000, event::JOB_BEGIN, 2),
        mark(6_102_000, event::JOB_END, 2),
        switch(6_102_000, A),
    ];
    let storm = storm_of(&events, &[]).unwrap();
    assert_eq!(
        lines(&storm)[1..5],
        [
            "beside green 2 1000-6001000",
            "  run 20000 spawn 2 run 10000 <work sleep 5000000 > run 1000 spawn 3",
            "beside A 16500-532000",
            "  due 0 <serve run 500000 >",
        ]
    );
    let (begins, ends) = simulate(&storm.model).roots[2];
    assert!(begins > 530_000 && ends == begins + 100_000, "{begins} {ends}");
}
