//! What was found, as tables of columns. Rows are in an order that does not change from reading to reading.
use std::collections::HashMap;

use super::blame::Blame;
use super::critical::Row;
use super::events::Found;
use super::jobs::Job;
use super::polls::For;
use super::stacks::{Kind, State};
use super::walk::Resource;
use crate::ctrace::mixed::Mixed;
use crate::ctrace::reader::Trace;
use crate::ctrace::spans::Ending;

/// Values of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    /// Numbers; times in ns.
    Numbers(Vec<i64>),
    /// Each text once, and the place of each row's.
    Texts(Vec<String>, Vec<u32>),
}

/// Columns of one length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// What it is called.
    pub name: &'static str,
    /// In order.
    pub columns: Vec<(&'static str, Column)>,
}

/// A value of a row.
pub(super) enum Cell<'a> {
    N(u64),
    /// A number that may be below 0.
    I(i64),
    T(&'a str),
}

/// Numbers that are more than a column can hold stay at the most.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A table of rows; which columns are texts is known by their names.
pub(super) fn table<'a, const N: usize>(
    name: &'static str,
    columns: [&'static str; N],
    rows: impl IntoIterator<Item = [Cell<'a>; N]>,
) -> Table {
    let mut made: Vec<Column> = columns
        .iter()
        .map(|column| match TEXTS.contains(column) {
            true => Column::Texts(Vec::new(), Vec::new()),
            false => Column::Numbers(Vec::new()),
        })
        .collect();
    let mut places: Vec<Places<'a>> = Vec::new();
    places.resize_with(N, Places::default);
    for row in rows {
        for ((into, places), cell) in made.iter_mut().zip(&mut places).zip(row) {
            match (into, cell) {
                (Column::Numbers(all), Cell::N(number)) => all.push(whole(number)),
                (Column::Numbers(all), Cell::I(number)) => all.push(number),
                (Column::Numbers(all), Cell::T(_)) => all.push(0),
                (Column::Texts(texts, all), Cell::T(text)) => all.push(places.place(text, texts)),
                (Column::Texts(texts, all), _) => all.push(places.place("", texts)),
            }
        }
    }
    Table { name, columns: columns.into_iter().zip(made).collect() }
}

/// Where texts of a column are: by what they say and, as there are few and they come again and again, by where they lie.
#[derive(Default)]
struct Places<'a> {
    texts: HashMap<&'a str, u32>,
    seen: HashMap<(usize, usize), u32, Mixed>,
}

impl<'a> Places<'a> {
    fn place(&mut self, text: &'a str, texts: &mut Vec<String>) -> u32 {
        let lies = (text.as_ptr() as usize, text.len());
        if let Some(&place) = self.seen.get(&lies) {
            return place;
        }
        let place = *self.texts.entry(text).or_insert_with(|| {
            texts.push(text.to_owned());
            texts.len() as u32 - 1
        });
        self.seen.insert(lies, place);
        place
    }
}

/// Columns of texts, in whatever table.
const TEXTS: [&str; 22] = [
    "name",
    "process",
    "track",
    "how",
    "ended",
    "kind",
    "site",
    "victim",
    "doing",
    "culprit",
    "part",
    "resource",
    "policy",
    "through",
    "loop",
    "function",
    "seen_at",
    "span",
    "refused",
    "awaited",
    "serves",
    "waits_for",
];

/// The kind of a lock in words, as in the reference of the format.
pub fn lock_word(kind: u32) -> &'static str {
    match kind {
        1 => "lock",
        2 => "re-entrant lock",
        3 => "semaphore",
        4 => "condition",
        5 | 8 | 9 => "queue",
        6 => "interpreter",
        7 => "external",
        _ => "other",
    }
}

fn ending_word(ending: Ending) -> &'static str {
    match ending {
        Ending::Returned => "returned",
        Ending::Raised => "raised",
        Ending::Cut => "cut",
        Ending::FileEnd => "open",
    }
}

/// Names of a trace.
pub(super) struct Names<'t>(pub &'t Trace);

impl<'t> Names<'t> {
    pub fn text(&self, name: u32) -> &'t str {
        self.0.names.text(name)
    }

    pub fn track(&self, track: u32) -> &'t str {
        self.text(self.0.tracks[track as usize].name)
    }

    /// The process of a file, and its pid as it is shown.
    pub fn process(&self, file: u32) -> (&'t str, u64) {
        let of = &self.0.files[file as usize];
        (self.track(of.process), of.shown_pid())
    }

    pub fn process_of(&self, track: u32) -> (&'t str, u64) {
        self.process(self.0.tracks[track as usize].file)
    }
}

/// All tables.
pub fn tables(trace: &Trace, found: &Found<'_>) -> Vec<Table> {
    let names = Names(trace);
    let [locks, waits, blame] = of_blame(&names, &found.blame);
    let [parts, along, critical] = of_paths(&names, found);
    vec![
        jobs(&names, &found.jobs),
        parts,
        along,
        critical,
        locks,
        waits,
        blame,
        spans(&names, found),
        pools(&names, found),
        stalls(&names, found),
        loans(&names, found),
        polls(&names, found),
    ]
}

fn jobs(names: &Names<'_>, jobs: &[Job]) -> Table {
    let columns = [
        "job",
        "name",
        "number",
        "process",
        "pid",
        "track",
        "begin_ns",
        "end_ns",
        "how",
        "ended",
        "elsewhere_ns",
    ];
    let rows = (0..).zip(jobs).map(|(at, job)| {
        let (process, pid) = names.process_of(job.track);
        [
            Cell::N(at),
            Cell::T(names.text(job.name)),
            Cell::N(job.number.into()),
            Cell::T(process),
            Cell::N(pid),
            Cell::T(names.track(job.track)),
            Cell::N(job.begin_ns),
            Cell::N(job.end_ns),
            Cell::T(job.how.word()),
            Cell::T(ending_word(job.ending)),
            Cell::N(job.elsewhere_ns),
        ]
    });
    table("jobs", columns, rows)
}

fn doing<'t>(names: &Names<'t>, blame: &Blame<'_>, state: State) -> (&'static str, &'t str) {
    match state.kind() {
        Kind::Span | Kind::Off | Kind::Cpu | Kind::Blocked => ("span", names.text(state.id())),
        Kind::Io | Kind::Sleep => ("io", names.text(state.id())),
        Kind::Remote => ("remote", names.text(state.id())),
        Kind::Wait => ("waiting", names.text(blame.groups[state.id() as usize].name)),
        Kind::Track => ("track", names.text(state.id())),
        Kind::Nobody => ("nobody", ""),
    }
}

fn of_blame(names: &Names<'_>, blame: &Blame<'_>) -> [Table; 3] {
    let mut waited: Vec<_> = blame.waited.iter().map(|(&key, &waited)| (key, waited)).collect();
    waited.sort_unstable_by_key(|row| row.0);
    let mut sums = vec![(0u64, 0u64, 0u64); blame.groups.len()];
    for &((group, _), of) in &waited {
        let sum = &mut sums[group as usize];
        *sum = (sum.0 + of.waits, sum.1.saturating_add(of.ns), sum.2.max(of.max_ns));
    }
    let columns = [
        "lock",
        "name",
        "site",
        "kind",
        "instances",
        "holds",
        "hold_ns",
        "max_hold_ns",
        "waits",
        "wait_ns",
        "max_wait_ns",
        "gil_ns",
    ];
    let rows = (0..).zip(blame.groups.iter().zip(&sums)).map(|(at, (group, &(waits, ns, max_ns)))| {
        [
            Cell::N(at),
            Cell::T(names.text(group.name)),
            Cell::T(names.text(group.site)),
            Cell::T(lock_word(group.kind)),
            Cell::N(group.instances),
            Cell::N(group.holds),
            Cell::N(group.hold_ns),
            Cell::N(group.max_hold_ns),
            Cell::N(waits),
            Cell::N(ns),
            Cell::N(max_ns),
            Cell::N(group.gil_ns),
        ]
    });
    let locks = table("locks", columns, rows);
    let rows = waited.iter().map(|&((lock, victim), of)| {
        let victim = Cell::T(names.text(victim));
        [Cell::N(lock.into()), victim, Cell::N(of.waits), Cell::N(of.ns), Cell::N(of.max_ns)]
    });
    let waits = table("waits", ["lock", "victim", "waits", "ns", "max_ns"], rows);
    let mut charges: Vec<_> = blame.charges.iter().map(|(&charge, &ns)| (charge, ns)).collect();
    charges.sort_unstable();
    let rows = charges.iter().map(|&(charge, ns)| {
        let (doing, culprit) = doing(names, blame, charge.culprit);
        let victim = Cell::T(names.text(charge.victim));
        [Cell::N(charge.lock.into()), victim, Cell::T(doing), Cell::T(culprit), Cell::N(ns)]
    });
    [locks, waits, table("blame", ["lock", "victim", "doing", "culprit", "ns"], rows)]
}

fn spans(names: &Names<'_>, found: &Found<'_>) -> Table {
    let mut all: Vec<_> = found.totals.of.iter().map(|(&key, &total)| (key, total)).collect();
    all.sort_unstable_by_key(|row| row.0);
    let columns = ["name", "process", "pid", "count", "total_ns", "self_ns", "max_ns", "remote"];
    let rows = all.iter().map(|&((file, name), of)| {
        let (process, pid) = names.process(file);
        [
            Cell::T(names.text(name)),
            Cell::T(process),
            Cell::N(pid),
            Cell::N(of.count),
            Cell::N(of.total_ns),
            Cell::N(of.self_ns),
            Cell::N(of.max_ns),
            Cell::N(of.remote),
        ]
    });
    table("spans", columns, rows)
}

fn of_paths(names: &Names<'_>, found: &Found<'_>) -> [Table; 3] {
    let text = |resource| match resource {
        Resource::None => "",
        Resource::Name(name) => names.text(name),
        Resource::Pool(pool) => found.pools[pool as usize].name.as_str(),
    };
    let number = |job: Option<u32>| Cell::I(job.map_or(-1, i64::from));
    let rows = found.paths.parts.iter().map(|&(job, of, ns)| {
        let (kind, part) = (Cell::T(of.why.word()), Cell::T(names.text(of.part)));
        [number(job), kind, part, Cell::T(text(of.resource)), Cell::N(ns)]
    });
    let parts = table("parts", ["job", "kind", "part", "resource", "ns"], rows);
    let followed = |&(job, of, ns): &Row| {
        let (kind, part) = (Cell::T(of.why.word()), Cell::T(names.text(of.part)));
        let (resource, through) = (Cell::T(text(of.resource)), Cell::T(text(of.through)));
        let (process, pid) = names.process(of.file);
        [number(job), kind, part, resource, through, Cell::T(process), Cell::N(pid), Cell::N(ns)]
    };
    let columns = ["job", "kind", "part", "resource", "through", "process", "pid", "ns"];
    let along = table("along", columns, found.paths.along.iter().map(followed));
    [parts, along, table("critical", columns, found.paths.critical.iter().map(followed))]
}

fn pools(names: &Names<'_>, found: &Found<'_>) -> Table {
    let columns = [
        "pool",
        "process",
        "pid",
        "name",
        "workers",
        "items",
        "queues",
        "busy_ns",
        "queued_ns",
        "wasted_ns",
        "running_ns",
        "gil_ns",
        "serves",
        "unnamed",
        "policy",
    ];
    let rows = (0..).zip(&found.pools).map(|(at, of)| {
        let (process, pid) = names.process(of.file);
        [
            Cell::N(at),
            Cell::T(process),
            Cell::N(pid),
            Cell::T(&of.name),
            Cell::N(of.workers),
            Cell::N(of.items),
            Cell::N(of.queues),
            Cell::N(of.busy_ns),
            Cell::N(of.queued_ns),
            Cell::N(of.wasted_ns),
            Cell::N(of.running_ns),
            Cell::N(of.gil_ns),
            Cell::T(names.text(of.serves)),
            Cell::N(of.unnamed.into()),
            Cell::T(if of.fixed { "fixed" } else { "shared" }),
        ]
    });
    table("pools", columns, rows)
}

fn stalls(names: &Names<'_>, found: &Found<'_>) -> Table {
    let columns = [
        "loop",
        "name",
        "function",
        "seen_at",
        "site",
        "span",
        "waits_for",
        "times",
        "ns",
        "max_ns",
        "jobs_ns",
    ];
    let rows = found.stood.iter().map(|(culprit, of)| {
        let text = |name| Cell::T(names.text(name));
        [
            text(culprit.names.0),
            text(culprit.names.1),
            text(culprit.seen.0),
            text(culprit.seen.1),
            text(culprit.site),
            text(culprit.span),
            text(culprit.lock),
            Cell::N(of.times),
            Cell::N(of.ns),
            Cell::N(of.max_ns),
            Cell::N(of.jobs_ns),
        ]
    });
    table("stalls", columns, rows)
}

fn loans(names: &Names<'_>, found: &Found<'_>) -> Table {
    let rows = found.lent.iter().flat_map(|(&queue, of)| {
        let lock = &names.0.locks[queue as usize];
        of.spans.iter().map(move |(&span, &ns)| {
            [
                Cell::N(queue.into()),
                Cell::T(names.text(lock.name)),
                Cell::T(names.text(lock.site)),
                Cell::N(of.loans),
                Cell::N(of.most),
                Cell::T(names.text(span)),
                Cell::N(ns),
            ]
        })
    });
    table("loans", ["queue", "name", "site", "loans", "most", "part", "ns"], rows)
}

fn polls(names: &Names<'_>, found: &Found<'_>) -> Table {
    let lock_name = |lock: u32| names.text(names.0.locks[lock as usize].name);
    let rows = found.polled.iter().map(|(&(span, what), of)| {
        let (refused, awaited) = match what {
            For::Unknown => ("", ""),
            For::Lock(lock) => (lock_name(lock), ""),
            For::Pool(pool) => ("", found.pools[pool as usize].name.as_str()),
            For::Queue(queue) => ("", lock_name(queue)),
            For::Flow(name) => ("", names.text(name)),
        };
        [
            Cell::T(names.text(span)),
            Cell::T(refused),
            Cell::T(awaited),
            Cell::N(of.rows),
            Cell::N(of.sleeps),
            Cell::N(of.most),
            Cell::N(of.least),
            Cell::N(of.ns),
            Cell::N(of.late_ns),
            Cell::N(of.between_ns),
        ]
    });
    let columns =
        ["part", "refused", "awaited", "rows", "sleeps", "most", "least", "ns", "late_ns", "between_ns"];
    table("polls", columns, rows)
}
