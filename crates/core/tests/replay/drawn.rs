//! Jobs that are drawn, and other orders of them.
use super::support::{call, drawn, ends, model, root, served};
use contend_core::replay::edits::{Edit, Random, apply, reorder};
use contend_core::replay::model::{Model, Root, UNKNOWN};

#[test]
fn jobs_are_drawn_and_come_at_the_recorded_rate() {
    let (more, _) = apply(&drawn(3, 10, true), &[Edit::Jobs(25)], 7);
    let begins: Vec<u64> = more.roots.iter().map(|root| root.begin_ns).collect();
    assert_eq!(begins, (0..25).collect::<Vec<_>>());
    assert!(ends(&more).iter().all(|&end| end != UNKNOWN));
    // In their order, from any of them on.
    let recorded = drawn(3, 10, true);
    let is_of = |job: &Root, at: usize| job.program == recorded.roots[at % 10].program;
    let start = (0..10).find(|&at| is_of(&more.roots[0], at)).unwrap();
    assert!(more.roots.iter().zip(start..).all(|(job, at)| is_of(job, at)));
    let (again, _) = apply(&drawn(3, 10, true), &[Edit::Jobs(25)], 7);
    assert_eq!(more, again);
}

/// How many jobs have their only item in each queue, when there are 25 times as many.
fn more_jobs_by_queue(recorded: &[u32]) -> Vec<u32> {
    let mut roots = Vec::new();
    for (queue, &jobs) in (0..).zip(recorded) {
        for _ in 0..jobs {
            roots.push(root(0, call(0, 0).to_vec(), vec![served(queue, 10, 0)]));
        }
    }
    let jobs = roots.len() as u32 * 25;
    let (more, _) = apply(&model(roots, vec![1; recorded.len()]), &[Edit::Jobs(jobs)], 1);
    let mut counts = vec![0; recorded.len()];
    more.roots.iter().for_each(|root| counts[root.items[0].queue as usize] += 1);
    counts
}

#[test]
fn more_jobs_spread_evenly_over_a_map_of_keys_unless_it_is_known_to_be_uneven() {
    // Sixteen keys over five queues, as uneven as chance makes them: 400 keys are less so.
    let by_chance = more_jobs_by_queue(&[6, 1, 4, 2, 3]);
    assert!(by_chance.iter().all(|count| (55..105).contains(count)), "{by_chance:?}");
    // Two hosts, and so two keys: no other queue is ever used.
    let by_host = more_jobs_by_queue(&[8, 0, 0, 8, 0, 0, 0, 0]);
    assert_eq!(by_host[0] + by_host[3], 400, "{by_host:?}");
}

#[test]
fn a_use_of_queues_that_chance_would_not_make_stays_as_it_was() {
    // Of two queues and 40 jobs: chi-square is 3.6 for 26 and 14, 4.9 for 27 and 13; 3.84 is its quantile.
    let even = more_jobs_by_queue(&[26, 14]);
    assert!((460..540).contains(&even[0]), "{even:?}");
    let uneven = more_jobs_by_queue(&[27, 13]);
    assert!((630..720).contains(&uneven[0]), "{uneven:?}");
}

#[test]
fn another_order_keeps_the_times_of_arrival() {
    let mut model = drawn(5, 30, true);
    for root in &mut model.roots {
        root.end_ns = root.begin_ns + 10_000;
    }
    let mut other = model.clone();
    reorder(&mut other, 11);
    let sorted = |model: &Model| {
        let mut begins: Vec<u64> = model.roots.iter().map(|root| root.begin_ns).collect();
        begins.sort_unstable();
        begins
    };
    assert_eq!(sorted(&other), sorted(&model));
    assert_ne!(other, model);
}

#[test]
fn numbers_are_drawn_as_splitmix64_does() {
    // <https://prng.di.unimi.it/splitmix64.c>, seed 0.
    let mut random = Random::new(0);
    assert_eq!([random.draw(), random.draw()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
}
