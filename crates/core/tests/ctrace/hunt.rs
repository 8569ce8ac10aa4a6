//! Where the time of jobs went: traces with known answers, and random ones whose sums are exact.
use std::collections::BTreeMap;

use contend_core::ctrace::format::{event, lock, track};
use contend_core::ctrace::reader::Trace;
use contend_core::hunt::choice::choose;
use contend_core::hunt::events::find;
use contend_core::hunt::tables::{Column, Table, tables};

use crate::support::{Made, Place, Random, Told};

mod conditions;
mod jobs;
mod lives;
mod paths;
mod times;

/// Names, in the order of their ids from 1. Tracks are called A, B, C, D, in process 2 E, F.
const WORDS: [&str; 23] = [
    "A", "B", "C", "D", "E", "F", "L", "S", "K", "Q", "G", "kind", "remote", "boot", "call", "serve", "work",
    "msg", "thread", "R", "io", "sleep", "read",
];
const KIND: u32 = 12;
const REMOTE: u32 = 13;
const BOOT: u32 = 14;
const CALL: u32 = 15;
const SERVE: u32 = 16;
const WORK: u32 = 17;
const MSG: u32 = 18;
const THREAD: u32 = 19;
const IO: u32 = 21;
const SLEEP: u32 = 22;
const READ: u32 = 23;
/// Locks: a lock, a semaphore, a condition, a queue, the interpreter's, another queue, the condition's own lock.
const L: u32 = 1;
const S: u32 = 2;
const K: u32 = 3;
const Q: u32 = 4;
const GIL: u32 = 5;
const R: u32 = 6;
const M: u32 = 7;

type Row = BTreeMap<&'static str, String>;

struct Hunted(BTreeMap<&'static str, Vec<Row>>);

fn rows(table: &Table) -> Vec<Row> {
    let length = match &table.columns[0].1 {
        Column::Numbers(all) => all.len(),
        Column::Texts(_, all) => all.len(),
    };
    (0..length)
        .map(|at| {
            let cells = table.columns.iter().map(|(name, column)| match column {
                Column::Numbers(all) => (*name, all[at].to_string()),
                Column::Texts(texts, all) => (*name, texts[all[at] as usize].clone()),
            });
            cells.collect()
        })
        .collect()
}

fn hunted(events: &[Told], pattern: Option<&str>) -> Hunted {
    let place = Place::new();
    let strings: Vec<_> = (1..).zip(WORDS).collect();
    let paths: Vec<_> = [(1, 1..=4), (2, 5..=6)]
        .into_iter()
        .map(|(process, ids)| {
            let tracks: Vec<_> = ids.clone().map(|id| (id, track::THREAD, 0, id, u64::from(id))).collect();
            let made = Made::new(process).strings(&strings).tracks(&tracks).locks(&[
                (L, lock::LOCK, 7, 0),
                (S, lock::SEMAPHORE, 8, 0),
                (K, lock::CONDITION, 9, 0),
                (Q, lock::QUEUE, 10, 0),
                (GIL, lock::INTERPRETER, 11, 0),
                (R, lock::QUEUE, 10, 0),
                (M, lock::REENTRANT, 9, 0),
            ]);
            place.write(&format!("{process}.ctrace"), &made.told(ids, events).end(1_000_000_000).0)
        })
        .collect();
    let trace = Trace::open(&paths).unwrap();
    let choice = choose(&trace, pattern, || Ok(())).unwrap();
    let found = find(&trace, &choice, || Ok(())).unwrap();
    Hunted(tables(&trace, &found).iter().map(|table| (table.name, rows(table))).collect())
}

impl Hunted {
    /// Rows of a job as `kind part resource ns`, of a critical path with the pid at the end.
    fn of(&self, table: &str, job: i64) -> Vec<String> {
        let rows = self.0[table].iter().filter(|row| row["job"] == job.to_string());
        let mut shown: Vec<_> = rows
            .map(|row| {
                let columns = ["kind", "part", "resource", "through", "ns", "pid"];
                let cells = columns.into_iter().filter_map(|column| row.get(column).cloned());
                cells.filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(" ")
            })
            .collect();
        shown.sort();
        shown
    }

    fn column(&self, table: &str, column: &str) -> Vec<&str> {
        self.0[table].iter().map(|row| row[column].as_str()).collect()
    }

    /// Each job's parts and critical path add up to its duration, that of all to the makespan, blame to waits.
    fn adds_up(&self) {
        let number = |row: &Row, column: &str| row[column].parse::<i64>().unwrap();
        let sum = |table: &str, job: i64| -> i64 {
            let rows = self.0[table].iter().filter(|row| number(row, "job") == job);
            rows.map(|row| number(row, "ns")).sum()
        };
        let jobs = &self.0["jobs"];
        for row in jobs {
            let duration = number(row, "end_ns") - number(row, "begin_ns");
            let job = number(row, "job");
            assert_eq!((sum("parts", job), sum("critical", job)), (duration, duration), "job {job}");
            assert_eq!(sum("along", job), duration, "job {job}");
        }
        let begin = jobs.iter().map(|row| number(row, "begin_ns")).min().unwrap_or(0);
        let end = jobs.iter().map(|row| number(row, "end_ns")).max().unwrap_or(0);
        assert_eq!(sum("critical", -1), end - begin);
        let all = |table: &str| -> i64 { self.0[table].iter().map(|row| number(row, "ns")).sum() };
        assert_eq!(all("blame"), all("waits"));
    }
}
