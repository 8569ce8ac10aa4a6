//! What jobs do by how late they are.
use contend_core::replay::edits::{Edit, apply};

use super::*;

/// Jobs, one after the other: each waits so long for L, which it then has for 10, and does
/// `work` if that is to be.
fn late(jobs: &[(u64, bool)]) -> Storm {
    let mut events: Vec<Told> = Vec::new();
    for (number, &(wait, works)) in (1..).zip(jobs) {
        let begin = 1000 * u64::from(number);
        let mut inside = hold(A, L, begin + 5, begin + 5 + wait, begin + 15 + wait);
        if works {
            inside.extend(span(A, WORK, begin + 16 + wait, begin + 36 + wait, &[]));
        }
        // Somebody else had it until then.
        events.extend(hold(B, L, begin, begin, begin + 4 + wait));
        events.extend(job(A, number, begin, begin + 40 + wait, &inside));
    }
    events.sort_by_key(|event| event.0);
    storm_of(&events, &[]).unwrap()
}

const EARLY: [(u64, bool); 16] = [
    (10, true),
    (90, false),
    (12, true),
    (95, false),
    (14, true),
    (99, false),
    (11, true),
    (91, false),
    (13, true),
    (94, false),
    (15, true),
    (92, false),
    (10, true),
    (93, false),
    (12, true),
    (96, false),
];

fn otherwise(model: &Model) -> Vec<u32> {
    simulate(model).otherwise
}

#[test]
fn a_span_that_only_those_have_that_are_early_is_decided_by_the_clock() {
    let model = late(&EARLY).model;
    assert_eq!(model.branches.len(), 1);
    let branch = &model.branches[0];
    // Since the begin: 5 until it is asked for, the wait, and 10 held.
    assert_eq!((model.text(branch.name), branch.early, branch.learnt), ("work", true, true));
    assert_eq!((branch.below_ns, branch.above_ns), (30, 105));
    assert_eq!(otherwise(&model), [0], "as they were, they decide as they did");
    let works = |model: &Model| -> Vec<bool> {
        // Each is 5 before the lock, has it for 10, works for 20 if it does, and has 5 more.
        let out = simulate(model);
        let jobs = model.roots.iter().zip(out.roots).filter(|(root, _)| root.job);
        jobs.map(|(_, (begin, end))| end - begin >= 35).collect()
    };
    // Without waits all of them are early, and work as others did.
    let (unlocked, _) = apply(&model, &[Edit::Unlock("L".into())], 0);
    assert_eq!((otherwise(&unlocked), works(&unlocked)), (vec![0], vec![true; 16]));
    // What one does is not known that is later than those that did it, and earlier than those that did not.
    let mut unclear = model.clone();
    unclear.branches[0].below_ns = 20;
    assert_eq!((otherwise(&unclear), works(&unclear)), (vec![8], works(&model)));
    let mut unlearnt = model.clone();
    unlearnt.branches[0].learnt = false;
    let (unlocked, _) = apply(&unlearnt, &[Edit::Unlock("L".into())], 0);
    assert_eq!(otherwise(&unlocked), [8], "who would do what nobody's is known of");
    // What is left out for all is no question any more.
    let (removed, _) = apply(&model, &[Edit::Unlock("L".into()), Edit::Remove("work".into())], 0);
    assert_eq!(otherwise(&removed), [0]);
}

#[test]
fn what_only_the_first_jobs_do_is_not_done_by_others_that_are_early() {
    // They may do it since they are the first, as what fills a cache.
    let mut first = EARLY;
    first.sort_unstable_by_key(|&(wait, _)| wait);
    let model = late(&first).model;
    assert_eq!((model.branches.len(), model.branches[0].learnt), (1, false));
    let (unlocked, _) = apply(&model, &[Edit::Unlock("L".into())], 0);
    assert_eq!(otherwise(&unlocked), [8]);
}

#[test]
fn a_span_that_late_ones_have_too_is_not() {
    let mut mixed = EARLY;
    mixed[3].1 = true;
    assert_eq!(late(&mixed).model.branches, []);
    let few = EARLY.map(|(wait, works)| (wait, works && wait > 13));
    assert_eq!(late(&few).model.branches, [], "two of them may be so by chance");
    let all = EARLY.map(|(wait, _)| (wait, true));
    assert_eq!(late(&all).model.branches, []);
    let late_ones = EARLY.map(|(wait, works)| (wait, !works));
    assert!(!late(&late_ones).model.branches[0].early, "as what is done instead");
}
