//! Locks, pools, signals, and laws that hold for any model.
use super::support::{ACQUIRE, call, delays, drawn, ends, item, model, root, served};
use contend_core::replay::edits::{Edit, apply};
use contend_core::replay::model::{Discipline, Lock, Op, Order, Root, UNKNOWN};
use contend_core::replay::simulate::simulate;

#[test]
fn a_lock_goes_to_who_asked_first_and_its_waits_are_counted() {
    let hold = |before: u64| vec![Op::Delay(before), ACQUIRE, Op::Delay(10), Op::Release(0)];
    let roots = vec![root(0, hold(0), vec![]), root(0, hold(2), vec![]), root(0, hold(1), vec![])];
    let out = simulate(&model(roots, vec![]));
    assert_eq!(out.roots.iter().map(|r| r.1).collect::<Vec<_>>(), [10, 30, 20]);
    assert_eq!((out.lock_ns[0], out.held_ns[0]), (9 + 18, 30));
}

#[test]
fn a_handover_takes_its_time_and_a_barging_lock_may_be_taken_meanwhile() {
    let once = vec![ACQUIRE, Op::Delay(10), Op::Release(0)];
    let twice = [once.clone(), vec![Op::Delay(1)], once.clone()].concat();
    let mut model = model(vec![root(0, twice, vec![]), root(1, once, vec![])], vec![]);
    model.locks[0].handover_ns = 5;
    assert_eq!(ends(&model), [40, 25], "the other has it at 15, and the first again at 30");
    model.locks[0].order = Order::Barging;
    assert_eq!(ends(&model), [21, 36], "taken again at 11, before the other is awake");
}

#[test]
fn a_semaphore_has_as_many_holders_as_it_allows() {
    let hold = vec![ACQUIRE, Op::Delay(10), Op::Release(0)];
    let mut model = model((0..5).map(|_| root(0, hold.clone(), vec![])).collect(), vec![]);
    model.locks[0].capacity = 2;
    assert_eq!(ends(&model), [10, 10, 20, 20, 30]);
}

#[test]
fn items_wait_for_the_workers_of_their_queue() {
    let jobs = |queue: [u32; 4]| {
        let of = queue.map(|queue| root(0, call(0, 0).to_vec(), vec![served(queue, 10, 0)]));
        of.to_vec()
    };
    let fixed = model(jobs([0, 0, 0, 1]), vec![1, 1]);
    let out = simulate(&fixed);
    assert_eq!(ends(&fixed), [10, 20, 30, 10]);
    // From 10 on the second worker is idle, while one item waits, then none.
    assert_eq!((out.pool_ns[0], out.busy_ns[0], out.wasted_ns[0]), (30, 40, 10));
    let (global, _) = apply(&fixed, &[Edit::GlobalQueue("pool".into())], 0);
    assert_eq!(ends(&global), [10, 10, 20, 20]);
    let (more, _) = apply(&global, &[Edit::Workers("p*".into(), 4)], 0);
    assert_eq!(ends(&more), [10; 4]);
}

#[test]
fn what_came_in_last_is_taken_first_where_the_queue_does_so() {
    let jobs = |at| root(at, call(0, 0).to_vec(), vec![served(0, 10, 0)]);
    let mut model = model((0..4).map(jobs).collect(), vec![1]);
    assert_eq!(ends(&model), [10, 20, 30, 40]);
    model.pools[0].discipline = Discipline::Lifo;
    assert_eq!(ends(&model), [10, 40, 30, 20]);
}

#[test]
fn who_waits_for_longer_than_it_would_is_counted() {
    let takes = |patience_ns| {
        let acquire = Op::Acquire { lock: 0, handover_ns: UNKNOWN, patience_ns, alone: false };
        vec![acquire, Op::Delay(10), Op::Release(0)]
    };
    let overdue = |patience_ns| {
        let roots = vec![root(0, takes(0), vec![]), root(1, takes(patience_ns), vec![])];
        simulate(&model(roots, vec![])).overdue[0]
    };
    assert_eq!((overdue(UNKNOWN), overdue(9), overdue(8), overdue(0)), (0, 0, 1, 1));
}

#[test]
fn a_signal_is_not_lost_when_nobody_waits_yet() {
    let program = vec![Op::Send(0), Op::Delay(50), Op::Await { signal: 0, latency_ns: 7 }];
    assert_eq!(ends(&model(vec![root(0, program, vec![served(0, 10, 0)])], vec![1])), [50]);
    let waits = vec![Op::Send(0), Op::Await { signal: 0, latency_ns: 7 }];
    assert_eq!(ends(&model(vec![root(0, waits, vec![served(0, 10, 0)])], vec![1])), [17]);
}

#[test]
fn a_request_that_is_answered_before_it_is_done_ends_with_its_last_item() {
    let program = vec![Op::Send(0), Op::Send(1), Op::Delay(5)];
    let mut one = root(0, program, vec![item(0, vec![Op::Delay(10)]), item(0, vec![Op::Delay(10)])]);
    assert_eq!(ends(&model(vec![one.clone()], vec![1])), [5]);
    one.until_ns = Some(99);
    assert_eq!(ends(&model(vec![one.clone()], vec![1])), [20]);
    assert_eq!(ends(&model(vec![one], vec![2])), [10], "with a worker more");
}

#[test]
fn what_never_comes_never_ends() {
    let waits = vec![Op::Await { signal: 0, latency_ns: 0 }];
    let mut one = root(0, waits, vec![]);
    one.signals = 1;
    assert_eq!(ends(&model(vec![one], vec![])), [UNKNOWN]);
}

#[test]
fn a_client_goes_on_at_its_distance() {
    let of = |begin, end, after| Root {
        begin_ns: begin,
        end_ns: end,
        after,
        ..root(begin, vec![ACQUIRE, Op::Delay(10), Op::Release(0)], vec![])
    };
    let model = model(vec![of(0, 10, None), of(13, 23, Some(0)), of(0, 20, None)], vec![]);
    let out = simulate(&model);
    assert_eq!(out.roots[1], (13, 30), "3 after the end of the one before, then behind the third");
}

#[test]
fn the_parts_of_all_jobs_sum_to_their_time() {
    for seed in 1..200 {
        let model = drawn(seed, 30, true);
        let out = simulate(&model);
        let took: u64 = out.roots.iter().map(|r| r.1 - r.0).sum();
        let work: u64 = model.roots.iter().flat_map(Root::programs).map(|p| delays(p)).sum();
        assert_eq!(took, work + out.lock_ns[0] + out.pool_ns[0], "seed {seed}");
        // Held as long as it is worked under, and never by two.
        let end = out.roots.iter().map(|r| r.1).max().unwrap();
        assert!(out.held_ns[0] <= end, "seed {seed}");
        assert_eq!(simulate(&model), out, "the same again");
    }
}

#[test]
fn a_barging_semaphore_wakes_as_many_as_it_has_room_for() {
    let hold = vec![ACQUIRE, Op::Delay(10), Op::Release(0)];
    let mut model = model((0..4).map(|_| root(0, hold.clone(), vec![])).collect(), vec![]);
    model.locks[0] = Lock { capacity: 2, order: Order::Barging, handover_ns: 3, ..model.locks[0].clone() };
    // Both are released at 10; the third wakes at 13 and the fourth 3 later, for there is room for it.
    assert_eq!(ends(&model), [10, 10, 23, 26]);
}

#[test]
fn who_is_woken_and_finds_the_lock_taken_waits_behind_all_others() {
    let once = |before: u64| vec![Op::Delay(before), ACQUIRE, Op::Delay(10), Op::Release(0)];
    let roots = [0, 1, 2, 12].map(|before| root(0, once(before), vec![])).to_vec();
    let mut model = model(roots, vec![]);
    model.locks[0].handover_ns = 5;
    model.locks[0].order = Order::Barging;
    // The second is woken at 15, when the last one has it since 12; it is woken again at 27.
    assert_eq!(ends(&model), [10, 37, 52, 22]);
    model.locks[0].order = Order::Notified;
    assert_eq!(ends(&model), [10, 52, 37, 22], "the third is the one that is woken then");
}

#[test]
fn many_share_a_lock_or_one_has_it_alone() {
    let of = |before: u64, alone: bool| {
        let acquire = Op::Acquire { lock: 0, handover_ns: UNKNOWN, patience_ns: UNKNOWN, alone };
        root(0, vec![Op::Delay(before), acquire, Op::Delay(10), Op::Release(0)], vec![])
    };
    let roots = vec![of(0, false), of(1, false), of(2, true), of(3, false), of(4, true), of(14, false)];
    let mut model = model(roots, vec![]);
    model.locks[0] = Lock { capacity: u32::MAX, order: Order::Shared, ..model.locks[0].clone() };
    // Who shares goes before those that wait to be alone, which have it one after the other; then the last one has it.
    assert_eq!(ends(&model), [10, 11, 23, 13, 33, 43]);
    let out = simulate(&model);
    assert_eq!((out.lock_ns[0], out.held_ns[0]), (11 + 19 + 19, 60));
}
