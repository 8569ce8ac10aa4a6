//! Reading without a recogniser: what it stands for is replayed as recorded.
use contend_core::replay::reading::Recogniser;

use super::*;

fn read(events: &[Told], without: &[Recogniser]) -> Vec<String> {
    let (trace, _place) = trace_of(events);
    let reading = Reading { without: without.to_vec(), ..Reading::default() };
    lines(&extract(&trace, &[], &reading, || Ok(())).unwrap())
}

#[test]
fn recognisers_have_names() {
    for (one, name) in Recogniser::ALL {
        assert_eq!(name.parse::<Recogniser>().unwrap(), one);
    }
    let error = "lock".parse::<Recogniser>().unwrap_err().to_string();
    assert!(error.contains("no recogniser is called 'lock'"), "{error}");
}

#[test]
fn without_one_its_waits_are_time_like_any_other() {
    let door = |thread, number, (asked, had, freed): (u64, u64, u64)| {
        let held = hold(thread, S, asked, had, freed);
        let (before, after) = held.split_at(held.len() - 1);
        [before, &job(thread, number, had + 1, freed - 1, &[]), after].concat()
    };
    let events = [door(A, 1, (100, 100, 150)), door(B, 2, (101, 150, 200))].concat();
    let whole = read(&events, &[]);
    assert!(
        whole[0].starts_with("lock S for 1") && whole.iter().any(|line| line.contains("+S")),
        "{whole:?}"
    );
    for without in [Recogniser::Doors, Recogniser::Semaphores] {
        let less = read(&events, &[without]);
        assert!(!less.iter().any(|line| line.contains("+S")), "{less:?}");
    }
    let alone = read(&events, &[Recogniser::Doors]);
    assert!(alone.iter().any(|line| line == "job boot 101-149"), "{alone:?}");
    assert_eq!(read(&events, &[Recogniser::Stacks, Recogniser::Turns]), whole);
}

#[test]
fn an_answer_that_is_not_recognised_is_a_wait_that_nothing_explains() {
    let events = [
        job(A, 1, 100, 190, &[&[queues::put(A, Q, 110)][..], &queues::get(A, STACK, 115, 164), &[]].concat()),
        queues::get(W1, Q, 50, 112).to_vec(),
        span(W1, WORK, 113, 162, &[queues::put(W1, STACK, 160)]),
        vec![(230, W1, event::LOCK_WAIT, Q, 0)],
    ];
    let told = |without: &[Recogniser]| read(&events.concat(), without).pop().unwrap();
    assert!(told(&[]).ends_with("unexplained 0"), "{}", told(&[]));
    assert!(told(&[Recogniser::Answers]).ends_with("unexplained 49"), "{}", told(&[Recogniser::Answers]));
}
