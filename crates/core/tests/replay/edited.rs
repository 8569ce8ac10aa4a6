//! What edits make of a storm.
use super::support::{ACQUIRE, call, chatty, delays, drawn, ends, item, model, root, served};
use contend_core::replay::coalesce::Source;
use contend_core::replay::edits::{Edit, apply};
use contend_core::replay::model::{Item, Op, Root};

#[test]
fn a_hold_scales_what_its_holder_does_and_not_what_it_waits_for() {
    let program = [
        vec![Op::Delay(100), ACQUIRE, Op::Delay(40)],
        call(0, 0).to_vec(),
        vec![Op::Release(0), Op::Delay(5)],
    ];
    let before = model(vec![root(0, program.concat(), vec![served(0, 30, 0)])], vec![1]);
    assert_eq!(ends(&before), [175]);
    let (after, _) = apply(&before, &[Edit::Hold("L".into(), 0.5)], 0);
    assert_eq!(ends(&after), [155]);
}

#[test]
fn what_is_removed_takes_its_calls_and_holds_with_it() {
    let enter = Op::Enter { name: 4, items: 0 };
    let program = [
        vec![Op::Delay(1), enter, ACQUIRE, Op::Delay(40)],
        call(0, 0).to_vec(),
        vec![Op::Leave, Op::Delay(5), Op::Release(0)],
    ];
    let before = model(vec![root(0, program.concat(), vec![served(0, 30, 0)])], vec![1]);
    assert_eq!(ends(&before), [76]);
    let (after, _) = apply(&before, &[Edit::Remove("aud*".into())], 0);
    assert_eq!(after.roots[0].program, [Op::Delay(1), Op::Delay(5)], "the hold ends outside, and goes too");
    let (after, _) = apply(&before, &[Edit::Remove("call".into())], 0);
    assert_eq!(ends(&after), [46]);
}

#[test]
fn merged_calls_cost_their_items_and_one_call() {
    let before = chatty(&[1, 2, 3, 1, 2, 3, 1]);
    assert_eq!(ends(&before), [700 + 130]);
    let (after, costs) = apply(&before, &[Edit::Coalesce("call".into(), 4)], 0);
    assert_eq!(ends(&after), [200 + 130]);
    let cost = &costs[0];
    assert_eq!((cost.source, cost.before, cost.after), (Source::Calls, 7, 2));
    assert!((cost.fixed_ns - 100.0).abs() < 1e-6 && (cost.item_ns - 10.0).abs() < 1e-6, "{cost:?}");
}

#[test]
fn a_cost_that_cannot_be_learnt_is_said() {
    let (after, costs) = apply(&chatty(&[1; 8]), &[Edit::Coalesce("call".into(), 8)], 0);
    assert_eq!(costs[0].source, Source::Server);
    assert_eq!(ends(&after), [8 * 110], "all of the server's work is the items'");
    let (after, _) = apply(&chatty(&[1; 8]), &[Edit::CoalesceOther("call".into(), 8)], 0);
    assert_eq!(ends(&after), [110], "or all of it the call's");
}

#[test]
fn calls_far_apart_are_not_in_a_row() {
    let mut before = chatty(&[1, 2, 3, 1, 2, 3, 1]);
    before.roots[0].program.splice(4..4, [Op::Delay(1000)]);
    let (after, costs) = apply(&before, &[Edit::Coalesce("call".into(), 8)], 0);
    assert_eq!(costs[0].after, 2);
    assert_eq!(ends(&after), [1000 + 200 + 130]);
}

#[test]
fn what_a_pool_serves_for_others_teaches_what_a_call_costs() {
    // Eight calls of one item each; the same pool serves items of a second kind, which say how many they carry.
    let mut model = chatty(&[1; 8]);
    let others: Vec<Item> = (1..7)
        .map(|n| {
            item(0, vec![Op::Enter { name: 4, items: n }, Op::Delay(100 + 10 * u64::from(n)), Op::Leave])
        })
        .collect();
    model.roots.push(root(0, (0..6).map(Op::Send).collect(), others));
    let (after, costs) = apply(&model, &[Edit::Coalesce("call".into(), 8)], 0);
    assert_eq!((costs[0].source, costs[0].before, costs[0].after), (Source::Pool, 8, 1));
    assert!((costs[0].fixed_ns - 100.0).abs() < 1e-6 && (costs[0].item_ns - 10.0).abs() < 1e-6);
    assert_eq!(delays(&after.roots[0].items[0].program), 100 + 8 * 10);
}

#[test]
fn more_workers_of_one_queue_never_end_later_where_no_lock_is_held() {
    for seed in 1..100 {
        // One call a job: with several, who comes second may find the queue longer.
        let mut model = drawn(seed, 40, false);
        for root in &mut model.roots {
            let first = root.program.iter().position(|op| *op == Op::Leave).map_or(1, |at| at + 1);
            root.program.truncate(first);
        }
        let mut last = vec![u64::MAX; 40];
        for workers in 1..6 {
            let edits = [Edit::GlobalQueue("pool".into()), Edit::Workers("pool".into(), workers)];
            let now = ends(&apply(&model, &edits, 0).0);
            assert!(now.iter().zip(&last).all(|(now, last)| now <= last), "seed {seed} {workers} workers");
            last = now;
        }
    }
}

#[test]
fn a_multiple_of_the_workers_divides_each_queue() {
    // Two queues become four: what was in the first goes to it or the third, some to each.
    let roots: Vec<Root> =
        (0..64).map(|at| root(0, call(0, 0).to_vec(), vec![served(at % 2, 10, 0)])).collect();
    let (four, _) = apply(&model(roots.clone(), vec![1, 1]), &[Edit::Workers("pool".into(), 4)], 3);
    let mut used = [0; 4];
    for (at, root) in (0..).zip(&four.roots) {
        let queue = root.items[0].queue;
        assert_eq!(queue % 2, at % 2, "from the queue it was in");
        used[queue as usize] += 1;
    }
    assert!(used.iter().all(|&jobs| jobs > 5), "{used:?}");
    // Three are no multiple: each goes anywhere.
    let (three, _) = apply(&model(roots, vec![1, 1]), &[Edit::Workers("pool".into(), 3)], 3);
    let mut of_first = [0; 3];
    three.roots.iter().step_by(2).for_each(|root| of_first[root.items[0].queue as usize] += 1);
    assert!(of_first.iter().all(|&jobs| jobs > 3), "{of_first:?}");
}

#[test]
fn ways_that_take_half_as_long() {
    let mut done = item(0, vec![Op::Delay(10), Op::Signal(0)]);
    (done.transit_ns, done.pickup_ns) = (4, 6);
    let program = vec![Op::Send(0), Op::Await { signal: 0, latency_ns: 8 }, Op::Delay(5)];
    let before = model(vec![root(0, program, vec![done])], vec![1]);
    assert_eq!(ends(&before), [4 + 6 + 10 + 8 + 5]);
    let (after, _) = apply(&before, &[Edit::Ways(0.5)], 0);
    assert_eq!(ends(&after), [2 + 3 + 10 + 4 + 5]);
}

#[test]
fn steps_that_take_a_little_more_or_less() {
    let steps = vec![Op::Delay(1_000_000); 1000];
    let before = model(vec![root(0, steps, vec![])], vec![]);
    let uneven = |seed| apply(&before, &[Edit::Uneven(0.02)], seed).0;
    let after = uneven(1);
    assert_eq!(after, uneven(1));
    assert_ne!(after, uneven(2));
    let times: Vec<u64> = after.roots[0].program.iter().map(Op::time_ns).collect();
    assert!(times.iter().all(|ns| (980_000..=1_020_000).contains(ns)));
    assert!(times.iter().any(|&ns| ns < 985_000) && times.iter().any(|&ns| ns > 1_015_000));
    // On average as long: 1,000 steps, whose standard deviation is 2 % / sqrt(3).
    let sum: u64 = times.iter().sum();
    assert!(sum.abs_diff(1_000_000_000) < 2_000_000, "{sum}");
}
